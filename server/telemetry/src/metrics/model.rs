//! The handle by which one loaded version of a model counts, and what it is told.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use inference::timings::Timings;
use rustix::time::{ClockId, clock_gettime};

use super::{
    histogram::nanoseconds,
    series::{Counters, Series},
    tensorflow::TensorFlowCounts,
};

/// Buckets of the first-response histogram where a model has none of its own, in milliseconds.
const FIRST_RESPONSE_MS: [u64; 4] = [100, 500, 2000, 5000];

/// What a model's configuration says about its metrics.
#[derive(Debug, Clone)]
pub struct ModelOptions {
    /// `metric_tags`: each becomes a label, its name after an underscore. What a label's name cannot
    /// hold becomes an underscore.
    pub tags: BTreeMap<String, String>,
    /// The GPU on which all instances run, where that is one: the label `gpu_uuid`.
    pub gpu_uuid: Option<String>,
    /// Where models of different repositories may have one name, the model's: the label `namespace`.
    pub namespace: Option<String>,
    /// Upper bounds of the first-response histogram, in milliseconds: `model_metrics`, or Triton's own.
    pub first_response_ms: Vec<u64>,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            tags: BTreeMap::new(),
            gpu_uuid: None,
            namespace: None,
            first_response_ms: FIRST_RESPONSE_MS.to_vec(),
        }
    }
}

/// Why a request to a model was not answered with a result: the label `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// It waited too long, or there was no room for it.
    Rejected,
    /// The client went away, or its deadline passed.
    Canceled,
    /// The engine failed.
    Backend,
    /// Anything else, but not a request that fails validation: that one is not counted.
    Other,
}

impl FailureReason {
    /// Every reason, in the order of the declaration.
    pub(super) const ALL: [FailureReason; 4] = [
        FailureReason::Rejected,
        FailureReason::Canceled,
        FailureReason::Backend,
        FailureReason::Other,
    ];

    /// The value of the label, as Triton spells it.
    pub const fn name(self) -> &'static str {
        match self {
            FailureReason::Rejected => "REJECTED",
            FailureReason::Canceled => "CANCELED",
            FailureReason::Backend => "BACKEND",
            FailureReason::Other => "OTHER",
        }
    }
}

/// Why a batch was run at the size that it had: the label `reason` of `muster_batches_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchReason {
    /// The model's requests run one at a time.
    Alone,
    /// It holds as many rows as it may, or the next request would have been too many.
    Full,
    /// It had a preferred size.
    Preferred,
    /// The next request has other shapes, or other optional inputs.
    Shapes,
    /// Its oldest request had waited for as long as it may.
    Delay,
    /// Nothing else waited when an instance was free.
    Idle,
    /// It ran at once on the thread that read its requests.
    InPlace,
    /// The model was closing, and nothing waits any more.
    Closing,
    /// It is a part of a batch that had failed.
    Retry,
}

impl BatchReason {
    /// Every reason, in the order of the declaration.
    pub(super) const ALL: [BatchReason; 9] = [
        BatchReason::Alone,
        BatchReason::Full,
        BatchReason::Preferred,
        BatchReason::Shapes,
        BatchReason::Delay,
        BatchReason::Idle,
        BatchReason::InPlace,
        BatchReason::Closing,
        BatchReason::Retry,
    ];

    /// The value of the label.
    pub const fn name(self) -> &'static str {
        match self {
            BatchReason::Alone => "alone",
            BatchReason::Full => "full",
            BatchReason::Preferred => "preferred",
            BatchReason::Shapes => "shapes",
            BatchReason::Delay => "delay",
            BatchReason::Idle => "idle",
            BatchReason::InPlace => "in_place",
            BatchReason::Closing => "closing",
            BatchReason::Retry => "retry",
        }
    }
}

/// The handle of one load of a model version. Every method is a few relaxed additions: no lock, no allocation
/// (but a short lock where summaries were asked for).
#[derive(Clone)]
pub struct ModelMetrics(pub(super) Arc<Load>);

/// One load of a model version: what it has counted, and the series in which that is shown.
pub(super) struct Load {
    pub(super) counters: Arc<Counters>,
    pub(super) series: Arc<Series>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.series.retire(&self.counters);
    }
}

impl ModelMetrics {
    /// Counts a request that was accepted and is not executing yet, until the guard is dropped.
    pub fn pending(&self) -> Pending {
        self.0.series.pending.add(1);
        Pending(self.0.clone())
    }

    /// Counts one request of so many rows that was answered with a result, `total` after it was accepted. The timings
    /// are those of the execution that it was a part of.
    pub fn success(&self, rows: usize, total: Duration, timings: &Timings) {
        let counts = self.0.counters.mine();
        let [input, infer, output] =
            [timings.input, timings.infer, timings.output].map(nanoseconds);
        let (total, queue) = (nanoseconds(total), nanoseconds(timings.queue));
        counts.request.observe(total);
        counts.queue.observe(queue);
        counts.compute.observe(input.saturating_add(infer).saturating_add(output));
        counts.compute_input.fetch_add(input, Relaxed);
        counts.compute_infer.fetch_add(infer, Relaxed);
        counts.compute_output.fetch_add(output, Relaxed);
        counts.rows.fetch_add(rows as u64, Relaxed);
        counts.last_ms.store(wall_clock_ms(), Relaxed);
        if let Some(first_response) = &counts.first_response {
            first_response.observe(total / 1_000_000);
        }
        if let Some(tensorflow) = &self.0.series.tensorflow {
            tensorflow.mine(TensorFlowCounts::new).success(rows, [total, queue, infer]);
        }
        if let Some(summaries) = &self.0.series.summaries {
            summaries.observe(&[total, queue, input, infer, output]);
        }
    }

    /// Counts one request that was refused as soon as it came.
    pub fn failure(&self, reason: FailureReason) {
        self.failure_after(reason, Duration::ZERO);
    }

    /// Counts one request that failed so long after it was accepted.
    pub fn failure_after(&self, reason: FailureReason, took: Duration) {
        let counts = self.0.counters.mine();
        if let Some(count) = counts.failures.get(reason as usize) {
            count.fetch_add(1, Relaxed);
            counts.failed.fetch_add(nanoseconds(took), Relaxed);
        }
    }

    /// Counts one execution that succeeded, and why its batch had that size.
    pub fn execution(&self, timings: &Timings, reason: BatchReason) {
        let counts = self.0.counters.mine();
        counts.batch_rows.observe(timings.batch_rows as u64);
        counts.batches.count(timings);
        if let Some(tensorflow) = &self.0.series.tensorflow {
            tensorflow.mine(TensorFlowCounts::new).execution(timings.batch_rows);
        }
        if let Some(count) = counts.reasons.get(reason as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Says how long loading the model took.
    pub fn load_duration(&self, duration: Duration) {
        self.0.series.load.store(nanoseconds(duration), Relaxed);
    }
}

/// Milliseconds since 1970, as of the system's last tick: a few milliseconds late, and cheaper to ask for than the
/// exact time.
pub(super) fn wall_clock_ms() -> u64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    let (seconds, nanoseconds) =
        (now.tv_sec.max(0).cast_unsigned(), now.tv_nsec.max(0).cast_unsigned());
    seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
}

/// A request that waits; see [`ModelMetrics::pending`].
pub struct Pending(Arc<Load>);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.series.pending.sub(1);
    }
}
