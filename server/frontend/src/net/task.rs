//! A task of an I/O thread that ends when its handle is dropped.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::task::JoinHandle;

use inference::error::Error;

/// A task that is aborted when this handle is dropped. It makes progress whether or not the handle is polled. Polling
/// gives its result, or [`Error::Internal`] where it has panicked.
#[derive(Debug)]
pub struct Task<T>(JoinHandle<T>);

impl<T: Send + 'static> Task<T> {
    /// Starts the task.
    pub fn spawn(work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        Task(tokio::spawn(work))
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Error>> {
        let outcome = Pin::new(&mut self.0).poll(context);
        outcome.map_err(|_| Error::Internal("an answer was lost".to_owned()))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
