//! Ending the runs of one scheduler that last too long: stopped by the engine where it can, else given up.

use std::{
    sync::{Arc, MutexGuard},
    time::{Duration, Instant},
};

use backend::{BackendError, Outage, Stop};
use inference::error::Error;
use telemetry::metrics::{OverdueRun, Rerun};

use super::{
    running::{Abandoned, Overdue, TimeOver},
    shared::Shared,
    slot::Slot,
    state::State,
    watchdog::WatchedRuns,
    work::Done,
    worker,
};

impl WatchedRuns for Shared {
    fn end_overdue(self: Arc<Self>, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        let overdue = state.runs.overdue(now);
        let abandoned = state.abandon(now);
        let is_lost = !abandoned.is_empty();
        state.note_service(now);
        let wake = match is_lost || state.has_lost_place(now) {
            true => state.wake_needed_worker(now),
            false => None,
        };
        let unserved = match state.is_stuck() {
            true => state.take_all(),
            false => Vec::new(),
        };
        self.hints.update(&state);
        let due = state.runs.next_due(now);
        drop(state);
        // An engine may take its time: not under the lock.
        overdue.iter().for_each(|it| it.stop.stop());
        abandoned.iter().for_each(|it| it.stop.give_up());
        for Overdue { replies, limit, .. } in overdue {
            replies.into_iter().for_each(|it| it.send(Err(self.overdue(limit))));
        }
        if is_lost {
            // The worker threads that are left may be all that the end of the queue waits for.
            self.ended.notify_all();
            self.changed.notify_all();
        }
        abandoned.into_iter().for_each(|it| self.answer_abandoned(it));
        self.count_unrun(&unserved, Rerun::Failed);
        for job in unserved {
            job.reply.send(Err(self.stuck()));
        }
        worker::wake(&self, wake);
        due
    }
}

/// Why a model is not ready whose instances are all lost with their processes.
const MADE_ANEW: &str =
    "its process has died, and its instances are made anew and warmed in another";

impl Shared {
    /// Why no instance can make a run, and none is worth to wait for.
    pub(crate) fn trouble(&self) -> Option<&'static str> {
        if self.hints.is_stuck() {
            return Some(STUCK);
        }
        let is_out = self.is_apart && self.lock().is_out_of_service(Instant::now());
        is_out.then_some(MADE_ANEW)
    }

    /// Refuses what would have to wait for instances that are made anew.
    pub(crate) fn check_service(&self, state: &mut State, now: Instant) -> Result<(), Error> {
        if !self.is_apart || !state.is_out_of_service(now) {
            return Ok(());
        }
        let reason = format!("model '{}': {MADE_ANEW}", self.settings.model);
        let retry_after = Duration::from_secs(1);
        Err(Error::Backend(BackendError::Unavailable(Outage { reason, retry_after })))
    }

    fn answer_abandoned(&self, abandoned: Abandoned) {
        let Abandoned { requests, replies, time, is_replaced, .. } = abandoned;
        self.metrics.overdue_run(OverdueRun::Abandoned);
        let consequence = match is_replaced {
            true => "another instance takes its place",
            false => "it has too many such runs: no instance takes its place",
        };
        tracing::error!(
            model = %self.settings.model,
            requests,
            "{} took longer than {} s and does not end: {consequence}",
            what(time),
            time.limit.as_secs_f64()
        );
        for reply in replies {
            reply.send(Err(self.overdue(time.limit)));
        }
    }

    /// The answers of a run that was asked to end.
    pub(crate) fn overdue_answers(
        &self,
        answers: Vec<Result<Done, Error>>,
        time: TimeOver,
    ) -> Vec<Result<Done, Error>> {
        self.metrics.overdue_run(OverdueRun::Stopped);
        tracing::warn!(
            model = %self.settings.model,
            requests = answers.len(),
            "{} took longer than {} s and was stopped",
            what(time),
            time.limit.as_secs_f64()
        );
        answers.into_iter().map(|it| it.map_err(|_| self.overdue(time.limit))).collect()
    }

    /// A run that had been given up has ended after all; its requests have been answered. Is its thread to go on? Else
    /// another works in its place.
    pub(crate) fn come_back(
        &self,
        mut state: MutexGuard<'_, State>,
        slot: Slot,
        stop: &Arc<Stop>,
    ) -> bool {
        tracing::warn!(model = %self.settings.model, "a run that was given up has ended after all");
        let is_wanted = state.is_wanted_back(stop);
        match is_wanted {
            true => self.put_back(state, slot),
            // The instance goes without it.
            false => drop(state),
        }
        is_wanted
    }

    /// Notes that a run in place was stopped, to be made again by a worker.
    pub(crate) fn left_thread(&self, took: Duration) {
        self.metrics.overdue_run(OverdueRun::Moved);
        tracing::warn!(
            model = %self.settings.model,
            "a run of a model that is fast as a rule kept its thread for {} ms: it is made again on a thread of the model",
            took.as_millis()
        );
    }

    fn overdue(&self, limit: Duration) -> Error {
        Error::RunTimeout { model: self.settings.model.to_string(), limit }
    }

    /// The answer where no instance is left.
    pub(crate) fn stuck(&self) -> Error {
        let (model, reason) = (self.settings.model.to_string(), STUCK.to_owned());
        Error::ModelNotReady { model, version: None, reason }
    }
}

/// What has taken too long, for the log: its time is another where nobody waited for it.
fn what(time: TimeOver) -> &'static str {
    match time.is_for_nobody {
        true => "a run that no client waited for any more",
        false => "a run",
    }
}

/// Why a model is not ready whose instances are all lost.
pub(crate) const STUCK: &str = "all of its instances are in runs that do not end (--run-limit-secs, \
                                EXECUTION_TIMEOUT_SECONDS)";

impl State {
    /// Takes the runs that do not end out of the count of threads and places.
    fn abandon(&mut self, now: Instant) -> Vec<Abandoned> {
        let abandoned = self.runs.abandon(now);
        self.threads -= abandoned.len();
        for it in abandoned.iter().filter(|it| it.is_replaced) {
            let kind = self.kinds.iter().find(|(kind, _)| kind.device() == it.device);
            let place = kind.map(|(kind, _)| kind.another());
            if let Some(surplus) = place.and_then(|it| self.put_back(it)) {
                // It has no instance: nothing is freed under the lock.
                drop(surplus);
            }
        }
        abandoned
    }
}

#[cfg(test)]
mod tests;
