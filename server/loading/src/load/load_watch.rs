//! The phases of a load that may last for ever, and their limits: a phase that lasts too long is asked to end, and
//! then the load is given up.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use backend::{BackendError, Stop};

use serving::lock::lock;

/// How long a phase that was asked to end may still take, at most.
const GRACE: Duration = Duration::from_secs(5);

/// How long a phase may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PhaseLimit {
    pub(crate) limit: Duration,
    /// The flag that says so.
    pub(crate) flag: &'static str,
}

/// The load was given up: what it makes is not wanted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GivenUp;

impl From<GivenUp> for BackendError {
    fn from(_: GivenUp) -> BackendError {
        BackendError::Load("the load was given up".to_owned())
    }
}

/// What the thread of a load and the one that waits for it share.
#[derive(Debug, Default)]
pub(crate) struct LoadWatch {
    /// Guards how far the load is.
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum State {
    /// It does what ends by itself.
    #[default]
    Unbounded,
    Phase(Phase),
    Ended,
    GivenUp,
}

#[derive(Debug)]
struct Phase {
    limit: PhaseLimit,
    ends: Instant,
    stop: Arc<Stop>,
    is_asked: bool,
}

impl LoadWatch {
    /// Does the work of a phase. When it lasts too long, `stop` is requested.
    ///
    /// # Errors
    /// When the load was given up meanwhile.
    pub(crate) fn during<T>(
        &self,
        limit: PhaseLimit,
        stop: &Arc<Stop>,
        work: impl FnOnce() -> T,
    ) -> Result<T, GivenUp> {
        let ends = Instant::now() + limit.limit;
        self.set(State::Phase(Phase { limit, ends, stop: stop.clone(), is_asked: false }));
        let done = work();
        match *self.state() {
            State::GivenUp => return Err(GivenUp),
            ref mut state => *state = State::Unbounded,
        }
        self.changed.notify_all();
        Ok(done)
    }

    /// The load has ended, with whatever result. Had it been given up before?
    pub(crate) fn end(&self) -> bool {
        let mut state = self.state();
        if matches!(*state, State::GivenUp) {
            return true;
        }
        *state = State::Ended;
        drop(state);
        self.changed.notify_all();
        false
    }

    /// Waits until the load has ended, or calls `give_up` and gives it up. Blocking.
    ///
    /// # Errors
    /// The limit that the load does not heed.
    pub(crate) fn wait(&self, give_up: impl FnOnce()) -> Result<(), PhaseLimit> {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let rest = match &mut *state {
                State::Ended => return Ok(()),
                State::Unbounded | State::GivenUp => None,
                State::Phase(phase) if now < phase.ends => Some(phase.ends - now),
                State::Phase(phase) if !phase.is_asked => {
                    phase.is_asked = true;
                    phase.ends = now + GRACE.min(phase.limit.limit);
                    let stop = phase.stop.clone();
                    drop(state);
                    // An engine may take its time: not under the lock.
                    stop.stop();
                    state = self.state();
                    continue;
                }
                State::Phase(phase) => {
                    let limit = phase.limit;
                    phase.stop.give_up();
                    *state = State::GivenUp;
                    give_up();
                    return Err(limit);
                }
            };
            state = match rest {
                None => self.changed.wait(state).unwrap_or_else(|it| it.into_inner()),
                Some(rest) => {
                    let waited = self.changed.wait_timeout(state, rest);
                    waited.unwrap_or_else(|it| it.into_inner()).0
                }
            };
        }
    }

    fn set(&self, to: State) {
        let mut state = self.state();
        if !matches!(*state, State::GivenUp) {
            *state = to;
        }
        drop(state);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const SOON: PhaseLimit = PhaseLimit { limit: Duration::from_millis(20), flag: "--f" };
    const LATE: PhaseLimit = PhaseLimit { limit: Duration::from_secs(3600), flag: "--f" };

    fn unheeded() {
        panic!("it was given up");
    }

    #[test]
    fn a_phase_that_ends_when_it_is_asked_is_not_given_up() {
        let (watch, stop) = (Arc::new(LoadWatch::default()), Arc::new(Stop::new()));
        let load = thread::spawn({
            let watch = watch.clone();
            move || {
                let first = watch.during(LATE, &stop, || 1);
                let heeds = stop.clone();
                // Long enough to be looked at between the phases, too.
                thread::sleep(Duration::from_millis(40));
                let second = watch.during(SOON, &stop, || {
                    while !heeds.is_stopped() {
                        thread::yield_now();
                    }
                    2
                });
                watch.end();
                (first, second)
            }
        });
        assert_eq!(watch.wait(unheeded), Ok(()));
        assert_eq!(load.join().unwrap(), (Ok(1), Ok(2)));
    }

    #[test]
    fn a_phase_that_does_not_end_is_given_up_and_what_it_makes_later_is_not_wanted() {
        let (watch, stop) = (Arc::new(LoadWatch::default()), Arc::new(Stop::new()));
        let heard = Arc::new(Stop::new());
        let load = thread::spawn({
            let (watch, stop, heard) = (watch.clone(), stop.clone(), heard.clone());
            move || {
                let made = watch.during(SOON, &stop, || {
                    while !heard.is_stopped() {
                        thread::yield_now();
                    }
                });
                (made, watch.end())
            }
        });
        let mut is_given_up = false;
        assert_eq!(watch.wait(|| is_given_up = true), Err(SOON));
        assert!(is_given_up && stop.is_stopped());
        heard.stop();
        assert_eq!(load.join().unwrap(), (Err(GivenUp), true));
    }
}
