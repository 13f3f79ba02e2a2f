//! How long does a batch of so many rows take? Learned from every run.

use std::time::Duration;

/// Run times of one model, by batch size.
///
/// Sizes are carried in buckets of powers of two; each holds a running mean, variance and 95th percentile.
#[derive(Debug, Clone, Default)]
pub struct RunTimes {
    buckets: [Option<Bucket>; 16],
}

/// Times of runs of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    mean: f64,
    /// The mean square of the distance from the mean.
    variance: f64,
    /// A running 95th percentile; see [`Bucket::p95`].
    p95: f64,
    /// Runs so far, up to [`FIRST_RUNS`].
    runs: u8,
}

impl Bucket {
    /// The first run, in seconds.
    pub(crate) fn new(took: f64) -> Bucket {
        Bucket { mean: took, variance: 0.0, p95: took, runs: 1 }
    }

    /// Takes in one run, in seconds.
    pub(crate) fn record(&mut self, took: f64) {
        self.runs = self.runs.saturating_add(1).min(FIRST_RUNS);
        let step = MEAN_STEP.max(1.0 / f64::from(self.runs));
        let distance = took - self.mean;
        self.mean += step * distance;
        self.variance = (1.0 - step) * (self.variance + step * distance * distance);
        let step = if self.p95 < took { 0.95 } else { -0.05 };
        // Steps are relative to the value: a percentile in nanoseconds and one in seconds move alike.
        self.p95 =
            (self.p95 * (1.0 + P95_STEP * step)).clamp(took.min(self.p95), took.max(self.p95));
    }

    /// The mean, in seconds.
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// Are runs shorter than that, nearly always and at present? The mean is what notices at once when they are not any
    /// more.
    pub(crate) fn is_below(&self, limit: Duration) -> bool {
        let limit = limit.as_secs_f64();
        self.mean < limit && self.p95() < limit
    }

    /// Are runs shorter than that as a rule, whatever the last ones were?
    pub(crate) fn is_usually_below(&self, limit: Duration) -> bool {
        self.p95 < limit.as_secs_f64()
    }

    /// The time that 95 in 100 runs stay below. The running percentile alone would need a thousand runs to forget one
    /// that was ten times as slow as they are, if that was the first.
    fn p95(&self) -> f64 {
        self.p95.min(self.mean + FARTHEST * self.variance.sqrt())
    }
}

/// How many rows has a request? Learned from every one that comes.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestRows {
    mean: f64,
}

impl RequestRows {
    /// Takes in one request.
    pub fn record(&mut self, rows: usize) {
        let step = if self.mean == 0.0 { 1.0 } else { MEAN_STEP };
        self.mean += step * (rows as f64 - self.mean);
    }

    /// Rows of a usual one, of late; none before the first.
    pub fn usual(&self) -> usize {
        self.mean.round() as usize
    }
}

/// Weight of a new sample in the mean.
const MEAN_STEP: f64 = 0.1;
/// Of the first so many runs each weighs as much as the others: one that was slow, as the first often is, is not to
/// outweigh those that come after it.
const FIRST_RUNS: u8 = 10;
/// Whatever the times are, at most one in twenty lies so many standard deviations above the mean (Cantelli's
/// inequality: the square root of 19).
const FARTHEST: f64 = 4.36;
/// A batch of twice the rows is worth its time where rows per second rise by a quarter: where it takes no longer than
/// this many times the time.
const WORTHWHILE: f64 = 2.0 / 1.25;
/// Relative step of the percentile: up by 0.95 of it, down by 0.05, so that it rests where one sample in
/// twenty lies above.
const P95_STEP: f64 = 0.05;

impl RunTimes {
    /// Takes in one run of `rows` rows.
    pub fn record(&mut self, rows: usize, took: Duration) {
        let took = took.as_secs_f64();
        match &mut self.buckets[size_class(rows)] {
            Some(bucket) => bucket.record(took),
            none => *none = Some(Bucket::new(took)),
        }
    }

    /// Mean time of a batch of `rows` rows; `None` before the first run.
    pub fn mean(&self, rows: usize) -> Option<Duration> {
        self.nearest(rows).map(|it| Duration::from_secs_f64(it.mean))
    }

    /// The time that 95 in 100 such batches stay below; `None` before the first run.
    pub fn p95(&self, rows: usize) -> Option<Duration> {
        self.nearest(rows).map(|it| Duration::from_secs_f64(it.p95()))
    }

    /// The largest batch such that each doubling up to it is worth its time; 1 before the first run. Sizes that
    /// have not run are passed over.
    pub fn worthwhile_rows(&self) -> usize {
        let mut known = (0..).zip(&self.buckets).filter_map(|(at, it)| Some((at, (*it)?.mean)));
        let Some((mut best, mut time)) = known.next() else { return 1 };
        for (at, mean) in known {
            if WORTHWHILE.powi(at - best) * time < mean {
                break;
            }
            (best, time) = (at, mean);
        }
        1 << best
    }

    /// Mean time of so many rows: of a batch of them, else of as many smaller ones as they make, else of the next
    /// larger one. `None` before the first run.
    pub fn mean_of_all(&self, rows: usize) -> Option<Duration> {
        let at = size_class(rows);
        let known = |at: usize| Some((at, self.buckets[at]?.mean));
        let (size, mean) = (0..=at).rev().chain(at..self.buckets.len()).find_map(known)?;
        let batches = if size < at { rows as f64 / (1 << size) as f64 } else { 1.0 };
        Duration::try_from_secs_f64(mean * batches).ok()
    }

