//! One thread that looks after the runs of all models: those that last longer than they may are ended.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

/// It looks at what has begun since at least so often. No run is overdue sooner: each is looked at before it is.
const TICK: Duration = Duration::from_millis(500);

/// And no more often than that.
const LEAST: Duration = Duration::from_millis(1);

/// A run that ends itself does so when the watchdog has seen that it is overdue: by then so much time has passed.
pub(crate) const SEEN_AFTER: Duration = Duration::from_millis(600);

/// A run may take so long where no flag says: also a language model that answers in one run, on a slow processor.
const LEAST_LIMIT: Duration = Duration::from_secs(600);

/// And so many times as long as runs of its size have taken.
const TIMES_USUAL: u32 = 10;

/// The same where the model has a process of its own: a run that does not end is ended with it, and keeps nothing.
const LEAST_LIMIT_APART: Duration = Duration::from_secs(60);
const TIMES_USUAL_APART: u32 = 20;

/// The first runs of an instance there have so many times that: they may prepare what later ones use.
const TIMES_FIRST: u32 = 5;

/// A run there for which no client waits any more may take so many times as long as most runs of its size.
const TIMES_USUAL_FOR_NOBODY: u32 = 2;

/// How long a run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunLimit {
    /// Ten minutes, one in a process of the model's own, and more for a model that is known to be slow.
    #[default]
    Auto,
    /// That long.
    Fixed(Duration),
    /// Any time.
    Unbounded,
}

/// Where a run is made, as far as its limit depends on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunPlace {
    /// In the server, or on a GPU.
    Server,
    /// In a process of the model's own, on the CPU.
    OwnProcess {
        /// Is it one of the first runs of its instance?
        is_first: bool,
    },
}

impl RunPlace {
    /// How long a run at least may take for which no client waits any more, where most of its size take no more than
    /// `usual`: one that is slow as usual does not end its process. `None`: as long as if somebody waited, as where it
    /// cannot be ended, may prepare what later ones use, or nothing is known.
    pub(crate) fn patience(self, usual: Option<Duration>) -> Option<Duration> {
        match self {
            RunPlace::OwnProcess { is_first: false } => {
                usual.map(|it| it.saturating_mul(TIMES_USUAL_FOR_NOBODY))
            }
            RunPlace::OwnProcess { is_first: true } | RunPlace::Server => None,
        }
    }
}

impl RunLimit {
    /// So many seconds; 0 for any time.
    pub fn of_seconds(seconds: u64) -> RunLimit {
        match seconds {
            0 => RunLimit::Unbounded,
            seconds => RunLimit::Fixed(Duration::from_secs(seconds)),
        }
    }

    /// For a run of a size of which most take no more than `usual`, if that is known.
    pub(crate) fn of(self, usual: Option<Duration>, place: RunPlace) -> Option<Duration> {
        let usual = usual.unwrap_or_default();
        match (self, place) {
            (RunLimit::Auto, RunPlace::Server) => {
                Some(usual.saturating_mul(TIMES_USUAL).max(LEAST_LIMIT))
            }
            (RunLimit::Auto, RunPlace::OwnProcess { is_first }) => {
                let limit = usual.saturating_mul(TIMES_USUAL_APART).max(LEAST_LIMIT_APART);
                Some(limit.saturating_mul(if is_first { TIMES_FIRST } else { 1 }))
            }
            (RunLimit::Fixed(limit), _) => Some(limit),
            (RunLimit::Unbounded, _) => None,
        }
    }
}

/// What has runs that may last too long.
pub(crate) trait WatchedRuns: Send + Sync {
    /// Ends the runs that have lasted too long by now. When the next will have; `None` where none runs that may.
    fn end_overdue(self: Arc<Self>, now: Instant) -> Option<Instant>;
}

/// Looks after the runs of all models. Its thread starts with the first of them, and ends soon after it is dropped.
#[derive(Default)]
pub struct Watchdog {
    /// Guards which schedulers there are.
    watched: Mutex<Watching>,
}

#[derive(Default)]
struct Watching {
    schedulers: Vec<Weak<dyn WatchedRuns>>,
    has_thread: bool,
}

impl Watchdog {
    /// Looks after the runs of that scheduler, too, for as long as it lives.
    pub(crate) fn watch(self: &Arc<Self>, scheduler: Weak<dyn WatchedRuns>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.schedulers.push(scheduler);
        if watched.has_thread {
            return;
        }
        let watchdog = Arc::downgrade(self);
        let builder = thread::Builder::new().name("watchdog".to_owned());
        match builder.spawn(move || look_after(&watchdog)) {
            Ok(_) => watched.has_thread = true,
            // The next model tries again.
            Err(error) => tracing::error!(%error, "no thread to end runs that last too long"),
        }
    }

    /// When it is to look again, where that is known.
    fn look(&self, now: Instant) -> Option<Instant> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.schedulers.retain(|it| 0 < it.strong_count());
        let schedulers: Vec<_> = watched.schedulers.iter().filter_map(Weak::upgrade).collect();
        drop(watched);
        schedulers.into_iter().filter_map(|it| it.end_overdue(now)).min()
    }
}

impl std::fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watchdog").finish_non_exhaustive()
    }
}

fn look_after(watchdog: &Weak<Watchdog>) {
    let mut pause = TICK;
    loop {
        thread::sleep(pause);
        let Some(watchdog) = watchdog.upgrade() else { return };
        let due = watchdog.look(Instant::now());
        let left = due.map_or(TICK, |it| it.saturating_duration_since(Instant::now()));
        pause = left.clamp(LEAST, TICK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(limit: RunLimit, usual: Option<u64>, seconds: Option<u64>) {
        check_at(RunPlace::Server, limit, usual, seconds);
    }

    #[track_caller]
    fn check_at(place: RunPlace, limit: RunLimit, usual: Option<u64>, seconds: Option<u64>) {
        let usual = usual.map(Duration::from_secs);
        assert_eq!(limit.of(usual, place), seconds.map(Duration::from_secs));
    }

    #[test]
    fn a_run_may_take_ten_minutes_or_ten_times_as_long_as_others() {
        check(RunLimit::Auto, None, Some(600));
        check(RunLimit::Auto, Some(59), Some(600));
        check(RunLimit::Auto, Some(61), Some(610));
    }

    #[test]
    fn a_run_in_a_process_of_its_own_may_take_a_minute_or_twenty_times_as_long_and_first_ones_more()
    {
        let (first, later) =
            (RunPlace::OwnProcess { is_first: true }, RunPlace::OwnProcess { is_first: false });
        check_at(later, RunLimit::Auto, None, Some(60));
        check_at(later, RunLimit::Auto, Some(4), Some(80));
        check_at(first, RunLimit::Auto, None, Some(300));
        check_at(first, RunLimit::of_seconds(2), Some(4), Some(2));
    }

    #[test]
    fn a_run_for_nobody_may_take_twice_as_long_as_usual_and_the_first_ones_as_long_as_any() {
        let own = |is_first| RunPlace::OwnProcess { is_first };
        let usual = Some(Duration::from_secs(25));
        assert_eq!(own(false).patience(usual), usual.map(|it| it * 2));
        let others = [(own(true), usual), (RunPlace::Server, usual), (own(false), None)];
        assert_eq!(others.map(|(place, usual)| place.patience(usual)), [None; 3]);
    }

    #[test]
    fn a_limit_that_is_given_does_not_depend_on_the_model() {
        check(RunLimit::of_seconds(5), Some(60), Some(5));
        check(RunLimit::of_seconds(0), Some(60), None);
    }
}
