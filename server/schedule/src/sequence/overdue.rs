//! Ending runs of sequences that last too long. An instance whose engine does not end them is lost with all that sits
//! there, and the model is not ready until it is back.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use backend::{BackendError, Outage, Stop};
use inference::error::Error;
use telemetry::metrics::OverdueRun;

use super::{
    running::{Running, Step},
    shared::{LockedState, Shared, Wake},
    worker::start_or_wake,
};
use crate::{
    slot::Slot,
    watchdog::{RunPlace, WatchedRuns},
};

/// Why a model is not ready of which an instance is lost.
const STUCK: &str = "one of its instances is in a run that does not end (--run-limit-secs, \
                                EXECUTION_TIMEOUT_SECONDS)";

/// Why a model is not ready whose instances are all lost with their processes.
const MADE_ANEW: &str =
    "its process has died, and its instances are made anew and warmed in another";

/// What whoever has an open sequence hears besides, where its state was in a process that has died.
pub const SEQUENCES_LOST: &str = "; the state of the sequences that were open there is lost: begin them again with sequence_start";

/// Where no instance could make a run for so long, the model is not ready, and nobody need wait for it.
const WORTH_WAITING: Duration = Duration::from_secs(1);

impl WatchedRuns for Shared {
    fn end_overdue(self: Arc<Self>, now: Instant) -> Option<Instant> {
        let limit = self.settings.run_limit.of(None, RunPlace::Server);
        let mut state = self.lock();
        let (mut stops, mut replies, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut given_up = Vec::new();
        for (instance, running) in state.running.iter_mut().enumerate() {
            match running.as_mut().map(|it| it.next(now, limit)) {
                Some(Step::Stop(stop)) => stops.push(stop),
                Some(Step::Abandon(stop, of, limit)) => {
                    given_up.push(stop);
                    replies.extend(of.into_iter().map(|it| (it, limit)));
                    lost.push(instance);
                }
                Some(Step::IsAbandoned) => lost.push(instance),
                Some(Step::None) | None => {}
            }
        }
        self.lost_instances.store(lost.len(), Relaxed);
        let due = state.running.iter().flatten().filter_map(|it| it.next_due(now, limit)).min();
        let woken = self.ended_processes(&mut state);
        drop(state);
        start_or_wake(&self, woken);
        // An engine may take its time: not under the lock.
        stops.iter().for_each(|it: &Arc<Stop>| it.stop());
        given_up.iter().for_each(|it: &Arc<Stop>| it.give_up());
        if !replies.is_empty() {
            self.metrics.overdue_run(OverdueRun::Abandoned);
            let (model, requests) = (&self.settings.model, replies.len());
            tracing::error!(%model, requests, "a run of sequences took too long and does not end");
        }
        for (reply, limit) in replies {
            reply.send(Err(self.overdue(limit)));
        }
        // And what has come since.
        lost.into_iter().for_each(|it| self.lose(it, &self.cancelled(STUCK)));
        due
    }
}

impl Shared {
    /// The instances that may have been lost with their processes since this was asked last: their threads are to look,
    /// and make them anew before there is a request.
    fn ended_processes(&self, state: &mut LockedState) -> Vec<Wake> {
        let mut woken = Vec::new();
        for (instance, process) in self.processes.iter().enumerate() {
            let (Some(process), Some(seen)) = (process, state.ends.get_mut(instance)) else {
                continue;
            };
            let ends = process.ends();
            if std::mem::replace(seen, ends) == ends || state.closing {
                continue;
            }
            let unstarted = state.unstarted.get_mut(instance);
            let slot = unstarted.and_then(|it| it.take_if(|it| it.is_lost()));
            state.threads += usize::from(slot.is_some());
            woken.push(Wake { instance, slot });
        }
        woken
    }

    /// Why the model cannot answer although it is loaded.
    pub(super) fn trouble(&self) -> Option<&'static str> {
        if 0 < self.lost_instances.load(Relaxed) {
            return Some(STUCK);
        }
        self.is_out_of_service(&self.lock(), Instant::now()).then_some(MADE_ANEW)
    }

    /// The error of a request that would have to wait for instances that are made anew, where it would.
    pub(super) fn out_of_service(&self, state: &LockedState, now: Instant) -> Option<Error> {
        if !self.is_out_of_service(state, now) {
            return None;
        }
        let lost = if self.settings.engine_keeps_state { SEQUENCES_LOST } else { "" };
        let reason = format!("model '{}': {MADE_ANEW}{lost}", self.settings.model);
        let retry_after = Duration::from_secs(1);
        Some(Error::Backend(BackendError::Unavailable(Outage { reason, retry_after })))
    }

    /// Is there no instance that could make a run, as all were lost with their processes, for too long?
    fn is_out_of_service(&self, state: &LockedState, now: Instant) -> bool {
        let is_too_long = |lost: Duration| WORTH_WAITING <= lost;
        let waits = |run: &Running| run.stop.is_waiting() && is_too_long(run.stop.waited(now));
        let is_out = |(lost, running): (&Option<Instant>, &Option<Running>)| {
            lost.is_some_and(|it| is_too_long(now.saturating_duration_since(it)))
                || running.as_ref().is_some_and(waits)
        };
        // One that was never made serves nobody, either.
        let is_unmade =
            |it: &Option<Slot>| it.as_ref().is_some_and(|it| !it.is_made() && !it.is_lost());
        let is_apart = self.processes.iter().any(Option::is_some);
        let made = state.unstarted.iter().zip(state.lost_since.iter().zip(&state.running));
        let mut made = made.filter(|it| !is_unmade(it.0)).map(|it| it.1).peekable();
        is_apart && made.peek().is_some() && made.all(is_out)
    }

    pub(super) fn overdue(&self, limit: Duration) -> Error {
        Error::RunTimeout { model: self.settings.model.to_string(), limit }
    }

    /// Notes that a run was ended by the engine.
    pub(super) fn note_stopped(&self, limit: Duration) {
        self.metrics.overdue_run(OverdueRun::Stopped);
        let (model, limit) = (&self.settings.model, limit.as_secs_f64());
        tracing::warn!(%model, "a run of sequences took longer than {limit} s and was stopped");
    }
}
