//! Threads for work that may take minutes: loading and unloading models, looking into repositories. The pools of the
//! I/O threads are for what computes, which must not wait for it; nor does the end of the process.

use std::{sync::Arc, thread};

use backend::MODEL_STACK;
use tokio::sync::{Semaphore, oneshot};

use inference::error::Error;

/// Most such threads at once. They wait for each other and for disks, and whoever may have models loaded could
/// otherwise take all threads that the system has.
const MOST: usize = 64;

/// Runs work on threads of its own, for which nobody waits but who has asked for it.
#[derive(Debug, Clone)]
pub struct Apart(Arc<Semaphore>);

impl Default for Apart {
    fn default() -> Apart {
        Apart(Arc::new(Semaphore::new(MOST)))
    }
}

impl Apart {
    /// Runs `work` on a thread that ends with it; it may wait for one of the others to end.
    ///
    /// # Errors
    /// [`Error::Internal`] when the system refuses a thread, or `work` panics.
    ///
    /// # Cancel safety
    /// Work that has begun goes on when the future is dropped; what has not begun is dropped with it.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let lost = |what: &dyn std::fmt::Display| Error::Internal(format!("no thread: {what}"));
        let permit = self.0.clone().acquire_owned().await.map_err(|it| lost(&it))?;
        let (answer, answered) = oneshot::channel();
        let run = move || {
            let done = work();
            drop(permit);
            // Who has asked may be gone.
            drop(answer.send(done));
        };
        let builder = thread::Builder::new().name("control".to_owned()).stack_size(MODEL_STACK);
        builder.spawn(run).map_err(|it| lost(&it))?;
        answered.await.map_err(|_| Error::Internal("the thread of a request was lost".to_owned()))
    }
}

/// Runs `work`, which computes, on another thread of this I/O thread's pool. What may take minutes is for [`Apart`].
///
/// # Errors
/// [`Error::Internal`] when `work` panics.
///
/// # Cancel safety
/// Work that has begun goes on when the future is dropped.
pub async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Internal(format!("a thread was lost: {error}")))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_has_a_thread_of_its_own_and_its_panic_is_an_error() {
        let apart = Apart::default();
        let here = thread::current().id();
        assert_ne!(apart.run(|| thread::current().id()).await, Ok(here));
        let error = apart.run(|| panic!("as it must")).await.unwrap_err();
        assert!(error.to_string().contains("was lost"), "{error}");
        // The panic has given its place back.
        assert_eq!(apart.0.available_permits(), MOST);
    }

    #[tokio::test]
    async fn work_that_has_begun_goes_on_when_nobody_waits_for_it() {
        let apart = Apart::default();
        let (begun, has_begun) = oneshot::channel();
        let (go, may_go) = mpsc::channel();
        let (ended, has_ended) = oneshot::channel();
        let work = move || {
            begun.send(()).unwrap();
            ended.send(may_go.recv()).unwrap();
        };
        tokio::select! {
            biased;
            _ = apart.run(work) => panic!("it waits"),
            begun = has_begun => begun.unwrap(),
        }
        go.send(()).unwrap();
        assert_eq!(has_ended.await.unwrap(), Ok(()));
    }
}
