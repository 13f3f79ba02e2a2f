//! The families of pipelines: muster's own, and those that text-embeddings-inference has.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus::proto::MetricType;

use super::{
    shown::Shown,
    text::{NANOSECONDS, Text, histogram_metric, whole, with_label},
};
use crate::metrics::{
    histogram::Histogram,
    pipeline_counts::{InputRefusal, PipelineCounts, PipelineStep},
};

/// A family with one histogram for each model: name, help, observed units in one shown unit, source.
type Distribution = (
    &'static str,
    &'static str,
    f64,
    for<'a> fn(&'a Shown<'_>, &'a PipelineCounts) -> &'a Histogram,
);

const OWN: [Distribution; 1] =
    [("muster_pipeline_rows_per_run", "Rows of runs of texts", 1.0, |_, it| &it.rows)];

const OF_TEI: [Distribution; 7] = [
    ("te_request_duration", "Seconds from acceptance to response", NANOSECONDS, |it, _| {
        &it.counts.request
    }),
    ("te_request_tokenization_duration", "Seconds of making tokens", NANOSECONDS, |_, it| {
        &it.steps[PipelineStep::Prepare as usize]
    }),
    ("te_request_queue_duration", "Seconds in the queue", NANOSECONDS, |it, _| &it.counts.queue),
    ("te_request_inference_duration", "Seconds of the run", NANOSECONDS, |it, _| {
        &it.counts.compute
    }),
    ("te_batch_next_size", "Rows of a run", 1.0, |_, it| &it.rows),
    ("te_batch_next_tokens", "Tokens of a run, padding included", 1.0, |_, it| &it.padded),
    ("te_request_input_length", "Tokens of an input", 1.0, |_, it| &it.input),
];

/// Those of muster, and with `has_tei_names` the others, which are of texts alone.
pub(super) fn families(text: &mut Text, models: &[Shown<'_>], has_tei_names: bool) {
    let all = || models.iter().filter_map(|it| Some((it, &**it.counts.pipeline.get()?)));
    let of_texts = || all().filter(|(_, it)| it.is_of_texts());
    let inputs = all().flat_map(|(it, counts)| {
        let inputs = counts.inputs();
        inputs
            .map(|(medium, count)| (with_label(&it.series.labels, "medium", medium), whole(count)))
    });
    text.counters(
        "muster_pipeline_inputs_total",
        "Texts, images and sounds that were ready to run",
        inputs,
    );
    let tokens = of_texts().flat_map(|(it, counts)| {
        let kinds = counts.tokens().into_iter();
        kinds.map(|(kind, count)| (with_label(&it.series.labels, "kind", kind), whole(count)))
    });
    text.counters("muster_pipeline_tokens_total", "Tokens of runs of texts, by kind", tokens);
    let truncated = of_texts()
        .map(|(it, counts)| (it.series.labels.clone(), whole(counts.truncated.load(Relaxed))));
    text.counters("muster_pipeline_truncated_total", "Texts that were cut", truncated);
    let refused = all().flat_map(|(it, counts)| {
        InputRefusal::ALL.iter().zip(&counts.refused).map(|(reason, count)| {
            let labels = with_label(&it.series.labels, "reason", reason.name());
            (labels, whole(count.load(Relaxed)))
        })
    });
    text.counters(
        "muster_pipeline_inputs_refused_total",
        "Requests refused for their inputs",
        refused,
    );
    let steps = all().flat_map(|(it, counts)| {
        PipelineStep::ALL.iter().zip(&counts.steps).map(|(step, histogram)| {
            let labels = with_label(&it.series.labels, "step", step.name());
            histogram_metric(&labels, histogram, 1e3)
        })
    });
    text.family(
        "muster_pipeline_step_duration_us",
        "Microseconds of what is around the graph, of each request",
        MetricType::HISTOGRAM,
        steps.collect(),
    );
    let shown = OWN.iter().chain(if has_tei_names { OF_TEI.as_slice() } else { &[] });
    for (name, help, scale, histogram) in shown {
        let metrics = of_texts()
            .map(|(it, counts)| histogram_metric(&it.series.labels, histogram(it, counts), *scale));
        text.family(name, help, MetricType::HISTOGRAM, metrics.collect());
    }
    if has_tei_names {
        let sum = |counts: &[AtomicU64]| counts.iter().map(|it| it.load(Relaxed)).sum::<u64>();
        let mut requests = |name, help, count: &dyn Fn(&Shown<'_>, &PipelineCounts) -> u64| {
            let of_model = |it: &Shown<'_>| it.series.labels.clone();
            text.counters(
                name,
                help,
                of_texts().map(|(it, own)| (of_model(it), whole(count(it, own)))),
            );
        };
        let answered = |it: &Shown<'_>, _: &PipelineCounts| it.counts.request.count();
        let failed =
            |it: &Shown<'_>, own: &PipelineCounts| sum(&it.counts.failures) + sum(&own.refused);
        requests("te_request_count", "Requests", &|it, own| answered(it, own) + failed(it, own));
        requests("te_request_success", "Requests answered with a result", &answered);
        requests("te_request_failure", "Requests refused for their inputs, or failed", &failed);
        let waiting =
            of_texts().map(|(it, _)| (it.series.labels.clone(), whole(it.series.pending.get())));
        text.gauges("te_queue_size", "Requests accepted and not yet executing", waiting);
    }
}
