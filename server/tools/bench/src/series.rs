//! What happens over the time of a run: a sample each second, and a window for each number of users.
//!
//! Requests are counted into the sample that is open. A sample that ends is added to the counts of the run, and to
//! those of its window where the window has settled. So a request costs one entry and is in no sample twice.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{Error, GpuUsage, Interval, Usage, tally::Tally, traffic::Change, usage::Reading};

/// Length of a sample.
const SAMPLE: Duration = Duration::from_secs(1);
/// Length of a window where the number of users does not change; the last one may be half as long again.
const WINDOW: Duration = Duration::from_secs(10);
/// The beginning of a window that is left out of its figures: this share of it, and at most `LONGEST_SETTLING`.
const SETTLING: f64 = 0.2;
const LONGEST_SETTLING: Duration = Duration::from_secs(1);

/// The course of a run that is under way.
#[derive(Debug)]
pub(crate) struct Series {
    opens: Instant,
    /// When the run is to end.
    closes: Option<Instant>,
    deadline: Option<Duration>,
    /// Numbers of users that are to come.
    changes: VecDeque<Change>,
    /// Does their number change at all?
    varies: bool,
    users: usize,
    sample: Tally,
    window: Tally,
    total: Tally,
    sample_begins: Instant,
    /// When the window's figures begin.
    settles: Instant,
    window_ends: Instant,
    samples: Vec<Interval>,
    windows: Vec<Interval>,
}

impl Series {
    /// A run that counts from `opens` on. Without `changes` there are always `users`.
    pub(crate) fn new(
        opens: Instant,
        closes: Option<Instant>,
        users: usize,
        changes: Vec<Change>,
        deadline: Option<Duration>,
    ) -> Series {
        let mut series = Series {
            opens,
            closes,
            deadline,
            varies: changes.len() > 1,
            users: changes.first().map_or(users, |it| it.users),
            changes: changes.into_iter().skip(1).collect(),
            sample: Tally::new(deadline),
            window: Tally::new(deadline),
            total: Tally::new(deadline),
            sample_begins: opens,
            settles: opens,
            window_ends: opens,
            samples: Vec::new(),
            windows: Vec::new(),
        };
        series.begin_window(opens);
        series
    }

    /// Where requests are counted now.
    pub(crate) fn open(&mut self) -> &mut Tally {
        &mut self.sample
    }

    /// Users of this moment.
    pub(crate) fn users(&self) -> usize {
        self.users
    }

    /// The samples that have ended.
    pub(crate) fn samples(&self) -> &[Interval] {
        &self.samples
    }

    /// The windows that have ended.
    pub(crate) fn windows(&self) -> &[Interval] {
        &self.windows
    }

    /// When there is something to end.
    pub(crate) fn next(&self) -> Instant {
        let settles = (self.settles > self.sample_begins).then_some(self.settles);
        let ends = (self.sample_begins + SAMPLE).min(self.window_ends);
        settles.map_or(ends, |it| it.min(ends))
    }

    /// Ends what is over by `now`. Tells how many samples and windows have ended.
    pub(crate) fn advance(&mut self, now: Instant) -> (usize, usize) {
        let before = (self.samples.len(), self.windows.len());
        while self.next() <= now && self.closes.is_none_or(|it| self.sample_begins < it) {
            let end = self.next();
            self.end_sample(end);
            if end == self.window_ends {
                self.end_window(end);
            }
        }
        (self.samples.len() - before.0, self.windows.len() - before.1)
    }

    /// The run is over at `now`: what is counted from here on is in none of its windows. Tells how many samples have
    /// ended.
    pub(crate) fn close(&mut self, now: Instant) -> usize {
        let before = self.samples.len();
        self.advance(now);
        if self.sample_begins < now {
            self.end_sample(now);
        }
        if self.settles < now && self.window.replies() + self.window.failures.total() > 0 {
            self.end_window(now);
        }
        self.samples.len() - before
    }

