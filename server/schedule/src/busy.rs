//! How many runs the worker threads of all models make at this moment.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The runs that worker threads make, of all models that have this in common.
#[derive(Debug, Clone, Default)]
pub struct Busy {
    runs: Arc<AtomicUsize>,
}

/// A run, until this is dropped.
pub(crate) struct BusyRun {
    busy: Busy,
    /// Was it the only one when it began?
    pub(crate) is_only: bool,
}

impl Busy {
    /// A run begins.
    pub(crate) fn begin(&self) -> BusyRun {
        let is_only = self.runs.fetch_add(1, Relaxed) == 0;
        BusyRun { busy: self.clone(), is_only }
    }
}

impl Drop for BusyRun {
    fn drop(&mut self) {
        self.busy.runs.fetch_sub(1, Relaxed);
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
}
