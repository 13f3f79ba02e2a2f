//! Locks whose holders do not panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock, also where a thread has panicked while it was held: what it guards is whole at every step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
