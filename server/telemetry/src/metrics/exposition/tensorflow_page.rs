//! The page with TensorFlow Serving's names: its paths, with a colon for every other letter. All versions of a model
//! are one there.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use prometheus::proto::MetricType;

use super::text::{Text, histogram_metric, whole};
use crate::metrics::{
    histogram::Histogram,
    reasons::FailureReason,
    series::{Labels, Series},
    tensorflow_counts::TensorFlowCounts,
};

/// A family with one histogram for each model: name, help, observed units in one shown unit, labels, source.
type ModelHistogram<'a> = (
    &'static str,
    &'static str,
    f64,
    &'a dyn Fn(&str) -> Labels,
    fn(&TensorFlowCounts) -> &Histogram,
);

/// What is there of one model, its versions together.
struct Model {
    counts: TensorFlowCounts,
    /// Requests by the code of their status.
    requests: BTreeMap<&'static str, u64>,
    rows: u64,
    executions: u64,
    /// Nanoseconds that they took.
    run_ns: u64,
    /// Nanoseconds that loading took, by version.
    loads: Vec<(String, u64)>,
    /// Requests that were run before it served, and nanoseconds that they took, by version.
    warm_ups: Vec<(String, u64, u64)>,
}

/// All of it, the models being those given.
pub(in crate::metrics) fn text(series: &[Arc<Series>]) -> String {
    let mut models: BTreeMap<String, Model> = BTreeMap::new();
    for series in series {
        let label = |name: &str| {
            let found = series.labels.iter().find(|it| it.0 == name);
            found.map(|it| it.1.clone()).unwrap_or_default()
        };
        let model = models.entry(label("model")).or_insert_with(Model::new);
        model.add(series, &label("version"));
    }
    let mut text = Text(String::new());
    requests(&mut text, &models);
    batches(&mut text, &models);
    loads(&mut text, &models);
    warm_ups(&mut text, &models);
    text.0
}

impl Model {
    fn new() -> Model {
        Model {
            counts: TensorFlowCounts::new(),
            requests: BTreeMap::new(),
            rows: 0,
            executions: 0,
            run_ns: 0,
            loads: Vec::new(),
            warm_ups: Vec::new(),
        }
    }

    fn add(&mut self, series: &Series, version: &str) {
        let counts = series.counts();
        let lanes = series.tensorflow.iter().flat_map(|it| it.all());
        lanes.for_each(|it| self.counts.absorb(it));
        *self.requests.entry("OK").or_default() += counts.request.count();
        for (reason, count) in FailureReason::ALL.iter().zip(&counts.failures) {
            let count = count.load(Relaxed);
            if 0 < count {
                *self.requests.entry(code(*reason)).or_default() += count;
            }
        }
        self.rows += counts.rows.load(Relaxed);
        self.executions += counts.batch_rows.count();
        let by_size = counts.batches.statistics();
        self.run_ns += by_size.iter().map(|it| it.compute_infer.ns).sum::<u64>();
        if !series.is_overflow {
            self.loads.push((version.to_owned(), series.load.load(Relaxed)));
            let requests = series.warm_up_requests.load(Relaxed);
            if 0 < requests {
                self.warm_ups.push((version.to_owned(), requests, series.warm_up.load(Relaxed)));
            }
        }
    }
}

/// The status that TensorFlow Serving would have given.
fn code(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::Rejected => "UNAVAILABLE",
        FailureReason::Canceled => "CANCELLED",
        FailureReason::Backend => "INTERNAL",
        FailureReason::Other => "UNKNOWN",
    }
}

