//! The half of a queued request that waits: for its answer, the end of its time in the queue, or its deadline.
//!
//! A client that goes away drops this future. Dropping it takes the job out of the queue, or notes that one of its
//! batch has left. The last job to leave stops the run.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, time::timeout_at};

use super::{shared::Shared, work::Done, worker};
use inference::error::Error;
use telemetry::metrics::{FailureReason, Rerun};

/// A request that waits for its answer. Dropped before it has one, it leaves the queue or its batch.
pub(super) struct Waiting<'a> {
    pub(super) shared: &'a Arc<Shared>,
    /// Its place in the queue or in a batch; `None` once it has left.
    pub(super) ticket: Option<u64>,
    pub(super) receiver: oneshot::Receiver<Result<Done, Error>>,
    /// When its client sent it.
    pub(super) accepted: Instant,
    /// When it must have left the queue, and how long that is.
    pub(super) expiry: Option<(Instant, Duration)>,
    pub(super) deadline: Option<Instant>,
    /// Is it counted as canceled where its client leaves?
    pub(super) is_counted: bool,
}

impl Waiting<'_> {
    /// Waits for the answer, the end of the time in the queue, or the deadline.
    pub(super) async fn answer(mut self) -> Result<Done, Error> {
        let shared = self.shared;
        let model = || shared.settings.model.to_string();
        let deadline = self.deadline;
        let sooner = |at: Instant| deadline.is_none_or(|it| at < it);
        if let Some((at, limit)) = self.expiry.filter(|(at, _)| sooner(*at)) {
            if let Ok(answer) = timeout_at(at.into(), &mut self.receiver).await {
                return self.finish(answer.ok());
            }
            // It was queued so long before it was to leave the queue.
            let waited = limit.saturating_add(at.elapsed());
            let error = Error::QueueTimeout { model: model(), waited, limit };
            // Gone from the queue means that it runs: the queue timeout has no say any more.
            if self.withdraw() {
                return Err(error);
            }
        }
        let Some(at) = self.deadline else {
            let answer = (&mut self.receiver).await;
            return self.finish(answer.ok());
        };
        match timeout_at(at.into(), &mut self.receiver).await {
            Ok(answer) => match self.finish(answer.ok()) {
                // A run may have ended itself at the deadline.
                Err(_) if at <= Instant::now() => Err(shared.late()),
                answer => answer,
            },
            Err(_) => {
                self.abandon();
                Err(shared.late())
            }
        }
    }

    /// The answer came, or the other end was lost without one.
    fn finish(&mut self, answer: Option<Result<Done, Error>>) -> Result<Done, Error> {
        self.ticket = None;
        let lost = || Err(Error::Internal("the reply to a request was lost".into()));
        answer.unwrap_or_else(lost)
    }

    /// Takes the job out of the queue. False if it is not there any more.
    fn withdraw(&mut self) -> bool {
        let Some(ticket) = self.ticket else { return false };
        let mut state = self.shared.lock();
        let Some(job) = state.withdraw(ticket) else { return false };
        // Without it those that stay may be of a preferred size.
        let wake = state.wake_needed_worker(Instant::now());
        drop(state);
        worker::wake(self.shared, wake);
        self.shared.count_unrun([&job], Rerun::Late);
        self.ticket = None;
        true
    }

    /// The client does not want the answer any more.
    fn abandon(&mut self) {
        if !self.withdraw()
            && let Some(ticket) = self.ticket.take()
        {
            let stop = self.shared.lock().runs.leave(ticket, Instant::now());
            if let Some(stop) = stop {
                stop.stop();
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.abandon();
            if !self.is_counted {
                return;
            }
            self.shared.metrics.failure_after(FailureReason::Canceled, self.accepted.elapsed());
        }
    }
}
