//! Locks that a panic does not close.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts stay right when a thread panics: each is one atomic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
