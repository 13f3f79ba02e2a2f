//! Hints about a scheduler's state that are read without its lock.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::state::State;

/// Answers that may be a moment old. Written under the lock, whenever the state may have changed them.
#[derive(Default)]
pub(super) struct LockFreeHints {
    /// Might a request be refused on arrival? Not while nothing waits and no worker runs a batch; so the
    /// requests of a model that runs on the calling tasks do not meet at the lock before they must.
    may_refuse: AtomicBool,
    /// Is there work for a worker that looks for some?
    has_work: AtomicBool,
    /// Are all instances in runs that do not end?
    is_stuck: AtomicBool,
    /// Most rows of a run, where the memory bounds them; else 0.
    memory_rows: AtomicUsize,
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

    /// Is there no instance that could run anything?
    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Relaxed)
    }

    /// Most rows of a run, where the memory bounds them.
    pub(super) fn memory_rows(&self) -> Option<usize> {
        Some(self.memory_rows.load(Relaxed)).filter(|it| 0 < *it)
    }

    /// Takes over a new bound of the rows of a run.
    pub(super) fn set_memory_rows(&self, rows: Option<usize>) {
        self.memory_rows.store(rows.unwrap_or(0), Relaxed);
    }

    /// Takes over this state.
    pub(super) fn update(&self, state: &State) {
        let has_work = state.closing || !state.queue.is_empty();
        set(&self.has_work, has_work);
        let is_unserved = state.unserved_since.is_some();
        let may_refuse = has_work || state.runs.has_batch() || state.is_stuck() || is_unserved;
        set(&self.may_refuse, may_refuse);
        set(&self.is_stuck, state.is_stuck());
    }
}

/// Writes only a change: others have the flag in their caches.
fn set(flag: &AtomicBool, value: bool) {
    if flag.load(Relaxed) != value {
        flag.store(value, Relaxed);
    }
}
