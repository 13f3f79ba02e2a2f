//! What a supervisor knows of the worker of its model version.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::EndReason;

use crate::{launch::Worker, life::Life, message::Loaded};

#[derive(Default)]
pub(crate) struct State {
    pub(crate) worker: Option<Arc<Worker>>,
    pub(crate) life: Life,
    /// What the first worker said of the model.
    pub(crate) loaded: Option<Loaded>,
    /// Why the one before has ended.
    pub(crate) last_end: Option<EndReason>,
    /// Is somebody at it to start a worker in the place of one that has died?
    pub(crate) is_reviving: bool,
    /// The next one would serve another model.
    pub(crate) another: Option<Another>,
}

/// Where the next worker would serve another model, so much later that is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The longest such pause where each look is a load.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Why the next worker would serve another model than the one that was loaded, and when that is looked at again.
pub(crate) struct Another {
    pub(crate) problem: String,
    pub(crate) look_again: Instant,
    /// From the last look to the next.
    pub(crate) pause: Duration,
}

/// What has shown that the next worker would serve another model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The times and sizes of files: little to look at.
    Files,
    /// A worker that has loaded the model, with all that a load takes.
    Load,
}

impl Another {
    /// It has been found out now, after what was found `before`. While loads find the same, each pause is twice as
    /// long as the one before it.
    pub(crate) fn found(
        problem: String,
        evidence: Evidence,
        before: Option<&Another>,
        now: Instant,
    ) -> Another {
        let same = before.filter(|it| it.problem == problem && evidence == Evidence::Load);
        let pause = same.map_or(LOOK_AGAIN, |it| (it.pause * 2).min(LONGEST_PAUSE));
        Another { problem, look_again: now + pause, pause }
    }
}

impl State {
    /// How long until the next worker may be started.
    pub(crate) fn pause(&mut self, now: Instant) -> Duration {
        let look_again = self.another.as_ref().map(|it| it.look_again);
        let until_look = look_again.map(|it| it.saturating_duration_since(now));
        self.life.pause(now).max(until_look.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_would_serve_another_model_is_waited_for_without_being_a_death() {
        let (mut state, now) = (State::default(), Instant::now());
        assert_eq!(state.pause(now), Duration::ZERO);
        state.another = Some(Another::found("changed".into(), Evidence::Files, None, now));
        assert_eq!(state.pause(now), Duration::from_secs(30));
        assert_eq!(state.pause(now + Duration::from_secs(31)), Duration::ZERO);
        assert_eq!(state.life.pause(now), Duration::ZERO);
    }

    /// The pauses, in seconds, after these were found one after the other.
    #[track_caller]
    fn check_pauses(found: &[(&str, Evidence)], expected: &[u64]) {
        let (mut now, mut last, mut pauses) = (Instant::now(), None, Vec::new());
        for (problem, evidence) in found {
            let another = Another::found((*problem).to_owned(), *evidence, last.as_ref(), now);
            pauses.push((another.look_again - now).as_secs());
            now = another.look_again;
            last = Some(another);
        }
        assert_eq!(pauses, expected);
    }

    #[test]
    fn a_load_that_finds_the_same_again_is_made_at_longer_and_longer_intervals() {
        check_pauses(&[("a library", Evidence::Load); 7], &[30, 60, 120, 240, 300, 300, 300]);
    }

    #[test]
    fn another_finding_begins_with_the_shortest_pause() {
        let (one, other) = (("a library", Evidence::Load), ("an output", Evidence::Load));
        check_pauses(&[one, one, other, other, one], &[30, 60, 30, 60, 30]);
    }

    #[test]
    fn files_are_looked_at_again_at_the_same_interval() {
        check_pauses(&[("a file", Evidence::Files); 4], &[30; 4]);
    }
}
