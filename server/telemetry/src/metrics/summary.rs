//! Quantiles of times over the last minute, in bounded memory.
//!
//! A DDSketch (Masson, Rim, Lee: DDSketch, a fast and fully-mergeable quantile sketch with relative-error guarantees,
//! PVLDB 12, 2019): counts in buckets whose bounds grow geometrically, so that every quantile is within 1 % of the
//! value that it names. Triton's summaries bound the error of the rank instead.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use super::lock::lock;

/// Times that are summarised: of one request the total, the queue and the three of the execution; of the cache what a
/// hit and what a miss takes.
pub(super) const TIMES: usize = 7;

/// Where the times of the cache are among them.
pub(super) const HIT: usize = 5;
pub(super) const MISS: usize = 6;

/// Bounds of neighbouring buckets: each is so many times the one below. For a relative error of 1 %.
const GROWTH: f64 = 1.01 / 0.99;

/// Buckets of one sketch; the last one, for all above half an hour, ends it. They are made as they are needed.
const MOST_BUCKETS: usize = 1412;

/// The window is cut into slices of that length, of which the oldest is forgotten as a whole.
const SLICE: Duration = Duration::from_secs(10);

/// Slices that are kept: the window is the last 50 to 60 seconds.
const SLICES: usize = 6;

/// The summaries of one model.
pub(super) struct Summaries {
    started: Instant,
    /// Guards the counts of all of them: where summaries are on, each request takes one short lock.
    windows: Mutex<[Window; TIMES]>,
}

impl Default for Summaries {
    fn default() -> Summaries {
        Summaries { started: Instant::now(), windows: Mutex::default() }
    }
}

impl Summaries {
    /// Takes in the times of one request, in nanoseconds: all of them, or the first ones.
    pub(super) fn observe(&self, times: &[u64]) {
        let slice = self.slice(Instant::now());
        for (window, time) in lock(&self.windows).iter_mut().zip(times) {
            window.observe(slice, *time);
        }
    }

    /// Takes in one time, in nanoseconds: that at `at`, as [`HIT`].
    pub(super) fn observe_one(&self, at: usize, time: u64) {
        let slice = self.slice(Instant::now());
        if let Some(window) = lock(&self.windows).get_mut(at) {
            window.observe(slice, time);
        }
    }

    /// For each of the times its quantiles, in nanoseconds; NaN where nothing has been observed lately.
    pub(super) fn quantiles(&self, quantiles: &[f64]) -> [Vec<f64>; TIMES] {
        let slice = self.slice(Instant::now());
        let windows = lock(&self.windows);
        windows.each_ref().map(|it| it.quantiles(slice, quantiles))
    }

    fn slice(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_secs() / SLICE.as_secs()
    }
}

/// One sketch for each slice of the time.
#[derive(Default)]
struct Window([(u64, Sketch); SLICES]);

impl Window {
    fn observe(&mut self, slice: u64, value: u64) {
        let (of, sketch) = &mut self.0[(slice % SLICES as u64) as usize];
        if *of != slice {
            *of = slice;
            sketch.0.fill(0);
        }
        sketch.observe(value);
    }

    fn quantiles(&self, slice: u64, quantiles: &[f64]) -> Vec<f64> {
        let mut merged = Sketch::default();
        for (of, sketch) in &self.0 {
            if *of + SLICES as u64 > slice {
                merged.absorb(sketch);
            }
        }
        quantiles.iter().map(|it| merged.quantile(*it)).collect()
    }
}

/// Counts by bucket; bucket 0 is for zero.
#[derive(Default)]
struct Sketch(Vec<u32>);

impl Sketch {
    fn observe(&mut self, value: u64) {
        let bucket = bucket(value);
        if self.0.len() <= bucket {
            self.0.resize(bucket + 1, 0);
        }
        if let Some(count) = self.0.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
    }

    fn absorb(&mut self, other: &Sketch) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count = count.saturating_add(*more);
        }
    }

    fn quantile(&self, quantile: f64) -> f64 {
        let all: u64 = self.0.iter().map(|it| u64::from(*it)).sum();
        let rank = (quantile * all.saturating_sub(1) as f64) as u64;
        let mut below = 0;
        let at = self.0.iter().position(|it| {
            below += u64::from(*it);
            rank < below
        });
        at.map_or(f64::NAN, middle)
    }
}

/// The bucket of a value.
fn bucket(value: u64) -> usize {
    let above = (value as f64).ln() / GROWTH.ln();
    // The logarithm of zero is below every bound.
    if value == 0 { 0 } else { (above.ceil() as usize + 1).min(MOST_BUCKETS - 1) }
}

/// The value that stands for a bucket: no value in it is further away than 1 %.
fn middle(bucket: usize) -> f64 {
    match bucket {
        0 => 0.0,
        _ => 2.0 * GROWTH.powf(bucket as f64 - 1.0) / (GROWTH + 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HALF: [f64; 1] = [0.5];

    #[test]
    fn an_empty_summary_is_no_number() {
        assert!(Summaries::default().quantiles(&HALF).iter().all(|it| it[0].is_nan()));
    }

    #[test]
    fn a_minute_later_a_value_is_forgotten() {
        let mut window = Window::default();
        window.observe(0, 1000);
        window.observe(5, 1_000_000);
        let near = |value: f64, expect: f64| (value / expect - 1.0).abs() <= 0.01;
        assert!(near(window.quantiles(5, &[0.0])[0], 1000.0));
        assert!(near(window.quantiles(6, &[0.0])[0], 1_000_000.0));
        window.observe(6, 2000);
        assert!(near(window.quantiles(6, &[0.0])[0], 2000.0));
        assert!(window.quantiles(12, &HALF)[0].is_nan());
    }

    #[test]
    fn times_of_any_length_take_bounded_memory() {
        let mut sketch = Sketch::default();
        [0, 1, 2, 1_800_000_000_000, u64::MAX].into_iter().for_each(|it| sketch.observe(it));
        assert!(sketch.0.len() <= MOST_BUCKETS);
        assert_eq!(sketch.quantile(0.0), 0.0);
        assert!(1.7e12 < sketch.quantile(1.0));
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_one_percent_of_the_value_of_its_rank(
            mut values in prop::collection::vec(0u64..1_700_000_000_000, 1..200),
            quantile in 0.0f64..=1.0,
        ) {
            let mut sketch = Sketch::default();
            values.iter().for_each(|it| sketch.observe(*it));
            values.sort_unstable();
            let exact = values[(quantile * (values.len() - 1) as f64) as usize] as f64;
            let found = sketch.quantile(quantile);
            prop_assert!((found - exact).abs() <= exact * 0.010_001, "{found} for {exact}");
        }
    }
}