fn label(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn requests(text: &mut Text, models: &BTreeMap<String, Model>) {
    let by_status = models.iter().flat_map(|(name, model)| {
        let labels = |status| vec![label("model_name", name), label("status", status)];
        model.requests.iter().map(move |(status, count)| (labels(status), whole(*count)))
    });
    text.counters(":tensorflow:serving:request_count", "The total number of requests", by_status);
    let of_api = |name: &str| vec![label("API", "Predict"), label("model_name", name)];
    let of_model = |name: &str| vec![label("model", name)];
    let all: [ModelHistogram<'_>; 3] = [
        (
            ":tensorflow:serving:request_latency",
            "Microseconds from acceptance to response, of successful requests",
            1e3,
            &of_api,
            |it| &it.request,
        ),
        (
            ":tensorflow:serving:runtime_latency",
            "Microseconds of running the model, of successful requests",
            1e3,
            &of_api,
            |it| &it.runtime,
        ),
        (":tensorflow:serving:request_example_counts", "Rows of a request", 1.0, &of_model, |it| {
            &it.examples
        }),
    ];
    for (name, help, scale, labels, histogram) in all {
        let metrics = models
            .iter()
            .map(|(model, it)| histogram_metric(&labels(model), histogram(&it.counts), scale));
        text.family(name, help, MetricType::HISTOGRAM, metrics.collect());
    }
    text.counters(
        ":tensorflow:serving:request_example_count_total",
        "Rows of all requests",
        models.iter().map(|(name, it)| (of_model(name), whole(it.rows))),
    );
}

/// The queue of each model has the model's name; sizes of batches are those of all models together.
fn batches(text: &mut Text, models: &BTreeMap<String, Model>) {
    let queues = models.iter().map(|(name, it)| {
        histogram_metric(&vec![label("thread_pool_name", name)], &it.counts.queue, 1e3)
    });
    text.family(
        ":tensorflow:serving:batching_session:queuing_latency",
        "Microseconds in the queue, of successful requests",
        MetricType::HISTOGRAM,
        queues.collect(),
    );
    let all = TensorFlowCounts::new();
    models.values().for_each(|it| all.absorb(&it.counts));
    let executions = models.values().map(|it| it.executions).sum();
    for (name, help) in [
        (":tensorflow:serving:batching_session:wrapped_run_count", "Executions of a batch"),
        (":tensorflow:core:graph_runs", "Executions of a batch"),
    ] {
        text.counters(name, help, [(vec![], whole(executions))]);
    }
    let run_ns: u64 = models.values().map(|it| it.run_ns).sum();
    text.counters(
        ":tensorflow:core:graph_run_time_usecs",
        "Microseconds of all executions of batches",
        [(vec![], whole(run_ns / 1000))],
    );
    for (name, help, histogram) in [
        (
            ":tensorflow:serving:batching_session:input_batch_size",
            "Rows of a request",
            &all.input_rows,
        ),
        (
            ":tensorflow:serving:batching_session:processed_batch_size",
            "Rows of an executed batch",
            &all.batch_rows,
        ),
    ] {
        let metrics = vec![histogram_metric(&Labels::new(), histogram, 1.0)];
        text.family(name, help, MetricType::HISTOGRAM, metrics);
    }
}

fn loads(text: &mut Text, models: &BTreeMap<String, Model>) {
    let loads = models.iter().flat_map(|(name, model)| {
        let path = move |version: &str| vec![label("model_path", &format!("{name}/{version}"))];
        model.loads.iter().map(move |(version, ns)| (path(version), whole(ns / 1000)))
    });
    text.counters(
        ":tensorflow:cc:saved_model:load_latency",
        "Microseconds that loading the model took",
        loads,
    );
}

/// Of the models whose files bring requests along. One that fails is a load error: those here are good.
fn warm_ups(text: &mut Text, models: &BTreeMap<String, Model>) {
    let all: Vec<(Labels, u64, u64)> = models
        .iter()
        .flat_map(|(name, model)| model.warm_ups.iter().map(move |it| (name, it)))
        .map(|(name, (version, requests, ns))| {
            let path = label("model_path", &format!("{name}/{version}"));
            (vec![path, label("status", "OK")], *requests, *ns)
        })
        .collect();
    if all.is_empty() {
        return;
    }
    text.counters(
        ":tensorflow:serving:model_warmup_records_read",
        "Requests that were run before the model served",
        all.iter().map(|(labels, requests, _)| (labels.clone(), whole(*requests))),
    );
    let latencies = all.iter().map(|(labels, _, ns)| {
        let histogram = TensorFlowCounts::new().request;
        histogram.observe(*ns);
        histogram_metric(labels, &histogram, 1e3)
    });
    text.family(
        ":tensorflow:serving:model_warmup_latency",
        "Microseconds that running them took",
        MetricType::HISTOGRAM,
        latencies.collect(),
    );
}
