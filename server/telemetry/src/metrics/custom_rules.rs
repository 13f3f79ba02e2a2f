//! What a metric of a model's own may be called, and how its errors read. Pure.

use std::collections::BTreeMap;

use backend::{CallCode, MetricChange, MetricKind, MetricVerb};

use super::series::Labels;

/// Beginnings of the server's own names.
const OWN: [&str; 4] = ["nv_", "muster_", "process_", "te_"];

/// What Prometheus' text has behind the name of a histogram.
const BEHIND_HISTOGRAM: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Bytes of a name.
const LONGEST_NAME: usize = 200;

/// Bytes of a label's value, and of a description.
const LONGEST_TEXT: usize = 1024;

/// Labels of a series.
const MOST_LABELS: usize = 32;

/// Buckets of a histogram.
const MOST_BUCKETS: usize = 200;

/// Why a change of a model's own metrics is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CustomMetricError {
    /// It cannot be the name of a family or of a label.
    #[error("'{name}' cannot be the name of a {what}: expected {expected}")]
    Name {
        /// Of what.
        what: &'static str,
        /// The given one.
        name: String,
        /// What it may be.
        expected: &'static str,
    },
    /// The server's families are called so.
    #[error(
        "metric family '{0}': names that begin with nv_, muster_, process_ or te_ are the server's own"
    )]
    OwnName(String),
    /// Lines of the two families would have one name.
    #[error(
        "metric family '{family}' cannot be beside the histogram '{histogram}', which has a line of that name"
    )]
    LineOfAnother {
        /// The new one, or the one that is there.
        family: String,
        /// The histogram.
        histogram: String,
    },
    /// The family is there, and is another one.
    #[error(
        "metric family '{family}' is there already with the kind {kind:?} and the description '{description}': use \
         both of them, or another name"
    )]
    AnotherFamily {
        /// Its name.
        family: String,
        /// Its kind.
        kind: MetricKind,
        /// Its description.
        description: String,
    },
    /// The series is there, and its buckets are others.
    #[error("a metric of family '{0}' is there already with these labels and with other buckets")]
    OtherBuckets(String),
    /// A description, a label or a list of them that is too long.
    #[error("{what} of metric family '{family}': {given} given, expected at most {most}")]
    TooLong {
        /// Of what.
        what: &'static str,
        /// The family.
        family: String,
        /// Bytes, or how many.
        given: usize,
        /// The bound.
        most: usize,
    },
    /// A label is given twice.
    #[error("label '{0}' is given twice")]
    LabelTwice(String),
    /// No histogram has such buckets.
    #[error("buckets of metric family '{family}': {problem}")]
    Buckets {
        /// The family.
        family: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The family is full.
    #[error(
        "metric family '{family}' has {most} metrics already, which is the most: use fewer values of labels"
    )]
    TooManySeries {
        /// Its name.
        family: String,
        /// The bound.
        most: usize,
    },
    /// Models have too many families.
    #[error("models have {0} metric families of their own already, which is the most")]
    TooManyFamilies(usize),
    /// Models have too many metrics.
    #[error("models have {0} metrics of their own already, which is the most")]
    TooManyInAll(usize),
    /// The model has no such metric.
    #[error("the model has no such metric of family '{0}': make it first")]
    NotMade(String),
    /// Another kind of metric does that.
    #[error("a metric of kind {kind:?} does not support {}", name_of(*.verb))]
    NotOfThatKind {
        /// Its kind.
        kind: MetricKind,
        /// What was asked for.
        verb: MetricVerb,
    },
    /// A counter only grows.
    #[error("a metric of kind Counter cannot be incremented by {0}: expected 0 or more")]
    NegativeIncrement(f64),
    /// What is observed is no number.
    #[error("NaN cannot be observed: expected a number")]
    NoNumber,
}

impl CustomMetricError {
    /// What sort of error it is to the model's code.
    pub fn code(&self) -> CallCode {
        match self {
            CustomMetricError::AnotherFamily { .. }
            | CustomMetricError::LineOfAnother { .. }
            | CustomMetricError::OtherBuckets(_) => CallCode::AlreadyExists,
            CustomMetricError::NotMade(_) => CallCode::NotFound,
            CustomMetricError::NotOfThatKind { .. } => CallCode::Unsupported,
            CustomMetricError::TooManySeries { .. }
            | CustomMetricError::TooManyFamilies(_)
            | CustomMetricError::TooManyInAll(_) => CallCode::Unavailable,
            CustomMetricError::Name { .. }
            | CustomMetricError::OwnName(_)
            | CustomMetricError::TooLong { .. }
            | CustomMetricError::LabelTwice(_)
            | CustomMetricError::Buckets { .. }
            | CustomMetricError::NegativeIncrement(_)
            | CustomMetricError::NoNumber => CallCode::InvalidArg,
        }
    }
}

