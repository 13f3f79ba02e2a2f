//! What a run found: counts, rates, latencies, processor time, and what to be wary of.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{
    Arrivals, Failures, FirstBad, FirstWrong, GpuUsage, Interval, Latency, Load, Plan, Traffic,
    Usage, numbers,
    tally::{LATE, Tally},
    usage::Reading,
};

/// Above this share of a core the generator is taken to be the bottleneck.
const SATURATED: f64 = 0.9;
/// Above this share of late requests, or of stolen time, a run should be thrown away.
const DOUBTFUL: f64 = 0.01;

/// The time over which a run was measured, what it was made of, and the readings at its ends.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    pub(crate) elapsed: Duration,
    /// Of the generator's thread.
    pub(crate) own_cpu: Duration,
    pub(crate) before: Reading,
    pub(crate) after: Reading,
    pub(crate) samples: Vec<Interval>,
    pub(crate) windows: Vec<Interval>,
    pub(crate) first_bad: Option<FirstBad>,
}

/// The findings of one run. In JSON, times are numbers whose names carry the unit.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The server.
    pub target: String,
    /// Connections.
    pub connections: usize,
    /// Requests per second that were due; `None` in a closed loop.
    pub rate: Option<f64>,
    /// How they were spread; `None` in a closed loop.
    pub arrivals: Option<Arrivals>,
    /// Users over time, where their number is not `connections` throughout.
    pub traffic: Option<Traffic>,
    /// Load before the measurement.
    #[serde(rename = "warm_up_s", serialize_with = "numbers::seconds")]
    pub warm_up: Duration,
    /// Length of the measurement: the plan's duration, or until the last reply where the plan counts
    /// requests.
    #[serde(rename = "elapsed_s", serialize_with = "numbers::seconds")]
    pub elapsed: Duration,
    /// Counted requests that were sent: replies of any status plus failures.
    pub requests: u64,
    /// 2xx replies, in time or not.
    pub ok: u64,
    /// Replies of any status per second.
    pub throughput: f64,
    /// 2xx replies within the deadline, if there is one, per second.
    pub goodput: f64,
    /// 2xx replies within the deadline.
    pub good: u64,
    /// What a reply had to meet to be good.
    #[serde(rename = "deadline_us", serialize_with = "numbers::optional_micros")]
    pub deadline: Option<Duration>,
    /// Of 2xx replies: in an open loop from the moment a request was due, in a closed one from when it was
    /// sent.
    pub latency: Latency,
    /// Of replies with any other status; `None` without any.
    pub refusal_latency: Option<Latency>,
    /// Number of replies by status.
    pub statuses: BTreeMap<u16, u64>,
    /// The beginning of the first reply of each status that is not 2xx.
    pub refusals: BTreeMap<u16, String>,
    /// Requests without a reply.
    pub failures: Failures,
    /// What went wrong with the first request of each kind of failure.
    pub problems: BTreeMap<&'static str, String>,
    /// The first request without a 2xx reply.
    pub first_bad: Option<FirstBad>,
    /// Open loop: requests that found no connection free when they were due.
    pub waited: u64,
    /// Open loop: requests sent more than a millisecond late although a connection was free.
    pub late: u64,
    /// Open loop: requests that were due and found no connection free until the end. Not in `requests`.
    pub unsent: u64,
    /// Replies that were checked, and how many of them were wrong; the warm-up's included.
    pub checked: u64,
    /// See `checked`.
    pub wrong: u64,
    /// The first of those that were wrong.
    pub first_wrong: Option<FirstWrong>,
    /// Connections that were opened anew during the run, the warm-up included.
    pub reconnects: u64,
    /// Bytes of requests, heads included.
    pub bytes_sent: u64,
    /// Bytes of complete replies, heads included.
    pub bytes_received: u64,
    /// The generator's own thread.
    pub generator: Cpu,
    /// The server's processes, where the plan names one.
    pub server: Option<ServerUsage>,
    /// Share of the machine's time that the hypervisor gave to others.
    pub steal: f64,
    /// Reasons to doubt the numbers, as sentences.
    pub warnings: Vec<String>,
    /// The course of the measurement, about a second each.
    pub samples: Vec<Interval>,
    /// The same for each number of users, without the beginning in which a window settles; ten seconds each where the
    /// number stays.
    pub windows: Vec<Interval>,
    /// All latencies of 2xx replies, in nanoseconds.
    #[serde(skip)]
    pub histogram: Histogram<u64>,
}

