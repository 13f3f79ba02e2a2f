//! Metrics that models' own code makes: families, and in each of them a series for each set of labels. Several models,
//! or instances of one, may have the same series; it is shown for as long as one of them has it.

use std::{collections::BTreeMap, sync::Mutex};

use backend::{MetricChange, MetricKind, MetricVerb};

use super::{
    custom_rules::{CustomMetricError, check_description, check_family, check_series},
    lock::lock,
    series::Labels,
};

/// Series of one family.
pub(super) const MOST_SERIES: usize = 1000;

/// Families of all models.
const MOST_FAMILIES: usize = 1000;

/// Series of all families.
const MOST_IN_ALL: usize = 10_000;

/// All families of models' own code.
#[derive(Default)]
pub(super) struct CustomFamilies {
    /// Guards the families and their numbers.
    families: Mutex<BTreeMap<String, Family>>,
}

pub(super) struct Family {
    pub(super) help: String,
    pub(super) kind: MetricKind,
    /// Who has it, whether it has series or not.
    owners: usize,
    pub(super) series: BTreeMap<Labels, OwnSeries>,
}

pub(super) struct OwnSeries {
    owners: usize,
    pub(super) value: Value,
}

/// What a series has counted.
pub(super) enum Value {
    Number(f64),
    Observed(Observed),
}

/// Observations by the buckets they fall into: each upper bound, and how many fall into that bucket alone.
pub(super) struct Observed {
    pub(super) buckets: Vec<(f64, u64)>,
    pub(super) count: u64,
    pub(super) sum: f64,
}

impl CustomFamilies {
    /// Looks at each family in order.
    pub(super) fn for_each(&self, mut look: impl FnMut(&str, &Family)) {
        lock(&self.families).iter().for_each(|(name, family)| look(name, family));
    }

    /// Does what a model's code asks for; the value of the series then, as far as it has one.
    pub(super) fn change(
        &self,
        change: &MetricChange,
        labels: &Labels,
    ) -> Result<f64, CustomMetricError> {
        let mut families = lock(&self.families);
        match change.verb {
            MetricVerb::MakeFamily => {
                family(&mut families, change)?.owners += 1;
                Ok(0.0)
            }
            MetricVerb::Make => make(&mut families, change, labels),
            MetricVerb::DropFamily => {
                if let Some(family) = families.get_mut(&change.family) {
                    family.owners = family.owners.saturating_sub(1);
                }
                forget_unused(&mut families, &change.family);
                Ok(0.0)
            }
            MetricVerb::Drop => {
                if let Some(family) = families.get_mut(&change.family)
                    && let Some(series) = family.series.get_mut(labels)
                {
                    series.owners = series.owners.saturating_sub(1);
                    if series.owners == 0 {
                        family.series.remove(labels);
                    }
                }
                forget_unused(&mut families, &change.family);
                Ok(0.0)
            }
            MetricVerb::Increment(_)
            | MetricVerb::Set(_)
            | MetricVerb::Observe(_)
            | MetricVerb::Value => {
                let not_made = || CustomMetricError::NotMade(change.family.clone());
                let family = families.get_mut(&change.family).ok_or_else(not_made)?;
                let kind = family.kind;
                let series = family.series.get_mut(labels).ok_or_else(not_made)?;
                series.value.update(kind, change.verb)
            }
        }
    }
}

/// The family of a change, made where there is none.
fn family<'a>(
    families: &'a mut BTreeMap<String, Family>,
    change: &MetricChange,
) -> Result<&'a mut Family, CustomMetricError> {
    let (name, kind) = (&change.family, change.kind);
    if !families.contains_key(name) {
        let kinds: BTreeMap<&str, MetricKind> =
            families.iter().map(|(name, it)| (name.as_str(), it.kind)).collect();
        check_family(name, kind, &kinds)?;
        check_description(&change.description)?;
        if MOST_FAMILIES <= families.len() {
            return Err(CustomMetricError::TooManyFamilies(MOST_FAMILIES));
        }
    }
    let made =
        || Family { help: change.description.clone(), kind, owners: 0, series: BTreeMap::new() };
    let family = families.entry(name.clone()).or_insert_with(made);
    if family.kind != kind || family.help != change.description {
        return Err(CustomMetricError::AnotherFamily {
            family: name.clone(),
            kind: family.kind,
            description: family.help.clone(),
        });
    }
    Ok(family)
}

/// A series, new or there already.
fn make(
    families: &mut BTreeMap<String, Family>,
    change: &MetricChange,
    labels: &Labels,
) -> Result<f64, CustomMetricError> {
    check_series(change, labels)?;
    let in_all: usize = families.values().map(|it| it.series.len()).sum();
    let family = family(families, change)?;
    if let Some(series) = family.series.get_mut(labels) {
        if let Value::Observed(observed) = &series.value
            && !observed.has_bounds(&change.buckets)
        {
            return Err(CustomMetricError::OtherBuckets(change.family.clone()));
        }
        series.owners += 1;
        return Ok(0.0);
    }
    let problem = if MOST_SERIES <= family.series.len() {
        Some(CustomMetricError::TooManySeries { family: change.family.clone(), most: MOST_SERIES })
    } else if MOST_IN_ALL <= in_all {
        Some(CustomMetricError::TooManyInAll(MOST_IN_ALL))
    } else {
        None
    };
    if let Some(problem) = problem {
        forget_unused(families, &change.family);
        return Err(problem);
    }
    let value = match change.kind {
        MetricKind::Counter | MetricKind::Gauge => Value::Number(0.0),
        MetricKind::Histogram => Value::Observed(Observed::new(&change.buckets)),
    };
    family.series.insert(labels.clone(), OwnSeries { owners: 1, value });
    Ok(0.0)
}

/// Removes a family that nobody has and that has no series.
fn forget_unused(families: &mut BTreeMap<String, Family>, name: &str) {
    if families.get(name).is_some_and(|it| it.owners == 0 && it.series.is_empty()) {
        families.remove(name);
    }
}

impl Value {
    fn update(&mut self, kind: MetricKind, verb: MetricVerb) -> Result<f64, CustomMetricError> {
        match (self, verb) {
            (Value::Number(number), MetricVerb::Increment(by)) => {
                if kind == MetricKind::Counter && !(0.0..).contains(&by) {
                    return Err(CustomMetricError::NegativeIncrement(by));
                }
                *number += by;
                Ok(*number)
            }
            (Value::Number(number), MetricVerb::Set(to)) if kind == MetricKind::Gauge => {
                *number = to;
                Ok(to)
            }
            (Value::Number(number), MetricVerb::Value) => Ok(*number),
            (Value::Observed(observed), MetricVerb::Observe(value)) => {
                observed.add(value)?;
                Ok(0.0)
            }
            _ => Err(CustomMetricError::NotOfThatKind { kind, verb }),
        }
    }
}

impl Observed {
    fn new(bounds: &[f64]) -> Observed {
        let buckets = bounds.iter().map(|it| (*it, 0)).collect();
        Observed { buckets, count: 0, sum: 0.0 }
    }

    fn has_bounds(&self, bounds: &[f64]) -> bool {
        self.buckets.iter().map(|it| it.0).eq(bounds.iter().copied())
    }

    fn add(&mut self, value: f64) -> Result<(), CustomMetricError> {
        if value.is_nan() {
            return Err(CustomMetricError::NoNumber);
        }
        let at = self.buckets.partition_point(|(bound, _)| *bound < value);
        if let Some((_, count)) = self.buckets.get_mut(at) {
            *count += 1;
        }
        self.count += 1;
        self.sum += value;
        Ok(())
    }
}
