//! Families in Prometheus' text format.

use prometheus::{
    TextEncoder,
    proto::{Bucket, Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType},
};

use crate::metrics::{histogram::Histogram, series::Labels};

/// The text so far.
pub(super) struct Text(pub(super) String);

impl Text {
    pub(super) fn counters(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let metric = |(labels, value): (Labels, f64)| {
            let mut counter = Counter::default();
            counter.set_value(value);
            let mut metric = Metric::from_label(pairs(&labels));
            metric.set_counter(counter);
            metric
        };
        let metrics = values.into_iter().map(metric).collect();
        self.family(name, help, MetricType::COUNTER, metrics);
    }

    pub(super) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let metric = |(labels, value): (Labels, f64)| {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            let mut metric = Metric::from_label(pairs(&labels));
            metric.set_gauge(gauge);
            metric
        };
        let metrics = values.into_iter().map(metric).collect();
        self.family(name, help, MetricType::GAUGE, metrics);
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.gauges(name, help, [(vec![], whole(value))]);
    }

    /// A family without metrics is left out: the format has no way to write one.
    pub(super) fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        metrics: Vec<Metric>,
    ) {
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        // One family at a time, so that with many models no more than one is held in this form.
        TextEncoder::new()
            .encode_utf8(&[family], &mut self.0)
            .expect("a family with a name and metrics, written to memory");
    }
}

pub(super) fn histogram_metric(labels: &Labels, histogram: &Histogram, scale: f64) -> Metric {
    let (by_bound, all) = histogram.cumulative();
    let bucket = |(bound, count): (u64, u64)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(whole(bound) / scale);
        bucket.set_cumulative_count(count);
        bucket
    };
    let mut shown = prometheus::proto::Histogram::default();
    shown.set_bucket(by_bound.into_iter().map(bucket).collect());
    shown.set_sample_count(all);
    shown.set_sample_sum(whole(histogram.sum()) / scale);
    let mut metric = Metric::from_label(pairs(labels));
    metric.set_histogram(shown);
    metric
}

pub(super) fn with_label(labels: &Labels, name: &str, value: &str) -> Labels {
    let mut labels = labels.clone();
    let place = labels.partition_point(|(other, _)| other.as_str() < name);
    labels.insert(place, (name.to_owned(), value.to_owned()));
    labels
}

pub(super) fn pairs(labels: &Labels) -> Vec<LabelPair> {
    let pair = |(name, value): &(String, String)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.clone());
        pair.set_value(value.clone());
        pair
    };
    labels.iter().map(pair).collect()
}

/// Exact up to 2^53, and written without decimals.
pub(super) fn whole(count: u64) -> f64 {
    count as f64
}

/// Nanoseconds in a second: what histograms observe in one unit of what is shown.
pub(super) const NANOSECONDS: f64 = 1e9;

/// Whole microseconds.
pub(super) fn microseconds(nanoseconds: u64) -> f64 {
    whole(nanoseconds / 1000)
}
