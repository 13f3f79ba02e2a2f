//! Long work beside the run of a request: on the pool of the I/O thread, so that its other connections do not wait.

use inference::error::Error;

/// Hashing or copying fewer bytes takes no longer than a hand-off to another thread is worth.
const LARGE: usize = 256 << 10;

/// Work on so many bytes: at once, or on the pool where they are many.
///
/// # Errors
/// [`Error::Internal`] when the work panics on the pool.
///
/// # Cancel safety
/// Work that has begun goes on when the future is dropped.
pub(super) async fn work_on<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if bytes <= LARGE {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Internal(format!("a thread was lost: {error}")))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_work_on_many_bytes_leaves_the_thread() {
        let here = thread::current().id();
        assert_eq!(work_on(LARGE, || thread::current().id()).await, Ok(here));
        assert_ne!(work_on(LARGE + 1, || thread::current().id()).await, Ok(here));
        assert!(work_on(LARGE + 1, || panic!("as it must")).await.is_err());
    }
}