/// Processor time of a run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Cpu {
    /// User and system time within the measurement.
    #[serde(rename = "cpu_s", serialize_with = "numbers::seconds")]
    pub cpu: Duration,
    /// Cores used: processor time over elapsed time.
    pub cores: f64,
    /// Processor time over replies; zero without any.
    #[serde(rename = "cpu_per_request_us", serialize_with = "numbers::micros")]
    pub per_request: Duration,
}

/// What the server's process and its descendants used within the measurement.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ServerUsage {
    /// Processor time, in steps of the kernel's clock tick (10 ms).
    #[serde(flatten)]
    pub cpu: Cpu,
    /// The kernel's part of it, over replies.
    #[serde(rename = "system_cpu_per_request_us", serialize_with = "numbers::micros")]
    pub system_per_request: Duration,
    /// Context switches per request because a thread waited.
    pub voluntary_switches_per_request: f64,
    /// Context switches per request because a thread was taken off its core.
    pub involuntary_switches_per_request: f64,
}

impl Report {
    pub(crate) fn new(plan: &Plan, course: Course, tally: Tally) -> Report {
        let replies = tally.replies();
        let seconds = course.elapsed.as_secs_f64().max(f64::EPSILON);
        let server = course.after.server.zip(course.before.server).map(|(after, before)| {
            let per_request = |after: u64, before: u64| {
                after.saturating_sub(before) as f64 / replies.max(1) as f64
            };
            let cpu = |after: Duration, before| {
                Cpu::new(after.saturating_sub(before), course.elapsed, replies)
            };
            ServerUsage {
                cpu: cpu(after.cpu, before.cpu),
                system_per_request: cpu(after.system, before.system).per_request,
                voluntary_switches_per_request: per_request(
                    after.voluntary_switches,
                    before.voluntary_switches,
                ),
                involuntary_switches_per_request: per_request(
                    after.involuntary_switches,
                    before.involuntary_switches,
                ),
            }
        });
        let (rate, arrivals, traffic) = match &plan.load {
            Load::Closed => (None, None, None),
            Load::Users(traffic) => (None, None, Some(traffic.clone())),
            Load::Open { rate, arrivals } => (Some(*rate), Some(*arrivals), None),
        };
        let refused = !tally.refusal_latency.is_empty();
        let mut report = Report {
            target: plan.target.to_string(),
            connections: plan.most_connections(),
            rate,
            arrivals,
            traffic,
            warm_up: plan.warm_up,
            elapsed: course.elapsed,
            requests: replies + tally.failures.total(),
            ok: tally.latency.len(),
            throughput: replies as f64 / seconds,
            goodput: tally.good as f64 / seconds,
            good: tally.good,
            deadline: plan.deadline,
            latency: Latency::new(&tally.latency),
            refusal_latency: refused.then(|| Latency::new(&tally.refusal_latency)),
            statuses: tally.statuses,
            refusals: tally.refusals,
            failures: tally.failures,
            problems: tally.problems.into_iter().map(|(it, text)| (it.name(), text)).collect(),
            first_bad: course.first_bad,
            waited: tally.waited,
            late: tally.late,
            unsent: tally.unsent,
            checked: tally.checked,
            wrong: tally.wrong,
            first_wrong: tally.first_wrong,
            reconnects: tally.reconnects,
            bytes_sent: tally.bytes_sent,
            bytes_received: tally.bytes_received,
            generator: Cpu::new(course.own_cpu, course.elapsed, replies),
            server,
            steal: course.after.machine.steal_since(&course.before.machine),
            warnings: Vec::new(),
            samples: course.samples,
            windows: course.windows,
            histogram: tally.latency,
        };
        report.warnings = report.doubts();
        report
    }

