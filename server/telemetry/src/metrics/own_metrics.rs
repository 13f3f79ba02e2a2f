//! The handle by which one model's own code makes and changes its metrics.

use std::{collections::BTreeMap, sync::Mutex};

use backend::{MetricChange, MetricKind, MetricVerb};

use super::{custom_rules::CustomMetricError, lock::lock, registry::Metrics, series::Labels};

/// The metrics of one model's own code. What it has made goes with this handle, whether its code has dropped it or its
/// process has died.
pub struct OwnMetrics {
    metrics: Metrics,
    /// How often it has made each family, and each series. Guards the order of its changes, too.
    made: Mutex<BTreeMap<(String, Option<Labels>), usize>>,
}

impl Metrics {
    /// A handle for the metrics of one model's own code.
    pub fn of_own_code(&self) -> OwnMetrics {
        OwnMetrics { metrics: self.clone(), made: Mutex::default() }
    }
}

impl OwnMetrics {
    /// Does what the code asks for; the value of the series then, where it is a counter or a gauge.
    ///
    /// # Errors
    /// What is wrong with the family, the labels, or the value.
    pub fn change(&self, change: &MetricChange) -> Result<f64, CustomMetricError> {
        let mut labels = change.labels.clone();
        labels.sort();
        let (makes, drops) = match change.verb {
            MetricVerb::Make | MetricVerb::MakeFamily => (true, false),
            MetricVerb::Drop | MetricVerb::DropFamily => (false, true),
            MetricVerb::Increment(_)
            | MetricVerb::Set(_)
            | MetricVerb::Observe(_)
            | MetricVerb::Value => (false, false),
        };
        let of_family = matches!(change.verb, MetricVerb::MakeFamily | MetricVerb::DropFamily);
        let key = (change.family.clone(), (!of_family).then(|| labels.clone()));
        let mut made = lock(&self.made);
        if !makes && !made.contains_key(&key) {
            return Err(CustomMetricError::NotMade(change.family.clone()));
        }
        let done = self.metrics.custom_families().change(change, &labels)?;
        if makes {
            *made.entry(key).or_default() += 1;
        } else if drops && let Some(count) = made.get_mut(&key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                made.remove(&key);
            }
        }
        Ok(done)
    }
}

impl Drop for OwnMetrics {
    fn drop(&mut self) {
        let made = std::mem::take(&mut *lock(&self.made));
        for ((family, labels), count) in made {
            let verb = match labels {
                Some(_) => MetricVerb::Drop,
                None => MetricVerb::DropFamily,
            };
            let labels = labels.unwrap_or_default();
            let change = MetricChange {
                family,
                description: String::new(),
                kind: MetricKind::Gauge,
                labels: Vec::new(),
                buckets: Vec::new(),
                verb,
            };
            for _ in 0..count {
                // Drops do not fail.
                let _ = self.metrics.custom_families().change(&change, &labels);
            }
        }
    }
}

#[cfg(test)]
mod tests;
