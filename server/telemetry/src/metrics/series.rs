//! All that is shown of one model version, whatever its loads, and which models have series of their own.
//!
//! Each load counts by itself, since statistics begin anew with it; a series is the sum of its loads, those that are
//! gone included, since a counter of Prometheus should not fall while its series lives.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use super::{
    Gauge,
    batches::Batches,
    cache::CacheCounts,
    histogram::{DURATION_BOUNDS, Histogram, ROW_BOUNDS},
    lanes::Lanes,
    lock,
    model::{BatchReason, FailureReason, Load, ModelMetrics, ModelOptions},
    summary::Summaries,
    tensorflow::TensorFlowLanes,
};

/// Longest value of a label, in bytes; the rest is cut off.
const LONGEST_VALUE: usize = 1024;

/// Most tags of one model; those that come later in the alphabet have no label.
const MOST_TAGS: usize = 32;

/// Names and values, in alphabetical order, each name once.
pub(super) type Labels = Vec<(String, String)>;

/// What is shown of one model version.
pub(super) struct Series {
    pub(super) labels: Labels,
    /// Stands for all models above the bound.
    pub(super) is_overflow: bool,
    /// Upper bounds of the first-response histogram; `None` where nobody asked for it.
    first_response_ms: Option<Vec<u64>>,
    /// Guards which loads there are, not their counts.
    loads: Mutex<Loads>,
    pub(super) pending: Gauge,
    /// Nanoseconds that the last load took.
    pub(super) load: AtomicU64,
    /// `None` where nobody asked for them.
    pub(super) summaries: Option<Summaries>,
    /// Are answers of the model kept?
    pub(super) has_cache: AtomicBool,
    /// `None` where nobody shows it.
    pub(super) tensorflow: Option<TensorFlowLanes>,
}

/// What is counted only where somebody asked for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extras {
    pub(super) summaries: bool,
    pub(super) tensorflow: bool,
}

#[derive(Default)]
struct Loads {
    living: Vec<Arc<Counters>>,
    /// The sum of those that are gone.
    gone: Option<Counts>,
}

/// What one load counts, in a lane for each thread.
pub(super) struct Counters {
    lanes: Lanes<Counts>,
    first_response_ms: Option<Vec<u64>>,
}

/// What every request counts. Times are in nanoseconds, to the end.
pub(super) struct Counts {
    /// Also counts the successful requests: each is observed once.
    pub(super) request: Histogram,
    pub(super) queue: Histogram,
    /// The three parts together. Also counts the requests for which the model ran.
    pub(super) compute: Histogram,
    pub(super) compute_input: AtomicU64,
    pub(super) compute_infer: AtomicU64,
    pub(super) compute_output: AtomicU64,
    pub(super) rows: AtomicU64,
    /// When the last one was answered, in milliseconds since 1970; 0 for never.
    pub(super) last_ms: AtomicU64,
    /// In the order of [`FailureReason::ALL`].
    pub(super) failures: [AtomicU64; FailureReason::ALL.len()],
    /// Time of all failures together.
    pub(super) failed: AtomicU64,
    /// Also counts the executions: each is observed once.
    pub(super) batch_rows: Histogram,
    /// The same by exact size.
    pub(super) batches: Batches,
    /// In the order of [`BatchReason::ALL`].
    pub(super) reasons: [AtomicU64; BatchReason::ALL.len()],
    /// In milliseconds; `None` where nobody asked for it.
    pub(super) first_response: Option<Histogram>,
    pub(super) cache: CacheCounts,
}

impl Series {
    fn new(
        labels: Labels,
        first_response_ms: Option<&[u64]>,
        extras: Extras,
        is_overflow: bool,
    ) -> Series {
        Series {
            labels,
            is_overflow,
            first_response_ms: first_response_ms.map(<[u64]>::to_vec),
            loads: Mutex::default(),
            pending: Gauge::default(),
            load: AtomicU64::new(0),
            summaries: extras.summaries.then(Summaries::default),
            has_cache: AtomicBool::new(false),
            tensorflow: extras.tensorflow.then(TensorFlowLanes::new),
        }
    }

