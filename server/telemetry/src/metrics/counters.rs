//! What one load of a model version counts, in a lane for each thread.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use super::{
    batches::Batches,
    cache_counts::CacheCounts,
    histogram::{DURATION_BOUNDS, Histogram, ROW_BOUNDS},
    lanes::Lanes,
    pipeline_counts::PipelineCounts,
    process_counts::LoadProcesses,
    reasons::{BatchReason, FailureReason, OverdueRun, Rerun},
    responses::Responses,
};

/// What one load counts, in a lane for each thread.
pub(super) struct Counters {
    lanes: Lanes<Counts>,
    /// What runs the model, where those are other processes.
    pub(super) processes: LoadProcesses,
    first_response_ms: Option<Vec<u64>>,
}

/// What every request counts. Times are in nanoseconds, to the end.
pub(super) struct Counts {
    /// Also counts the successful requests: each is observed once.
    pub(super) request: Histogram,
    pub(super) queue: Histogram,
    /// The three parts together. Also counts the requests for which the model ran.
    pub(super) compute: Histogram,
    pub(super) compute_input: AtomicU64,
    pub(super) compute_infer: AtomicU64,
    pub(super) compute_output: AtomicU64,
    pub(super) rows: AtomicU64,
    /// When the last one was answered, in milliseconds since 1970; 0 for never.
    pub(super) last_ms: AtomicU64,
    /// In the order of [`FailureReason::ALL`].
    pub(super) failures: [AtomicU64; FailureReason::ALL.len()],
    /// Time of all failures together.
    pub(super) failed: AtomicU64,
    /// Also counts the executions: each is observed once.
    pub(super) batch_rows: Histogram,
    /// The same by exact size.
    pub(super) batches: Batches,
    /// In the order of [`BatchReason::ALL`].
    pub(super) reasons: [AtomicU64; BatchReason::ALL.len()],
    /// Runs that lasted too long, in the order of [`OverdueRun::ALL`].
    pub(super) overdue: [AtomicU64; OverdueRun::ALL.len()],
    /// Requests whose process died in their run, in the order of [`Rerun::ALL`].
    pub(super) reruns: [AtomicU64; Rerun::ALL.len()],
    /// Requests that were answered otherwise merged than alone.
    pub(super) mismatches: AtomicU64,
    /// In milliseconds; `None` where it is off.
    pub(super) first_response: Option<Histogram>,
    pub(super) cache: CacheCounts,
    /// Nothing where the model is not decoupled.
    pub(super) responses: OnceLock<Box<Responses>>,
    /// Nothing where the model is no pipeline.
    pub(super) pipeline: OnceLock<Box<PipelineCounts>>,
}

impl Counters {
    /// No thread has counted yet.
    pub(super) fn new(first_response_ms: Option<Vec<u64>>) -> Counters {
        Counters { lanes: Lanes::new(), processes: LoadProcesses::new(), first_response_ms }
    }

    /// Those of this thread.
    pub(super) fn mine(&self) -> &Counts {
        self.lanes.mine(|| Counts::new(self.first_response_ms.as_deref()))
    }

    /// Those of all threads together.
    pub(super) fn sum(&self) -> Counts {
        let sum = Counts::new(self.first_response_ms.as_deref());
        self.add_to(&sum);
        sum
    }

    pub(super) fn add_to(&self, sum: &Counts) {
        self.lanes.all().for_each(|it| sum.absorb(it));
    }
}

impl Counts {
    pub(super) fn new(first_response_ms: Option<&[u64]>) -> Counts {
        let durations = || Histogram::new(DURATION_BOUNDS.as_slice());
        Counts {
            request: durations(),
            queue: durations(),
            compute: durations(),
            compute_input: AtomicU64::new(0),
            compute_infer: AtomicU64::new(0),
            compute_output: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            last_ms: AtomicU64::new(0),
            failures: Default::default(),
            failed: AtomicU64::new(0),
            batch_rows: Histogram::new(ROW_BOUNDS.as_slice()),
            batches: Batches::default(),
            reasons: Default::default(),
            overdue: Default::default(),
            reruns: Default::default(),
            mismatches: AtomicU64::new(0),
            first_response: first_response_ms.map(|it| Histogram::new(it.to_vec())),
            cache: CacheCounts::default(),
            responses: OnceLock::new(),
            pipeline: OnceLock::new(),
        }
    }

    /// What decoupled models count.
    pub(super) fn of_responses(&self) -> &Responses {
        self.responses.get_or_init(Box::default)
    }

    /// What pipelines count.
    pub(super) fn of_pipeline(&self) -> &PipelineCounts {
        self.pipeline.get_or_init(|| Box::new(PipelineCounts::new()))
    }

    pub(super) fn absorb(&self, other: &Counts) {
        fn numbers(it: &Counts) -> impl Iterator<Item = &AtomicU64> {
            let times = [&it.compute_input, &it.compute_infer, &it.compute_output];
            let alone = times.into_iter().chain([&it.rows, &it.failed, &it.mismatches]);
            let cache = it.cache.numbers();
            let runs = it.reasons.iter().chain(&it.overdue).chain(&it.reruns);
            alone.chain(&it.failures).chain(runs).chain(cache)
        }
        fn histograms(it: &Counts) -> [&Histogram; 4] {
            [&it.request, &it.queue, &it.compute, &it.batch_rows]
        }
        for (number, more) in numbers(self).zip(numbers(other)) {
            number.fetch_add(more.load(Relaxed), Relaxed);
        }
        for (histogram, more) in histograms(self).into_iter().zip(histograms(other)) {
            histogram.absorb(more);
        }
        self.last_ms.fetch_max(other.last_ms.load(Relaxed), Relaxed);
        self.batches.absorb(&other.batches);
        if let Some(more) = other.responses.get() {
            self.of_responses().absorb(more);
        }
        if let Some(more) = other.pipeline.get() {
            self.of_pipeline().absorb(more);
        }
        if let (Some(histogram), Some(more)) = (&self.first_response, &other.first_response) {
            histogram.absorb(more);
        }
    }
}
