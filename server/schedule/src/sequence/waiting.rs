//! The half of a request that waits: for its answer, a seat for its sequence, or its deadline.

use std::time::{Duration, Instant};

use tokio::{sync::oneshot, time::timeout_at};

use super::{shared::Shared, table::Number};
use crate::work::Done;
use inference::error::Error;
use telemetry::metrics::FailureReason;

/// A request that waits for its answer. Dropped before it runs, it takes the rest of its sequence with it.
pub(super) struct Waiting<'a> {
    pub(super) shared: &'a Shared,
    pub(super) sequence: Number,
    /// `None` once it has been answered.
    pub(super) ticket: Option<u64>,
    pub(super) receiver: oneshot::Receiver<Result<Done, Error>>,
    pub(super) entered: Instant,
    /// When its sequence must have a seat, and how long that is.
    pub(super) expiry: Option<(Instant, Duration)>,
    pub(super) deadline: Option<Instant>,
}

impl Waiting<'_> {
    /// Waits for the answer, the end of the time without a seat, or the deadline.
    pub(super) async fn answer(mut self) -> Result<Done, Error> {
        let deadline = self.deadline;
        let sooner = |at: Instant| deadline.is_none_or(|it| at < it);
        if let Some((at, limit)) = self.expiry.filter(|(at, _)| sooner(*at)) {
            if let Ok(answer) = timeout_at(at.into(), &mut self.receiver).await {
                return self.finish(answer.ok());
            }
            if self.shared.is_unseated(self.sequence) {
                let waited = self.entered.elapsed();
                let model = self.shared.settings.model.to_string();
                let error = Error::SequenceTimeout { model, waited, limit };
                if self.cancel(&error) {
                    return Err(error);
                }
            }
        }
        let Some(at) = self.deadline else {
            let answer = (&mut self.receiver).await;
            return self.finish(answer.ok());
        };
        match timeout_at(at.into(), &mut self.receiver).await {
            Ok(answer) => self.finish(answer.ok()),
            Err(_) => {
                self.cancel(&self.shared.cancelled("the deadline of one of its requests passed"));
                self.ticket = None;
                Err(Error::DeadlineExceeded { model: self.shared.settings.model.to_string() })
            }
        }
    }

    /// The answer came, or the other end was lost without one.
    fn finish(&mut self, answer: Option<Result<Done, Error>>) -> Result<Done, Error> {
        self.ticket = None;
        let lost = || Err(Error::Internal("the reply to a request was lost".into()));
        answer.unwrap_or_else(lost)
    }

    /// Ends the sequence, unless this request runs already; the others that wait are answered with `error`.
    fn cancel(&mut self, error: &Error) -> bool {
        let Some(ticket) = self.ticket else { return false };
        let cancelled = self.shared.cancel(self.sequence, ticket, error);
        if cancelled {
            self.ticket = None;
        }
        cancelled
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.cancel(&self.shared.cancelled("the client of one of its requests left"));
            let waited = self.entered.elapsed();
            self.shared.metrics.failure_after(FailureReason::Canceled, waited);
        }
    }
}
