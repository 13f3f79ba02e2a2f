//! Ending runs of sequences that last too long. An instance whose engine does not end them is lost with all that sits
//! there, and the model is not ready until it is back.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use backend::Stop;
use inference::error::Error;
use telemetry::metrics::OverdueRun;

use super::{running::Step, shared::Shared};
use crate::watchdog::{RunPlace, Watched};

/// Why a model is not ready of which an instance is lost.
pub(super) const STUCK: &str = "one of its instances is in a run that does not end (--run-limit-secs, \
                                EXECUTION_TIMEOUT_SECONDS)";

impl Watched for Shared {
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
        drop(state);
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
