//! The families of models that run in processes of their own.

use std::sync::atomic::Ordering::Relaxed;

use backend::EndReason;
use prometheus::proto::MetricType;

use super::{
    shown::Shown,
    text::{NANOSECONDS, Text, histogram_metric, whole, with_label},
};
use crate::metrics::{
    process_counts::{ProcessCounts, histogram_of},
    reasons::Rerun,
    series::Series,
};

/// What a histogram of nanoseconds is divided by to show microseconds.
const NANOSECONDS_OF_A_MICROSECOND: f64 = 1e3;

/// Those of the models that have processes.
pub(super) fn families(text: &mut Text, models: &[Shown<'_>]) {
    let with_process = models.iter().filter_map(|it| Some((it, it.process.as_ref()?)));
    let all: Vec<(&Shown<'_>, &ProcessCounts)> = with_process.collect();
    // One number for several models would say nothing.
    let own = all.iter().filter(|(it, _)| !it.series.is_overflow);
    text.gauges(
        "muster_worker_up",
        "Processes of models that serve",
        all.iter().map(|(it, process)| (it.series.labels.clone(), whole(process.up))),
    );
    text.gauges(
        "muster_worker_pid",
        "The process of a model; 0 while there is none",
        own.map(|(it, process)| {
            (it.series.labels.clone(), whole(process.figures.pid.unwrap_or(0).into()))
        }),
    );
    let label = |it: &Series, name: &str, value: &str| with_label(&it.labels, name, value);
    let restarts = all.iter().flat_map(|(it, process)| {
        let counts = EndReason::ALL.iter().zip(process.figures.restarts);
        counts.map(|(reason, count)| (label(it.series, "reason", reason.name()), whole(count)))
    });
    text.counters(
        "muster_worker_restarts_total",
        "Processes of models started in the place of others, by why those had ended",
        restarts,
    );
    let starts = all.iter().map(|(it, process)| {
        let histogram = histogram_of(&process.figures.starts);
        histogram_metric(&it.series.labels, &histogram, NANOSECONDS)
    });
    text.family(
        "muster_worker_start_seconds",
        "From the start of a process until it has loaded its model",
        MetricType::HISTOGRAM,
        starts.collect(),
    );
    let turns = all.iter().map(|(it, process)| {
        let histogram = histogram_of(&process.figures.turn_overheads);
        histogram_metric(&it.series.labels, &histogram, NANOSECONDS_OF_A_MICROSECOND)
    });
    text.family(
        "muster_worker_turn_overhead_us",
        "Microseconds from the order to run until the answer was read, less what the process has computed",
        MetricType::HISTOGRAM,
        turns.collect(),
    );
    let memory = all.iter().flat_map(|(it, process)| {
        let figures = &process.figures;
        let kinds = [("private", figures.private_bytes), ("arena", figures.arena_bytes)];
        kinds.map(|(kind, bytes)| (label(it.series, "kind", kind), whole(bytes)))
    });
    text.gauges(
        "muster_worker_memory_bytes",
        "Memory of processes of models: their own, and what they share with the server for tensors",
        memory,
    );
    text.counters(
        "muster_worker_cpu_seconds_total",
        "User and system time of processes of models, those that have ended included",
        all.iter().map(|(it, process)| {
            (it.series.labels.clone(), process.figures.cpu_time.as_secs_f64())
        }),
    );
    let reruns = all.iter().flat_map(|(it, _)| {
        let counts = Rerun::ALL.iter().zip(&it.counts.reruns);
        counts.map(|(outcome, count)| {
            (label(it.series, "outcome", outcome.name()), whole(count.load(Relaxed)))
        })
    });
    text.counters(
        "muster_worker_rerun_total",
        "Requests whose process died in their run, by what became of them",
        reruns,
    );
    text.counters(
        "muster_worker_log_dropped_total",
        "What processes of models wrote and was too much for the log",
        all.iter().map(|(it, process)| {
            (label(it.series, "unit", "lines"), whole(process.figures.dropped_lines))
        }),
    );
}
