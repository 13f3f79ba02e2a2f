//! One job, while it is done: its tests, what is kept of them, and what is said.

use std::time::{Duration, Instant};

use launch::{Limit, on_cpus};
use loadgen::{Phase, Target, Traffic};

use crate::{
    ahead::{Ahead, roughly},
    bottleneck::Used,
    difference::Difference,
    job::{Configuration, Job, Kind},
    journal::Journal,
    left_out::LeftOut,
    means::Means,
    model_files,
    prices::Instance,
    rejection::Rejection,
    setting::Setting,
    shares::Share,
    step::{Length, Step},
    tested::Tester,
    trial::{Observed, Progress, Workload},
    windows::{line, per_minute},
    words::users_in_words,
};

/// Users of a trial whose job has no pattern of its own.
pub(crate) const USERS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The same of a probe. Its last users are as many as those of a trial: with fewer, batches of 8 and of 32 rows are the
/// same where two instances share the requests.
const PROBE_USERS: [usize; 3] = [1, 4, 32];
/// How long each number of users stays, in a trial and in a probe.
pub(crate) const STAY: Duration = Duration::from_secs(5);
const PROBE_STAY: Duration = Duration::from_secs(1);

/// Why an endpoint without servers is not measured.
const NO_SERVERLESS: &str = "serverless endpoints are not measured: nothing here gives a server the processors that \
                             come with so much memory, or takes them away between requests; name an InstanceType, \
                             such as local.cpu1";

/// A job that is being done.
pub(crate) struct Bench<'a> {
    /// What is asked for.
    pub(crate) job: &'a Job,
    /// What it is done with.
    pub(crate) means: &'a Means,
    /// Turns of each of the finalists of a default job.
    pub(crate) rounds: u32,
    /// How a setting of an advanced job differs from itself, where that was measured.
    pub(crate) noise: Option<Difference>,
    /// The tests that are over.
    pub(crate) steps: Vec<Step>,
    /// What is not measured, and why.
    pub(crate) left_out: Vec<LeftOut>,
    /// Keeps what is measured.
    pub(crate) journal: Journal,
    /// It was ended before all was measured.
    pub(crate) was_stopped: bool,
    /// Is told each thing that happens, a line each.
    pub(crate) say: &'a mut dyn FnMut(&str),
    /// The tests that are not over.
    pub(crate) ahead: Ahead,
    /// Does the configuration of the model say what settings say, so that these are to go before it?
    pub(crate) config_says: bool,
    workload: Workload,
    limit: Limit,
    /// The answers of the first setting, which the others' must be equal to.
    expected: Option<Vec<Vec<u8>>>,
}

