//! What tasks and the threads of instances share: the table of sequences, and how threads are woken when it changes.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use backend::ModelProcess;

use super::{
    running::Running,
    settings::SequenceSettings,
    table::{Number, Table},
};
use crate::{
    reply::{Order, Reply},
    run,
    slot::Slot,
    work::Work,
};
use inference::{error::Error, messages, request::SequenceId, timings::Timings};
use telemetry::metrics::{self, BatchReason, ModelMetrics};

/// How long a sequence without a request keeps its seat while the server is on its way out.
const LEAVING_IDLE: Duration = Duration::from_secs(1);

/// What tasks and the instances' threads share.
pub(super) struct Shared {
    pub(super) settings: SequenceSettings,
    pub(super) metrics: ModelMetrics,
    /// The shapes of what a first request gets for states.
    pub(super) initial_key: u64,
    /// Where replies line up when they must leave in order.
    pub(super) order: Option<Arc<Order>>,
    /// Guards which sequence sits where and what waits. Never held while anything runs.
    pub(super) state: Mutex<LockedState>,
    /// One for each instance, for which its thread alone waits: there is work, or the end.
    pub(super) changed: Vec<Condvar>,
    /// A thread has ended.
    pub(super) ended: Condvar,
    /// The process of each instance; `None` where that is in this one.
    pub(super) processes: Vec<Option<Arc<dyn ModelProcess>>>,
    /// Instances that are in runs which do not end.
    pub(super) lost_instances: AtomicUsize,
}

/// What the lock guards.
pub(super) struct LockedState {
    pub(super) table: Table<Job>,
    /// The instances whose threads have not been started.
    pub(super) unstarted: Vec<Option<Slot>>,
    /// What each instance runs.
    pub(super) running: Vec<Option<Running>>,
    /// Since when each instance is known to have been lost with its process; `None` where it is there.
    pub(super) lost_since: Vec<Option<Instant>>,
    /// How many processes have ended of each instance, as far as its thread has been told.
    pub(super) ends: Vec<u64>,
    /// Threads alive; at most one for each instance.
    pub(super) threads: usize,
    /// Those of them that make an instance anew.
    pub(super) restoring: usize,
    /// Jobs that must be here before the first run; 0 once they were.
    pub(super) hold: usize,
    /// No batch waits for more requests any more.
    pub(super) flushing: bool,
    /// Nothing more comes in.
    pub(super) closing: bool,
}

/// An instance that has got a sequence.
pub(super) struct Wake {
    pub(super) instance: usize,
    /// It has no thread yet.
    pub(super) slot: Option<Slot>,
}

/// One request that waits.
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) start: bool,
    pub(super) end: bool,
    pub(super) enqueued_at: Instant,
    pub(super) shape_key: u64,
    pub(super) reply: Reply,
    /// Keeps the job among those that wait, as the metrics see it.
    pub(super) counted: Option<metrics::Pending>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, LockedState> {
        // Nothing that panics runs under this lock; if it did, the data would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn not_started(&self, id: &SequenceId) -> Error {
        let opening = match id {
            SequenceId::Number(id) => messages::no_sequence_start(id, &self.settings.model),
            SequenceId::Text(id) => messages::no_sequence_start(cut(id), &self.settings.model),
        };
        Error::InvalidRequest(format!(
            "{opening} (sequence_start); a sequence ends with sequence_end, when a request of it is cancelled, and \
             after {} ms without a request (max_sequence_idle_microseconds)",
            self.settings.idle.as_millis()
        ))
    }

    /// The answer to the requests of a sequence that ends early.
    pub(super) fn cancelled(&self, why: &str) -> Error {
        let model = &self.settings.model;
        Error::InvalidRequest(format!(
            "the sequence on model '{model}' was cancelled: {why}; begin it again with sequence_start"
        ))
    }

    /// The answer to a request of a sequence whose state is gone.
    pub(super) fn lost(&self) -> Error {
        self.cancelled("the instance that held its state was lost")
    }

    /// Ends sequences that are idle for too long, and gives free seats to those that wait. The instances that it
    /// returns are to be woken once the lock is free.
    pub(super) fn reseat(&self, state: &mut LockedState, now: Instant) -> Vec<Wake> {
        state.table.expire(now, self.patience(state));
        let process = |instance: usize| self.processes.get(instance)?.as_ref();
        let is_out = |instance| process(instance).is_some_and(|it| it.outage().is_some());
        let seated = state.table.seat(is_out);
        let woken = seated.into_iter().map(|instance| {
            let slot = state.unstarted.get_mut(instance).and_then(Option::take);
            state.threads += usize::from(slot.is_some());
            Wake { instance, slot }
        });
        woken.collect()
    }

    /// How long a sequence without a request keeps its seat. On the way out those that wait for one must not wait for
    /// a client that may not come back.
    pub(super) fn patience(&self, state: &LockedState) -> Duration {
        match (state.closing, state.flushing) {
            (true, _) => Duration::ZERO,
            (false, true) => self.settings.idle.min(LEAVING_IDLE),
            (false, false) => self.settings.idle,
        }
    }

    pub(super) fn wake(&self, instance: usize) {
        if let Some(changed) = self.changed.get(instance) {
            changed.notify_one();
        }
    }

    pub(super) fn wake_all(&self) {
        self.changed.iter().for_each(Condvar::notify_one);
    }

    /// Does the sequence still wait for a seat?
    pub(super) fn is_unseated(&self, number: Number) -> bool {
        self.lock().table.seat_of(number).is_none()
    }

    /// Ends a sequence if that request of it waits; the others that wait are answered with `error`. False when the
    /// request runs or has been answered.
    pub(super) fn cancel(&self, number: Number, ticket: u64, error: &Error) -> bool {
        let mut state = self.lock();
        let seat = state.table.seat_of(number);
        let jobs = state.table.cancel(number, ticket);
        drop(state);
        // Its seat may be free now; the instance's thread gives it to the next.
        if let Some(seat) = seat {
            self.wake(seat.instance);
        }
        let cancelled = !jobs.is_empty();
        refuse(jobs, error);
        cancelled
    }

    /// Ends all sequences of an instance.
    pub(super) fn lose(&self, instance: usize, error: &Error) {
        let jobs = self.lock().table.lose(instance);
        refuse(jobs, error);
    }

    /// Counts and logs executions, and why their batches had that size.
    pub(super) fn observe(&self, times: &[Timings], reason: BatchReason) {
        run::observe(times, reason, &self.settings.model, &self.metrics);
    }
}

/// Answers the requests of sequences that have ended. Not under the lock.
pub(super) fn refuse(jobs: Vec<Job>, error: &Error) {
    jobs.into_iter().for_each(|it| it.reply.send(Err(error.clone())));
}

/// An id as a client wrote it, cut to what fits a message.
pub(super) fn describe(id: &SequenceId) -> String {
    match id {
        SequenceId::Number(id) => id.to_string(),
        SequenceId::Text(id) => format!("'{}'", cut(id)),
    }
}

fn cut(id: &str) -> String {
    id.chars().take(128).collect()
}
