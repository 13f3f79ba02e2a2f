//! The counters of one model version, and which models have counters of their own.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    Gauge,
    histogram::{DURATION_BOUNDS, Histogram, ROW_BOUNDS, nanoseconds},
    lanes::Lanes,
};

/// Longest value of a label, in bytes; the rest is cut off.
const LONGEST_VALUE: usize = 1024;

/// Most tags of one model; those that come later in the alphabet have no label.
const MOST_TAGS: usize = 32;

/// Buckets of the first-response histogram where a model has none of its own, in milliseconds.
const FIRST_RESPONSE_MS: [u64; 4] = [100, 500, 2000, 5000];

/// Names and values, in alphabetical order, each name once.
pub(super) type Labels = Vec<(String, String)>;

/// What a model's configuration says about its metrics.
#[derive(Debug, Clone)]
pub struct ModelOptions {
    /// `metric_tags`: each becomes a label, its name after an underscore. What a label's name cannot
    /// hold becomes an underscore.
    pub tags: BTreeMap<String, String>,
    /// The GPU on which all instances run, where that is one: the label `gpu_uuid`.
    pub gpu_uuid: Option<String>,
    /// Upper bounds of the first-response histogram, in milliseconds: `model_metrics`, or Triton's own.
    pub first_response_ms: Vec<u64>,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            tags: BTreeMap::new(),
            gpu_uuid: None,
            first_response_ms: FIRST_RESPONSE_MS.to_vec(),
        }
    }
}

/// Why a request to a model was not answered with a result: the label `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// It waited too long, or there was no room for it.
    Rejected,
    /// The client went away, or its deadline passed.
    Canceled,
    /// The engine failed.
    Backend,
    /// Anything else, but not a request that fails validation: that one is not counted.
    Other,
}

impl FailureReason {
    /// Every reason, in the order of the declaration.
    pub(super) const ALL: [FailureReason; 4] = [
        FailureReason::Rejected,
        FailureReason::Canceled,
        FailureReason::Backend,
        FailureReason::Other,
    ];

    /// The value of the label, as Triton spells it.
    pub const fn name(self) -> &'static str {
        match self {
            FailureReason::Rejected => "REJECTED",
            FailureReason::Canceled => "CANCELED",
            FailureReason::Backend => "BACKEND",
            FailureReason::Other => "OTHER",
        }
    }
}

/// One request that was answered with a result. The compute times are those of its whole batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Rows of the request; 1 for a model without a batch dimension.
    pub rows: usize,
    /// From acceptance to the response.
    pub total: Duration,
    /// From acceptance to the start of the execution.
    pub queue: Duration,
    /// Gathering the inputs.
    pub compute_input: Duration,
    /// The run of the engine.
    pub compute_infer: Duration,
    /// Scattering the outputs.
    pub compute_output: Duration,
}

/// All counters of one model version.
pub(super) struct Series {
    pub(super) labels: Labels,
    /// Stands for all models above the bound.
    pub(super) is_overflow: bool,
    /// Upper bounds of the first-response histogram; `None` where nobody asked for it.
    first_response_ms: Option<Vec<u64>>,
    /// What every request counts.
    lanes: Lanes<Counts>,
    /// In the order of [`FailureReason::ALL`].
    pub(super) failures: [AtomicU64; FailureReason::ALL.len()],
    pub(super) pending: Gauge,
    pub(super) load: AtomicU64,
}

/// What every request counts. Times are in nanoseconds, to the end.
pub(super) struct Counts {
    /// Also counts the successful requests: each is observed once.
    pub(super) request: Histogram,
    pub(super) queue: Histogram,
    /// The three parts together.
    pub(super) compute: Histogram,
    pub(super) compute_input: AtomicU64,
    pub(super) compute_infer: AtomicU64,
    pub(super) compute_output: AtomicU64,
    pub(super) rows: AtomicU64,
    /// Also counts the executions: each is observed once.
    pub(super) batch_rows: Histogram,
    /// In milliseconds; `None` where nobody asked for it.
    pub(super) first_response: Option<Histogram>,
}

impl Series {
    fn new(labels: Labels, first_response_ms: Option<&[u64]>, is_overflow: bool) -> Series {
        Series {
            labels,
            is_overflow,
            first_response_ms: first_response_ms.map(<[u64]>::to_vec),
            lanes: Lanes::new(),
            failures: Default::default(),
            pending: Gauge::default(),
            load: AtomicU64::new(0),
        }
    }

