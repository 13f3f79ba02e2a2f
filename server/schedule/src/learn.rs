//! How long does a batch of so many rows take? Learned from every run.

use std::time::Duration;

/// Run times of one model, by batch size.
///
/// Sizes are carried in buckets of powers of two; each holds a running mean and a running 95th percentile.
#[derive(Debug, Clone, Default)]
pub struct RunTimes {
    buckets: [Option<Bucket>; 16],
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    mean: f64,
    p95: f64,
}

/// Weight of a new sample in the mean.
const MEAN_STEP: f64 = 0.1;
/// Relative step of the percentile: up by 0.95 of it, down by 0.05, so that it rests where one sample in
/// twenty lies above.
const P95_STEP: f64 = 0.05;

impl RunTimes {
    /// Takes in one run of `rows` rows.
    pub fn record(&mut self, rows: usize, took: Duration) {
        let took = took.as_secs_f64();
        let bucket = self.buckets[index(rows)].get_or_insert(Bucket { mean: took, p95: took });
        bucket.mean += MEAN_STEP * (took - bucket.mean);
        let step = if bucket.p95 < took { 0.95 } else { -0.05 };
        // Steps are relative to the value: a percentile in nanoseconds and one in seconds move alike.
        bucket.p95 = (bucket.p95 * (1.0 + P95_STEP * step))
            .clamp(took.min(bucket.p95), took.max(bucket.p95));
    }

    /// Mean time of a batch of `rows` rows; `None` before the first run.
    pub fn mean(&self, rows: usize) -> Option<Duration> {
        self.nearest(rows).map(|it| Duration::from_secs_f64(it.mean))
    }

    /// The time that 95 in 100 such batches stay below; `None` before the first run.
    pub fn p95(&self, rows: usize) -> Option<Duration> {
        self.nearest(rows).map(|it| Duration::from_secs_f64(it.p95))
    }

    /// Are runs of that size known to be shorter than `limit`, nearly always and at present? The mean is
    /// what notices at once when they are not any more.
    pub fn are_below(&self, rows: usize, limit: Duration) -> bool {
        let limit = limit.as_secs_f64();
        self.nearest(rows).is_some_and(|it| it.mean < limit && it.p95 < limit)
    }

    /// The bucket of that size, else the next smaller one that is known, else the next larger. A size never
    /// seen is so taken to be as fast as a smaller one: a guess that the first run corrects, where the
    /// opposite guess would refuse the work that could correct it.
    fn nearest(&self, rows: usize) -> Option<Bucket> {
        let at = index(rows);
        let (below, above) = (&self.buckets[..=at], &self.buckets[at..]);
        below.iter().rev().chain(above).find_map(|it| *it)
    }
}

fn index(rows: usize) -> usize {
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
    fn the_mean_follows_a_change_within_some_tens_of_runs() {
        let mut times = RunTimes::default();
        (0..50).for_each(|_| times.record(1, ms(10)));
        (0..50).for_each(|_| times.record(1, ms(100)));
        assert!(times.mean(1).unwrap() > ms(95));
    }

    #[test]
    fn one_very_slow_run_is_noticed_at_once() {
        let mut times = RunTimes::default();
        (0..50).for_each(|_| times.record(1, Duration::from_micros(10)));
        assert!(times.are_below(1, Duration::from_micros(50)));
        times.record(1, ms(10));
        assert!(!times.are_below(1, Duration::from_micros(50)));
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
