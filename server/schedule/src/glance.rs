//! What can be known of a scheduler without its lock: enough to see that there is nothing to see.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::state::State;

/// Two answers that may be a moment old. Written under the lock, whenever the state may have changed them.
#[derive(Default)]
pub(super) struct Glance {
    /// Might a request be refused at the door? Not while nothing waits and no worker runs a batch; so the
    /// requests of a model that runs on the calling tasks do not meet at the lock before they must.
    taken: AtomicBool,
    /// Is there work for a worker that looks for some?
    waiting: AtomicBool,
}

impl Glance {
    /// Is there a reason to take the lock and look before a request is let in?
    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Relaxed)
    }

    /// Is there a reason for a worker to take the lock?
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.load(Relaxed)
    }

    /// Shows this state.
    pub(super) fn update(&self, state: &State) {
        let waiting = state.closing || !state.queue.is_empty();
        set(&self.waiting, waiting);
        set(&self.taken, waiting || state.is_running());
    }
}

/// Writes only a change: others have the flag in their caches.
fn set(flag: &AtomicBool, value: bool) {
    if flag.load(Relaxed) != value {
        flag.store(value, Relaxed);
    }
}
