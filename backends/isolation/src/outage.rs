//! A model version whose worker on one device has died: how long until the next one, and what is said meanwhile, in the
//! log, in the figures, and to those who ask.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{BackendError, Device, EndReason, ModelProcess, Outage};

use crate::{
    figures::{Figures, LoadNote},
    launch::Worker,
    state::{Another, Evidence, State},
    whose::{Whose, device_name},
};

/// A request waits so long for a worker that may not be started yet; beyond that it is refused.
const WORTH_WAITING: Duration = Duration::from_secs(1);

/// Says it of the workers of one supervisor.
pub(crate) struct Outages<'a> {
    pub(crate) whose: &'a Whose,
    pub(crate) figures: &'a Figures,
    /// Where the instances of its workers are.
    pub(crate) device: Device,
}

impl<'a> Outages<'a> {
    /// Forgets the worker that has died, with a line of log.
    pub(crate) fn bury(&self, state: &mut State) {
        let Some(worker) = state.worker.take() else { return };
        let (obituary, runs, reason) = (worker.obituary(), worker.answered(), worker.end_reason());
        if 0 < runs {
            state.life.has_run();
        }
        match reason {
            EndReason::Timeout => state.life.was_ended(Instant::now(), chance()),
            _ => state.life.died(Instant::now(), runs, chance()),
        }
        state.last_end = Some(reason);
        let toll = worker.vitals().aboard().toll();
        tracing::error!(
            model = self.whose.model,
            version = self.whose.version,
            device = %device_name(self.device),
            worker = worker.pid(),
            instances = %toll.lanes(),
            rows = toll.rows,
            requests = toll.requests(),
            run_again = toll.run_again,
            failed = toll.failed,
            answered = runs,
            last_lines = worker.last_lines(),
            "{obituary}"
        );
        self.note_death(state);
    }

    /// How long until the next worker may be started.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] where nobody need wait for it.
    pub(crate) fn pause(&self, state: &mut State) -> Result<Duration, BackendError> {
        let now = Instant::now();
        if let Some(another) = state.another.as_ref().filter(|it| now < it.look_again) {
            let retry_after = another.look_again - now;
            let reason = another.problem.clone();
            return Err(BackendError::Unavailable(Outage { reason, retry_after }));
        }
        let pause = state.life.pause(now);
        match pause <= WORTH_WAITING {
            true => Ok(pause),
            false => Err(BackendError::Unavailable(self.is_down(state))),
        }
    }

    /// A worker loads the model, and is likely to be done after so long: whoever comes meanwhile is to come again,
    /// unless it is soon done. What runs already waits for it.
    pub(crate) fn loads(&self, expected: Duration) -> LoadNote<'a> {
        let now = Instant::now();
        let worth_waiting = if WORTH_WAITING < expected { Duration::ZERO } else { WORTH_WAITING };
        let reason = format!("{} has died, and another loads it", self.whose.process());
        self.figures.loads(reason, now + worth_waiting, now + expected)
    }

    /// A worker serves, so long after it was started. After too many deaths it is to make a run before others are let
    /// in.
    pub(crate) fn end(&self, state: &mut State, worker: &Arc<Worker>, took: Duration) {
        state.another = None;
        self.figures.serves(worker.pid(), took);
        if state.life.is_open() {
            let reason = format!(
                "{} has died too often of late, and the next one is to answer a request first",
                self.whose.process()
            );
            self.figures.is_tried(reason, worker.vitals());
        }
    }

    /// The next worker has come to nothing, which is one more early death.
    pub(crate) fn goes_on(&self, state: &mut State, reason: String) -> BackendError {
        let (model, version) = (&self.whose.model, self.whose.version);
        tracing::warn!(model, version, "{reason}");
        let now = Instant::now();
        state.life.died(now, 0, chance());
        self.note_death(state);
        let retry_after = state.life.pause(now);
        BackendError::Unavailable(Outage { reason, retry_after })
    }

    /// A new process would serve another model than the one that was loaded, to clients who know nothing of it.
    pub(crate) fn is_another(
        &self,
        state: &mut State,
        what: &str,
        evidence: Evidence,
    ) -> BackendError {
        let problem = format!(
            "{} has died and is not started again: {what} since the model was loaded; load it again, or start the \
             server anew",
            self.whose.process()
        );
        if state.another.as_ref().is_none_or(|it| it.problem != problem) {
            let (model, version) = (&self.whose.model, self.whose.version);
            tracing::error!(model, version, "{problem}");
        }
        let before = state.another.take();
        let another = Another::found(problem.clone(), evidence, before.as_ref(), Instant::now());
        self.figures.is_another(problem.clone(), another.look_again);
        let retry_after = another.pause;
        state.another = Some(another);
        BackendError::Unavailable(Outage { reason: problem, retry_after })
    }

    /// After a death: is the next worker worth to wait for?
    fn note_death(&self, state: &mut State) {
        let now = Instant::now();
        if WORTH_WAITING < state.life.pause(now) || state.life.is_open() {
            self.is_down(state);
        }
    }

    /// Nobody need wait for the next worker: from now on the model is not ready.
    fn is_down(&self, state: &mut State) -> Outage {
        let now = Instant::now();
        let retry_after = state.life.pause(now);
        let reason = format!("{} has died too often of late", self.whose.process());
        // What is said already may be more.
        if self.figures.outage().is_none() {
            self.figures.is_down(reason.clone(), now + retry_after);
        }
        Outage { reason, retry_after }
    }
}

/// From 0 up to 1.
fn chance() -> f64 {
    const PARTS: u32 = 1 << 16;
    f64::from((RandomState::new().build_hasher().finish() % u64::from(PARTS)) as u32)
        / f64::from(PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_worker_is_waited_for_as_long_as_that_is_worth_it() {
        let whose = Whose { model: "m".to_owned(), version: 1, device: None };
        let figures = Figures::default();
        let outages = Outages { whose: &whose, figures: &figures, device: Device::Cpu };
        let mut state = State::default();
        // None of them has died early. The pause after five is 0.8 s, that after ten 25.6 s.
        let mut pause_after = |deaths| {
            (0..deaths).for_each(|_| state.life.was_ended(Instant::now(), 0.5));
            outages.pause(&mut state)
        };
        assert!(pause_after(5).is_ok());
        assert_eq!(figures.outage(), None);
        let Err(BackendError::Unavailable(refusal)) = pause_after(5) else { panic!("no refusal") };
        assert_eq!(refusal.reason, "the process of model 'm' has died too often of late");
        assert!(WORTH_WAITING < refusal.retry_after);
        assert_eq!(figures.outage().map(|it| it.reason), Some(refusal.reason));
    }

    #[test]
    fn who_comes_during_a_load_that_is_likely_to_last_is_to_come_again() {
        let whose = Whose { model: "m".to_owned(), version: 1, device: None };
        let figures = Figures::default();
        let outages = Outages { whose: &whose, figures: &figures, device: Device::Cpu };
        let _note = outages.loads(2 * WORTH_WAITING);
        let outage = figures.outage().unwrap();
        assert_eq!(outage.reason, "the process of model 'm' has died, and another loads it");
    }
}