fn name_of(verb: MetricVerb) -> &'static str {
    match verb {
        MetricVerb::MakeFamily | MetricVerb::Make => "being made",
        MetricVerb::DropFamily | MetricVerb::Drop => "being dropped",
        MetricVerb::Increment(_) => "increment",
        MetricVerb::Set(_) => "set",
        MetricVerb::Observe(_) => "observe",
        MetricVerb::Value => "value",
    }
}

/// May a new family be called so, beside those that are there?
pub(super) fn check_family(
    name: &str,
    kind: MetricKind,
    others: &BTreeMap<&str, MetricKind>,
) -> Result<(), CustomMetricError> {
    if !is_name(name, |it| it == '_' || it == ':') {
        return Err(CustomMetricError::Name {
            what: "metric family",
            name: shown(name),
            expected: "letters, digits, '_' and ':', at most 200 of them, and no digit first",
        });
    }
    if OWN.iter().any(|it| name.starts_with(it)) {
        return Err(CustomMetricError::OwnName(name.to_owned()));
    }
    let is_histogram = |it: &str| others.get(it) == Some(&MetricKind::Histogram);
    for suffix in BEHIND_HISTOGRAM {
        if let Some(histogram) = name.strip_suffix(suffix).filter(|it| is_histogram(it)) {
            let (family, histogram) = (name.to_owned(), histogram.to_owned());
            return Err(CustomMetricError::LineOfAnother { family, histogram });
        }
        let line = format!("{name}{suffix}");
        if kind == MetricKind::Histogram && others.contains_key(line.as_str()) {
            let histogram = name.to_owned();
            return Err(CustomMetricError::LineOfAnother { family: line, histogram });
        }
    }
    Ok(())
}

/// May a new family be described so?
pub(super) fn check_description(description: &str) -> Result<(), CustomMetricError> {
    bounded("the description", "", description.len(), LONGEST_TEXT)
}

/// May a series have these labels, in their order, and the buckets of the change?
pub(super) fn check_series(
    change: &MetricChange,
    labels: &Labels,
) -> Result<(), CustomMetricError> {
    let family = &change.family;
    bounded("labels", family, labels.len(), MOST_LABELS)?;
    for (name, value) in labels {
        let is_taken = name.starts_with("__") || name == "le" || name == "quantile";
        if is_taken || !is_name(name, |it| it == '_') {
            return Err(CustomMetricError::Name {
                what: "label",
                name: shown(name),
                expected: "letters, digits and '_', at most 200 of them, no digit and no '__' first, and neither 'le' \
                           nor 'quantile'",
            });
        }
        bounded("the value of a label", family, value.len(), LONGEST_TEXT)?;
    }
    let pairs = labels.iter().zip(labels.iter().skip(1));
    if let Some(((name, _), _)) = pairs.into_iter().find(|(one, other)| one.0 == other.0) {
        return Err(CustomMetricError::LabelTwice(name.clone()));
    }
    let wrong = |problem| CustomMetricError::Buckets { family: family.clone(), problem };
    bounded("buckets", family, change.buckets.len(), MOST_BUCKETS)?;
    match change.kind {
        MetricKind::Counter | MetricKind::Gauge if change.buckets.is_empty() => Ok(()),
        MetricKind::Counter | MetricKind::Gauge => {
            Err(wrong("only a histogram has some, and this is none"))
        }
        MetricKind::Histogram if change.buckets.is_empty() => {
            Err(wrong("a histogram needs some, ascending"))
        }
        MetricKind::Histogram => {
            let mut pairs = change.buckets.iter().zip(change.buckets.iter().skip(1));
            match pairs.all(|(one, next)| one < next)
                && change.buckets.iter().all(|it| !it.is_nan())
            {
                true => Ok(()),
                false => Err(wrong("expected numbers in ascending order, each once")),
            }
        }
    }
}

fn bounded(
    what: &'static str,
    family: &str,
    given: usize,
    most: usize,
) -> Result<(), CustomMetricError> {
    match given <= most {
        true => Ok(()),
        false => Err(CustomMetricError::TooLong { what, family: family.to_owned(), given, most }),
    }
}

fn is_name(name: &str, also: impl Fn(char) -> bool) -> bool {
    let is_fine = |it: char| it.is_ascii_alphanumeric() || also(it);
    name.len() <= LONGEST_NAME
        && name.chars().all(is_fine)
        && name.chars().next().is_some_and(|it| !it.is_ascii_digit())
}

/// As much of a name as an error has room for.
fn shown(name: &str) -> String {
    name.chars().take(100).flat_map(char::escape_debug).collect()
}