    /// Begins to count one more load.
    fn begin(self: &Arc<Series>) -> ModelMetrics {
        let first_response_ms = self.first_response_ms.clone();
        let counters = Arc::new(Counters { lanes: Lanes::new(), first_response_ms });
        lock(&self.loads).living.push(counters.clone());
        ModelMetrics(Arc::new(Load { counters, series: self.clone() }))
    }

    /// A load has ended. Whoever reads sees its counts in one place or the other, and never in none.
    pub(super) fn retire(&self, counters: &Arc<Counters>) {
        let mut loads = lock(&self.loads);
        loads.living.retain(|it| !Arc::ptr_eq(it, counters));
        let sum = counters.sum();
        match &loads.gone {
            Some(gone) => gone.absorb(&sum),
            None => loads.gone = Some(sum),
        }
    }

    /// Those of all loads together.
    pub(super) fn counts(&self) -> Counts {
        let sum = Counts::new(self.first_response_ms.as_deref());
        let loads = lock(&self.loads);
        if let Some(gone) = &loads.gone {
            sum.absorb(gone);
        }
        for counters in &loads.living {
            counters.add_to(&sum);
        }
        sum
    }
}

impl Counters {
    /// Those of this thread.
    pub(super) fn mine(&self) -> &Counts {
        self.lanes.mine(|| Counts::new(self.first_response_ms.as_deref()))
    }

    /// Those of all threads together.
    pub(super) fn sum(&self) -> Counts {
        let sum = Counts::new(self.first_response_ms.as_deref());
        self.add_to(&sum);
        sum
    }

    fn add_to(&self, sum: &Counts) {
        self.lanes.all().for_each(|it| sum.absorb(it));
    }
}

impl Counts {
    fn new(first_response_ms: Option<&[u64]>) -> Counts {
        let durations = || Histogram::new(DURATION_BOUNDS.as_slice());
        Counts {
            request: durations(),
            queue: durations(),
            compute: durations(),
            compute_input: AtomicU64::new(0),
            compute_infer: AtomicU64::new(0),
            compute_output: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            last_ms: AtomicU64::new(0),
            failures: Default::default(),
            failed: AtomicU64::new(0),
            batch_rows: Histogram::new(ROW_BOUNDS.as_slice()),
            batches: Batches::default(),
            reasons: Default::default(),
            first_response: first_response_ms.map(|it| Histogram::new(it.to_vec())),
            cache: CacheCounts::default(),
        }
    }

    fn absorb(&self, other: &Counts) {
        fn numbers(it: &Counts) -> impl Iterator<Item = &AtomicU64> {
            let alone =
                [&it.compute_input, &it.compute_infer, &it.compute_output, &it.rows, &it.failed];
            let cache = it.cache.numbers();
            alone.into_iter().chain(&it.failures).chain(&it.reasons).chain(cache)
        }
        fn histograms(it: &Counts) -> [&Histogram; 4] {
            [&it.request, &it.queue, &it.compute, &it.batch_rows]
        }
        for (number, more) in numbers(self).zip(numbers(other)) {
            number.fetch_add(more.load(Relaxed), Relaxed);
        }
        for (histogram, more) in histograms(self).into_iter().zip(histograms(other)) {
            histogram.absorb(more);
        }
        self.last_ms.fetch_max(other.last_ms.load(Relaxed), Relaxed);
        self.batches.absorb(&other.batches);
        if let (Some(histogram), Some(more)) = (&self.first_response, &other.first_response) {
            histogram.absorb(more);
        }
    }
}

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
            return series.begin();
        }
        if self.series.len() >= self.most {
            self.series.retain(|_, it| it.strong_count() > 0);
        }
        if self.series.len() >= self.most && !self.series.contains_key(&labels) {
            let overflow = self.overflow.get_or_insert_with(|| {
                let labels = self::labels("_other", "_other", &ModelOptions::default());
                Arc::new(Series::new(labels, first_response_ms, self.extras, true))
            });
            return overflow.begin();
        }
        let series = Arc::new(Series::new(labels.clone(), first_response_ms, self.extras, false));
        self.series.insert(labels, Arc::downgrade(&series));
        series.begin()
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
