//! A job, done: a server for each setting, and what came of it.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant, SystemTime},
};

use loadgen::{Phase, Target, Traffic};

use crate::{
    child::Limit,
    job::{Configuration, Job, Kind},
    job_folder::JobStatus,
    journal::Journal,
    payload::Body,
    prices::{Instance, Prices},
    ranking::{self, Objective, Row},
    search::{Knobs, finalists},
    setting::{Setting, Variables, combinations},
    shares::{Share, beside},
    step::{Length, Step, middle, prefer_automatic},
    tested::Tester,
    trial::{Progress, Watched, Workload},
    watch::Watch,
    windows::{line, per_minute},
};

/// Users of a trial whose job has no pattern of its own.
const USERS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The same of a probe. Its last users are as many as those of a trial: with fewer, batches of 8 and of 32 rows are the
/// same where two instances share the requests.
const PROBE_USERS: [usize; 3] = [1, 4, 32];
/// How long each number of users stays, in a trial and in a probe.
const STAY: Duration = Duration::from_secs(5);
const PROBE_STAY: Duration = Duration::from_secs(1);
/// Turns of each of the finalists; fewer where starting its server takes longer than a turn, or where a turn would see
/// few requests.
const ROUNDS: u32 = 6;
const FEW_ROUNDS: u32 = 3;
/// Requests of a turn that are few, for each number of users.
const FEW_REQUESTS: f64 = 20.0;

/// What a job is done with.
#[derive(Debug, Clone)]
pub struct Means {
    /// The program whose `serve` is started.
    pub program: PathBuf,
    /// Machines.
    pub prices: Prices,
    /// Processors for servers and load generators.
    pub processors: Vec<usize>,
    /// Bodies of requests.
    pub bodies: Vec<Body>,
    /// The times of loads are divided by this.
    pub time_scale: f64,
    /// Ends the job when it is set.
    pub stop: Arc<AtomicBool>,
    /// What is to be low, or high.
    pub objective: Objective,
    /// Variables of all servers; those of a setting go before them.
    pub environment: Variables,
    /// Is shown each step as soon as it is over.
    pub watch: Watch,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// All was tried.
    Completed,
    /// Its time was over, or it was asked to stop.
    Stopped,
    /// Nothing could be measured.
    Failed,
}

/// A job that is over.
#[derive(Debug, Clone)]
pub struct Done {
    /// What was asked for.
    pub job: Job,
    /// How it ended.
    pub status: Status,
    /// All steps in the order of their trial, failed ones and probes included.
    pub steps: Vec<Step>,
    /// What was not measured, and why.
    pub left_out: Vec<(String, String)>,
    /// Places of steps that can be recommended, the best first.
    pub ranked: Vec<usize>,
    /// When it began.
    pub created: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
}

/// Does a job; blocks until it is over. `journal` has what an earlier program has measured of it, and keeps what is
/// measured. `say` is told each thing that happens, a line each.
pub fn go_on(job: Job, means: &Means, journal: Journal, say: &mut dyn FnMut(&str)) -> Done {
    let created = journal.created().unwrap_or_else(SystemTime::now);
    job.warnings.iter().for_each(|it| say(&format!("WARNING {it}")));
    let mut bench = Bench {
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
        rounds: ROUNDS,
        expected: journal.answers(),
        journal,
        steps: Vec::new(),
        left_out: Vec::new(),
        job: &job,
        means,
        say,
    };
    if let Some(endpoint) = &job.endpoint {
        bench.endpoint(endpoint);
    }
    let mut planned = Vec::new();
    for configuration in &job.configurations {
        match (bench.machine(&configuration.instance_type), job.kind) {
            (Some(it), Kind::Advanced) => planned.extend(bench.plan(configuration, it, &planned)),
            (Some(it), Kind::Default) => bench.search(configuration, it),
            (None, _) => {}
        }
    }
    bench.all(&planned);
    let Bench { steps, left_out, was_stopped, journal, say, .. } = bench;
    let full: Vec<usize> = (0..steps.len())
        .filter(|it| steps.get(*it).is_some_and(|it| it.is_full() && it.outcome.is_ok()))
        .collect();
    let rows: Vec<Row> = full.iter().filter_map(|it| steps.get(*it)?.row()).collect();
    let order = ranking::ranking(&rows, means.objective, job.stop.max_invocations);
    let mut ranked: Vec<usize> = order.into_iter().filter_map(|it| full.get(it).copied()).collect();
    prefer_automatic(&steps, &mut ranked, job.stop.max_invocations);
    let status = match (was_stopped, ranked.is_empty()) {
        (true, _) => Status::Stopped,
        (false, true) => Status::Failed,
        (false, false) => Status::Completed,
    };
    let kept = journal.end(match status {
        Status::Completed => JobStatus::Completed,
        Status::Stopped => JobStatus::Stopped,
        Status::Failed => JobStatus::Failed,
    });
    if let Err(problem) = kept {
        say(&format!("WARNING the job's state: {problem}"));
    }
    // The clock may have been set in the meantime.
    let ended = SystemTime::now().max(created);
    Done { job, status, steps, left_out, ranked, created, ended }
}

