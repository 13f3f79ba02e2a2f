//! The scheduler of a model whose requests come in sequences: each sequence sits on one instance from its first
//! request to its last, and its requests run there one after another.
//!
//! An instance has a number of seats and a thread of its own. A sequence that finds no free seat waits in the
//! backlog, with all its requests. Everything that has a decision in it is plain data and pure functions: `table` (who
//! sits where, what waits) and `decide` (what runs now).

mod batch;
mod decide;
mod settings;
mod table;
mod waiting;
mod worker;

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    Submission,
    reply::{Order, Reply},
    run::{self, Done, RunTime, Slot, Work},
};
use inference::{
    error::Error,
    request::{Sequence, SequenceId},
};
pub use settings::{
    Control, DirectPolicy, Flag, IdType, Settings, Signal, State as KeptState, Strategy, Wiring,
};
use table::{Number, Table};
use telemetry::metrics::{self, BatchReason, FailureReason, ModelMetrics};
use waiting::Waiting;

/// How long a sequence without a request keeps its seat while the server is on its way out.
const LEAVING_IDLE: Duration = Duration::from_secs(1);

/// Takes requests of sequences, gives answers. Dropping it closes it: what waits is still run, then the threads end
/// and the instances go.
pub struct SequenceScheduler {
    shared: Arc<Shared>,
}

/// What tasks and the instances' threads share.
struct Shared {
    settings: Settings,
    metrics: ModelMetrics,
    /// The shapes of what a first request gets for states.
    initial_key: u64,
    /// Where replies line up when they must leave in order.
    order: Option<Arc<Order>>,
    /// Guards who sits where and what waits. Never held while anything runs.
    state: Mutex<State>,
    /// One for each instance, for which its thread alone waits: there is work, or the end.
    changed: Vec<Condvar>,
    /// A thread has ended.
    ended: Condvar,
}

/// What the lock guards.
struct State {
    table: Table<Job>,
    /// The instances whose threads have not been started.
    unstarted: Vec<Option<Slot>>,
    /// Threads alive; at most one for each instance.
    threads: usize,
    /// Jobs that must be here before the first run; 0 once they were.
    hold: usize,
    /// Nothing waits for company any more.
    hurrying: bool,
    /// Nothing more comes in.
    closing: bool,
}

/// An instance at which somebody has sat down.
struct Call {
    instance: usize,
    /// It has no thread yet.
    slot: Option<Slot>,
}

/// One request that waits.
struct Job {
    work: Work,
    start: bool,
    end: bool,
    enqueued_at: Instant,
    shape_key: u64,
    reply: Reply,
    /// Keeps the job among those that wait, as the metrics see it.
    counted: Option<metrics::Pending>,
}

impl SequenceScheduler {
    /// A scheduler over these instances; those whose places are empty are made for the first sequence that sits
    /// there.
    pub fn new(settings: Settings, slots: Vec<Slot>, metrics: ModelMetrics) -> SequenceScheduler {
        let table = Table::new(slots.len(), settings.seats);
        let changed = slots.iter().map(|_| Condvar::new()).collect();
        let ordered = matches!(settings.strategy, Strategy::Oldest { preserve_ordering: true, .. });
        let state = State {
            table,
            // The preferred one comes last.
            unstarted: slots.into_iter().rev().map(Some).collect(),
            threads: 0,
            hold: settings.hold,
            hurrying: false,
            closing: false,
        };
        let shared = Shared {
            metrics,
            initial_key: settings.wiring.initial_key(),
            order: ordered.then(Arc::default),
            state: Mutex::new(state),
            changed,
            ended: Condvar::new(),
            settings,
        };
        SequenceScheduler { shared: Arc::new(shared) }
    }

    /// Would a request that came now be refused? Cheap enough to ask before its body is read.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`].
    pub fn admit(&self) -> Result<(), Error> {
        if !self.shared.lock().closing {
            return Ok(());
        }
        self.shared.metrics.failure(FailureReason::Rejected);
        Err(Error::ShuttingDown)
    }

