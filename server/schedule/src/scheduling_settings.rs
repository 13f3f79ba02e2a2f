//! How requests wait and run.

use std::time::Duration;

use crate::{admission::LongestStay, watchdog::RunLimit};
use configuration::{
    Flag, Sources,
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("max-queue-wait-ms", "auto", "Refuse a request that would have to wait longer: auto (where more than 128 wait, by the model's speed; 60 s on a hosting platform), 0 (never), or milliseconds").named("MILLISECONDS"),
    Flag::value("request-timeout-ms", "none", "Longest time from the headers of a request to its answer").named("MILLISECONDS"),
    Flag::value("run-limit-secs", "auto", "Longest time of one run of a model; then it is ended and its requests get 504: auto (600, for slow models more; in a process of the model's own, on the CPU and not for sequences, 60, but 300 for the first three runs), 0 (any time), or seconds").named("SECONDS"),
    Flag::value("caller-runs", "auto", "auto or off: run a small request to an idle model on the thread that read it").named("MODE"),
    Flag::value("worker-spin-us", "200", "Microseconds, at most 1000, for which a thread of a model that has run out of work may look for more before it sleeps: while requests come one by one and as soon as that, and where that answers them sooner. 0: never").named("MICROSECONDS"),
    // Triton's TRITONSERVER_DELAY_SCHEDULER and TRITONSERVER_BACKLOG_DELAY_SCHEDULER. Tests of the whole server need
    // them: without them the sizes of batches depend on how fast requests arrive.
    Flag::value("scheduler-hold", "0", "For tests: begin to batch once so many requests wait").named("COUNT"),
    Flag::value("scheduler-hold-backlog", "0", "For tests: with --scheduler-hold, begin once so many of the requests are of sequences that no instance has a place for").named("COUNT"),
];

/// How requests wait and run.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulingSettings {
    /// `--max-queue-wait-ms`: the longest that a request may have to wait.
    pub longest_stay: LongestStay,
    /// `--request-timeout-ms`: from the headers to the answer; `None` for any time.
    pub request_timeout: Option<Duration>,
    /// `--run-limit-secs`: how long one run of a model may take.
    pub run_limit: RunLimit,
    /// `--caller-runs`: runs shorter than this, of an idle model, are made where the request was read. Zero: none.
    pub caller_runs_below: Duration,
    /// `--worker-spin-us`: longest that a thread of a model without work may look for some before it sleeps.
    pub spin: Duration,
    /// `--scheduler-hold`, `TRITONSERVER_DELAY_SCHEDULER`: batching begins once so many requests wait.
    /// For tests; 0 is off.
    pub hold: usize,
    /// `--scheduler-hold-backlog`, `TRITONSERVER_BACKLOG_DELAY_SCHEDULER`: and so many of them are of sequences that
    /// wait for a place in a batch.
    pub hold_backlog: usize,
}

/// Longer than a client on this machine takes for its next request, and longer than a wake-up.
const SPIN: Duration = Duration::from_micros(200);

/// A run of this length costs less than handing it to another thread and back.
const CALLER_RUNS_BELOW: Duration = Duration::from_micros(50);

impl Default for SchedulingSettings {
    fn default() -> SchedulingSettings {
        SchedulingSettings {
            longest_stay: LongestStay::Auto,
            request_timeout: None,
            run_limit: RunLimit::Auto,
            caller_runs_below: CALLER_RUNS_BELOW,
            spin: SPIN,
            hold: 0,
            hold_backlog: 0,
        }
    }
}

/// How long a hosting platform waits for an answer. What it is not given by then is an error for its client, and so is
/// a refusal. Predictions err, so the bound is applied at four fifths of that.
const LONGEST_HOSTED_STAY: Duration = Duration::from_secs(60);

/// What has started the server, as far as the defaults depend on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartedBy {
    /// Anybody.
    Anyone,
    /// A hosting platform, which passes on what clients ask.
    Platform,
    /// A batch job: it has all day, and a refused request costs it a file.
    BatchJob,
}

impl StartedBy {
    fn longest_stay(self) -> LongestStay {
        match self {
            StartedBy::Anyone => LongestStay::Auto,
            StartedBy::Platform => LongestStay::Fixed(LONGEST_HOSTED_STAY),
            StartedBy::BatchJob => LongestStay::Unbounded,
        }
    }
}

/// Reads them.
pub fn resolve(
    sources: &Sources,
    started_by: StartedBy,
    problems: &mut Vec<String>,
) -> SchedulingSettings {
    SchedulingSettings {
        longest_stay: sources
            .read("max-queue-wait-ms", queue_wait, problems)
            .flatten()
            .unwrap_or(started_by.longest_stay()),
        request_timeout: sources
            .read("request-timeout-ms", value::milliseconds_or_none, problems)
            .flatten(),
        run_limit: sources.read("run-limit-secs", run_limit, problems).unwrap_or_default(),
        caller_runs_below: sources
            .read("caller-runs", caller_runs_below, problems)
            .unwrap_or(CALLER_RUNS_BELOW),
        spin: sources.read("worker-spin-us", spin, problems).unwrap_or(SPIN),
        hold: sources.read("scheduler-hold", value::number, problems).unwrap_or(0),
        hold_backlog: sources.read("scheduler-hold-backlog", value::number, problems).unwrap_or(0),
    }
}

/// `None` for the default.
fn queue_wait(text: &str) -> Parse<Option<LongestStay>> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    match value::milliseconds(text) {
        Ok(Duration::ZERO) => Ok(Some(LongestStay::Unbounded)),
        Ok(time) => Ok(Some(LongestStay::Fixed(time))),
        Err(_) => Err("auto, 0 for any wait, or a whole number of milliseconds".to_owned()),
    }
}

fn run_limit(text: &str) -> Parse<RunLimit> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(RunLimit::Auto);
    }
    let seconds = text.parse().map(RunLimit::of_seconds);
    seconds.map_err(|_| "auto, 0 for any time, or a whole number of seconds".to_owned())
}

fn caller_runs_below(text: &str) -> Parse<Duration> {
    match &*text.to_ascii_lowercase() {
        "auto" => Ok(CALLER_RUNS_BELOW),
        "off" => Ok(Duration::ZERO),
        _ => Err("auto or off".to_owned()),
    }
}

/// How long a worker may look for work: no longer than a turn of the system's scheduler.
fn spin(text: &str) -> Parse<Duration> {
    let time = text.parse().ok().map(Duration::from_micros);
    time.filter(|it| *it <= Duration::from_millis(1))
        .ok_or_else(|| "a whole number of microseconds from 0 to 1000".to_owned())
}
