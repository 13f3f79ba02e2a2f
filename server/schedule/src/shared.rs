//! What the tasks and the worker threads of one scheduler share, and what every request is asked before it waits.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    admission::{bound, predicted_stay},
    lock_free_hints::LockFreeHints,
    reply::Order,
    run::{self, RunContext},
    settings::Settings,
    state::State,
};
use inference::{error::Error, timings::Timings};
use telemetry::metrics::{BatchReason, FailureReason, ModelMetrics};

/// What tasks and worker threads share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) context: RunContext,
    pub(crate) metrics: ModelMetrics,
    /// Where replies line up when they must leave in order.
    pub(crate) order: Option<Arc<Order>>,
    /// Guards the queue, the idle instances and what is learned. Never held while anything runs.
    pub(crate) state: Mutex<State>,
    /// Something changed for a parked worker: a job came, an instance came back, the queue closes. Only
    /// workers wait for it: it often wakes one of them, and that one must be able to act.
    pub(crate) changed: Condvar,
    /// A worker thread has ended.
    pub(crate) ended: Condvar,
    /// What can be known of the state without the lock.
    pub(crate) hints: LockFreeHints,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under this lock; if it did, the data would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request that failed after so long. No other place counts failures, but for requests whose client has
    /// left.
    pub(crate) fn count<T>(&self, answer: Result<T, Error>, took: Duration) -> Result<T, Error> {
        if let Err(error) = &answer {
            let reason = match error {
                Error::Backend(_) => FailureReason::Backend,
                Error::Internal(_) => FailureReason::Other,
                Error::DeadlineExceeded { .. } => FailureReason::Canceled,
                _ => FailureReason::Rejected,
            };
            self.metrics.failure_after(reason, took);
        }
        answer
    }

    /// Counts and logs executions, and why their batches had that size.
    pub(crate) fn observe(&self, times: &[Timings], reason: BatchReason) {
        run::observe(times, reason, &self.settings.model, &self.metrics);
    }

    /// Refuses what could not be answered in time. A request that finds an idle instance, or a place for
    /// one, is never refused.
    pub(crate) fn admit(
        &self,
        state: &State,
        rows: usize,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Result<(), Error> {
        if state.has_room(now) {
            return Ok(());
        }
        let load = state.load(rows, now);
        let stay = predicted_stay(&load);
        let longest = bound(self.settings.longest_stay, &load);
        let left = deadline.map(|it| it.saturating_duration_since(now));
        let Some(limit) = longest.into_iter().chain(left).min() else { return Ok(()) };
        if stay <= limit {
            return Ok(());
        }
        Err(Error::Overloaded {
            model: self.settings.model.to_string(),
            reason: format!(
                "{} requests wait, an answer would take about {} ms, the limit is {} ms",
                state.queue.len(),
                stay.as_millis(),
                limit.as_millis()
            ),
            retry_after: (stay - limit).max(Duration::from_secs(1)),
        })
    }

    pub(crate) fn queue_full(&self, limit: usize, priority: u64) -> Error {
        Error::Overloaded {
            model: self.settings.model.to_string(),
            reason: format!(
                "its queue holds max_queue_size {limit} requests of priority {}",
                self.settings.level(priority)
            ),
            retry_after: Duration::from_secs(1),
        }
    }
}
