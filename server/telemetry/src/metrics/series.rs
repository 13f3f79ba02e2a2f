//! All that is shown of one model version, whatever its loads.
//!
//! Each load counts by itself, since statistics begin anew with it; a series is the sum of its loads, those that are
//! gone included, since a counter of Prometheus should not fall while its series lives.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64},
};

use super::{
    counters::{Counters, Counts},
    gauge::Gauge,
    lock::lock,
    process_counts::DeviceCounts,
    summary::Summaries,
    tensorflow_counts::TensorFlowLanes,
};

/// Names and values, in alphabetical order, each name once.
pub(super) type Labels = Vec<(String, String)>;

/// What is shown of one model version.
pub(super) struct Series {
    pub(super) labels: Labels,
    /// Stands for all models above the bound.
    pub(super) is_overflow: bool,
    /// Upper bounds of the first-response histogram; `None` where it is off.
    pub(super) first_response_ms: Option<Vec<u64>>,
    /// Guards which loads there are, not their counts.
    loads: Mutex<Loads>,
    pub(super) pending: Gauge,
    /// Nanoseconds that the last load took.
    pub(super) load: AtomicU64,
    /// Requests that the last load has run before it served, and nanoseconds that they took.
    pub(super) warm_up_requests: AtomicU64,
    pub(super) warm_up: AtomicU64,
    /// `None` where they are off.
    pub(super) summaries: Option<Summaries>,
    /// Are answers of the model kept?
    pub(super) has_cache: AtomicBool,
    /// `None` where it is off.
    pub(super) tensorflow: Option<TensorFlowLanes>,
}

/// What is counted only where it is switched on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extras {
    pub(super) summaries: bool,
    pub(super) tensorflow: bool,
}

#[derive(Default)]
struct Loads {
    living: Vec<Arc<Counters>>,
    /// The sum of those that are gone.
    gone: Option<Counts>,
    /// The same for their processes.
    gone_processes: DeviceCounts,
}

impl Series {
    pub(super) fn new(
        labels: Labels,
        first_response_ms: Option<&[u64]>,
        extras: Extras,
        is_overflow: bool,
    ) -> Series {
        Series {
            labels,
            is_overflow,
            first_response_ms: first_response_ms.map(<[u64]>::to_vec),
            loads: Mutex::default(),
            pending: Gauge::default(),
            load: AtomicU64::new(0),
            warm_up_requests: AtomicU64::new(0),
            warm_up: AtomicU64::new(0),
            summaries: extras.summaries.then(Summaries::default),
            has_cache: AtomicBool::new(false),
            tensorflow: extras.tensorflow.then(TensorFlowLanes::new),
        }
    }

    /// Begins to count one more load.
    pub(super) fn begin(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::new(self.first_response_ms.clone()));
        lock(&self.loads).living.push(counters.clone());
        counters
    }

    /// A load has ended. A reader finds its counts in one place or the other, never in none.
    pub(super) fn retire(&self, counters: &Arc<Counters>) {
        let mut loads = lock(&self.loads);
        loads.living.retain(|it| !Arc::ptr_eq(it, counters));
        if let Some(processes) = counters.processes.get() {
            loads.gone_processes.retire(processes);
        }
        let sum = counters.sum();
        match &loads.gone {
            Some(gone) => gone.absorb(&sum),
            None => loads.gone = Some(sum),
        }
    }

    /// What the processes of all loads have done together, by device; nothing where none has a process.
    pub(super) fn processes(&self) -> DeviceCounts {
        let loads = lock(&self.loads);
        let mut sum = DeviceCounts::default();
        sum.absorb(&loads.gone_processes);
        loads.living.iter().filter_map(|it| it.processes.get()).for_each(|it| sum.add(it));
        sum
    }

    /// Those of all loads together.
    pub(super) fn counts(&self) -> Counts {
        let sum = Counts::new(self.first_response_ms.as_deref());
        let loads = lock(&self.loads);
        if let Some(gone) = &loads.gone {
            sum.absorb(gone);
        }
        for counters in &loads.living {
            counters.add_to(&sum);
        }
        sum
    }
}
