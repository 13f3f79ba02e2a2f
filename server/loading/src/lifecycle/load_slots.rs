//! How many models load at the same time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// So many may, the others wait.
pub(super) struct LoadSlots {
    /// Guards how many are left.
    left: Mutex<usize>,
    returned: Condvar,
}

impl LoadSlots {
    pub(super) fn new(count: usize) -> LoadSlots {
        LoadSlots { left: Mutex::new(count), returned: Condvar::new() }
    }

    /// One of them, until it is dropped. Blocking.
    pub(super) fn take(&self) -> LoadSlot<'_> {
        let left = self.returned.wait_while(self.lock(), |left| *left == 0);
        *left.unwrap_or_else(PoisonError::into_inner) -= 1;
        LoadSlot(self)
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave to load one version.
pub(super) struct LoadSlot<'a>(&'a LoadSlots);

impl Drop for LoadSlot<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.returned.notify_one();
    }
}