    /// All counts, samples and windows, those with what the server's processes used according to `readings`: one of
    /// the beginning and one of the end of each sample, where it could be taken.
    pub(crate) fn finish(
        mut self,
        readings: &[Result<Reading, Error>],
    ) -> (Tally, Vec<Interval>, Vec<Interval>) {
        self.total.add(&self.sample);
        for (sample, pair) in self.samples.iter_mut().zip(readings.windows(2)) {
            let [Ok(before), Ok(after)] = pair else { continue };
            let length = sample.end - sample.start;
            let taken = before.server.zip(after.server);
            sample.server = taken.map(|(before, after)| after.usage_since(&before, length));
            let own = after.own.saturating_sub(before.own).as_secs_f64();
            sample.generator = Some(own / length.as_secs_f64().max(f64::EPSILON));
        }
        let gpus = readings.iter().skip(1).map(|it| it.as_ref().ok().and_then(|it| it.gpu));
        for (sample, gpu) in self.samples.iter_mut().zip(gpus) {
            sample.gpu = gpu;
        }
        for window in &mut self.windows {
            let (start, end) = (window.start, window.end);
            let within = self.samples.iter().filter(|it| it.start >= start && it.end <= end);
            let cores = mean(within.clone(), |it| it.server.map(|it| it.cores));
            let resident =
                within.clone().next_back().and_then(|it| it.server).map(|it| it.resident);
            window.server = cores.zip(resident).map(|(cores, resident)| Usage { cores, resident });
            window.generator = mean(within.clone(), |it| it.generator);
            window.gpu = GpuUsage::over(within);
        }
        (self.total, self.samples, self.windows)
    }

    fn end_sample(&mut self, end: Instant) {
        let tally = std::mem::replace(&mut self.sample, Tally::new(self.deadline));
        let since = |it: Instant| it.saturating_duration_since(self.opens);
        let (start, end_since) = (since(self.sample_begins), since(end));
        self.samples.push(Interval::new(start, end_since, self.users, &tally));
        if self.sample_begins >= self.settles {
            self.window.add(&tally);
        }
        self.total.add(&tally);
        self.sample_begins = end;
    }

    fn end_window(&mut self, end: Instant) {
        let tally = std::mem::replace(&mut self.window, Tally::new(self.deadline));
        let since = |it: Instant| it.saturating_duration_since(self.opens);
        let (start, end_since) = (since(self.settles), since(end));
        self.windows.push(Interval::new(start, end_since, self.users, &tally));
        if let Some(change) = self.changes.pop_front() {
            self.users = change.users;
        }
        self.begin_window(end);
    }

    fn begin_window(&mut self, start: Instant) {
        let end = match self.changes.front() {
            Some(change) => self.opens + change.at,
            None if self.varies => self.closes.unwrap_or(start + WINDOW),
            // What would be left of less than half a window belongs to the last one.
            None => {
                self.closes.filter(|it| *it < start + WINDOW + WINDOW / 2).unwrap_or(start + WINDOW)
            }
        };
        self.window_ends = self.closes.filter(|it| *it > start).map_or(end, |it| it.min(end));
        let length = self.window_ends.saturating_duration_since(start);
        self.settles = start + length.mul_f64(SETTLING).min(LONGEST_SETTLING);
    }
}

