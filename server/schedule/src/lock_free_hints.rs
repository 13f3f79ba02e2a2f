//! Two hints about a scheduler's state that are read without its lock: they only say that there is nothing to look for.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::state::State;

/// Two answers that may be a moment old. Written under the lock, whenever the state may have changed them.
#[derive(Default)]
pub(super) struct LockFreeHints {
    /// Might a request be refused on arrival? Not while nothing waits and no worker runs a batch; so the
    /// requests of a model that runs on the calling tasks do not meet at the lock before they must.
    may_refuse: AtomicBool,
    /// Is there work for a worker that looks for some?
    has_work: AtomicBool,
}

impl LockFreeHints {
    /// Is there a reason to take the lock and look before a request is let in?
    pub(super) fn may_refuse(&self) -> bool {
        self.may_refuse.load(Relaxed)
    }

    /// Is there a reason for a worker to take the lock?
    pub(super) fn has_work(&self) -> bool {
        self.has_work.load(Relaxed)
    }

    /// Takes over this state.
    pub(super) fn update(&self, state: &State) {
        let has_work = state.closing || !state.queue.is_empty();
        set(&self.has_work, has_work);
        set(&self.may_refuse, has_work || state.is_running());
    }
}

/// Writes only a change: others have the flag in their caches.
fn set(flag: &AtomicBool, value: bool) {
    if flag.load(Relaxed) != value {
        flag.store(value, Relaxed);
    }
}
