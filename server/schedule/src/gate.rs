//! A bound to how many requests do something at the same time. Those beyond it wait, in order of arrival.

use std::time::Instant;

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout_at,
};

/// Lets so many in.
pub struct Gate(Semaphore);

/// Somebody who is in, until it is dropped.
pub struct Inside<'a> {
    _permit: SemaphorePermit<'a>,
}

impl Gate {
    /// Lets `most` in at the same time.
    pub fn new(most: usize) -> Gate {
        Gate(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
    }

    /// Waits to be let in; `None` when the deadline came first.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place.
    pub async fn enter(&self, deadline: Option<Instant>) -> Option<Inside<'_>> {
        let permit = match deadline {
            None => self.0.acquire().await,
            Some(at) => timeout_at(at.into(), self.0.acquire()).await.ok()?,
        };
        // It is never closed.
        permit.ok().map(|it| Inside { _permit: it })
    }
}
