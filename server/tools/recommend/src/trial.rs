//! One setting under load: each body is sent once and its answer looked at, then the users come.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use launch::Limit;
use loadgen::{
    Check, CheckedReply, Error, FirstBad, Interval, Load, Percentile, Plan, Report, Request,
    Target, Traffic, answers, ask, invocations,
};
use serde::{Deserialize, Serialize};

use crate::{
    job::Conditions,
    payload::TypedBody,
    process,
    rejection::Rejection,
    windows::{Chosen, Stop, chosen, stop},
    words::users_in_words,
};

/// Above this share of a core the load generator bounds the throughput.
const CLIENT_BOUND: f64 = 0.8;
/// How long a server may take for a body alone.
const LONGEST_ANSWER: Duration = Duration::from_secs(120);

/// What all settings of a job are measured with.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Sent in turn.
    pub bodies: Vec<TypedBody>,
    /// When a test has seen enough.
    pub conditions: Conditions,
    /// Numbers of answers may differ by this share.
    pub tolerance: f64,
}

/// What is looked at of a server under load.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Its process.
    pub pid: Option<u32>,
    /// Its page of metrics, where it tells of a GPU.
    pub metrics: Option<Target>,
    /// What is told of each window as soon as it is over.
    pub progress: Progress,
}

/// Is told of windows; nothing by default.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Telling>>);

type Telling = dyn Fn(&Interval) + Send + Sync;

impl Progress {
    /// Calls this for each window.
    pub fn new(telling: impl Fn(&Interval) + Send + Sync + 'static) -> Progress {
        Progress(Some(Arc::new(telling)))
    }

    /// Tells of those of the windows so far that were not told of yet.
    fn tell(&self, windows: &[Interval], told: &AtomicUsize) {
        let Some(telling) = &self.0 else { return };
        let from = told.swap(windows.len(), Ordering::Relaxed);
        windows.iter().skip(from).for_each(|it| telling(it));
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}

/// What was measured of a setting.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// When its load began.
    pub started: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
    /// The course, about a second each.
    pub samples: Vec<Interval>,
    /// For each number of users.
    pub windows: Vec<Interval>,
    /// The window that stands for the setting.
    pub chosen: Chosen,
    /// The latency of that window: of the percentile that was asked for, else of 95 of 100 replies.
    pub latency: Duration,
    /// Why it ended early, if it did.
    pub stop: Option<Stop>,
    /// The load generator was the bottleneck in the window that stands for the setting: throughput is a lower bound.
    pub client_bound: bool,
    /// Cores that the load generator used in that window.
    #[serde(default)]
    pub client_cores: f64,
    /// The answers to one body differ from one time to the next, so that none were compared under load.
    #[serde(default)]
    pub answers_vary: bool,
    /// The answers to the bodies. They are not part of its JSON: they can be as large as a body of HTTP.
    #[serde(skip)]
    pub answers: Vec<Vec<u8>>,
}

impl Measured {
    /// The window that stands for the setting.
    pub fn window(&self) -> Option<&Interval> {
        self.windows.get(self.chosen.index)
    }
}

impl Workload {
    fn requests(&self) -> Result<Vec<Request>, Error> {
        let request = |it: &TypedBody| invocations(&it.content_type, it.bytes.clone());
        self.bodies.iter().map(request).collect()
    }

