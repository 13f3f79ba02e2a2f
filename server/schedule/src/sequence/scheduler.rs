//! The scheduler of a model whose requests come in sequences.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use backend::ModelProcess;

use super::{
    settings::{IdType, SequenceSettings, Signal, Strategy},
    shared::{Job, LockedState, Shared, describe},
    table::Table,
    waiting::Waiting,
    worker,
};
use crate::{
    reply::Reply, request_queue::RequestQueue, scheduler::Submission, slot::Slot, work::Done,
};
use inference::{
    error::Error,
    messages,
    request::{Sequence, SequenceId},
};
use telemetry::metrics::{FailureReason, ModelMetrics};

/// Takes requests of sequences, gives answers. Dropping it closes it: what waits is still run, then the threads end
/// and the instances go.
pub struct SequenceScheduler {
    shared: Arc<Shared>,
    /// Sequences that were begun for requests which are some of their own.
    begun: AtomicU64,
}

impl SequenceScheduler {
    /// A scheduler over these instances; those whose places are empty are made for the first sequence that sits
    /// there.
    pub fn new(
        settings: SequenceSettings,
        slots: Vec<Slot>,
        metrics: ModelMetrics,
    ) -> SequenceScheduler {
        let slots_there = slots.len();
        let table = Table::new(slots_there, settings.seats);
        let running = slots.iter().map(|_| None).collect();
        let changed = slots.iter().map(|_| Condvar::new()).collect();
        // The preferred one comes last.
        let processes: Vec<Option<Arc<dyn ModelProcess>>> =
            slots.iter().rev().map(|it| it.process().cloned()).collect();
        let ends = processes.iter().map(|it| it.as_ref().map_or(0, |it| it.ends())).collect();
        let ordered = matches!(settings.strategy, Strategy::Oldest { preserve_ordering: true, .. });
        let state = LockedState {
            table,
            unstarted: slots.into_iter().rev().map(Some).collect(),
            running,
            lost_since: vec![None; slots_there],
            restoring: 0,
            ends,
            threads: 0,
            hold: settings.hold,
            flushing: false,
            closing: false,
        };
        let shared = Shared {
            metrics,
            initial_key: settings.wiring.initial_key(),
            order: ordered.then(Arc::default),
            state: Mutex::new(state),
            changed,
            processes,
            ended: Condvar::new(),
            lost_instances: AtomicUsize::new(0),
            settings,
        };
        let shared = Arc::new(shared);
        let watched: Weak<Shared> = Arc::downgrade(&shared);
        shared.settings.watchdog.watch(watched);
        SequenceScheduler { shared, begun: AtomicU64::new(0) }
    }

    /// Is each request a sequence of its own, run until the model is done with it?
    pub(super) fn iterates(&self) -> bool {
        self.shared.settings.iterates
    }

    /// A sequence of the server's own.
    pub(super) fn begin_own(&self) -> Sequence {
        // Whatever type the model takes it in.
        let number = 1 + self.begun.fetch_add(1, Relaxed) % u64::from(i32::MAX.unsigned_abs());
        let is_text = self.shared.settings.wiring.id_types().any(|it| it == IdType::Text);
        let id = match is_text {
            true => SequenceId::Text(number.to_string().into()),
            false => SequenceId::Number(number),
        };
        Sequence { id, start: true, end: false }
    }

    /// One run of the request.
    pub(super) async fn run_once(
        &self,
        submission: Submission,
        sequence: Option<&Sequence>,
    ) -> Result<Done, Error> {
        let accepted = submission.accepted;
        let sequence = self.shared.check(&submission, sequence)?;
        let waiting = self.shared.enter(submission, sequence)?;
        let answer = waiting.answer().await;
        if let Err(error) = &answer {
            let reason = match error {
                Error::Backend(_) | Error::RunTimeout { .. } => FailureReason::Backend,
                Error::Internal(_) => FailureReason::Other,
                // The request itself was in order: its sequence was cancelled.
                Error::DeadlineExceeded { .. } | Error::InvalidRequest(_) => {
                    FailureReason::Canceled
                }
                _ => FailureReason::Rejected,
            };
            self.shared.metrics.failure_after(reason, accepted.elapsed());
        }
        answer
    }
}

impl RequestQueue for SequenceScheduler {
    fn admit(&self) -> Result<(), Error> {
        let state = self.shared.lock();
        let (error, reason) = match state.closing {
            true => (Error::ShuttingDown, FailureReason::Rejected),
            false => match self.shared.out_of_service(&state, Instant::now()) {
                Some(error) => (error, FailureReason::Backend),
                None => return Ok(()),
            },
        };
        drop(state);
        self.shared.metrics.failure(reason);
        Err(error)
    }

    fn instances(&self) -> usize {
        self.shared.changed.len()
    }

