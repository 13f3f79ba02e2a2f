//! Which models have series of their own, and their labels.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use super::{
    model::ModelMetrics,
    options::ModelOptions,
    series::{Extras, Labels, Series},
};

/// Longest value of a label, in bytes; the rest is cut off.
const LONGEST_VALUE: usize = 1024;

/// Most tags of one model; those that come later in the alphabet have no label.
const MOST_TAGS: usize = 32;

/// Which models have counters.
pub(super) struct Models {
    /// At most so many are shown one by one.
    most: usize,
    /// What is counted of them besides.
    extras: Extras,
    /// Those that are alive are shown. The dead are taken away when there is no room, and when shown.
    series: BTreeMap<Labels, Weak<Series>>,
    /// Where the models above the bound are summed, once there has been one. Never given up, so that
    /// its counts never fall.
    overflow: Option<Arc<Series>>,
}

impl Models {
    pub(super) fn new(most: usize, extras: Extras) -> Models {
        Models { most, extras, series: BTreeMap::new(), overflow: None }
    }

    /// Counters of a load, shown in the living series with these labels, or in a new one.
    pub(super) fn get(
        &mut self,
        name: &str,
        version: u64,
        options: &ModelOptions,
        first_response_ms: Option<&[u64]>,
    ) -> ModelMetrics {
        let first_response_ms = first_response_ms.map(rising);
        let first_response_ms = first_response_ms.as_deref();
        let labels = labels(name, &version.to_string(), options);
        let living = self.series.get(&labels).and_then(Weak::upgrade);
        if let Some(series) = living
            && series.first_response_ms.as_deref() == first_response_ms
        {
            return ModelMetrics::begin(&series);
        }
        if self.series.len() >= self.most {
            self.series.retain(|_, it| it.strong_count() > 0);
        }
        if self.series.len() >= self.most && !self.series.contains_key(&labels) {
            let overflow = self.overflow.get_or_insert_with(|| {
                let labels = self::labels("_other", "_other", &ModelOptions::default());
                Arc::new(Series::new(labels, first_response_ms, self.extras, true))
            });
            return ModelMetrics::begin(overflow);
        }
        let series = Arc::new(Series::new(labels.clone(), first_response_ms, self.extras, false));
        self.series.insert(labels, Arc::downgrade(&series));
        ModelMetrics::begin(&series)
    }

    /// All that are shown, in the order of their labels, the sum of the others last.
    pub(super) fn live(&mut self) -> Vec<Arc<Series>> {
        self.series.retain(|_, it| it.strong_count() > 0);
        let series = self.series.values().filter_map(Weak::upgrade);
        series.chain(self.overflow.clone()).collect()
    }
}

fn rising(bounds: &[u64]) -> Vec<u64> {
    let mut bounds = bounds.to_vec();
    bounds.sort_unstable();
    bounds.dedup();
    bounds
}

fn labels(name: &str, version: &str, options: &ModelOptions) -> Labels {
    // Two tags may become one label; the first keeps it.
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for (tag, value) in options.tags.iter().take(MOST_TAGS) {
        labels.entry(label_name(tag)).or_insert_with(|| cut(value));
    }
    if let Some(uuid) = &options.gpu_uuid {
        labels.insert("gpu_uuid".to_owned(), cut(uuid));
    }
    if let Some(namespace) = &options.namespace {
        labels.insert("namespace".to_owned(), cut(namespace));
    }
    labels.insert("model".to_owned(), cut(name));
    labels.insert("version".to_owned(), version.to_owned());
    labels.into_iter().collect()
}

fn label_name(tag: &str) -> String {
    let allowed = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
    format!("_{}", cut(tag).chars().map(allowed).collect::<String>())
}

fn cut(value: &str) -> String {
    value.get(..value.floor_char_boundary(LONGEST_VALUE)).unwrap_or(value).to_owned()
}
