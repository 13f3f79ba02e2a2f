//! The handle by which one loaded version of a model counts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use backend::{Processes, WarmUp};
use inference::{task::Medium, timings::Timings};
use rustix::time::{ClockId, clock_gettime};

use super::{
    cache_counts::CacheHit,
    counters::Counters,
    histogram::nanoseconds,
    pipeline_counts::{InputRefusal, PipelineStep},
    reasons::{BatchReason, FailureReason, OverdueRun, Rerun},
    responses::ResponseEnd,
    series::Series,
    statistics::{MemoryUsage, Statistics, Total},
    summary::{HIT, MISS},
    tensorflow_counts::TensorFlowCounts,
};

/// The handle of one load of a model version. Every method is a few relaxed additions: no lock, no allocation
/// (but a short lock where summaries were asked for).
#[derive(Clone)]
pub struct ModelMetrics(Arc<Load>);

/// One load of a model version: what it has counted, and the series in which that is shown.
struct Load {
    counters: Arc<Counters>,
    series: Arc<Series>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.series.retire(&self.counters);
    }
}

impl ModelMetrics {
    /// Begins to count one more load of a model version.
    pub(super) fn begin(series: &Arc<Series>) -> ModelMetrics {
        ModelMetrics(Arc::new(Load { counters: series.begin(), series: series.clone() }))
    }

    /// Counts a request that was accepted and is not executing yet, until the guard is dropped.
    pub fn pending(&self) -> Pending {
        self.0.series.pending.add(1);
        Pending(self.0.clone())
    }

    /// Counts one request of so many rows that was answered with a result, `total` after it was accepted. The timings
    /// are those of the execution that it was a part of.
    pub fn success(&self, rows: usize, total: Duration, timings: &Timings) {
        self.success_in_parts(rows, Some(total), total, timings);
    }

    /// The same of one that was answered in parts, the first of them so long after it was accepted; `None` where there
    /// was none.
    pub fn success_in_parts(
        &self,
        rows: usize,
        first: Option<Duration>,
        total: Duration,
        timings: &Timings,
    ) {
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
        if let (Some(first_response), Some(first)) = (&counts.first_response, first) {
            first_response.observe(nanoseconds(first) / 1_000_000);
        }
        if let Some(tensorflow) = &self.0.series.tensorflow {
            tensorflow.mine(TensorFlowCounts::new).success(rows, [total, queue, infer]);
        }
        if let Some(summaries) = &self.0.series.summaries {
            summaries.observe(&[total, queue, input, infer, output]);
        }
    }

