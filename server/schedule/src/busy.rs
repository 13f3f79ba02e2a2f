//! How many runs the worker threads of all models make at this moment, and whether one of them looks for work.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

/// The runs that worker threads make, of all models that have this in common.
#[derive(Debug, Clone, Default)]
pub struct Busy {
    shared: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    runs: AtomicUsize,
    /// Does a worker look for work?
    is_looking: AtomicBool,
}

/// A run, until this is dropped.
pub(crate) struct BusyRun {
    busy: Busy,
    /// Was it the only one when it began?
    pub(crate) is_only: bool,
}

/// The one worker that looks for work, until this is dropped.
pub(crate) struct Looking<'a>(&'a Busy);

impl Busy {
    /// A run begins.
    pub(crate) fn begin(&self) -> BusyRun {
        let is_only = self.shared.runs.fetch_add(1, Relaxed) == 0;
        BusyRun { busy: self.clone(), is_only }
    }

    /// Is no run made?
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.runs.load(Relaxed) == 0
    }

    /// May a worker look for work instead of going to sleep? One at a time, and while there is no run: whoever is busy
    /// has more use for the processors.
    pub(crate) fn look(&self) -> Option<Looking<'_>> {
        let may = self.is_idle() && !self.shared.is_looking.swap(true, Relaxed);
        may.then(|| Looking(self))
    }
}

impl Looking<'_> {
    /// Is there still no run?
    pub(crate) fn may_go_on(&self) -> bool {
        self.0.is_idle()
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.shared.is_looking.store(false, Relaxed);
    }
}

impl Drop for BusyRun {
    fn drop(&mut self) {
        self.busy.shared.runs.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_the_only_one_of_all_models_until_another_has_begun() {
        let busy = Busy::default();
        let first = busy.begin();
        let second = busy.clone().begin();
        assert!(first.is_only && !second.is_only);
        drop(first);
        assert!(!busy.begin().is_only, "the second is still made");
        drop(second);
        assert!(busy.begin().is_only);
    }

    #[test]
    fn one_worker_looks_for_work_and_only_while_there_is_no_run() {
        let busy = Busy::default();
        let looking = busy.look().unwrap();
        assert!(busy.clone().look().is_none(), "one looks already");
        assert!(looking.may_go_on());
        let run = busy.begin();
        assert!(!looking.may_go_on());
        drop(looking);
        assert!(busy.look().is_none(), "a run is made");
        drop(run);
        assert!(busy.look().is_some());
    }
}