struct Bench<'a> {
    job: &'a Job,
    means: &'a Means,
    workload: Workload,
    limit: Limit,
    was_stopped: bool,
    /// Turns of each of the finalists.
    rounds: u32,
    /// The answers of the first setting, which the others' must be equal to.
    expected: Option<Vec<Vec<u8>>>,
    journal: Journal,
    steps: Vec<Step>,
    left_out: Vec<(String, String)>,
    say: &'a mut dyn FnMut(&str),
}

impl Bench<'_> {
    /// What a machine of that name has; `None`, which is said, where it is not known or larger than this one.
    fn machine(&mut self, name: &str) -> Option<Instance> {
        let here = self.means.processors.len();
        let problem = match self.means.prices.machine(name, here) {
            Ok(instance) if instance.cpus <= here => return Some(instance),
            Ok(it) => format!("{name}: it has {} processors, this machine {here}", it.cpus),
            Err(problem) => problem,
        };
        self.leave_out(name, problem);
        None
    }

    /// The settings of a machine that an advanced job tests, besides those that it tests already.
    fn plan(
        &mut self,
        configuration: &Configuration,
        instance: Instance,
        planned: &[Setting],
    ) -> Vec<Setting> {
        let name = &configuration.instance_type;
        let room = self.job.most_tests.saturating_sub(planned.len());
        let (tried, left) = combinations(&configuration.ranges, room);
        if left > 0 {
            let problem = format!("{left} further combinations, more than MaxNumberOfTests");
            self.leave_out(name, problem);
        }
        let setting = |environment| Setting { instance_type: name.clone(), instance, environment };
        tried.into_iter().map(setting).collect()
    }

    /// Tests all of these settings, as many at a time as the job allows and there are processors for.
    fn all(&mut self, settings: &[Setting]) {
        let mut turns: Vec<Vec<(Setting, Share)>> = Vec::new();
        let mut left = settings;
        while !left.is_empty() {
            let machines: Vec<Instance> = left.iter().map(|it| it.instance).collect();
            let shares = beside(&self.means.processors, &machines, self.job.most_parallel);
            let (now, later) = left.split_at_checked(shares.len()).unwrap_or((left, &[]));
            turns.push(now.iter().cloned().zip(shares).collect());
            left = later;
        }
        if let Some(line) =
            self.parallel(settings.len(), turns.iter().map(Vec::len).max().unwrap_or_default())
        {
            (self.say)(&line);
        }
        for turn in turns {
            self.steps(turn, Length::Full);
        }
    }

    /// What becomes of `MaxParallelOfTests` where so many of the tests at most run at the same time.
    fn parallel(&self, tests: usize, most: usize) -> Option<String> {
        if self.job.most_parallel <= 1 || tests <= 1 {
            return None;
        }
        let here = self.means.processors.len();
        Some(match most {
            2.. => format!(
                "MaxParallelOfTests: up to {most} tests run at the same time, each on processors of its own; they \
                 share caches and memory, so that each may carry less than alone"
            ),
            _ => format!(
                "MaxParallelOfTests: tests run one after another: this machine, with {here} processors, has no room \
                 for two servers and a processor for the load of each"
            ),
        })
    }

    /// Looks for the best settings on a machine.
    fn search(&mut self, configuration: &Configuration, instance: Instance) {
        if self.job.most_parallel > 1 {
            (self.say)(
                "MaxParallelOfTests: tests run one after another, as a default job compares them in turns",
            );
        }
        let name = &configuration.instance_type;
        let setting = |environment| Setting { instance_type: name.clone(), instance, environment };
        let mut left_out = Vec::new();
        let forms = self.job.variants.clone();
        // The first answers are those of the server's own settings.
        let finalists = finalists(
            instance.cpus,
            forms.len(),
            |knobs: Knobs| {
                let step = self.step(setting(knobs.environment(&forms)), Length::Probe)?;
                let rate = step.outcome.as_ref().ok()?.window()?.throughput;
                step.row().map(|it| if it.meets { rate } else { 0.0 })
            },
            |knobs, why| {
                left_out.push((setting(knobs.environment(&forms)).variables(), why.to_owned()))
            },
        );
        self.left_out.extend(left_out);
        // In turns, so that a machine that becomes slower does so for all.
        let mut rounds: Vec<Vec<Step>> = finalists.iter().map(|_| Vec::new()).collect();
        let finalists: Vec<Setting> =
            finalists.iter().map(|it| setting(it.environment(&forms))).collect();
        self.rounds = self.rounds_of(&finalists);
        for round in 0..self.rounds {
            let mut turns: Vec<_> = finalists.iter().zip(&mut rounds).collect();
            // There and back, so that a machine that becomes slower all the time does so for none more than for others.
            if round % 2 == 1 {
                turns.reverse();
            }
            for (setting, steps) in turns {
                steps.extend(self.step(setting.clone(), Length::Round));
            }
        }
        self.steps.retain(|it| it.length != Length::Round || it.setting.instance_type != *name);
        for steps in rounds {
            if let Some(step) = middle(steps) {
                let step = Step { length: Length::Full, ..step };
                self.means.watch.show(&step);
                self.steps.push(step);
            }
        }
    }

    /// How many turns the finalists get, by what their probes say.
    fn rounds_of(&self, finalists: &[Setting]) -> u32 {
        let stay = STAY.div_f64(f64::from(ROUNDS) * self.means.time_scale);
        let is_quick = |it: &Step| {
            let slowest = it.outcome.as_ref().ok().and_then(|it| it.windows.first());
            let requests = slowest.map_or(0.0, |it| it.throughput * stay.as_secs_f64());
            let setup = it.setup.unwrap_or_default();
            requests >= FEW_REQUESTS && setup <= stay * USERS.len() as u32
        };
        let mut probes = self.steps.iter().filter(|it| finalists.contains(&it.setting));
        if probes.all(is_quick) { ROUNDS } else { FEW_ROUNDS }
    }

    /// Says why something is not measured.
    fn leave_out(&mut self, what: &str, problem: String) {
        (self.say)(&format!("NOT MEASURED {what}: {problem}"));
        self.left_out.push((what.to_owned(), problem));
    }

    /// A server that runs already.
    fn endpoint(&mut self, endpoint: &str) {
        let cpus = self.means.processors.len();
        let instance = Instance { cpus, gpu: false, price_per_hour: None };
        let setting =
            Setting { instance_type: endpoint.to_owned(), instance, environment: Vec::new() };
        let traffic = self.traffic(Length::Full);
        let outcome = endpoint.parse::<Target>().map_err(|it| it.to_string()).and_then(|it| {
            let watched = Watched { progress: self.progress(&setting), ..Watched::default() };
            self.workload.measure(&it, watched, &traffic, None, &self.limit)
        });
        let length = Length::Full;
        let command = String::new();
        self.keep(Step { setting, outcome, setup: None, command, length, rounds: Vec::new() });
    }

    /// Starts a server with a setting and puts it under load. `None` where the job's time is over.
    fn step(&mut self, setting: Setting, length: Length) -> Option<Step> {
        let shares = beside(&self.means.processors, &[setting.instance], 1);
        self.steps(shares.into_iter().map(|it| (setting.clone(), it)).collect(), length).pop()
    }

    /// The same with several settings beside each other. Fewer come back where the job's time is over.
    fn steps(&mut self, settings: Vec<(Setting, Share)>, length: Length) -> Vec<Step> {
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
            let progress = match length {
                Length::Full => self.progress(&setting),
                Length::Probe | Length::Round => Progress::default(),
            };
            (setting, share, progress)
        });
        let tests = tests.collect();
        let steps = tester.all(tests, length, &mut |it| self.journal.serves(it));
        // Half of a measurement is none.
        if self.is_over() {
            return kept;
        }
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
            step.outcome = Err(format!("{problem}; started by: {}", step.command));
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
        let name = format!("{} {}", step.setting.instance_type, step.setting.variables());
        let kind = if step.length == Length::Probe { " for a moment" } else { "" };
        let line = match &step.outcome {
            Ok(measured) => {
                let meets = if measured.chosen.meets { "" } else { ", not within the threshold" };
                let bound = if measured.client_bound {
                    ", a lower bound: the load generator was busy"
                } else {
                    ""
                };
                measured.window().map_or_else(String::new, |it| {
                    format!(
                        "{name}{kind}: {} requests/min with {} users, {:.1} ms{meets}{bound}",
                        per_minute(it),
                        it.users,
                        measured.latency.as_secs_f64() * 1e3
                    )
                })
            }
            Err(problem) => format!("FAILED {name}{kind}: {problem}"),
        };
        let is_first = self.expected.is_none();
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

    /// Says what each window of a setting carries.
    fn progress(&self, setting: &Setting) -> Progress {
        let watch = self.means.watch.clone();
        let name = format!("{} {}", setting.instance_type, setting.variables());
        let threshold = self.job.stop.threshold;
        Progress::new(move |window| watch.tell(&format!("{name}, {}", line(window, threshold))))
    }

    fn traffic(&self, length: Length) -> Traffic {
        let climb = |users: &[usize], stay: Duration| {
            let phase =
                |users: &usize| Phase { initial_users: *users, spawn_rate: 0.0, duration: stay };
            Traffic::Phases(users.iter().map(phase).collect())
        };
        let traffic = match (length, &self.job.traffic) {
            (Length::Probe, _) => climb(&PROBE_USERS, PROBE_STAY),
            (Length::Full, Some(traffic)) => traffic.clone(),
            (Length::Round, _) => climb(&USERS, STAY / self.rounds),
            (Length::Full, None) => climb(&USERS, STAY),
        };
        traffic.faster(self.means.time_scale)
    }
}