    /// Counts a response of a decoupled model at that place of its answer, so long after the one before it.
    pub fn response(&self, place: usize, end: ResponseEnd, took: Duration) {
        self.0.counters.mine().of_responses().count(place, end, took);
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

    /// Counts one run of rows of text, padded to that length.
    pub fn text_run(&self, rows: usize, length: usize) {
        self.0.counters.mine().of_pipeline().run(rows, length);
    }

    /// Counts one row of so many tokens that was answered.
    pub fn text_row(&self, tokens: usize) {
        self.0.counters.mine().of_pipeline().row(tokens);
    }

    /// Counts what one request for a task of that medium took around its runs.
    pub fn pipeline_step(&self, medium: Medium, step: PipelineStep, took: Duration) {
        self.0.counters.mine().of_pipeline().step(medium, step, nanoseconds(took));
    }

    /// Counts so many inputs that are ready to run.
    pub fn inputs_ready(&self, medium: Medium, count: usize) {
        self.0.counters.mine().of_pipeline().ready(medium, count);
    }

    /// Counts one text of so many tokens that is ready to run.
    pub fn text_input(&self, tokens: usize, is_truncated: bool) {
        self.0.counters.mine().of_pipeline().text_input(tokens, is_truncated);
    }

    /// Counts one request that was refused for its inputs.
    pub fn inputs_refused(&self, reason: InputRefusal) {
        if let Some(count) = self.0.counters.mine().of_pipeline().refused.get(reason as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts a request that was answered otherwise in a merged run than alone.
    pub fn merge_mismatch(&self) {
        self.0.counters.mine().mismatches.fetch_add(1, Relaxed);
    }

    /// Counts a run that lasted too long, by what became of it.
    pub fn overdue_run(&self, outcome: OverdueRun) {
        if let Some(count) = self.0.counters.mine().overdue.get(outcome as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts requests whose process died in their run, by what became of them.
    pub fn reruns(&self, outcome: Rerun, requests: u64) {
        if let Some(count) = self.0.counters.mine().reruns.get(outcome as usize) {
            count.fetch_add(requests, Relaxed);
        }
    }

    /// The model runs in those processes, whose figures are shown from now on. Only the first call counts.
    pub fn has_processes(&self, processes: Processes) {
        if !processes.is_empty() {
            // A load has the same for as long as it lives.
            let _ = self.0.counters.processes.set(processes);
        }
    }

    /// Says how long loading the model took.
    pub fn load_duration(&self, duration: Duration) {
        self.0.series.load.store(nanoseconds(duration), Relaxed);
    }

    /// Says what the model has run before it serves, since its files say so.
    pub fn warm_up(&self, warm_up: WarmUp) {
        self.0.series.warm_up_requests.store(warm_up.requests, Relaxed);
        self.0.series.warm_up.store(nanoseconds(warm_up.took), Relaxed);
    }

    /// From now on the counters of the cache are shown for this model.
    pub fn has_cache(&self) {
        self.0.series.has_cache.store(true, Relaxed);
    }

    /// Counts one request that was answered from the cache. It is a success, and no inference.
    pub fn cache_hit(&self, hit: CacheHit) {
        let counts = self.0.counters.mine();
        let (total, queue) = (nanoseconds(hit.total), nanoseconds(hit.queue));
        counts.cache.hits.fetch_add(1, Relaxed);
        counts.cache.hit_ns.fetch_add(nanoseconds(hit.lookup), Relaxed);
        counts.request.observe(total);
        counts.queue.observe(queue);
        counts.last_ms.store(wall_clock_ms(), Relaxed);
        if let Some(first_response) = &counts.first_response {
            first_response.observe(total / 1_000_000);
        }
        if let Some(summaries) = &self.0.series.summaries {
            summaries.observe(&[total, queue]);
            summaries.observe_one(HIT, nanoseconds(hit.lookup));
        }
    }

    /// Counts one request that was not in the cache: what the look and putting its answer in took. A success is
    /// counted beside it.
    pub fn cache_miss(&self, took: Duration) {
        let counts = self.0.counters.mine();
        counts.cache.misses.fetch_add(1, Relaxed);
        counts.cache.miss_ns.fetch_add(nanoseconds(took), Relaxed);
        if let Some(summaries) = &self.0.series.summaries {
            summaries.observe_one(MISS, nanoseconds(took));
        }
    }

    /// What has been counted since the model was loaded.
    pub fn statistics(&self) -> Statistics {
        let counts = self.0.counters.sum();
        let (answered, computed) = (counts.request.count(), counts.compute.count());
        let failed = counts.failures.iter().map(|it| it.load(Relaxed)).sum();
        let compute = |ns: &AtomicU64| Total { count: computed, ns: ns.load(Relaxed) };
        let memory = |it: &Processes| MemoryUsage { kind: "CPU", id: 0, bytes: it.memory_bytes() };
        let total = |count: &AtomicU64, ns: &AtomicU64| Total {
            count: count.load(Relaxed),
            ns: ns.load(Relaxed),
        };
        Statistics {
            last_inference_ms: counts.last_ms.load(Relaxed),
            inference_count: counts.rows.load(Relaxed),
            execution_count: counts.batch_rows.count(),
            success: Total { count: answered, ns: counts.request.sum() },
            fail: Total { count: failed, ns: counts.failed.load(Relaxed) },
            queue: Total { count: answered, ns: counts.queue.sum() },
            compute_input: compute(&counts.compute_input),
            compute_infer: compute(&counts.compute_infer),
            compute_output: compute(&counts.compute_output),
            batches: counts.batches.statistics(),
            responses: counts.responses.get().map(|it| it.statistics()).unwrap_or_default(),
            memory: self.0.counters.processes.get().map(memory).into_iter().collect(),
            cache_hit: total(&counts.cache.hits, &counts.cache.hit_ns),
            cache_miss: total(&counts.cache.misses, &counts.cache.miss_ns),
        }
    }
}

/// Milliseconds since 1970, as of the system's last tick: a few milliseconds late, and cheaper to ask for than the
/// exact time.
fn wall_clock_ms() -> u64 {
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
