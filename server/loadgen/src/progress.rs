//! How far a run has come: counts that the event loop leaves for others to read, and the line that shows
//! them on a terminal.

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// How often the line is written.
const PERIOD: Duration = Duration::from_millis(200);
/// Width of the bar in characters.
const WIDTH: usize = 24;

/// What one or several runs have counted so far. Written every 20 ms, so that it costs a request nothing.
#[derive(Debug, Default)]
pub struct Progress {
    ended: AtomicU64,
    bad: AtomicU64,
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
/// up the event loop. It is wiped when this is dropped.
pub(crate) struct Bar {
    /// Only its end says something.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Bar {
    /// A bar on standard error; `None` where that is not a terminal, or no thread can be had.
    pub(crate) fn on_terminal(progress: Arc<Progress>, expected: Expected) -> Option<Bar> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let (stop, stopped) = mpsc::channel();
        let start = Instant::now();
        let mut last = Sight::default();
        let draw = move || {
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let now = Sight {
                    elapsed: start.elapsed(),
                    ended: progress.ended(),
                    bad: progress.bad(),
                };
                // Whoever took the terminal away does not want the line.
                let _ = write!(io::stderr(), "\r{}\x1b[K", line(&last, &now, &expected));
                last = now;
            }
            let _ = write!(io::stderr(), "\r\x1b[K");
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
}

/// The line, of fewer than 80 characters; the rate is that since `last`.
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
    format!(
        "[{:WIDTH$}] {:3.0} %  {:.1} s  {} replies  {rate:.0}/s{bad}",
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
        let last = Sight { elapsed: Duration::from_secs(2), ended: 1000, bad: 0 };
        let now = Sight { elapsed: Duration::from_millis(2500), ended: 1500, bad: 3 };
        assert_eq!(line(&last, &now, &expected), text);
    }

    #[test]
    fn the_line_shows_the_share_of_the_time_or_of_the_requests() {
        let time = Some(Duration::from_secs(10));
        check(
            Expected { time, requests: None },
            "[######                  ]  25 %  2.5 s  1500 replies  1000/s  3 not 2xx",
        );
        check(
            Expected { time: None, requests: Some(3000) },
            "[############            ]  50 %  2.5 s  1500 replies  1000/s  3 not 2xx",
        );
    }

    #[test]
    fn a_run_that_takes_longer_than_expected_is_not_past_its_end() {
        let time = Some(Duration::from_secs(1));
        check(
            Expected { time, requests: Some(3000) },
            "[########################] 100 %  2.5 s  1500 replies  1000/s  3 not 2xx",
        );
    }
}
