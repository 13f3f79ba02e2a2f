//! Where work on texts is done: short work at once, long work on a thread of its own, so that the other clients of an
//! I/O thread do not wait for it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use inference::error::Error;

/// Texts of fewer bytes in all are tokenized by the task that asks.
pub(crate) const AT_ONCE: usize = 2048;

/// Work that is done here, or on a thread for such where it takes long: the other clients of this one would wait.
/// It is given up when nobody waits for it any more.
pub(crate) async fn elsewhere_unless<T: Send + 'static>(
    is_short: bool,
    work: impl FnOnce(&HasLeft) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let has_left = HasLeft::default();
    if is_short {
        return work(&has_left);
    }
    let _guard = SetOnDrop(has_left.clone());
    let done = tokio::task::spawn_blocking(move || work(&has_left)).await;
    done.unwrap_or_else(|_| Err(Error::Internal("a step of the pipeline panicked".to_owned())))
}

/// Has the client of a request left?
#[derive(Clone, Default)]
pub(crate) struct HasLeft(Arc<AtomicBool>);

impl HasLeft {
    /// Ends work for a client that has. The error reaches nobody.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.0.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Error::Internal("the client has left".to_owned())),
        }
    }
}

/// Says that the client has left when the future of its request is dropped.
struct SetOnDrop(HasLeft);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}