    /// Sends each body once.
    ///
    /// # Errors
    /// Names the body and what came instead of an answer with 200.
    pub fn answers(&self, target: &Target) -> Result<Vec<Vec<u8>>, Rejection> {
        let mut answers = Vec::with_capacity(self.bodies.len());
        for (body, request) in self.bodies.iter().zip(self.requests()?) {
            let asked = ask(target, request, LONGEST_ANSWER);
            let (report, answer) =
                asked.map_err(|it| Rejection::new(format!("{}: {it}", named(body))))?;
            if report.ok != 1 {
                let (body, refusal) = (named(body), refusal(&report));
                return Err(Rejection::new(format!("{body}, before the load: {refusal}")));
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Compares the answers of a setting with those of the first one.
    ///
    /// # Errors
    /// Names the body and how its answers differ.
    pub fn compare(&self, expected: &[Vec<u8>], given: &[Vec<u8>]) -> Result<(), Rejection> {
        let all = || self.bodies.iter().zip(expected).zip(given);
        for ((body, expected), given) in all() {
            answers::same(expected, given, self.tolerance).map_err(|difference| {
                let needed = all().map(|((_, expected), given)| answers::needed(expected, given));
                let needed = needed.reduce(|one, other| Some(one?.max(other?))).flatten();
                let enough = needed.map_or_else(String::new, |it| format!("; {it} would be enough"));
                Rejection::new(format!(
                    "its answer to payload '{}' is not that of the first setting: {difference} (tolerance {}{enough})",
                    body.name, self.tolerance
                ))
            })?;
        }
        Ok(())
    }

    /// Compares answers under load with those that the bodies have alone, and keeps how the first other one differs.
    fn watch(&self, alone: Vec<Vec<u8>>) -> (Check, Arc<Mutex<Option<Rejection>>>) {
        let problem = Arc::<Mutex<Option<Rejection>>>::default();
        let found = problem.clone();
        let (tolerance, names) = (self.tolerance, self.bodies.iter().map(|it| it.name.clone()));
        let names: Vec<String> = names.collect();
        let critic = move |reply: &CheckedReply<'_>| {
            let Some((alone, name)) = alone.get(reply.request).zip(names.get(reply.request)) else {
                return Ok(());
            };
            let compared = answers::same(alone, reply.body, tolerance);
            compared.map_err(|difference| {
                found.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| {
                    Rejection::new(format!(
                        "under load its answer to payload '{name}' is not the one that it has alone: {difference} \
                         (tolerance {tolerance})"
                    ))
                });
                difference.into()
            })
        };
        (Check::Sample(Arc::new(critic)), problem)
    }

    /// How requests of a load failed: how many, and the first one of them.
    fn failure(&self, report: &Report) -> String {
        let failed = report.requests - report.ok;
        let first = report.first_bad.as_ref().map_or_else(String::new, |it| {
            let body = self.bodies.get(it.request).map_or_else(String::new, named);
            let at = it.at.as_secs_f64();
            let FirstBad { number, users, problem, .. } = it;
            format!(
                ", the first with {} after {at:.1} s, request {number}, {body}: {problem}",
                users_in_words(*users)
            )
        });
        format!("{failed} of {} requests failed{first}", report.requests)
    }

    /// Puts a server under load until the traffic is over or enough has been seen. `expected` are the answers that its
    /// own must be equal to.
    ///
    /// # Errors
    /// What keeps the setting from being recommended: requests that fail, or other answers than expected.
    pub fn measure(
        &self,
        target: &Target,
        server: Observed,
        traffic: &Traffic,
        expected: Option<&[Vec<u8>]>,
        limit: &Limit,
    ) -> Result<Measured, Rejection> {
        let answers = self.answers(target)?;
        self.compare(expected.unwrap_or_default(), &answers)?;
        // What a server answers at random cannot be compared.
        let answers_vary =
            expected.is_none() && self.compare(&answers, &self.answers(target)?).is_err();
        let mut plan = Plan::new(target.clone(), self.requests()?);
        plan.load = Load::Users(traffic.clone());
        (plan.pid, plan.metrics) = (server.pid, server.metrics);
        let (check, other) = match answers_vary {
            true => (Check::Nothing, Arc::default()),
            false => self.watch(expected.unwrap_or(&answers).to_vec()),
        };
        plan.check = check;
        let (conditions, limit) = (self.conditions, limit.clone());
        let process = plan.pid.map(process::ObservedProcess::new);
        let is_gone = move || process.is_some_and(|it| it.is_gone());
        let has_other = move || other.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let other_so_far = has_other.clone();
        let (progress, told) = (server.progress, Arc::<AtomicUsize>::default());
        let (telling, so_far) = (progress.clone(), told.clone());
        plan.enough = Some(Arc::new(move |windows| {
            telling.tell(windows, &so_far);
            let is_over = limit.is_over() || is_gone() || other_so_far().is_some();
            is_over || stop(windows, &conditions).is_some()
        }));
        let (started, begun) = (SystemTime::now(), Instant::now());
        let report = plan.run()?;
        progress.tell(&report.windows, &told);
        // The clock may have been set in the meantime.
        let ended = started.checked_add(begun.elapsed()).unwrap_or(started);
        let stop = stop(&report.windows, &conditions);
        if let Some(problem) = has_other() {
            return Err(problem);
        }
        if stop == Some(Stop::Errors) || report.ok == 0 || is_gone() {
            return Err(Rejection::new(self.failure(&report)));
        }
        let chosen = chosen(&report.windows, conditions.threshold).ok_or_else(|| {
            Rejection::new("the load was over before a window of it could be measured")
        })?;
        let percentile = conditions.threshold.map_or(Percentile::P95, |it| it.percentile);
        let window = report.windows.get(chosen.index);
        // Without readings of the window what is known is the mean of the whole climb.
        let client_cores = window.and_then(|it| it.generator).unwrap_or(report.generator.cores);
        Ok(Measured {
            started,
            ended,
            chosen,
            latency: window.map_or(Duration::ZERO, |it| percentile.of(&it.latency)),
            stop,
            client_bound: client_cores > CLIENT_BOUND,
            client_cores,
            samples: report.samples,
            windows: report.windows,
            answers_vary,
            answers,
        })
    }
}

/// A body by its file and its type.
fn named(body: &TypedBody) -> String {
    format!("payload '{}' ({})", body.name, body.content_type)
}

/// What came instead of an answer.
fn refusal(report: &Report) -> &str {
    report.first_bad.as_ref().map_or("no request was sent", |it| &it.problem)
}
