//! The families of models' own code, behind the server's.

use backend::MetricKind;
use prometheus::proto::{Bucket, Metric, MetricType};

use super::text::{Text, pairs};
use crate::metrics::{
    custom::{CustomFamilies, Family, Observed, Value},
    series::Labels,
};

pub(super) fn families(text: &mut Text, families: &CustomFamilies) {
    families.for_each(|name, family| one(text, name, family));
}

fn one(text: &mut Text, name: &str, family: &Family) {
    let numbers = family.series.iter().filter_map(|(labels, it)| match &it.value {
        Value::Number(number) => Some((labels.clone(), *number)),
        Value::Observed(_) => None,
    });
    match family.kind {
        MetricKind::Counter => text.counters(name, &family.help, numbers),
        MetricKind::Gauge => text.gauges(name, &family.help, numbers),
        MetricKind::Histogram => {
            let metrics = family.series.iter().filter_map(|(labels, it)| match &it.value {
                Value::Observed(observed) => Some(histogram(labels, observed)),
                Value::Number(_) => None,
            });
            text.family(name, &family.help, MetricType::HISTOGRAM, metrics.collect());
        }
    }
}

fn histogram(labels: &Labels, observed: &Observed) -> Metric {
    let mut below = 0;
    let bucket = |(bound, count): &(f64, u64)| {
        below += count;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(below);
        bucket
    };
    let mut shown = prometheus::proto::Histogram::default();
    shown.set_bucket(observed.buckets.iter().map(bucket).collect());
    shown.set_sample_count(observed.count);
    shown.set_sample_sum(observed.sum);
    let mut metric = Metric::from_label(pairs(labels));
    metric.set_histogram(shown);
    metric
}