impl<'a> Bench<'a> {
    /// A job of which nothing is done but what its journal has.
    pub(crate) fn new(
        job: &'a Job,
        means: &'a Means,
        journal: Journal,
        say: &'a mut dyn FnMut(&str),
    ) -> Bench<'a> {
        Bench {
            workload: Workload {
                bodies: means.bodies.clone(),
                conditions: job.stop,
                tolerance: job.tolerance,
            },
            limit: Limit {
                over: job.duration.and_then(|it| Instant::now().checked_add(it)),
                stop: means.stop.clone(),
            },
            was_stopped: false,
            rounds: 1,
            noise: None,
            expected: journal.answers(),
            journal,
            steps: Vec::new(),
            left_out: Vec::new(),
            ahead: Ahead::default(),
            config_says: job.model.as_deref().is_some_and(model_files::says_settings),
            job,
            means,
            say,
        }
    }

    /// What a machine has. Where it is none, is not known or larger than this one, a step has failed: `None`.
    pub(crate) fn machine(&mut self, configuration: &Configuration) -> Option<Instance> {
        let here = self.means.places.servers.len();
        let nothing = Instance { cpus: 0, gpu: false, price_per_hour: None };
        let name = &configuration.instance_type;
        let found = match configuration.serverless {
            Some(_) => Err(Rejection::new(NO_SERVERLESS)),
            None => self.means.prices.machine(name, here).map_err(Rejection::from),
        };
        let (instance, problem) = match found {
            Ok(instance) if instance.cpus <= here => return Some(instance),
            Ok(it) => {
                let cpus = it.cpus;
                let problem =
                    format!("this machine has {here} processors for servers, {name} has {cpus}");
                (it, Rejection::new(problem))
            }
            Err(problem) => (nothing, problem),
        };
        let setting = Setting { instance_type: name.clone(), instance, environment: Vec::new() };
        self.keep(Step::without_server(setting, Err(problem)));
        None
    }

    /// Says why something is not measured.
    pub(crate) fn leave_out(&mut self, left_out: LeftOut) {
        (self.say)(&format!("NOT MEASURED {}: {}", left_out.what, left_out.why));
        self.left_out.push(left_out);
    }

    /// A server that runs already.
    pub(crate) fn endpoint(&mut self, endpoint: &str) {
        let cpus = self.means.places.servers.len();
        let instance = Instance { cpus, gpu: false, price_per_hour: None };
        let setting =
            Setting { instance_type: endpoint.to_owned(), instance, environment: Vec::new() };
        let traffic = self.traffic(Length::Full);
        let outcome =
            Target::trusted(endpoint, &self.means.trust).map_err(Rejection::from).and_then(|it| {
                let observed =
                    Observed { progress: self.progress(&setting), ..Observed::default() };
                let measure = || self.workload.measure(&it, observed, &traffic, None, &self.limit);
                let generators = &self.means.places.generators;
                on_cpus(generators, measure)
                    .map_err(|it| Rejection::new(format!("processors {generators:?}: {it}")))?
            });
        self.keep(Step::without_server(setting, outcome));
    }

    /// Starts a server with a setting and puts it under load. `None` where the job's time is over.
    pub(crate) fn step(&mut self, setting: Setting, length: Length) -> Option<Step> {
        let shares = self.means.places.beside(&[setting.instance], 1);
        self.steps(shares.into_iter().map(|it| (setting.clone(), it)).collect(), length).pop()
    }

    /// The same with several settings beside each other. Fewer come back where the job's time is over.
    pub(crate) fn steps(&mut self, settings: Vec<(Setting, Share)>, length: Length) -> Vec<Step> {
        if self.is_over() {
            return Vec::new();
        }
        let mut kept = Vec::new();
        let mut left = Vec::new();
        for (setting, share) in settings {
            match self.journal.take(&setting, length) {
                Some(step) => {
                    self.means.watch.show(&step);
                    self.steps.push(step.clone());
                    kept.push(step);
                }
                None => left.push((setting, share)),
            }
        }
        if left.is_empty() {
            self.ahead.over(length, None);
            return kept;
        }
        let begun = Instant::now();
        let expected = self.expected.clone();
        let tester = Tester {
            program: &self.means.program,
            model: self.job.model.as_deref().unwrap_or_default(),
            environment: &self.means.environment,
            workload: &self.workload,
            expected: expected.as_deref(),
            traffic: self.traffic(length),
            limit: &self.limit,
        };
        // The windows of others are seconds, and the line of all of them comes soon.
        let tests = left.into_iter().map(|(setting, share)| {
            let progress = match (length, self.job.kind) {
                (Length::Full, _) | (Length::Round, Kind::Advanced) => self.progress(&setting),
                (Length::Probe, _) | (Length::Round, Kind::Default) => Progress::default(),
            };
            (setting, share, progress)
        });
        let tests = tests.collect();
        let steps = tester.all(tests, length, &mut |it| self.journal.serves(it));
        // Half of a measurement is none.
        if self.is_over() {
            return kept;
        }
        self.ahead.over(length, Some(begun.elapsed()));
        for mut step in steps {
            self.compare(&mut step);
            kept.push(self.keep(step));
        }
        kept
    }

    /// A step is failed whose answers are not those of the first one, which was measured beside it.
    fn compare(&self, step: &mut Step) {
        if let (Ok(measured), Some(expected)) = (&step.outcome, &self.expected)
            && let Err(problem) = self.workload.compare(expected, &measured.answers)
        {
            let reason = format!("{problem}; started by: {}", step.command);
            step.outcome = Err(Rejection::new(reason));
        }
    }

    /// Has the job to end? Says so once.
    fn is_over(&mut self) -> bool {
        let is_over = self.limit.is_over();
        if is_over && !self.was_stopped {
            (self.say)("STOPPED the job's time is over, or it was asked to stop");
        }
        self.was_stopped |= is_over;
        is_over
    }

    fn keep(&mut self, step: Step) -> Step {
        let name = step.name();
        let is_first = self.expected.is_none();
        let kind = if step.length == Length::Probe { " for a moment" } else { "" };
        let line = match &step.outcome {
            Ok(measured) => {
                let meets = if measured.chosen.meets { "" } else { ", not within the threshold" };
                let bound = if measured.client_bound {
                    ", a lower bound: the load generator was busy"
                } else {
                    ""
                };
                let vary = match measured.answers_vary && is_first {
                    true => "; its answers to one request differ, none were compared under load",
                    false => "",
                };
                // What is used in a second is not what is used in the long run.
                let used = Used::of(&step).filter(|_| step.length != Length::Probe);
                let used = used.map_or_else(String::new, |it| format!("; {it}"));
                measured.window().map_or_else(String::new, |it| {
                    format!(
                        "{name}{kind}: {} requests/min with {}, {:.1} ms{meets}{bound}{vary}{used}",
                        per_minute(it),
                        users_in_words(it.users),
                        measured.latency.as_secs_f64() * 1e3
                    )
                })
            }
            Err(problem) => format!("FAILED {name}{kind}: {problem}"),
        };
        let line = line + &self.left();
        if let (true, Ok(measured)) = (is_first, &step.outcome) {
            self.expected = Some(measured.answers.clone());
        }
        // Kept before it is said: whoever has read the line can count on it.
        let problem = self.journal.add(&step, is_first);
        (self.say)(&line);
        if let Some(problem) = problem {
            (self.say)(&format!("WARNING {problem}"));
        }
        self.means.watch.show(&step);
        self.steps.push(step.clone());
        step
    }

    /// How long the job goes on, for the end of a line; nothing where this was its last test.
    fn left(&self) -> String {
        let ahead = self.ahead.longest();
        let allowed = self.limit.over.map(|it| it.saturating_duration_since(Instant::now()));
        match allowed.map_or(ahead, |it| it.min(ahead)) {
            Duration::ZERO => String::new(),
            left => format!("; about {} left", roughly(left)),
        }
    }

    /// Says what each window of a setting carries.
    fn progress(&self, setting: &Setting) -> Progress {
        let watch = self.means.watch.clone();
        let name = format!("{} {}", setting.instance_type, setting.variables());
        let threshold = self.job.stop.threshold;
        Progress::new(move |window| watch.tell(&format!("{name}, {}", line(window, threshold))))
    }

    pub(crate) fn traffic(&self, length: Length) -> Traffic {
        let climb = |users: &[usize], stay: Duration| {
            let phase =
                |users: &usize| Phase { initial_users: *users, spawn_rate: 0.0, duration: stay };
            Traffic::Phases(users.iter().map(phase).collect())
        };
        // A round of an advanced job is the whole pattern once more.
        let traffic = match (length, self.job.kind, &self.job.traffic) {
            (Length::Probe, ..) => climb(&PROBE_USERS, PROBE_STAY),
            (Length::Round, Kind::Default, _) => climb(&USERS, STAY / self.rounds),
            (Length::Full | Length::Round, _, Some(traffic)) => traffic.clone(),
            (Length::Full | Length::Round, _, None) => climb(&USERS, STAY),
        };
        traffic.faster(self.means.time_scale)
    }
}
