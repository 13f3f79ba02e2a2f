//! A worker that has loaded its model and has no lanes yet: it takes the place of one that dies, without a load.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::launch::Worker;

/// The worker that is kept ready, where one is wanted.
#[derive(Default)]
pub(crate) struct Standby {
    is_wanted: bool,
    /// Guards it.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// And how long its start took.
    ready: Option<(Arc<Worker>, Duration)>,
    /// Is a thread at it to load one?
    is_begun: bool,
}

impl Standby {
    /// None yet.
    pub(crate) fn new(is_wanted: bool) -> Standby {
        Standby { is_wanted, kept: Mutex::default() }
    }

    /// Is there one?
    pub(crate) fn is_ready(&self) -> bool {
        self.lock().ready.as_ref().is_some_and(|(it, _)| !it.is_dead())
    }

    /// The one that lives, which is kept no more.
    pub(crate) fn take(&self) -> Option<(Arc<Worker>, Duration)> {
        let ready = self.lock().ready.take();
        ready.filter(|(it, _)| !it.is_dead())
    }

    /// One that has died, which is kept no more.
    pub(crate) fn take_lost(&self) -> Option<Arc<Worker>> {
        self.lock().ready.take_if(|(it, _)| it.is_dead()).map(|(it, _)| it)
    }

    /// Is the caller the one to see to it that there is one?
    pub(crate) fn begins(&self) -> bool {
        let is_needed = self.is_wanted && !self.is_ready();
        is_needed && !std::mem::replace(&mut self.lock().is_begun, true)
    }

    /// The caller has seen to it, or nobody wants one any more.
    pub(crate) fn has_begun(&self, ready: Option<(Arc<Worker>, Duration)>) {
        let before = {
            let mut kept = self.lock();
            kept.is_begun = false;
            std::mem::replace(&mut kept.ready, ready)
        };
        // Its end is waited for.
        drop(before);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
