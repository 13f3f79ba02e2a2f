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

/// Why the next worker would serve another model than the one that was loaded, and when that is looked at again.
pub(crate) struct Another {
    pub(crate) problem: String,
    pub(crate) look_again: Instant,
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
        let look_again = now + Duration::from_secs(30);
        state.another = Some(Another { problem: "changed".into(), look_again });
        assert_eq!(state.pause(now), Duration::from_secs(30));
        assert_eq!(state.pause(now + Duration::from_secs(31)), Duration::ZERO);
        assert_eq!(state.life.pause(now), Duration::ZERO);
    }
}
