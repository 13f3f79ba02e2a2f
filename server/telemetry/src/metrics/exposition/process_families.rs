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
    series::{Labels, Series},
};

/// What a histogram of nanoseconds is divided by to show microseconds.
const NANOSECONDS_OF_A_MICROSECOND: f64 = 1e3;

/// A model's process, and those before it, on one of its devices.
struct OnDevice<'a> {
    series: &'a Series,
    /// Those of the series, and the device where the model has several.
    labels: Labels,
    counts: &'a ProcessCounts,
}

impl<'a> OnDevice<'a> {
    fn of(series: &'a Series, (device, counts): (Option<&str>, &'a ProcessCounts)) -> OnDevice<'a> {
        let labels = match device {
            Some(device) => with_label(&series.labels, "device", device),
            None => series.labels.clone(),
        };
        OnDevice { series, labels, counts }
    }

    fn with(&self, name: &str, value: &str) -> Labels {
        with_label(&self.labels, name, value)
    }
}

/// Those of the models that have processes.
pub(super) fn families(text: &mut Text, models: &[Shown<'_>]) {
    let counted = models
        .iter()
        .flat_map(|model| model.processes.iter().map(move |it| OnDevice::of(model.series, it)));
    let counted: Vec<OnDevice<'_>> = counted.collect();
    let present = models
        .iter()
        .flat_map(|model| model.processes.present().map(move |it| OnDevice::of(model.series, it)));
    let present: Vec<OnDevice<'_>> = present.collect();
    text.gauges(
        "muster_worker_up",
        "Processes of models that serve",
        present.iter().map(|it| (it.labels.clone(), whole(it.counts.up))),
    );
    // One number for several models would say nothing.
    let own = present.iter().filter(|it| !it.series.is_overflow);
    text.gauges(
        "muster_worker_pid",
        "The process of a model; 0 while there is none",
        own.map(|it| (it.labels.clone(), whole(it.counts.figures.pid.unwrap_or(0).into()))),
    );
    let restarts = counted.iter().flat_map(|it| {
        let counts = EndReason::ALL.iter().zip(it.counts.figures.restarts);
        counts.map(|(reason, count)| (it.with("reason", reason.name()), whole(count)))
    });
    text.counters(
        "muster_worker_restarts_total",
        "Processes of models started in the place of others, by why those had ended",
        restarts,
    );
    let starts = counted.iter().map(|it| {
        let histogram = histogram_of(&it.counts.figures.starts);
        histogram_metric(&it.labels, &histogram, NANOSECONDS)
    });
    text.family(
        "muster_worker_start_seconds",
        "From the start of a process until it has loaded its model",
        MetricType::HISTOGRAM,
        starts.collect(),
    );
    let turns = counted.iter().map(|it| {
        let histogram = histogram_of(&it.counts.figures.turn_overheads);
        histogram_metric(&it.labels, &histogram, NANOSECONDS_OF_A_MICROSECOND)
    });
    text.family(
        "muster_worker_turn_overhead_us",
        "Microseconds from the order to run until the answer was read, less what the process has computed",
        MetricType::HISTOGRAM,
        turns.collect(),
    );
    let memory = present.iter().flat_map(|it| {
        let figures = &it.counts.figures;
        let kinds = [("private", figures.private_bytes), ("arena", figures.arena_bytes)];
        kinds.map(|(kind, bytes)| (it.with("kind", kind), whole(bytes)))
    });
    text.gauges(
        "muster_worker_memory_bytes",
        "Memory of processes of models: their own, and what they share with the server for tensors",
        memory,
    );
    text.counters(
        "muster_worker_cpu_seconds_total",
        "User and system time of processes of models, those that have ended included",
        counted.iter().map(|it| (it.labels.clone(), it.counts.figures.cpu_time.as_secs_f64())),
    );
    let with_processes = models.iter().filter(|it| !it.processes.is_empty());
    let reruns = with_processes.flat_map(|it| {
        let counts = Rerun::ALL.iter().zip(&it.counts.reruns);
        counts.map(|(outcome, count)| {
            let labels = with_label(&it.series.labels, "outcome", outcome.name());
            (labels, whole(count.load(Relaxed)))
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
        counted.iter().map(|it| (it.with("unit", "lines"), whole(it.counts.figures.dropped_lines))),
    );
}
