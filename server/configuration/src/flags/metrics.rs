//! Which metrics are shown: settings. Where they are shown is among the ports.

use super::{Setting, many, value};

const SECTION: &str = "Metrics";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "allow-cpu-metrics", "true", "Show the use of the machine's processors and memory among the metrics"),
    many(SECTION, "metrics-config", "<setting>=<value>: counter_latencies (true), histogram_latencies (false), summary_latencies (false), summary_quantiles=<quantile>:<error>,.. (0.5:0.05,0.9:0.01,0.95:0.001,0.99:0.001,0.999:0.001)"),
    value(SECTION, "emf", "false", "Write metrics to standard output as lines in CloudWatch's embedded metric format, where no Prometheus can scrape"),
    value(SECTION, "emf-interval-secs", "60", "How often"),
    value(SECTION, "emf-namespace", "muster", "Their namespace in CloudWatch"),
];
