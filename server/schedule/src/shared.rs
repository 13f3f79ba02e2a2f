//! What the tasks and the worker threads of one scheduler share, and what every request is asked before it waits.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use backend::{BackendError, RunTerms, Stop};

use crate::{
    admission::{ExpectedWait, Load, LongestStay, bound, predicted_stay},
    killers::Killers,
    lock_free_hints::LockFreeHints,
    reply::Order,
    row_check::{Look, Mismatch, RowCheck, Sample},
    run,
    run_context::RunContext,
    settings::QueueSettings,
    slot::{Missed, RunFailure, Slot},
    state::State,
    work::{Done, Work},
};
use inference::{error::Error, timings::Timings};
use telemetry::metrics::{BatchReason, FailureReason, ModelMetrics};

/// Where the limit of a stay is from, for those that are refused.
const BOUND: &str = "(--max-queue-wait-ms; 0 lets requests wait for any time)";
const DEADLINE: &str = "until the request's own deadline";

/// What tasks and worker threads share.
pub(crate) struct Shared {
    pub(crate) settings: QueueSettings,
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
    /// Are its instances in processes of the model's own?
    pub(crate) is_apart: bool,
    /// What can be known of the state without the lock.
    pub(crate) hints: LockFreeHints,
    /// Requests that are refused, as they have ended the model's process.
    pub(crate) killers: Killers,
    /// What was found of a model whose rows depend on each other.
    pub(crate) mismatch: OnceLock<String>,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under this lock; if it did, the data would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an instance back after a run. Where it is one too many it is dropped, without the lock.
    pub(crate) fn put_back(&self, mut state: MutexGuard<'_, State>, slot: Slot) {
        let surplus = state.put_back(slot);
        self.hints.update(&state);
        drop(state);
        drop(surplus);
    }

