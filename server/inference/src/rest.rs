//! Rest for whoever watches what is taken of budgets: until something is, there is nothing to watch.

use std::{
    future::poll_fn,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Poll, Waker},
};

/// Wakes one watcher of some budgets when something is taken of one of them.
#[derive(Debug, Default)]
pub struct Rest {
    /// Read at each permit: nothing else is done while nobody rests.
    is_resting: AtomicBool,
    watcher: Mutex<Option<Waker>>,
}

impl Rest {
    /// Something was taken.
    pub(crate) fn disturb(&self) {
        if self.is_resting.load(SeqCst) && self.is_resting.swap(false, SeqCst) {
            let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(watcher) = watcher.take() {
                watcher.wake();
            }
        }
    }

    /// Returns once something is taken after `is_quiet` was true, or at once where it is not.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn until_disturbed(&self, is_quiet: impl Fn() -> bool) {
        let mut is_first = true;
        poll_fn(|context| {
            let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
            if !is_first && !self.is_resting.load(SeqCst) {
                return Poll::Ready(());
            }
            is_first = false;
            *watcher = Some(context.waker().clone());
            self.is_resting.store(true, SeqCst);
            // Whatever is taken from here on finds somebody who rests.
            if is_quiet() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}