/// The mean of a figure by the lengths of the samples; `None` where one has none.
fn mean<'a>(
    samples: impl Iterator<Item = &'a Interval>,
    of: impl Fn(&Interval) -> Option<f64>,
) -> Option<f64> {
    let (mut time, mut sum) = (0.0, 0.0);
    for sample in samples {
        let length = (sample.end - sample.start).as_secs_f64();
        (time, sum) = (time + length, sum + of(sample)? * length);
    }
    (time > 0.0).then(|| sum / time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Tree;

    const MS: Duration = Duration::from_millis(1);

    fn change(at: u32, users: usize) -> Change {
        Change { at: MS * at, users }
    }

    /// One reply each 10 ms from `opens` until `end`.
    fn drive(series: &mut Series, opens: Instant, end: u32) {
        for at in (5..end).step_by(10) {
            series.advance(opens + MS * at);
            let latency = MS * series.users() as u32;
            series.open().reply(200, latency, 1);
        }
    }

    #[test]
    fn a_window_is_the_time_of_one_number_of_users_without_its_beginning() {
        let opens = Instant::now();
        let changes = vec![change(0, 1), change(2000, 2), change(10_000, 3)];
        let mut series = Series::new(opens, Some(opens + MS * 12_000), 9, changes, None);
        drive(&mut series, opens, 12_000);
        series.close(opens + MS * 12_000);
        // A reply that comes after the end belongs to the run alone.
        series.open().reply(200, MS, 1);
        let (total, samples, windows) = series.finish(&[]);
        assert_eq!(total.latency.len(), 1201);
        let seen: Vec<_> = windows
            .iter()
            .map(|it| (it.start.as_millis(), it.end.as_millis(), it.users, it.requests))
            .collect();
        let expected = [(400, 2000, 1, 160), (3000, 10_000, 2, 700), (10_400, 12_000, 3, 160)];
        assert_eq!(seen, expected);
        assert!(windows.iter().all(|it| (it.throughput - 100.0).abs() < 1e-6 && it.errors == 0));
        assert!((windows[1].latency.p99.as_secs_f64() - 0.002).abs() < 1e-5);
        assert_eq!(samples.iter().map(|it| it.requests).sum::<u64>(), 1200);
        assert!(samples.windows(2).all(|it| it[0].end == it[1].start));
        assert_eq!(samples.last().map(|it| it.end), Some(MS * 12_000));
    }

    #[test]
    fn windows_are_of_ten_seconds_where_the_users_stay() {
        let opens = Instant::now();
        let mut series = Series::new(opens, None, 4, Vec::new(), None);
        drive(&mut series, opens, 25_000);
        series.close(opens + MS * 25_000);
        let (_, samples, windows) = series.finish(&[]);
        let ends: Vec<_> = windows.iter().map(|it| it.end.as_secs()).collect();
        assert_eq!(ends, [10, 20, 25]);
        assert!(samples.iter().chain(&windows).all(|it| it.users == 4));
    }

    #[test]
    fn users_of_one_number_have_windows_of_ten_seconds_and_no_remainder_of_a_moment() {
        let opens = Instant::now();
        for (length, expected) in [
            (30_000, &[10, 20, 30][..]),
            (31_000, &[10, 20, 31]),
            (25_000, &[10, 20, 25]),
            (8_000, &[8]),
        ] {
            let closes = Some(opens + MS * length);
            let mut series = Series::new(opens, closes, 4, vec![change(0, 4)], None);
            drive(&mut series, opens, length);
            series.close(opens + MS * length);
            let (_, _, windows) = series.finish(&[]);
            let ends: Vec<_> = windows.iter().map(|it| it.end.as_secs()).collect();
            assert_eq!(ends, expected, "{length}");
        }
    }

    #[test]
    fn what_the_server_used_is_told_for_samples_and_windows() {
        let opens = Instant::now();
        let mut series = Series::new(opens, Some(opens + MS * 4000), 1, Vec::new(), None);
        drive(&mut series, opens, 4000);
        series.close(opens + MS * 4000);
        let reading = |second: u64| {
            let server = Tree {
                cpu: MS * (500 * second * second) as u32,
                resident: 100 + second,
                ..Tree::default()
            };
            let gpu = GpuUsage { utilization: second as f64 / 10.0, memory: second };
            let own = MS * (250 * second) as u32;
            Ok(Reading { own, server: Some(server), gpu: Some(gpu), ..Reading::default() })
        };
        // Samples end at 0.8 s, where the window settles, 1.8 s, 2.8 s, 3.8 s and 4 s.
        let (_, samples, windows) = series.finish(&(0..6).map(reading).collect::<Vec<_>>());
        assert_eq!(samples.len(), 5);
        let usage = samples[1].server.unwrap();
        assert!((usage.cores - 1.5).abs() < 1e-6 && usage.resident == 102, "{usage:?}");
        let usage = windows[0].server.unwrap();
        assert!((usage.cores - 12.0 / 3.2).abs() < 1e-6 && usage.resident == 105, "{usage:?}");
        let generator = [samples[1].generator, windows[0].generator].map(Option::unwrap);
        // A quarter of a second in each sample: four of them are the window.
        assert!((generator[0] - 0.25).abs() < 1e-6 && (generator[1] - 1.0 / 3.2).abs() < 1e-6);
        // The samples of the window end with the second to the fifth reading.
        let gpu = windows[0].gpu.unwrap();
        assert!((gpu.utilization - 0.35).abs() < 1e-6 && gpu.memory == 5, "{gpu:?}");
    }
}