    /// Are runs of that size known to be shorter than `limit`, nearly always and at present? Never by runs of another
    /// size.
    pub fn of_size_are_below(&self, rows: usize, limit: Duration) -> bool {
        self.buckets[size_class(rows)].is_some_and(|it| it.is_below(limit))
    }

    /// The bucket of that size, else the next smaller one that is known, else the next larger. A size never
    /// seen is so taken to be as fast as a smaller one: a guess that the first run corrects, where the
    /// opposite guess would refuse the work that could correct it.
    fn nearest(&self, rows: usize) -> Option<Bucket> {
        let at = size_class(rows);
        let (below, above) = (&self.buckets[..=at], &self.buckets[at..]);
        below.iter().rev().chain(above).find_map(|it| *it)
    }
}

/// The size of a run of so many rows, in doublings.
pub(crate) fn size_class(rows: usize) -> usize {
    (rows.max(1).ilog2() as usize).min(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn nothing_is_known_before_the_first_run() {
        assert_eq!(RunTimes::default().mean(1), None);
    }

    #[test]
    fn an_unknown_size_is_taken_from_the_nearest_smaller_one() {
        let mut times = RunTimes::default();
        times.record(1, ms(10));
        times.record(16, ms(40));
        assert_eq!(times.mean(8), Some(ms(10)));
        assert_eq!(times.mean(100), Some(ms(40)));
        let mut times = RunTimes::default();
        times.record(16, ms(40));
        assert_eq!(times.mean(1), Some(ms(40)));
    }

    #[test]
    fn a_batch_is_worth_its_time_while_doublings_of_it_raise_rows_per_second_by_a_quarter() {
        assert_eq!(RunTimes::default().worthwhile_rows(), 1);
        let learned = |runs: &[(usize, u64)]| {
            let mut times = RunTimes::default();
            runs.iter().for_each(|(rows, took)| times.record(*rows, ms(*took)));
            times.worthwhile_rows()
        };
        // A processor that a single row fills; an accelerator that has room; one that has room for eight.
        assert_eq!(learned(&[(1, 10), (2, 20), (64, 640)]), 1);
        assert_eq!(learned(&[(1, 10), (2, 10), (4, 11), (64, 20)]), 64);
        assert_eq!(learned(&[(1, 12), (2, 18), (4, 26), (8, 40), (16, 70), (32, 138)]), 8);
        assert_eq!(learned(&[(16, 10)]), 16);
    }

    #[test]
    fn rows_that_have_not_run_together_take_as_long_as_in_smaller_batches() {
        let mut times = RunTimes::default();
        assert_eq!(times.mean_of_all(8), None);
        times.record(4, ms(10));
        assert_eq!(times.mean_of_all(32), Some(ms(80)));
        assert_eq!(times.mean_of_all(5), Some(ms(10)));
        assert_eq!(times.mean_of_all(1), Some(ms(10)));
        times.record(32, ms(70));
        assert_eq!(times.mean_of_all(32), Some(ms(70)));
    }

    #[test]
    fn a_usual_request_is_not_made_large_by_few_that_are() {
        let mut rows = RequestRows::default();
        assert_eq!(rows.usual(), 0);
        rows.record(4);
        assert_eq!(rows.usual(), 4);
        for i in 0..1000 {
            rows.record(if i % 100 == 0 { 64 } else { 1 });
        }
        assert_eq!(rows.usual(), 1);
        (0..50).for_each(|_| rows.record(64));
        assert!(60 < rows.usual());
    }

    #[test]
    fn the_mean_follows_a_change_within_some_tens_of_runs() {
        let mut times = RunTimes::default();
        (0..50).for_each(|_| times.record(1, ms(10)));
        (0..50).for_each(|_| times.record(1, ms(100)));
        assert!(times.mean(1).unwrap() > ms(95));
    }

    /// After `slow` runs of 2 s, how many of 50 ms until both estimates are below 500 ms?
    fn runs_to_forget(slow: usize) -> usize {
        let mut times = RunTimes::default();
        (0..slow).for_each(|_| times.record(1, ms(2000)));
        let is_forgotten =
            |times: &RunTimes| times.p95(1).unwrap().max(times.mean(1).unwrap()) < ms(500);
        (0..10_000)
            .find(|_| {
                times.record(1, ms(50));
                is_forgotten(&times)
            })
            .unwrap()
    }

    #[test]
    fn runs_that_were_forty_times_as_slow_are_forgotten_after_some_tens_of_others() {
        for slow in [1, 5, 1000] {
            assert!(runs_to_forget(slow) < 80, "{slow}: {}", runs_to_forget(slow));
        }
    }

    #[test]
    fn one_very_slow_run_is_noticed_at_once() {
        let mut times = RunTimes::default();
        (0..50).for_each(|_| times.record(1, Duration::from_micros(10)));
        assert!(times.of_size_are_below(1, Duration::from_micros(50)));
        times.record(1, ms(10));
        assert!(!times.of_size_are_below(1, Duration::from_micros(50)));
    }

    #[test]
    fn one_run_in_twenty_lies_above_the_percentile() {
        let mut times = RunTimes::default();
        let mut above = 0;
        for i in 0..20_000u64 {
            // A spread-out order of the numbers 0..1000.
            let took = Duration::from_micros(1000 + (i * 617) % 1000);
            if i >= 10_000 && times.p95(1).unwrap() < took {
                above += 1;
            }
            times.record(1, took);
        }
        assert!((300..900).contains(&above), "{above} of 10000");
    }
}
