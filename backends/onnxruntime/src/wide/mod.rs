//! Runs with more threads than the instance's share of the processors, for when nothing else is to be run.
//!
//! A pool of threads belongs to a session, so there is a second one of the same graph. It is made in the background
//! once such runs have come for a while and take long enough to be divided, and is used for shapes of which a run has
//! given the same bytes either way, and in less time. Its threads spin inside a run, where operators follow each other
//! within microseconds, and sleep after it.

mod gains;
mod room;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use backend::{BackendError, NamedTensor, Stop};

use crate::{native::Session, opener::Opener, options::Settings};
use gains::{Choice, Gains, Shapes};
use room::Room;
pub(crate) use room::Rooms;

/// A run that takes less is not divided: to wake a thread and to wait for it takes some ten microseconds.
const LEAST: Duration = Duration::from_micros(200);

/// After so many runs that could be divided the second session is made.
const RUNS_BEFORE: u32 = 16;

/// The second sessions of all models of a process have the weights of at most this part of its memory once more.
const PART_OF_MEMORY: u64 = 16;

/// The second session of a model, once it is worth while.
pub(crate) struct Wide {
    opener: Arc<Opener>,
    settings: Settings,
    /// Bytes of weights that second sessions may have in all; `None`: any number.
    most_bytes: Option<u64>,
    state: Mutex<State>,
}

struct State {
    second: Second,
    gains: Gains,
}

/// How far it is.
enum Second {
    /// So many runs have been long enough.
    NotYet(u32),
    Making,
    Made {
        session: Arc<Session>,
        _room: Room,
    },
    /// There is none, and will be none.
    Never,
}

/// How the run that comes is made.
enum Plan {
    Narrow { counts: bool },
    Wide(Arc<Session>, Shapes),
    Pair { wide: Arc<Session>, shapes: Shapes, wide_first: bool },
}

impl Wide {
    /// Nothing is made yet. `settings` are those of the second session; `memory` is what the process
    /// may take, in bytes, where that is bounded.
    pub(crate) fn new(opener: Arc<Opener>, settings: Settings, memory: Option<u64>) -> Arc<Wide> {
        let state = State { second: Second::NotYet(0), gains: Gains::new() };
        let most_bytes = memory.map(|it| it / PART_OF_MEMORY);
        Arc::new(Wide { opener, settings, most_bytes, state: Mutex::new(state) })
    }

    /// Makes a run that may take all processors: on `usual`, or on the second session. What `usual` gives counts, and
    /// an error of the other is none.
    pub(crate) fn run(
        self: &Arc<Self>,
        usual: &Arc<Session>,
        inputs: &[NamedTensor],
        stop: &Stop,
        run: impl Fn(&Arc<Session>) -> Result<Vec<NamedTensor>, BackendError>,
    ) -> Result<Vec<NamedTensor>, BackendError> {
        let timed = |session| {
            let began = Instant::now();
            (run(session), began.elapsed())
        };
        match self.plan(inputs) {
            Plan::Narrow { counts } => {
                let (outcome, took) = timed(usual);
                if counts && LEAST <= took {
                    self.could_be_divided();
                }
                outcome
            }
            Plan::Wide(wide, shapes) => match timed(&wide) {
                (Err(_), _) if !stop.is_stopped() => {
                    self.lock().gains.refuse(shapes);
                    run(usual)
                }
                (outcome, took) => {
                    self.lock().gains.ran_wide(shapes, took);
                    outcome
                }
            },
            Plan::Pair { wide, shapes, wide_first } => {
                let (narrow, other);
                if wide_first {
                    other = timed(&wide);
                    narrow = timed(usual);
                } else {
                    narrow = timed(usual);
                    other = timed(&wide);
                }
                if let (Ok(one), false) = (&narrow.0, stop.is_stopped()) {
                    let is_same = other.0.is_ok_and(|it| are_same(one, &it));
                    self.learn(shapes, is_same, narrow.1, other.1);
                }
                narrow.0
            }
        }
    }

    fn plan(&self, inputs: &[NamedTensor]) -> Plan {
        let mut state = self.lock();
        let State { second, gains } = &mut *state;
        let Second::Made { session, .. } = second else {
            return Plan::Narrow { counts: matches!(second, Second::NotYet(_)) };
        };
        let (wide, shapes) = (session.clone(), Shapes::of(inputs));
        match gains.choose(shapes) {
            Choice::Narrow => Plan::Narrow { counts: false },
            Choice::Wide => Plan::Wide(wide, shapes),
            Choice::Pair { wide_first } => Plan::Pair { wide, shapes, wide_first },
        }
    }

    fn learn(&self, shapes: Shapes, is_same: bool, narrow: Duration, wide: Duration) {
        let (model, is_short) = (&*self.settings.log_name, wide < narrow);
        tracing::debug!(model, ?narrow, ?wide, is_same, is_short, "a run with more threads");
        let mut state = self.lock();
        state.gains.learn(shapes, is_same, narrow, wide);
        let is_fruitless = state.gains.are_fruitless();
        drop(state);
        if is_fruitless {
            self.let_go();
        }
    }

    /// A run was long enough to be divided. Starts to make the second session once there were enough.
    fn could_be_divided(self: &Arc<Self>) {
        let mut state = self.lock();
        let Second::NotYet(runs) = &mut state.second else { return };
        *runs += 1;
        if *runs < RUNS_BEFORE {
            return;
        }
        state.second = Second::Making;
        drop(state);
        let wide = Arc::downgrade(self);
        let spawned =
            thread::Builder::new().name("wide session".to_owned()).spawn(move || make(&wide));
        if spawned.is_err() {
            self.lock().second = Second::Never;
        }
    }

    /// The second session goes, and does not come back.
    pub(crate) fn let_go(&self) {
        let second = std::mem::replace(&mut self.lock().second, Second::Never);
        // Not under the lock: it may be the last that has the session.
        drop(second);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wide {
    fn drop(&mut self) {
        // A session may still be in the making, for nobody.
        self.settings.stop.stop();
    }
}

/// Makes the second session of a model that may be unloaded meanwhile.
fn make(wide: &Weak<Wide>) {
    let Some(parts) = wide.upgrade() else { return };
    let (opener, settings) = (parts.opener.clone(), parts.settings.clone());
    let room = opener.runtime.rooms.take(opener.bytes(), parts.most_bytes);
    drop(parts);
    let made = room.and_then(|room| match opener.another(&settings) {
        Ok(session) => Some(Second::Made { session: Arc::new(session), _room: room }),
        Err(error) => {
            tracing::debug!(%error, "no second session for runs beside which there is no other");
            None
        }
    });
    let Some(wide) = wide.upgrade() else { return };
    let mut state = wide.lock();
    // It may have been let go of before it was there.
    if matches!(state.second, Second::Making) {
        state.second = made.unwrap_or(Second::Never);
    }
}

/// Are these the same outputs, to the byte?
fn are_same(one: &[NamedTensor], other: &[NamedTensor]) -> bool {
    let same = |(one, other): (&NamedTensor, &NamedTensor)| {
        one.name == other.name
            && one.tensor.dtype() == other.tensor.dtype()
            && one.tensor.shape() == other.tensor.shape()
            && one.tensor.to_bytes() == other.tensor.to_bytes()
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}
