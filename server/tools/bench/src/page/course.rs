//! Charts over the time of a run.

use std::time::Duration;

use super::{Chart, Mark, Series};
use crate::Interval;

/// Rate, latency, errors, and what the server used, over time.
pub fn over_time(samples: &[Interval], has_phases: bool) -> Vec<Chart> {
    let seconds = |it: &Interval| (it.start + it.end).as_secs_f64() / 2.0;
    let x: Vec<f64> = samples.iter().map(seconds).collect();
    let marks = match has_phases {
        true => changes(samples),
        false => Vec::new(),
    };
    let chart = |title: &str, y_label: &str, series: Vec<Series>| Chart {
        title: title.to_owned(),
        x_label: "seconds".to_owned(),
        y_label: y_label.to_owned(),
        x: x.clone(),
        series,
        marks: marks.clone(),
        ..Chart::default()
    };
    let of = |name: &str, value: &dyn Fn(&Interval) -> Option<f64>| Series {
        name: name.to_owned(),
        values: samples.iter().map(value).collect(),
        line: true,
    };
    let latency = |of: fn(&Interval) -> Duration| {
        move |it: &Interval| (it.ok() > 0).then(|| of(it).as_secs_f64() * 1e3)
    };
    let per_second = |count: u64, it: &Interval| {
        count as f64 / (it.end - it.start).as_secs_f64().max(f64::EPSILON)
    };
    let mut charts = vec![
        chart(
            "Throughput",
            "per second",
            vec![
                of("2xx replies", &|it| Some(it.throughput)),
                of("errors", &|it| Some(per_second(it.errors, it))),
            ],
        ),
        chart(
            "Latency",
            "milliseconds",
            vec![
                of("p50", &latency(|it| it.latency.p50)),
                of("p95", &latency(|it| it.latency.p95)),
                of("p99", &latency(|it| it.latency.p99)),
            ],
        ),
    ];
    if samples.iter().any(|it| it.server.is_some()) {
        let cores = of("cores", &|it| it.server.map(|it| it.cores));
        let memory = of("MB", &|it| it.server.map(|it| it.resident as f64 / 1e6));
        charts.push(chart("Processor of the server", "cores", vec![cores]));
        charts.push(chart("Memory of the server", "MB resident", vec![memory]));
    }
    if samples.iter().any(|it| it.gpu.is_some()) {
        let busy = of("% of the time", &|it| it.gpu.map(|it| it.utilization * 100.0));
        let memory = of("MB", &|it| it.gpu.map(|it| it.memory as f64 / 1e6));
        charts.push(chart("GPU", "% of the time", vec![busy]));
        charts.push(chart("Memory of the GPU", "MB in use", vec![memory]));
    }
    charts
}

/// A mark where the number of users changes.
fn changes(samples: &[Interval]) -> Vec<Mark> {
    let mut last = None;
    let mut marks = Vec::new();
    for sample in samples {
        if last.replace(sample.users) != Some(sample.users) {
            let plural = if sample.users == 1 { "" } else { "s" };
            let label = format!("{} user{plural}", sample.users);
            marks.push(Mark { x: sample.start.as_secs_f64(), label });
        }
    }
    marks
}
