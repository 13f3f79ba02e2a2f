//! How far a run has come: counts that the event loop leaves for others to read, and the line that shows
//! them on a terminal.

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{Interval, Usage};

/// How often the line is written.
const PERIOD: Duration = Duration::from_millis(200);
/// The same where there is no terminal.
const PLAIN_PERIOD: Duration = Duration::from_secs(10);
/// Width of the bar in characters.
const WIDTH: usize = 16;

/// What one or several runs have counted so far. Written every 20 ms, so that it costs a request nothing.
#[derive(Debug, Default)]
pub struct Progress {
    ended: AtomicU64,
    bad: AtomicU64,
    latest: Mutex<Latest>,
}

/// What was seen last, each second.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Latest {
    pub(crate) sample: Option<Interval>,
    pub(crate) usage: Option<Usage>,
}

impl Progress {
    /// Counted requests that have been answered or given up.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Those of them without a 2xx reply.
    pub fn bad(&self) -> u64 {
        self.bad.load(Ordering::Relaxed)
    }

    /// Changes what was seen last.
    pub(crate) fn see(&self, change: impl FnOnce(&mut Latest)) {
        change(&mut self.latest.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn sight(&self, elapsed: Duration) -> Sight {
        let latest = *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        Sight { elapsed, ended: self.ended(), bad: self.bad(), latest }
    }

    pub(crate) fn add(&self, ended: u64, bad: u64) {
        self.ended.fetch_add(ended, Ordering::Relaxed);
        self.bad.fetch_add(bad, Ordering::Relaxed);
    }
}

/// All that is to be done, of which there may be a time, a number of requests, or both.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) time: Option<Duration>,
    pub(crate) requests: Option<u64>,
}

/// A line at the bottom of the terminal, kept by a thread of its own: a terminal that is slow must not hold
/// up the event loop. It is wiped when this is dropped. Where there is no terminal, a line each ten seconds.
pub(crate) struct Bar {
    /// Only its end says something.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Bar {
    /// A bar on standard error; `None` where no thread can be had.
    pub(crate) fn begin(progress: Arc<Progress>, expected: Expected) -> Option<Bar> {
        let (stop, stopped) = mpsc::channel();
        let start = Instant::now();
        let (period, before, after, wiped) = match io::stderr().is_terminal() {
            true => (PERIOD, "\r", "\x1b[K", "\r\x1b[K"),
            false => (PLAIN_PERIOD, "", "\n", ""),
        };
        let mut last = progress.sight(Duration::ZERO);
        let draw = move || {
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                let now = progress.sight(start.elapsed());
                // Whoever took the terminal away does not want the line.
                let _ = write!(io::stderr(), "{before}{}{after}", line(&last, &now, &expected));
                last = now;
            }
            let _ = write!(io::stderr(), "{wiped}");
        };
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(draw).ok()?;
        Some(Bar { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A line that failed is not worth an error.
            let _ = thread.join();
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sight {
    elapsed: Duration,
    ended: u64,
    bad: u64,
    latest: Latest,
}

/// The line, of fewer than 120 characters; the rate is that since `last`.
fn line(last: &Sight, now: &Sight, expected: &Expected) -> String {
    let of_time = expected.time.map(|it| now.elapsed.as_secs_f64() / it.as_secs_f64());
    let of_requests = expected.requests.map(|it| now.ended as f64 / it as f64);
    let share = of_time.into_iter().chain(of_requests).fold(0.0, f64::max).min(1.0);
    let full = (share * WIDTH as f64) as usize;
    let seconds = (now.elapsed - last.elapsed).as_secs_f64().max(f64::EPSILON);
    let rate = (now.ended - last.ended) as f64 / seconds;
    let bad = match now.bad {
        0 => String::new(),
        bad => format!("  {bad} not 2xx"),
    };
    let sample = now.latest.sample.map_or_else(String::new, |it| {
        let p99 = it.latency.p99.as_secs_f64() * 1e3;
        let plural = if it.users == 1 { "" } else { "s" };
        format!("  {} user{plural}  p99 {p99:.1} ms", it.users)
    });
    let usage = now.latest.usage.map_or_else(String::new, |it| {
        format!("  {:.1} cores  {:.0} MB", it.cores, it.resident as f64 / 1e6)
    });
    format!(
        "[{:WIDTH$}] {:3.0} %  {:.1} s  {} replies  {rate:.0}/s{bad}{sample}{usage}",
        "#".repeat(full),
        share * 100.0,
        now.elapsed.as_secs_f64(),
        now.ended,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: Expected, text: &str) {
        let last = Sight { elapsed: Duration::from_secs(2), ended: 1000, ..Sight::default() };
        let mut now = last;
        (now.elapsed, now.ended, now.bad) = (Duration::from_millis(2500), 1500, 3);
        now.latest.usage = Some(Usage { cores: 1.26, resident: 62_000_000 });
        assert_eq!(line(&last, &now, &expected), text);
    }

    #[test]
    fn the_line_shows_the_share_of_the_time_or_of_the_requests() {
        let time = Some(Duration::from_secs(10));
        check(
            Expected { time, requests: None },
            "[####            ]  25 %  2.5 s  1500 replies  1000/s  3 not 2xx  1.3 cores  62 MB",
        );
        check(
            Expected { time: None, requests: Some(3000) },
            "[########        ]  50 %  2.5 s  1500 replies  1000/s  3 not 2xx  1.3 cores  62 MB",
        );
    }

    #[test]
    fn a_run_that_takes_longer_than_expected_is_not_past_its_end() {
        let time = Some(Duration::from_secs(1));
        check(
            Expected { time, requests: Some(3000) },
            "[################] 100 %  2.5 s  1500 replies  1000/s  3 not 2xx  1.3 cores  62 MB",
        );
    }
}
