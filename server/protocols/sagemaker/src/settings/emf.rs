//! Settings of metrics as lines on standard output, for machines that cannot be scraped: `--emf`.

use std::time::Duration;

use configuration::{Flag, Sources, value};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::boolean("emf", "false", "Write metrics to standard output as lines in CloudWatch's embedded metric format, where no Prometheus can scrape"),
    Flag::value("emf-interval-secs", "60", "How often").named("SECONDS"),
    Flag::value("emf-namespace", "muster", "Their namespace in CloudWatch").named("NAME"),
];

/// Lines in CloudWatch's embedded metric format on standard output.
#[derive(Debug, Clone, PartialEq)]
pub struct EmfSettings {
    /// `--emf-interval-secs`: how often they are written.
    pub interval: Duration,
    /// `--emf-namespace`: the namespace of the metrics.
    pub namespace: String,
}

/// Reads it; `None` where it is off.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> Option<EmfSettings> {
    let on = sources.read("emf", value::boolean, problems).unwrap_or(false);
    let interval = sources.read("emf-interval-secs", value::seconds_above_zero, problems);
    let namespace = sources.read("emf-namespace", value::text, problems);
    on.then(|| EmfSettings {
        interval: interval.unwrap_or(Duration::from_secs(60)),
        namespace: namespace.unwrap_or_else(|| "muster".to_owned()),
    })
}