    /// Runs one request of a sequence when its turn comes.
    ///
    /// # Errors
    /// When it belongs to no sequence or is none of this model, when its sequence finds no seat in time or is
    /// cancelled, when it is late, or its run fails.
    ///
    /// # Cancel safety
    /// Dropping the future of a request that does not run yet ends its sequence, whose other requests are answered with
    /// an error: a sequence with a gap is none. One that runs is finished for the sake of those that follow.
    pub async fn submit(
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
                Error::Backend(_) => FailureReason::Backend,
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

    /// From now on nothing waits for company: the server is on its way out. Requests are still taken, and sequences may
    /// complete, if they do not pause for more than a second.
    pub fn hurry(&self) {
        self.shared.lock().hurrying = true;
        self.shared.changed.iter().for_each(Condvar::notify_one);
        self.shared.wake_all();
    }

    /// Takes nothing more. What waits is run without delay, then the threads end; sequences that have nothing to run
    /// are over.
    pub fn close(&self) {
        self.shared.lock().closing = true;
        self.hurry();
    }

    /// Waits until every thread has ended, which happens after [`SequenceScheduler::close`]. Blocking.
    ///
    /// Returns the number of threads that were still running after `patience`.
    pub fn wait_closed(&self, patience: Duration) -> usize {
        let state = self.shared.lock();
        let waited =
            self.shared.ended.wait_timeout_while(state, patience, |state| 0 < state.threads);
        waited.unwrap_or_else(PoisonError::into_inner).0.threads
    }

    /// Drops the instances that no thread has, after [`SequenceScheduler::wait_closed`]; the others go with their threads.
    pub fn release(&self) {
        let unstarted = |state: &mut State| -> Vec<Option<Slot>> {
            state.unstarted.iter_mut().map(Option::take).collect()
        };
        // The lock is released before they go, which takes a while.
        let gone = unstarted(&mut self.shared.lock());
        drop(gone);
    }

    /// Is there a sequence that has begun, has not ended, and has not been idle for too long?
    pub fn has_open(&self) -> bool {
        let mut state = self.shared.lock();
        let calls = self.shared.reseat(&mut state, Instant::now());
        let has_open = state.table.has_open();
        drop(state);
        self.shared.call(calls);
        has_open
    }

    /// Is there an open sequence of that id?
    pub fn is_open(&self, id: &SequenceId) -> bool {
        let mut state = self.shared.lock();
        let calls = self.shared.reseat(&mut state, Instant::now());
        let is_open = state.table.is_open(id);
        drop(state);
        self.shared.call(calls);
        is_open
    }

    /// Can the model be told that id, where it is told any?
    pub fn takes(&self, id: &SequenceId) -> bool {
        self.shared.settings.wiring.id_types().all(|it| it.holds(id))
    }

    /// Ends the sequence of that id once its requests are answered, without a run of its own: there is nothing to run.
    /// Does nothing where there is none.
    pub fn leave(&self, id: &SequenceId) {
        let mut state = self.shared.lock();
        let seat = state.table.leave(id);
        drop(state);
        // The instance's thread gives the seat to the next.
        if let Some(seat) = seat {
            self.shared.wake(seat.instance);
        }
    }

    /// Most batches that run at once.
    pub fn instances(&self) -> usize {
        self.shared.changed.len()
    }
}

impl Drop for SequenceScheduler {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under this lock; if it did, the data would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the request belong to a sequence, as this model takes them?
    fn check<'s>(
        &self,
        submission: &Submission,
        sequence: Option<&'s Sequence>,
    ) -> Result<&'s Sequence, Error> {
        let model = &self.settings.model;
        let sequence = sequence.ok_or_else(|| {
            Error::InvalidRequest(format!(
                "model '{model}' takes sequences: expected the parameter sequence_id, a number above 0 or a text that \
                 is not empty; given none"
            ))
        })?;
        let rows = submission.work.rows;
        if rows != 1 {
            return Err(Error::InvalidRequest(format!(
                "model '{model}' takes sequences: expected 1 row in each request, given {rows}"
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
        let Submission { work, accepted: now, shape_key, queue_timeout, deadline, .. } = submission;
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
        let mut calls = self.reseat(&mut state, now);
        if !sequence.start && !state.table.is_open(&sequence.id) {
            drop(state);
            self.call(calls);
            return Err(self.not_started(&sequence.id));
        }
        let (reply, receiver) = Reply::channel(self.order.as_ref());
        let (start, end) = (sequence.start, sequence.end);
        let counted = Some(self.metrics.pending());
        let job = Job { work, start, end, enqueued_at: now, shape_key, reply, counted };
        let (number, ticket) = state.table.enter(sequence, job, now);
        calls.extend(self.reseat(&mut state, now));
        let is_released = 0 < state.hold && state.hold <= state.table.queued();
        if is_released {
            state.hold = 0;
        }
        let seat = state.table.seat_of(number);
        drop(state);
        self.call(calls);
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

    fn not_started(&self, id: &SequenceId) -> Error {
        Error::InvalidRequest(format!(
            "model '{}' has no open sequence {}: its first request must have sequence_start; a sequence ends with \
             sequence_end, when a request of it is cancelled, and after {} ms without a request \
             (max_sequence_idle_microseconds)",
            self.settings.model,
            describe(id),
            self.settings.idle.as_millis()
        ))
    }

    /// What the requests of a sequence hear that ends early.
    fn cancelled(&self, why: &str) -> Error {
        let model = &self.settings.model;
        Error::InvalidRequest(format!(
            "the sequence on model '{model}' was cancelled: {why}; begin it again with sequence_start"
        ))
    }

    /// Sends off who is idle for too long, and gives free seats to those who wait. The calls are to be made once the
    /// lock is free.
    fn reseat(&self, state: &mut State, now: Instant) -> Vec<Call> {
        state.table.expire(now, self.patience(state));
        let seated = state.table.seat();
        let calls = seated.into_iter().map(|instance| {
            let slot = state.unstarted.get_mut(instance).and_then(Option::take);
            state.threads += usize::from(slot.is_some());
            Call { instance, slot }
        });
        calls.collect()
    }

    /// How long a sequence without a request keeps its seat. On the way out those who wait for one must not wait for
    /// a client that may not come back.
    fn patience(&self, state: &State) -> Duration {
        match (state.closing, state.hurrying) {
            (true, _) => Duration::ZERO,
            (false, true) => self.settings.idle.min(LEAVING_IDLE),
            (false, false) => self.settings.idle,
        }
    }

    /// Tells the threads of instances that there is work, or starts them.
    fn call(self: &Arc<Self>, calls: Vec<Call>) {
        for Call { instance, slot } in calls {
            match slot {
                Some(slot) => worker::start(self, instance, slot),
                None => self.wake(instance),
            }
        }
    }

    fn wake(&self, instance: usize) {
        if let Some(changed) = self.changed.get(instance) {
            changed.notify_one();
        }
    }

    fn wake_all(&self) {
        self.changed.iter().for_each(Condvar::notify_one);
    }

    /// Does the sequence still wait for a seat?
    fn is_unseated(&self, number: Number) -> bool {
        self.lock().table.seat_of(number).is_none()
    }

    /// Ends a sequence if that request of it waits; the others that wait are answered with `error`. False when the
    /// request runs or has been answered.
    fn cancel(&self, number: Number, ticket: u64, error: &Error) -> bool {
        let mut state = self.lock();
        let seat = state.table.seat_of(number);
        let jobs = state.table.cancel(number, ticket);
        drop(state);
        // Its seat may be free now; the instance's thread gives it to the next.
        if let Some(seat) = seat {
            self.wake(seat.instance);
        }
        let cancelled = !jobs.is_empty();
        jobs.into_iter().for_each(|it| it.reply.send(Err(error.clone())));
        cancelled
    }

    /// Ends all sequences of an instance.
    fn lose(&self, instance: usize, error: &Error) {
        let jobs = self.lock().table.lose(instance);
        jobs.into_iter().for_each(|it| it.reply.send(Err(error.clone())));
    }

    /// Tells the metrics, and whoever looks closely, of executions, and why they had their size.
    fn observe(&self, times: &[RunTime], reason: BatchReason) {
        run::observe(times, reason, &self.settings.model, &self.metrics);
    }
}

/// An id as a client wrote it, cut to what fits a message.
fn describe(id: &SequenceId) -> String {
    match id {
        SequenceId::Number(id) => id.to_string(),
        SequenceId::Text(id) => format!("'{}'", id.chars().take(128).collect::<String>()),
    }
}

#[cfg(test)]
mod tests;
