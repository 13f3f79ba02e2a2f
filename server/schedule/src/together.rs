//! Several rows of one request, put into the queue at once, so that no instance takes the first before the others are
//! there.

use std::time::Instant;

use crate::{
    policy::Pending,
    queue::{Job, TimeoutAction},
    reply::Reply,
    scheduler::{Extent, Scheduler, Submission},
    waiting::Waiting,
    work::Done,
    worker,
};
use inference::error::Error;

/// A row that waits for its answer.
pub struct QueuedRow<'a>(Waiting<'a>);

impl QueuedRow<'_> {
    /// Waits for it.
    ///
    /// # Errors
    /// When the row expires, is late, or its run fails.
    ///
    /// # Cancel safety
    /// Dropping the future, or the row, takes it out of the queue or out of its run.
    pub async fn answer(self) -> Result<Done, Error> {
        self.0.answer().await
    }
}

impl Scheduler {
    /// Puts rows into the queue. They are parts of a request: never run by the calling task, counted by the caller, and
    /// only its first one is refused where the queue is full or too slow. In the order of `rows`.
    ///
    /// # Errors
    /// When one is refused; then none of them is left in the queue.
    pub fn submit_together(&self, rows: Vec<Submission>) -> Result<Vec<QueuedRow<'_>>, Error> {
        let shared = &self.shared;
        let mut queued = Vec::with_capacity(rows.len());
        let all_rows = rows.iter().map(|it| it.work.rows.max(1)).sum();
        let mut state = shared.lock();
        // What came before, such as their preparation, is no time in the queue.
        let now = Instant::now();
        for submission in rows {
            let Submission { work, accepted, shape_key, length, priority, .. } = submission;
            let Submission { queue_timeout, deadline, extent, is_alone, .. } = submission;
            let rows = work.rows.max(1);
            let pending = Pending { rows, enqueued_at: now, shape_key, length, is_alone };
            let is_later = extent == Extent::LaterPart;
            shared.check_open(&state, deadline, now)?;
            if !is_later {
                state.learn_request(all_rows);
                shared.admit(&mut state, all_rows, deadline, now)?;
            }
            let policy = state.queue.policy(priority);
            let limit = policy.timeout(queue_timeout);
            let rejects = policy.timeout_action == TimeoutAction::Reject;
            let expiry = limit.and_then(|it| Some((now.checked_add(it)?, it)));
            let (reply, receiver) = Reply::channel(None);
            let counted = Some(shared.metrics.pending());
            let job = Job {
                expiry,
                is_part: is_later,
                ..Job::new(pending, work, deadline, reply, counted)
            };
            let ticket = match is_later {
                true => Ok(state.queue.push_admitted(priority, job)),
                false => state.queue.push(priority, job),
            };
            let ticket = ticket.map_err(|limit| shared.queue_full(limit, priority))?;
            let expiry = expiry.filter(|_| rejects);
            let ticket = Some(ticket);
            let is_counted = false;
            queued.push(QueuedRow(Waiting {
                shared,
                ticket,
                receiver,
                accepted,
                expiry,
                deadline,
                is_counted,
            }));
        }
        shared.hints.update(&state);
        let wake = state.wake_needed_worker(Instant::now());
        drop(state);
        worker::wake(shared, wake);
        Ok(queued)
    }
}

#[cfg(test)]
mod tests;