    fn no_counts(&self) -> Counts {
        let durations = || Histogram::new(DURATION_BOUNDS.as_slice());
        Counts {
            request: durations(),
            queue: durations(),
            compute: durations(),
            compute_input: AtomicU64::new(0),
            compute_infer: AtomicU64::new(0),
            compute_output: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            batch_rows: Histogram::new(ROW_BOUNDS.as_slice()),
            first_response: self.first_response_ms.clone().map(Histogram::new),
        }
    }

    /// Those of this thread.
    fn mine(&self) -> &Counts {
        self.lanes.mine(|| self.no_counts())
    }

    /// Those of all threads together.
    pub(super) fn counts(&self) -> Counts {
        let sum = self.no_counts();
        for counts in self.lanes.all() {
            sum.absorb(counts);
        }
        sum
    }
}

impl Counts {
    fn absorb(&self, other: &Counts) {
        fn numbers(it: &Counts) -> [&AtomicU64; 4] {
            [&it.compute_input, &it.compute_infer, &it.compute_output, &it.rows]
        }
        fn histograms(it: &Counts) -> [&Histogram; 4] {
            [&it.request, &it.queue, &it.compute, &it.batch_rows]
        }
        for (number, more) in numbers(self).into_iter().zip(numbers(other)) {
            number.fetch_add(more.load(Relaxed), Relaxed);
        }
        for (histogram, more) in histograms(self).into_iter().zip(histograms(other)) {
            histogram.absorb(more);
        }
        if let (Some(histogram), Some(more)) = (&self.first_response, &other.first_response) {
            histogram.absorb(more);
        }
    }
}

/// The handle of one model version. Every method is a few relaxed additions: no lock, no allocation.
#[derive(Clone)]
pub struct ModelMetrics(pub(super) Arc<Series>);

impl ModelMetrics {
    /// Counts a request that was accepted and is not executing yet, until the guard is dropped.
    pub fn pending(&self) -> Pending {
        self.0.pending.add(1);
        Pending(self.0.clone())
    }

    /// Counts one request that was answered with a result.
    pub fn success(&self, sample: Sample) {
        let series = self.0.mine();
        let [input, infer, output] =
            [sample.compute_input, sample.compute_infer, sample.compute_output].map(nanoseconds);
        series.request.observe(nanoseconds(sample.total));
        series.queue.observe(nanoseconds(sample.queue));
        series.compute.observe(input.saturating_add(infer).saturating_add(output));
        series.compute_input.fetch_add(input, Relaxed);
        series.compute_infer.fetch_add(infer, Relaxed);
        series.compute_output.fetch_add(output, Relaxed);
        series.rows.fetch_add(sample.rows as u64, Relaxed);
        if let Some(first_response) = &series.first_response {
            first_response.observe(nanoseconds(sample.total) / 1_000_000);
        }
    }

    /// Counts one request that was accepted and failed.
    pub fn failure(&self, reason: FailureReason) {
        if let Some(count) = self.0.failures.get(reason as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts one execution of a batch of that many rows.
    pub fn execution(&self, rows: usize) {
        self.0.mine().batch_rows.observe(rows as u64);
    }

    /// Says how long loading the model took.
    pub fn load_duration(&self, duration: Duration) {
        self.0.load.store(nanoseconds(duration), Relaxed);
    }
}

/// A request that waits; see [`ModelMetrics::pending`].
pub struct Pending(Arc<Series>);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.pending.sub(1);
    }
}

/// Which models have counters.
pub(super) struct Models {
    /// At most so many are shown one by one.
    most: usize,
    /// Those that are alive are shown. The dead are taken away when there is no room, and when shown.
    series: BTreeMap<Labels, Weak<Series>>,
    /// Where the models above the bound are summed, once there has been one. Never given up, so that
    /// its counts never fall.
    overflow: Option<Arc<Series>>,
}

impl Models {
    pub(super) fn new(most: usize) -> Models {
        Models { most, series: BTreeMap::new(), overflow: None }
    }

    /// The living counters with these labels, or new ones.
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
            return ModelMetrics(series);
        }
        if self.series.len() >= self.most {
            self.series.retain(|_, it| it.strong_count() > 0);
        }
        if self.series.len() >= self.most && !self.series.contains_key(&labels) {
            let overflow = self.overflow.get_or_insert_with(|| {
                let labels = self::labels("_other", "_other", &ModelOptions::default());
                Arc::new(Series::new(labels, first_response_ms, true))
            });
            return ModelMetrics(overflow.clone());
        }
        let series = Arc::new(Series::new(labels.clone(), first_response_ms, false));
        self.series.insert(labels, Arc::downgrade(&series));
        ModelMetrics(series)
    }

    /// All counters that are shown, in the order of their labels, the sum of the others last.
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