    fn trouble(&self) -> Option<&'static str> {
        self.shared.trouble()
    }

    /// Sequences may complete, if they do not pause for more than a second.
    fn flush(&self) {
        self.shared.lock().flushing = true;
        self.shared.changed.iter().for_each(Condvar::notify_one);
        self.shared.wake_all();
    }

    /// Sequences that have nothing to run are over.
    fn close(&self) {
        self.shared.lock().closing = true;
        self.flush();
    }

    fn wait_closed(&self, patience: Duration) -> usize {
        let state = self.shared.lock();
        let held = |state: &LockedState| match state.table.queued() {
            // Nobody waits for an instance that is made anew.
            0 => state.threads.saturating_sub(state.restoring),
            _ => state.threads,
        };
        let waited = self.shared.ended.wait_timeout_while(state, patience, |it| 0 < held(it));
        held(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Instances that a thread has go with the thread.
    fn release(&self) {
        let unstarted = |state: &mut LockedState| -> Vec<Option<Slot>> {
            state.unstarted.iter_mut().map(Option::take).collect()
        };
        // The lock is released before they go, which takes a while.
        let gone = unstarted(&mut self.shared.lock());
        drop(gone);
    }

    fn takes_sequence(&self, id: &SequenceId) -> bool {
        self.shared.settings.wiring.id_types().all(|it| it.holds(id))
    }

    fn has_sequence(&self, id: &SequenceId) -> bool {
        let mut state = self.shared.lock();
        let woken = self.shared.reseat(&mut state, Instant::now());
        let is_open = state.table.is_open(id);
        drop(state);
        worker::start_or_wake(&self.shared, woken);
        is_open
    }

    /// Does nothing where there is none. No run of its own is needed: there is nothing to run.
    fn leave_sequence(&self, id: &SequenceId) {
        let mut state = self.shared.lock();
        let seat = state.table.leave(id);
        drop(state);
        // The instance's thread gives the seat to the next.
        if let Some(seat) = seat {
            self.shared.wake(seat.instance);
        }
    }

    fn has_open_sequences(&self) -> bool {
        let mut state = self.shared.lock();
        let woken = self.shared.reseat(&mut state, Instant::now());
        let has_open = state.table.has_open();
        drop(state);
        worker::start_or_wake(&self.shared, woken);
        has_open
    }
}

impl Drop for SequenceScheduler {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Does the request belong to a sequence, as this model takes them?
    fn check<'s>(
        &self,
        submission: &Submission,
        sequence: Option<&'s Sequence>,
    ) -> Result<&'s Sequence, Error> {
        let model = &self.settings.model;
        let sequence = sequence.ok_or_else(|| {
            Error::InvalidRequest(format!(
                "{}: the parameter sequence_id, a number above 0 or a text that is not empty",
                messages::no_sequence(model)
            ))
        })?;
        let rows = submission.work.rows;
        if rows != 1 {
            return Err(Error::InvalidRequest(format!(
                "{}; given {rows}",
                messages::sequence_rows(model)
            )));
        }
        for control in &self.settings.wiring.controls {
            let Signal::Id(id) = control.signal else { continue };
            if !id.holds(&sequence.id) {
                return Err(Error::InvalidRequest(format!(
                    "model '{model}' takes sequence_id as {} (input '{}'); given {}",
                    id.dtype(),
                    control.name,
                    describe(&sequence.id)
                )));
            }
        }
        Ok(sequence)
    }

    /// Puts the request behind those of its sequence.
    fn enter(
        self: &Arc<Self>,
        submission: Submission,
        sequence: &Sequence,
    ) -> Result<Waiting<'_>, Error> {
        let Submission { work, shape_key, queue_timeout, deadline, .. } = submission;
        // What came before is no time in the queue.
        let now = Instant::now();
        let refused = |error: Error, reason| {
            self.metrics.failure(reason);
            Err(error)
        };
        let mut state = self.lock();
        if state.closing {
            return refused(Error::ShuttingDown, FailureReason::Rejected);
        }
        if deadline.is_some_and(|it| it <= now) {
            let model = self.settings.model.to_string();
            return refused(Error::DeadlineExceeded { model }, FailureReason::Canceled);
        }
        let mut woken = self.reseat(&mut state, now);
        if !sequence.start && !state.table.is_open(&sequence.id) {
            let is_lost = state.table.has_lost(&sequence.id);
            drop(state);
            worker::start_or_wake(self, woken);
            return Err(match is_lost {
                true => self.lost(),
                false => self.not_started(&sequence.id),
            });
        }
        // It lines up when it is run: what waits for a seat keeps nobody's answer back.
        let (reply, receiver) = Reply::channel(None);
        let (start, end) = (sequence.start, sequence.end);
        let counted = Some(self.metrics.pending());
        let job = Job { work, start, end, enqueued_at: now, shape_key, reply, counted };
        let (number, ticket) = state.table.enter(sequence, job, now);
        woken.extend(self.reseat(&mut state, now));
        let is_released = 0 < state.hold
            && state.hold <= state.table.queued()
            && self.settings.hold_backlog <= state.table.in_backlog();
        if is_released {
            state.hold = 0;
        }
        let seat = state.table.seat_of(number);
        drop(state);
        worker::start_or_wake(self, woken);
        match seat {
            Some(seat) if !is_released => self.wake(seat.instance),
            _ if is_released => self.wake_all(),
            _ => {}
        }
        let limit = queue_timeout.into_iter().chain(self.settings.longest_backlog).min();
        let expiry = limit.filter(|_| seat.is_none());
        let expiry = expiry.and_then(|it| Some((now.checked_add(it)?, it)));
        let (shared, sequence, ticket) = (&**self, number, Some(ticket));
        Ok(Waiting { shared, sequence, ticket, receiver, entered: now, expiry, deadline })
    }
}

#[cfg(test)]
mod tests;