    /// The whole measurement as one interval.
    pub fn whole(&self) -> Interval {
        let resident = self.samples.iter().rev().find_map(|it| it.server).map(|it| it.resident);
        Interval {
            start: Duration::ZERO,
            end: self.elapsed,
            users: self.connections,
            requests: self.requests,
            errors: self.requests - self.ok,
            throughput: self.ok as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON),
            latency: self.latency,
            generator: Some(self.generator.cores),
            server: self
                .server
                .zip(resident)
                .map(|(server, resident)| Usage { cores: server.cpu.cores, resident }),
            gpu: GpuUsage::over(self.samples.iter()),
        }
    }

    /// How many answers were wrong, and what is wrong with the first, as a sentence; `None` where none was.
    pub(crate) fn wrong_answers(&self) -> Option<String> {
        let Report { wrong, checked, first_wrong, .. } = self;
        let FirstWrong { request, problem } = first_wrong.as_ref()?;
        let body = request + 1;
        Some(format!(
            "{wrong} of {checked} checked answers are wrong, first one to body {body}: {problem}"
        ))
    }

    fn doubts(&self) -> Vec<String> {
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let mut doubts = Vec::new();
        doubts.extend(self.wrong_answers());
        if self.ok == 0 {
            doubts.push("not one request was answered with a 2xx status".to_owned());
        }
        if self.generator.cores > SATURATED {
            doubts.push(format!(
                "the generator used {:.0} % of its core: throughput is a lower bound, latency an upper one",
                self.generator.cores * 100.0
            ));
        }
        let late = share(self.late, self.requests);
        if late > DOUBTFUL {
            doubts.push(format!(
                "{:.1} % of the requests were sent more than {} ms late",
                late * 100.0,
                LATE.as_millis()
            ));
        }
        if self.unsent > 0 {
            doubts.push(format!(
                "{} requests were due and never sent, all connections being busy: the rate was not met, \
                 and latencies would be longer with them",
                self.unsent
            ));
        }
        if self.steal > DOUBTFUL {
            doubts.push(format!("{:.1} % of the machine's time was stolen", self.steal * 100.0));
        }
        doubts
    }
}

impl Cpu {
    fn new(cpu: Duration, elapsed: Duration, replies: u64) -> Cpu {
        let cores = cpu.as_secs_f64() / elapsed.as_secs_f64().max(f64::EPSILON);
        let per_request = cpu.as_secs_f64() / replies.max(1) as f64;
        let per_request = if replies == 0 { 0.0 } else { per_request };
        Cpu { cpu, cores, per_request: Duration::from_secs_f64(per_request) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, Request, Target};

    fn report(own_cpu: u64, fill: impl FnOnce(&mut Tally)) -> Report {
        let target: Target = "http://h".parse().unwrap();
        let plan = Plan::new(target, vec![Request::new(Method::Get, "/").unwrap()]);
        let mut tally = Tally::new(Some(Duration::from_millis(4)));
        fill(&mut tally);
        let course = Course {
            elapsed: Duration::from_secs(2),
            own_cpu: Duration::from_millis(own_cpu),
            before: Reading::default(),
            after: Reading::default(),
            samples: Vec::new(),
            windows: Vec::new(),
            first_bad: None,
        };
        Report::new(&plan, course, tally)
    }

    fn replies(tally: &mut Tally) {
        for milliseconds in 1..=1000 {
            let status = if milliseconds <= 900 { 200 } else { 503 };
            tally.reply(status, Duration::from_millis(milliseconds), 10);
        }
    }

    #[test]
    fn rates_are_over_the_measured_time_and_percentiles_over_good_answers() {
        let report = report(500, replies);
        assert_eq!((report.throughput, report.goodput), (500.0, 2.0));
        assert_eq!((report.requests, report.ok, report.bytes_received), (1000, 900, 10_000));
        let near = |given: Duration, milliseconds: f64| {
            (given.as_secs_f64() * 1e3 / milliseconds - 1.0).abs() < 0.001
        };
        let refusals = report.refusal_latency.unwrap();
        assert!(near(report.latency.p50, 450.0) && near(report.latency.p99, 891.0));
        assert!(near(report.latency.max, 900.0) && near(refusals.p50, 950.0));
        assert_eq!(report.generator.per_request, Duration::from_micros(500));
        assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    }

    #[test]
    fn a_generator_at_its_limit_says_so() {
        assert!(report(1900, replies).warnings.iter().any(|it| it.contains("95 % of its core")));
        let late = report(0, |tally| {
            replies(tally);
            (0..11).for_each(|_| tally.sent(0, LATE * 2, LATE * 2));
        });
        assert!(late.warnings.iter().any(|it| it.contains("1 ms late")), "{:?}", late.warnings);
    }

    #[test]
    fn a_run_without_answers_is_a_warning_and_not_a_division_by_zero() {
        let report = report(1, |_| ());
        assert_eq!((report.throughput, report.latency.p99), (0.0, Duration::ZERO));
        assert!(report.warnings.iter().any(|it| it.contains("not one request")));
    }
}
