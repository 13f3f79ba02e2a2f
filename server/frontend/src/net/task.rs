//! Work of an I/O thread that goes on by itself for as long as somebody waits for it.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::task::JoinHandle;

use inference::error::Error;

/// A task that ends when nobody waits for it any more. It goes on whether or not it is polled: polling it says what has
/// come of it, [`Error::Internal`] where it fell over.
#[derive(Debug)]
pub struct Task<T>(JoinHandle<T>);

impl<T: Send + 'static> Task<T> {
    /// Starts it.
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
