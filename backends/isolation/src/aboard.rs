//! The runs that are in a worker at one moment, for the line of its death.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A run in a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) rows: usize,
    /// Requests of clients in it.
    pub(crate) requests: usize,
    /// Are they run again where the worker dies, as far as their deadlines allow it?
    pub(crate) may_run_again: bool,
}

/// The runs in a worker, by the numbers of their lanes.
#[derive(Debug, Default)]
pub(crate) struct Aboard {
    /// Guards the runs. Held for no longer than a look at them.
    runs: Mutex<BTreeMap<u32, Run>>,
}

impl Aboard {
    /// A run begins. It is aboard until what comes back is dropped.
    pub(crate) fn board(&self, lane: u32, run: Run) -> Boarded<'_> {
        self.lock().insert(lane, run);
        Boarded { aboard: self, lane, stays: false }
    }

    /// That lane's run is not run again, whatever becomes of the worker.
    pub(crate) fn gives_up(&self, lane: u32) {
        if let Some(run) = self.lock().get_mut(&lane) {
            run.may_run_again = false;
        }
    }

    /// Is there one?
    pub(crate) fn is_busy(&self) -> bool {
        !self.lock().is_empty()
    }

    pub(crate) fn toll(&self) -> Toll {
        let runs = self.lock();
        let requests = |again: bool| {
            let those = runs.values().filter(|it| it.may_run_again == again);
            those.map(|it| it.requests).sum()
        };
        Toll {
            lanes: runs.keys().copied().collect(),
            rows: runs.values().map(|it| it.rows).sum(),
            run_again: requests(true),
            failed: requests(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run is aboard until this is dropped.
pub(crate) struct Boarded<'a> {
    aboard: &'a Aboard,
    lane: u32,
    stays: bool,
}

impl Boarded<'_> {
    /// The worker has died in it: it is aboard for good.
    pub(crate) fn stay(mut self) {
        self.stays = true;
    }
}

impl Drop for Boarded<'_> {
    fn drop(&mut self) {
        if !self.stays {
            self.aboard.lock().remove(&self.lane);
        }
    }
}

/// What was aboard of a worker when it died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toll {
    lanes: Vec<u32>,
    pub(crate) rows: usize,
    /// Requests that are run again, as far as their deadlines allow it.
    pub(crate) run_again: usize,
    /// Requests that are not.
    pub(crate) failed: usize,
}

impl Toll {
    pub(crate) fn requests(&self) -> usize {
        self.run_again + self.failed
    }

    /// The numbers of the lanes: `0, 3`.
    pub(crate) fn lanes(&self) -> impl fmt::Display {
        let lanes: Vec<String> = self.lanes.iter().map(u32::to_string).collect();
        lanes.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn run(rows: usize, requests: usize, may_run_again: bool) -> Run {
        Run { rows, requests, may_run_again }
    }

    #[test]
    fn what_is_answered_has_left_and_what_the_worker_died_in_stays() {
        let aboard = Aboard::default();
        drop(aboard.board(0, run(1, 1, true)));
        let panics = || {
            let _boarded = aboard.board(1, run(1, 1, true));
            panic!("an engine");
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        aboard.board(2, run(8, 3, true)).stay();
        aboard.board(5, run(4, 2, false)).stay();
        let runs = aboard.board(3, run(1, 1, true));
        let toll = aboard.toll();
        assert_eq!(toll, Toll { lanes: vec![2, 3, 5], rows: 13, run_again: 4, failed: 2 });
        assert_eq!((toll.requests(), toll.lanes().to_string()), (6, "2, 3, 5".to_owned()));
        aboard.gives_up(3);
        assert_eq!((aboard.toll().run_again, aboard.toll().failed), (3, 3));
        drop(runs);
        assert_eq!(aboard.toll().rows, 12);
    }
}
