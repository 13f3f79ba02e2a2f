//! From counters to text: every family, its name, help and type, one after the other.

mod cache_families;
mod custom_families;
mod pipeline_families;
mod process_families;
mod shown;
pub(super) mod tensorflow_page;
mod text;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use prometheus::proto::{Metric, MetricType, Quantile};

use crate::metrics::{
    histogram::Histogram,
    inner::Inner,
    lock::lock,
    reasons::{BatchReason, FailureReason, OverdueRun},
    series::Series,
    summary::{HIT, TIMES},
};
use machine::gpus::Sensor;
use shown::Shown;
use text::{NANOSECONDS, Text, histogram_metric, microseconds, pairs, whole, with_label};

/// A family with one number for each model: name, help, where the number comes from.
type ModelNumber = (&'static str, &'static str, fn(&Shown<'_>) -> f64);

const MODEL_COUNTERS: [ModelNumber; 3] = [
    ("nv_inference_request_success", "Requests answered with a result", |it| {
        whole(it.counts.request.count())
    }),
    ("nv_inference_count", "Rows of requests answered with a result", |it| {
        whole(it.counts.rows.load(Relaxed))
    }),
    ("nv_inference_exec_count", "Executions of a batch", |it| whole(it.counts.batch_rows.count())),
];

const MODEL_LATENCIES: [ModelNumber; 5] = [
    (
        "nv_inference_request_duration_us",
        "Microseconds from acceptance to response, over successful requests",
        |it| microseconds(it.counts.request.sum()),
    ),
    (
        "nv_inference_queue_duration_us",
        "Microseconds in the queue, over successful requests",
        |it| microseconds(it.counts.queue.sum()),
    ),
    (
        "nv_inference_compute_input_duration_us",
        "Microseconds of gathering inputs, over successful requests",
        |it| microseconds(it.counts.compute_input.load(Relaxed)),
    ),
    (
        "nv_inference_compute_infer_duration_us",
        "Microseconds of running the model, over successful requests",
        |it| microseconds(it.counts.compute_infer.load(Relaxed)),
    ),
    (
        "nv_inference_compute_output_duration_us",
        "Microseconds of scattering outputs, over successful requests",
        |it| microseconds(it.counts.compute_output.load(Relaxed)),
    ),
];

/// The two agree; muster's own has the name that its dashboards use.
const MODEL_GAUGES: [ModelNumber; 2] = [
    ("nv_inference_pending_request_count", "Requests accepted and not yet executing", |it| {
        whole(it.series.pending.get())
    }),
    ("muster_queue_depth", "Requests in the queue", |it| whole(it.series.pending.get())),
];

/// A family with one histogram for each model: name, help, observed units in one shown unit, source.
type ModelHistogram =
    (&'static str, &'static str, f64, for<'a> fn(&'a Shown<'_>) -> Option<&'a Histogram>);

const MODEL_HISTOGRAMS: [ModelHistogram; 5] = [
    (
        "nv_inference_first_response_histogram_ms",
        "Milliseconds from acceptance to the first response",
        1.0,
        |it| it.counts.first_response.as_ref(),
    ),
    (
        "muster_request_duration_seconds",
        "From acceptance to response, of successful requests",
        NANOSECONDS,
        |it| Some(&it.counts.request),
    ),
    ("muster_queue_duration_seconds", "In the queue, of successful requests", NANOSECONDS, |it| {
        Some(&it.counts.queue)
    }),
    (
        "muster_compute_duration_seconds",
        "Gathering, running and scattering, of successful requests",
        NANOSECONDS,
        |it| Some(&it.counts.compute),
    ),
    ("muster_batch_rows", "Rows of executed batches", 1.0, |it| Some(&it.counts.batch_rows)),
];

/// The text of everything, the models being those given.
pub(super) fn text(metrics: &Inner, models: &[Arc<Series>]) -> String {
    let mut text = Text(String::new());
    let shown = models.iter().map(|it| Shown {
        series: it,
        counts: it.counts(),
        processes: it.processes(),
    });
    let shown: Vec<Shown<'_>> = shown.collect();
    model_families(&mut text, &shown, metrics.options.counter_latencies);
    model_summaries(&mut text, &shown, &metrics.options.summary_quantiles);
    pipeline_families::families(&mut text, &shown, metrics.options.tei_names);
    process_families::families(&mut text, &shown);
    cache_families::families(&mut text, &shown, metrics.cache.get().map(|it| &**it));
    server_families(&mut text, metrics);
    machine_families(&mut text, metrics);
    gpu_families(&mut text, &lock(&metrics.gpus));
    custom_families::families(&mut text, &metrics.custom);
    text.0
}

fn model_families(text: &mut Text, models: &[Shown<'_>], counter_latencies: bool) {
    let latencies = if counter_latencies { MODEL_LATENCIES.as_slice() } else { &[] };
    for (name, help, number) in MODEL_COUNTERS.iter().chain(latencies) {
        text.counters(name, help, models.iter().map(|it| (it.series.labels.clone(), number(it))));
    }
    let by_reason = |it: &Shown<'_>, reason: &str, count: &AtomicU64| {
        (with_label(&it.series.labels, "reason", reason), whole(count.load(Relaxed)))
    };
    let failures = models.iter().flat_map(|it| {
        let counts = FailureReason::ALL.iter().zip(&it.counts.failures);
        counts.map(|(reason, count)| by_reason(it, reason.name(), count))
    });
    text.counters("nv_inference_request_failure", "Requests accepted and failed", failures);
    let batches = models.iter().flat_map(|it| {
        let counts = BatchReason::ALL.iter().zip(&it.counts.reasons);
        // Most reasons never hold for a model: those that have not are left out.
        let counts = counts.filter(|(_, count)| 0 < count.load(Relaxed));
        counts.map(|(reason, count)| by_reason(it, reason.name(), count))
    });
    text.counters("muster_batches_total", "Executed batches by what decided their size", batches);
    // It should be of no model at all.
    let mismatches = models.iter().filter_map(|it| {
        let count = it.counts.mismatches.load(Relaxed);
        (0 < count).then(|| (it.series.labels.clone(), whole(count)))
    });
    text.counters(
        "muster_merge_mismatch_total",
        "Requests found to be answered otherwise merged than alone",
        mismatches,
    );
    let overdue = models.iter().flat_map(|it| {
        let counts = OverdueRun::ALL.iter().zip(&it.counts.overdue);
        let counts = counts.filter(|(_, count)| 0 < count.load(Relaxed));
        counts.map(|(outcome, count)| {
            let labels = with_label(&it.series.labels, "outcome", outcome.name());
            (labels, whole(count.load(Relaxed)))
        })
    });
    text.counters(
        "muster_overdue_runs_total",
        "Runs that lasted too long, by what became of them",
        overdue,
    );
    for (name, help, number) in MODEL_GAUGES {
        text.gauges(name, help, models.iter().map(|it| (it.series.labels.clone(), number(it))));
    }
    // One time for many models would say nothing.
    let loads = models.iter().filter(|it| !it.series.is_overflow);
    text.gauges(
        "nv_model_load_duration_secs",
        "Seconds that loading the model took",
        loads.map(|it| {
            (it.series.labels.clone(), whole(it.series.load.load(Relaxed)) / NANOSECONDS)
        }),
    );
    for (name, help, scale, histogram) in MODEL_HISTOGRAMS {
        let metrics = models
            .iter()
            .filter_map(|it| Some(histogram_metric(&it.series.labels, histogram(it)?, scale)))
            .collect();
        text.family(name, help, MetricType::HISTOGRAM, metrics);
    }
}

/// The summaries of one family after the other, in the order of [`TIMES`].
const MODEL_SUMMARIES: [(&str, &str); TIMES] = [
    ("nv_inference_request_summary_us", "Microseconds from acceptance to response"),
    ("nv_inference_queue_summary_us", "Microseconds in the queue"),
    ("nv_inference_compute_input_summary_us", "Microseconds of gathering inputs"),
    ("nv_inference_compute_infer_summary_us", "Microseconds of running the model"),
    ("nv_inference_compute_output_summary_us", "Microseconds of scattering outputs"),
    ("nv_cache_hit_summary_per_model", "Microseconds of lookups that found an answer"),
    (
        "nv_cache_miss_summary_per_model",
        "Microseconds of lookups that found none, and of what was put in then",
    ),
];

/// Quantiles over the last minute; sum and count are those since the start, as in every summary.
fn model_summaries(text: &mut Text, models: &[Shown<'_>], quantiles: &[f64]) {
    let mut families: [Vec<Metric>; TIMES] = Default::default();
    for Shown { series, counts, .. } in models {
        let Some(summaries) = &series.summaries else { continue };
        let (answered, computed) = (counts.request.count(), counts.compute.count());
        let totals = [
            (answered, counts.request.sum()),
            (answered, counts.queue.sum()),
            (computed, counts.compute_input.load(Relaxed)),
            (computed, counts.compute_infer.load(Relaxed)),
            (computed, counts.compute_output.load(Relaxed)),
            (counts.cache.hits.load(Relaxed), counts.cache.hit_ns.load(Relaxed)),
            (counts.cache.misses.load(Relaxed), counts.cache.miss_ns.load(Relaxed)),
        ];
        let has_cache = series.has_cache.load(Relaxed);
        let found = summaries.quantiles(quantiles);
        let families_of_it = if has_cache { TIMES } else { HIT };
        let families = families.iter_mut().take(families_of_it);
        for ((metrics, values), (count, sum)) in families.zip(found).zip(totals) {
            let quantile = |(quantile, value): (&f64, f64)| {
                let mut shown = Quantile::default();
                shown.set_quantile(*quantile);
                // To a tenth of a microsecond: what is beyond is not known.
                shown.set_value((value / 100.0).round() / 10.0);
                shown
            };
            let mut shown = prometheus::proto::Summary::default();
            shown.set_quantile(quantiles.iter().zip(values).map(quantile).collect());
            shown.set_sample_count(count);
            shown.set_sample_sum(microseconds(sum));
            let mut metric = Metric::from_label(pairs(&series.labels));
            metric.set_summary(shown);
            metrics.push(metric);
        }
    }
    for ((name, help), metrics) in MODEL_SUMMARIES.into_iter().zip(families) {
        text.family(name, help, MetricType::SUMMARY, metrics);
    }
}

fn server_families(text: &mut Text, metrics: &Inner) {
    let requests = metrics.http.seen().map(|(protocol, status, count)| {
        let labels = vec![
            ("protocol".to_owned(), protocol.name().to_owned()),
            ("status".to_owned(), status),
        ];
        (labels, whole(count))
    });
    text.counters("muster_http_requests_total", "Answered HTTP requests", requests);
    let calls = metrics.grpc.seen();
    let calls =
        calls.map(|(code, count)| (vec![("code".to_owned(), code.to_owned())], whole(count)));
    text.counters("muster_grpc_requests_total", "Answered gRPC calls", calls);
    text.gauge("muster_http_connections", "Open HTTP connections", metrics.connections.get());
    text.gauge(
        "muster_bytes_in_flight",
        "Bytes of request bodies and replies in memory",
        metrics.bytes_in_flight.get(),
    );
    if let Some(waiting) = metrics.prepare_queue.get() {
        text.gauge(
            "muster_pipeline_prepare_queue",
            "Pieces of work on inputs and answers that no thread has begun",
            waiting.get(),
        );
    }
    let version = ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    text.gauges("muster_build_info", "The version of muster", [(vec![version], 1.0)]);
}

fn machine_families(text: &mut Text, metrics: &Inner) {
    let sampler = lock(&metrics.sampler);
    if let Some(machine) = sampler.machine() {
        text.gauges(
            "nv_cpu_utilization",
            "Share of the machine's processors in use since the last sample, 0 to 1",
            [(vec![], machine.utilization)],
        );
        text.gauge(
            "nv_cpu_memory_total_bytes",
            "Memory of the machine",
            machine.memory_total_bytes,
        );
        text.gauge(
            "nv_cpu_memory_used_bytes",
            "Memory of the machine that is not available",
            machine.memory_used_bytes,
        );
        // There is no pool: memory is locked where it is needed, by the engine.
        for name in ["nv_pinned_memory_pool_total_bytes", "nv_pinned_memory_pool_used_bytes"] {
            text.gauge(name, "A pool of pinned memory, which there is none of", 0);
        }
    }
    if let Some(process) = sampler.process() {
        text.counters(
            "process_cpu_seconds_total",
            "CPU time of the process, user and system",
            [(vec![], process.cpu_seconds)],
        );
        text.gauge(
            "process_resident_memory_bytes",
            "Resident memory of the process",
            process.resident_bytes,
        );
        text.gauge("process_open_fds", "Open file descriptors of the process", process.open_fds);
        text.gauges(
            "process_start_time_seconds",
            "When the process started, in seconds since 1970",
            [(vec![], process.start_time_seconds)],
        );
    }
}

/// A family for each sensor, with a line for each GPU that has it.
fn gpu_families(text: &mut Text, readings: &[(String, Sensor, f64)]) {
    for wanted in Sensor::ALL {
        let lines = readings.iter().filter(|(_, sensor, _)| *sensor == wanted);
        let lines =
            lines.map(|(uuid, _, value)| (vec![("gpu_uuid".to_owned(), uuid.clone())], *value));
        match wanted {
            Sensor::Utilization => text.gauges(
                "nv_gpu_utilization",
                "Share of the time in which the GPU was busy, 0 to 1",
                lines,
            ),
            Sensor::MemoryTotal => {
                text.gauges("nv_gpu_memory_total_bytes", "Memory of the GPU", lines);
            }
            Sensor::MemoryUsed => {
                text.gauges("nv_gpu_memory_used_bytes", "Memory of the GPU in use", lines);
            }
            Sensor::PowerUsage => {
                text.gauges("nv_gpu_power_usage", "Watts that the GPU draws", lines);
            }
            Sensor::PowerLimit => {
                text.gauges("nv_gpu_power_limit", "Watts that the GPU may draw", lines);
            }
            Sensor::Energy => text.counters(
                "nv_energy_consumption",
                "Joules that the GPU took since its driver was loaded",
                lines,
            ),
        }
    }
}