    /// Counts a request that failed after so long. No other place counts failures, but for requests whose client has
    /// left.
    pub(crate) fn count<T>(&self, answer: Result<T, Error>, took: Duration) -> Result<T, Error> {
        if let Err(error) = &answer {
            let reason = match error {
                Error::Backend(_) | Error::RunTimeout { .. } => FailureReason::Backend,
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

    /// Are requests not merged any more?
    pub(crate) fn has_stopped_merging(&self) -> bool {
        self.settings.row_check == RowCheck::StopMerging && self.mismatch.get().is_some()
    }

    /// Keeps one of the requests of a run, now and then, for [`Shared::check_rows`].
    pub(crate) fn sample(
        &self,
        state: &mut State,
        works: &[&Work],
        answers: &[Result<Done, Error>],
    ) {
        let is_off = self.settings.row_check == RowCheck::Off || self.mismatch.get().is_some();
        if works.len() < 2 || is_off {
            return;
        }
        let Some(chosen) = state.choose_sample(works.len()) else { return };
        if let Some(Ok(done)) = answers.get(chosen.place) {
            state.sample = Sample::new(works, chosen, &done.outputs);
        }
    }

    /// Compares a request that was merged with itself alone, and stops the merging where they differ.
    pub(crate) fn check_rows(&self, slot: &mut Slot, sample: &Sample, stop: &Stop) {
        let model = &self.settings.model;
        let found = match slot
            .call(RunTerms::default(), Missed::Waits, stop, |it| sample.check(it, stop))
        {
            Ok(Look::Alike) => return,
            Ok(Look::Mismatch(found)) => found,
            Ok(Look::Suspicion(found)) if !sample.is_behind_suspicion() => {
                self.lock().looks.suspect();
                tracing::debug!(%model, ?found, "the next merged requests are looked at");
                return;
            }
            Ok(Look::Suspicion(found)) => found,
            Err(RunFailure::Batch(error) | RunFailure::NoInstance(error)) => {
                tracing::debug!(%model, %error, "a request could not be compared with itself alone");
                return;
            }
        };
        let Mismatch { output, distance, rows, own_rows } = found;
        let percent = 100.0 * distance;
        let found = format!(
            "a request of {own_rows} rows was answered otherwise in a run of {rows} rows than alone (output \
             '{output}', by {percent:.2} %)"
        );
        self.metrics.merge_mismatch();
        let consequence = match self.settings.row_check {
            RowCheck::StopMerging => "its requests are not merged any more",
            RowCheck::Report | RowCheck::Off => {
                "its requests are merged all the same, as dynamic_batching is written"
            }
        };
        if self.mismatch.set(found.clone()).is_ok() {
            tracing::warn!(%model, "{found}: {consequence}");
        }
        if self.has_stopped_merging() {
            self.context.splits.store(false, Relaxed);
            self.lock().queue.stop_merging();
        }
    }

    /// Takes in that the memory did not suffice for a run of so many rows, or that a run has succeeded.
    pub(crate) fn learn_memory(&self, state: &mut State, ran_out: Option<usize>, now: Instant) {
        let Some(most) = state.learn_memory(ran_out, now) else { return };
        self.hints.set_memory_rows(most);
        let model = &self.settings.model;
        match (most, ran_out) {
            (Some(most), Some(rows)) => {
                tracing::warn!(%model, "the memory did not suffice for a run of {rows} rows: runs have at most {most}")
            }
            (Some(most), None) => tracing::info!(%model, "runs have at most {most} rows again"),
            (None, _) => tracing::info!(%model, "runs are as large as configured again"),
        }
    }

    /// Remembers the requests at these places, which have ended the model's process twice.
    pub(crate) fn remember_killers(
        &self,
        works: &[&Work],
        answers: &[Result<Done, Error>],
        places: &[usize],
    ) {
        for place in places {
            let (Some(work), Some(Err(error))) = (works.get(*place), answers.get(*place)) else {
                continue;
            };
            let model = &self.settings.model;
            tracing::error!(
                %model,
                %error,
                "a request that has ended the model's process twice is refused from now on"
            );
            self.killers.remember(work, error.to_string(), Instant::now());
        }
    }

    /// Refuses a request that has ended the model's process twice.
    pub(crate) fn refuse_killer(&self, work: &Work, now: Instant) -> Result<(), Error> {
        let Some(known) = self.killers.find(work, now) else { return Ok(()) };
        Err(Error::Backend(BackendError::Execute(format!(
            "{}; a request with these inputs has done that twice, and is refused for {} s more",
            known.what,
            known.left.as_secs() + 1
        ))))
    }

    /// Refuses what could not be answered in time. A request that finds an idle instance, or a place for
    /// one, is never refused.
    pub(crate) fn admit(
        &self,
        state: &mut State,
        rows: usize,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Result<(), Error> {
        match state.has_room(now) {
            true => {
                state.crowd.has_gone();
                Ok(())
            }
            false => self.admit_after(ExpectedWait::default(), state, rows, deadline, now),
        }
    }

    /// The same for a request that waits elsewhere before it joins the queue, which is taken as it is now.
    pub(crate) fn admit_after(
        &self,
        wait: ExpectedWait,
        state: &mut State,
        rows: usize,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Result<(), Error> {
        let load = state.load(rows, now);
        let stay = predicted_stay(&load).saturating_add(wait.whole);
        // What is slow where it waits first is slow by itself, too.
        let slowest = Load { usual_time: load.usual_time.max(wait.piece), ..load };
        let longest = bound(self.settings.longest_stay, &slowest);
        let longest = longest.filter(|longest| {
            // Few may wait for longer, where nobody has said how long.
            let waiting = state.queue.requests().saturating_add(wait.requests);
            let is_given = self.settings.longest_stay != LongestStay::Auto;
            *longest < stay && (is_given || !state.crowd.admits(waiting, now))
        });
        let left = deadline.map(|it| it.saturating_duration_since(now)).filter(|it| *it < stay);
        let (limit, reason) = match (longest, left) {
            (None, None) => return Ok(()),
            (Some(limit), left) if left.is_none_or(|it| limit <= it) => (limit, BOUND),
            (_, Some(left)) => (left, DEADLINE),
            (Some(limit), None) => (limit, BOUND),
        };
        let prepared = match wait.whole {
            Duration::ZERO => String::new(),
            whole => format!(", {} ms of it until its inputs are prepared", whole.as_millis()),
        };
        Err(Error::Overloaded {
            model: self.settings.model.to_string(),
            reason: format!(
                "{} requests wait, an answer would take about {} ms{prepared}, the limit is {} ms {reason}",
                state.queue.requests(),
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
                "Exceeds maximum queue size: its queue holds max_queue_size {limit} requests of priority {}",
                self.settings.level(priority)
            ),
            retry_after: Duration::from_secs(1),
        }
    }
}
