//! The runs of one model version on the threads of those that asked, as long as they last. Plain data.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::Stop;

use super::watchdog::SEEN_AFTER;

/// A run in place keeps its thread's other clients waiting: after so long it is stopped, and made again by a worker.
/// What it has done by then is lost, so this is short.
pub(crate) const LONGEST_IN_PLACE: Duration = Duration::from_millis(200);

/// The runs in place of one model version that have not ended.
#[derive(Default)]
pub struct InPlaceRuns {
    runs: Vec<InPlace>,
}

struct InPlace {
    stop: Arc<Stop>,
    started: Instant,
    is_stopped: bool,
}

/// A run in place that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndedInPlace {
    /// How long it has kept its thread.
    pub took: Duration,
    /// Was it stopped, or has it ended itself as late?
    pub was_stopped: bool,
}

impl InPlaceRuns {
    /// A run starts on the thread of the one that asked, and is of no use after that deadline.
    pub fn begin(&mut self, stop: &Arc<Stop>, deadline: Option<Instant>, now: Instant) {
        let limit = now.checked_add(LONGEST_IN_PLACE + SEEN_AFTER);
        stop.end_by(deadline.into_iter().chain(limit).min());
        self.runs.push(InPlace { stop: stop.clone(), started: now, is_stopped: false });
    }

    /// It has ended. One that `failed` after the same time has ended itself, though it may not have been stopped yet.
    pub fn end(&mut self, stop: &Arc<Stop>, failed: bool, now: Instant) -> EndedInPlace {
        let at = self.runs.iter().position(|it| Arc::ptr_eq(&it.stop, stop));
        let Some(run) = at.map(|it| self.runs.swap_remove(it)) else {
            return EndedInPlace::default();
        };
        let took = now.saturating_duration_since(run.started);
        EndedInPlace { took, was_stopped: run.is_stopped || (failed && LONGEST_IN_PLACE <= took) }
    }

    /// The stops of those that have lasted too long by now, each once.
    pub(crate) fn overdue(&mut self, now: Instant) -> Vec<Arc<Stop>> {
        let is_late = |it: &&mut InPlace| {
            !it.is_stopped && LONGEST_IN_PLACE <= now.saturating_duration_since(it.started)
        };
        let late = self.runs.iter_mut().filter(is_late);
        let stop = |it: &mut InPlace| {
            it.is_stopped = true;
            it.stop.clone()
        };
        late.map(stop).collect()
    }

    /// When the next of them has lasted too long.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let running = self.runs.iter().filter(|it| !it.is_stopped);
        running.filter_map(|it| it.started.checked_add(LONGEST_IN_PLACE)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_place_is_stopped_long_before_others() {
        let (mut runs, now) = (InPlaceRuns::default(), Instant::now());
        let (slow, quick) = (Arc::new(Stop::new()), Arc::new(Stop::new()));
        runs.begin(&slow, None, now);
        runs.begin(&quick, None, now + LONGEST_IN_PLACE);
        let later = now + LONGEST_IN_PLACE;
        assert_eq!(runs.next_due(), Some(later));
        let overdue = runs.overdue(later);
        assert!(matches!(&overdue[..], [it] if Arc::ptr_eq(it, &slow)));
        assert!(runs.overdue(later).is_empty(), "each once");
        assert_eq!(runs.next_due(), Some(later + LONGEST_IN_PLACE));
        let took = LONGEST_IN_PLACE;
        let ended = runs.end(&slow, false, later);
        assert_eq!(ended, EndedInPlace { took, was_stopped: true });
        assert_eq!(runs.end(&quick, true, later), EndedInPlace::default());
    }

    #[test]
    fn a_run_in_place_that_has_ended_itself_before_it_was_stopped_took_too_long_all_the_same() {
        let (mut runs, now) = (InPlaceRuns::default(), Instant::now());
        let mut ended = |failed, took| {
            let stop = Arc::new(Stop::new());
            runs.begin(&stop, None, now);
            runs.end(&stop, failed, now + took).was_stopped
        };
        assert!(ended(true, LONGEST_IN_PLACE));
        assert!(!ended(true, LONGEST_IN_PLACE / 2) && !ended(false, LONGEST_IN_PLACE));
    }

    #[test]
    fn a_run_in_place_ends_itself_at_its_deadline_or_once_it_was_stopped() {
        let (mut runs, stop, now) = (InPlaceRuns::default(), Arc::new(Stop::new()), Instant::now());
        let soon = now + Duration::from_millis(20);
        runs.begin(&stop, Some(soon), now);
        assert_eq!(stop.ends_by(), Some(soon));
        for deadline in [None, Some(now + 10 * LONGEST_IN_PLACE)] {
            runs.begin(&stop, deadline, now);
            assert_eq!(stop.ends_by(), Some(now + LONGEST_IN_PLACE + SEEN_AFTER));
        }
    }
}
