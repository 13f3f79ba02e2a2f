//! A bound to how many requests do something at the same time. Those beyond it wait, in order of arrival.

use std::time::Instant;

use tokio::{sync, time::timeout_at};

/// So many permits at the same time.
pub struct Semaphore(sync::Semaphore);

/// One of the permits of a [`Semaphore`], until it is dropped.
pub struct SemaphorePermit<'a> {
    _permit: sync::SemaphorePermit<'a>,
}

impl Semaphore {
    /// Gives out at most so many permits at the same time.
    pub fn new(permits: usize) -> Semaphore {
        Semaphore(sync::Semaphore::new(permits.min(sync::Semaphore::MAX_PERMITS)))
    }

    /// Waits for a permit; `None` when the deadline came first.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the line.
    pub async fn acquire(&self, deadline: Option<Instant>) -> Option<SemaphorePermit<'_>> {
        let permit = match deadline {
            None => self.0.acquire().await,
            Some(at) => timeout_at(at.into(), self.0.acquire()).await.ok()?,
        };
        // It is never closed.
        permit.ok().map(|it| SemaphorePermit { _permit: it })
    }
}
