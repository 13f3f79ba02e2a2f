//! A histogram of whole numbers that many threads add to without a lock.

use std::{
    borrow::Cow,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Upper bounds for durations, in nanoseconds: 1, 2, 5 times each power of ten from 10 us to 60 s.
pub(super) const DURATION_BOUNDS: [u64; 21] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    20_000_000_000,
    60_000_000_000,
];

/// Upper bounds for the rows of a batch.
pub(super) const ROW_BOUNDS: [u64; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// Counts of observed values by bucket, and their sum.
///
/// The number of observations is the sum of the buckets and has no counter of its own, so that the two never
/// disagree. The sum is read at another moment and may be ahead or behind by what came in between.
pub(super) struct Histogram {
    /// Inclusive upper bounds, rising.
    bounds: Cow<'static, [u64]>,
    /// One for each bound, and one for what is above all of them. Not cumulative.
    buckets: Box<[AtomicU64]>,
    /// Wraps at 2^64, which a reader takes for a restart: for nanoseconds and a thousand requests
    /// always waiting, after 200 days.
    sum: AtomicU64,
}

impl Histogram {
    /// `bounds` rise.
    pub(super) fn new(bounds: impl Into<Cow<'static, [u64]>>) -> Histogram {
        let bounds = bounds.into();
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// One that has observed so many values between its bounds, which are `sum` together.
    pub(super) fn of(
        bounds: impl Into<Cow<'static, [u64]>>,
        counts: &[u64],
        sum: u64,
    ) -> Histogram {
        let histogram = Histogram::new(bounds);
        for (bucket, count) in histogram.buckets.iter().zip(counts) {
            bucket.store(*count, Relaxed);
        }
        histogram.sum.store(sum, Relaxed);
        histogram
    }

    /// Adds one value: a search among the bounds and two additions.
    pub(super) fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        if let Some(count) = self.buckets.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        self.sum.fetch_add(value, Relaxed);
    }

    /// Adds all that another one has observed, which has the same bounds.
    pub(super) fn absorb(&self, other: &Histogram) {
        for (count, more) in self.buckets.iter().zip(&other.buckets) {
            count.fetch_add(more.load(Relaxed), Relaxed);
        }
        self.sum.fetch_add(other.sum(), Relaxed);
    }

    /// Sum of the observed values.
    pub(super) fn sum(&self) -> u64 {
        self.sum.load(Relaxed)
    }

    /// Number of observed values.
    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().map(|it| it.load(Relaxed)).sum()
    }

    /// For each bound how many values are not above it; then the number of all values.
    pub(super) fn cumulative(&self) -> (Vec<(u64, u64)>, u64) {
        let mut count = 0;
        let mut below = self.buckets.iter().map(|bucket| {
            count += bucket.load(Relaxed);
            count
        });
        let by_bound: Vec<(u64, u64)> = self.bounds.iter().copied().zip(below.by_ref()).collect();
        let all = below.last().unwrap_or(0);
        (by_bound, all)
    }
}

/// Whole nanoseconds; what does not fit is as much as fits.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(value: u64, expect_bound: Option<u64>) {
        let histogram = Histogram::new(DURATION_BOUNDS.as_slice());
        histogram.observe(value);
        let (by_bound, all) = histogram.cumulative();
        let first = by_bound.iter().find(|(_, count)| *count > 0).map(|(bound, _)| *bound);
        assert_eq!(first, expect_bound);
        assert_eq!((all, histogram.count(), histogram.sum()), (1, 1, value));
    }

    #[test]
    fn a_value_belongs_to_the_first_bound_that_is_not_below_it() {
        check(0, Some(10_000));
        check(10_000, Some(10_000));
        check(10_001, Some(20_000));
        check(60_000_000_000, Some(60_000_000_000));
        check(60_000_000_001, None);
        check(u64::MAX, None);
    }

    #[test]
    fn all_bounds_rise() {
        assert!(DURATION_BOUNDS.is_sorted_by(|a, b| a < b));
        assert!(ROW_BOUNDS.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_histogram_without_bounds_still_counts() {
        let histogram = Histogram::new(Vec::new());
        histogram.observe(7);
        assert_eq!((histogram.cumulative(), histogram.sum()), ((vec![], 1), 7));
    }

    proptest! {
        #[test]
        fn each_bound_counts_the_values_that_are_not_above_it(
            values in prop::collection::vec(0u64..100_000_000_000, 0..200),
        ) {
            let histogram = Histogram::new(DURATION_BOUNDS.as_slice());
            for &value in &values {
                histogram.observe(value);
            }
            let (by_bound, all) = histogram.cumulative();
            for (bound, count) in by_bound {
                let expect = values.iter().filter(|&&it| it <= bound).count();
                prop_assert_eq!(count, expect as u64);
            }
            prop_assert_eq!(all, values.len() as u64);
            prop_assert_eq!(histogram.sum(), values.iter().sum::<u64>());
        }
    }
}
