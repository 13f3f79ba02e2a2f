//! Work that must not run on an I/O thread: long computations go to that thread's pool, and what may wait for minutes
//! goes to a thread of its own.

use std::{sync::Arc, thread};

use backend::MODEL_STACK;
use tokio::sync::{Semaphore, oneshot};

use inference::{error::Error, limits::Permit};

/// Text of more bytes than this is decoded and encoded on the pool, so that the other connections of the I/O thread
/// do not wait. The same holds for copies of as many bytes.
pub const LARGE: usize = 256 << 10;

/// The same bound for compression and inflation, which take several times as long for each byte.
pub const LARGE_COMPRESSED: usize = 64 << 10;

/// Most control threads at once. They wait for each other and for disks, and without a bound loads by request could
/// take all threads of the system.
const MOST: usize = 64;

/// Runs a computation on the pool of this I/O thread. Work that may take minutes belongs on [`ControlThreads`].
///
/// # Errors
/// [`Error::Internal`] when `work` panics.
///
/// # Cancel safety
/// Work that has begun goes on when the future is dropped.
pub async fn offload<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Internal(format!("a thread was lost: {error}")))
}

/// The same for work on memory that `permit` covers: it moves along and comes back, so that the memory is counted until
/// the work has let go of it, also where the client leaves meanwhile.
///
/// # Errors
/// Those of [`offload`].
///
/// # Cancel safety
/// As of [`offload`].
pub async fn offload_covered<T: Send + 'static>(
    permit: Permit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(T, Permit), Error> {
    offload(move || (work(), permit)).await
}

/// Runs loads, unloads and scans of repositories, each on a thread of its own.
#[derive(Debug, Clone)]
pub struct ControlThreads(Arc<Semaphore>);

impl Default for ControlThreads {
    fn default() -> ControlThreads {
        ControlThreads(Arc::new(Semaphore::new(MOST)))
    }
}

impl ControlThreads {
    /// Runs `work` on a thread that ends with it. At the bound, it waits until another thread ends.
    ///
    /// # Errors
    /// [`Error::Internal`] when the system refuses a thread, or `work` panics.
    ///
    /// # Cancel safety
    /// Work that has begun goes on when the future is dropped; work that has not begun is dropped with it.
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
            // The caller may have dropped its future.
            drop(answer.send(done));
        };
        let builder = thread::Builder::new().name("control".to_owned()).stack_size(MODEL_STACK);
        builder.spawn(run).map_err(|it| lost(&it))?;
        answered.await.map_err(|_| Error::Internal("the thread of a request was lost".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::mpsc, task::Poll};

    use super::*;
    use inference::limits::Budget;

    #[tokio::test]
    async fn memory_is_counted_until_work_lets_go_of_it_also_where_nobody_waits_any_more() {
        let budget = Budget::new(100);
        let (go, wait) = mpsc::channel::<()>();
        let (ended, end) = mpsc::channel::<()>();
        let work = move || {
            let _ended = ended;
            wait.recv()
        };
        let mut future = Box::pin(offload_covered(budget.take(70).unwrap(), work));
        let begun = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        assert!(begun.is_pending());
        drop(future);
        assert_eq!(budget.used(), 70);
        go.send(()).unwrap();
        assert!(end.recv().is_err());
        while budget.used() > 0 {
            thread::yield_now();
        }
    }

    #[tokio::test]
    async fn work_has_a_thread_of_its_own_and_its_panic_is_an_error() {
        let threads = ControlThreads::default();
        let here = thread::current().id();
        assert_ne!(threads.run(|| thread::current().id()).await, Ok(here));
        let error = threads.run(|| panic!("as it must")).await.unwrap_err();
        assert!(error.to_string().contains("was lost"), "{error}");
        // The thread that panicked has given its permit back.
        assert_eq!(threads.0.available_permits(), MOST);
    }

    #[tokio::test]
    async fn work_that_has_begun_goes_on_when_its_future_is_dropped() {
        let threads = ControlThreads::default();
        let (begun, has_begun) = oneshot::channel();
        let (go, may_go) = mpsc::channel();
        let (ended, has_ended) = oneshot::channel();
        let work = move || {
            begun.send(()).unwrap();
            ended.send(may_go.recv()).unwrap();
        };
        tokio::select! {
            biased;
            _ = threads.run(work) => panic!("it waits"),
            begun = has_begun => begun.unwrap(),
        }
        go.send(()).unwrap();
        assert_eq!(has_ended.await.unwrap(), Ok(()));
    }
}
