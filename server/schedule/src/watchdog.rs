//! One thread that looks after the runs of all models: those that last longer than they may are ended.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

/// How often it looks.
const TICK: Duration = Duration::from_millis(500);

/// A run that ends itself does so when the watchdog has seen that it is overdue: by then so much time has passed.
pub(crate) const SEEN_AFTER: Duration = Duration::from_millis(600);

/// A run may take so long where no flag says: also a language model that answers in one run, on a slow processor.
const LEAST_LIMIT: Duration = Duration::from_secs(600);

/// And so many times as long as runs of its size have taken.
const TIMES_USUAL: u32 = 10;

/// How long a run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunLimit {
    /// Ten minutes, and more for a model that is known to be slow.
    #[default]
    Auto,
    /// That long.
    Fixed(Duration),
    /// Any time.
    Unbounded,
}

impl RunLimit {
    /// For a run of a size of which 95 in 100 take `usual`, if that is known.
    pub fn of(self, usual: Option<Duration>) -> Option<Duration> {
        match self {
            RunLimit::Auto => {
                let by_speed = usual.unwrap_or_default().saturating_mul(TIMES_USUAL);
                Some(by_speed.max(LEAST_LIMIT))
            }
            RunLimit::Fixed(limit) => Some(limit),
            RunLimit::Unbounded => None,
        }
    }
}

/// What has runs that may last too long.
pub(crate) trait Watched: Send + Sync {
    /// Ends the runs that have lasted too long by now.
    fn end_overdue(self: Arc<Self>, now: Instant);
}

/// Looks after the runs of all models. Its thread starts with the first of them, and ends soon after it is dropped.
#[derive(Default)]
pub struct Watchdog {
    /// Guards which schedulers there are.
    watched: Mutex<Watching>,
}

#[derive(Default)]
struct Watching {
    schedulers: Vec<Weak<dyn Watched>>,
    has_thread: bool,
}

impl Watchdog {
    /// Looks after the runs of that scheduler, too, for as long as it lives.
    pub(crate) fn watch(self: &Arc<Self>, scheduler: Weak<dyn Watched>) {
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

    fn look(&self, now: Instant) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.schedulers.retain(|it| 0 < it.strong_count());
        let schedulers: Vec<_> = watched.schedulers.iter().filter_map(Weak::upgrade).collect();
        drop(watched);
        schedulers.into_iter().for_each(|it| it.end_overdue(now));
    }
}

impl std::fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watchdog").finish_non_exhaustive()
    }
}

fn look_after(watchdog: &Weak<Watchdog>) {
    loop {
        thread::sleep(TICK);
        let Some(watchdog) = watchdog.upgrade() else { return };
        watchdog.look(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(limit: RunLimit, usual: Option<u64>, seconds: Option<u64>) {
        assert_eq!(limit.of(usual.map(Duration::from_secs)), seconds.map(Duration::from_secs));
    }

    #[test]
    fn a_run_may_take_ten_minutes_or_ten_times_as_long_as_others() {
        check(RunLimit::Auto, None, Some(600));
        check(RunLimit::Auto, Some(59), Some(600));
        check(RunLimit::Auto, Some(61), Some(610));
    }

    #[test]
    fn a_limit_that_is_given_does_not_depend_on_the_model() {
        check(RunLimit::Fixed(Duration::from_secs(5)), Some(60), Some(5));
        check(RunLimit::Unbounded, Some(60), None);
    }
}
