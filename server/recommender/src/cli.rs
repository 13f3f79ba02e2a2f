//! The command line: `recommend …`. A program embeds [`Args`] as a sub-command and calls [`run`].

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use clap::ValueEnum;
use loadgen::{Percentile, PhasesArg, StairsArg, Threshold, answers::TOLERANCE, write_csv};
use serde_json::Value;

use crate::{
    Conditions, Configuration, Job, Kind,
    api::{ControlPlane, Settings},
    asked::{input_config, stopping_conditions},
    basis::Basis,
    bottleneck::Used,
    control_server,
    door::Door,
    job::check_duration,
    journal::{Journal, Place, Trouble},
    means::Means,
    payload, pipe,
    prices::Prices,
    ranking::Objective,
    run::{Done, Status},
    setting::{FORM, Variables},
    shares::{self, Places},
    variants,
    watch::Watch,
    winner,
};

/// The numbers of processors; an argument that is a list of its own.
type Processors = Vec<usize>;

/// Finds out which settings and which machine suit a model.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Exit status: 0 where there is a recommendation, 1 where nothing could be measured, 2 for \
                        arguments that cannot be used, 3 where nothing is within the limits that were asked for."
)]
pub struct Args {
    /// The model: its file, its directory, or a repository
    #[arg(
        value_name = "MODEL",
        required_unless_present_any = ["model_option", "input_json", "endpoint", "serve"]
    )]
    model: Option<String>,
    /// The same
    #[arg(long = "model", value_name = "MODEL", conflicts_with = "model")]
    model_option: Option<String>,
    /// The body of a CreateInferenceRecommendationsJob, in a file. What it says is said there alone; of these
    /// arguments --payload goes before it, and --instance is for a body that names no machine
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "model", "model_option", "endpoint", "content_type", "job_type", "env", "phases", "stairs",
        "max_invocations", "latency_ms", "percentile", "flat", "max_tests", "parallel", "duration",
    ])]
    input_json: Option<PathBuf>,
    /// A running server instead of a model; it is measured as it is
    #[arg(long, value_name = "URL", conflicts_with_all = ["model", "model_option"])]
    endpoint: Option<String>,
    /// Bodies of requests to /invocations: a file, a directory of files or a .tar.gz
    #[arg(long, value_name = "PATH")]
    payload: Option<String>,
    /// Their type, where the endings of the files do not say it; repeatable
    #[arg(long, value_name = "TYPE")]
    content_type: Vec<String>,
    /// What is looked for: the best settings, or what given ones carry under a given load. advanced if --env, --phases
    /// or --stairs is given
    #[arg(long, value_enum)]
    job_type: Option<JobTypeArg>,
    /// Machines: local.cpuN has N processors of this machine, local.gpu[.cpuN] its GPU, too; or names of --prices
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    instance: Vec<String>,
    /// The processors of servers, such as 2-7; the load generator has the others
    #[arg(long, value_name = "LIST", value_parser = shares::processors, conflicts_with = "endpoint")]
    server_cpus: Option<Processors>,
    /// The processors of the load generator, such as 0,1; servers have the others
    #[arg(long, value_name = "LIST", value_parser = shares::processors)]
    client_cpus: Option<Processors>,
    /// A variable of the server and the values to try, such as OMP_NUM_THREADS=1,2,4; repeatable
    #[arg(long, value_name = "NAME=VALUES", value_parser = range)]
    env: Vec<(String, Vec<String>)>,
    /// Phases, each USERS:RATE:SECONDS: users at its beginning, users added per minute, and its length
    #[arg(long, value_name = "PHASES")]
    phases: Option<PhasesArg>,
    /// Stairs, USERS:STEPS:SECONDS: users that each step adds, number of steps, and length of each
    #[arg(long, value_name = "STAIRS", conflicts_with = "phases")]
    stairs: Option<StairsArg>,
    /// Requests per minute that are asked for
    #[arg(long, value_name = "N")]
    max_invocations: Option<u64>,
    /// The longest that --percentile of the latencies may be, in milliseconds
    #[arg(long, value_name = "MILLISECONDS")]
    latency_ms: Option<u64>,
    /// Which one is held against --latency-ms
    #[arg(long, value_enum, default_value_t = PercentileArg::P95)]
    percentile: PercentileArg,
    /// What is done where more users bring no more throughput
    #[arg(long, value_enum, default_value_t = FlatArg::Stop)]
    flat: FlatArg,
    /// Most combinations of values
    #[arg(long, value_name = "N", default_value_t = 10)]
    max_tests: usize,
    /// Most tests of an advanced job at the same time, each on processors of its own: so many as the machine has room
    /// for
    #[arg(long, value_name = "N", default_value_t = 1)]
    parallel: usize,
    /// How often each setting of an advanced job is tested, in turns; the first one is tested beside itself, too, which
    /// shows the noise. Six or more give an interval of 95 % for how they differ
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Seconds after which the job ends with what it has
    #[arg(long, value_name = "SECONDS")]
    duration: Option<u64>,
    /// Divides all times; the numbers of users stay
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    time_scale: f64,
    /// Where what was measured is kept until the job is over: after Ctrl-C or a crash the same command goes on from
    /// there. Default: muster/recommend in $XDG_STATE_HOME or ~/.local/state
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Forget what an earlier start has measured
    #[arg(long)]
    fresh: bool,
    /// Another form of the model, such as its file in FP16 or int8, that is tried, too; repeatable. Files beside the
    /// model's with such names are tried anyway
    #[arg(long, value_name = "PATH")]
    variant: Vec<String>,
    /// By how much numbers of answers may differ from those of the first setting, as a share
    #[arg(long, value_name = "SHARE", default_value_t = TOLERANCE)]
    tolerance: f64,
    /// Machines with their processors and prices, as TOML
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// What is to be best
    #[arg(long, value_enum, default_value_t = ObjectiveArg::Cost)]
    objective: ObjectiveArg,
    /// Write the reply to DescribeInferenceRecommendationsJob to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    describe: Option<PathBuf>,
    /// Write the reply to ListInferenceRecommendationsJobSteps to this file
    #[arg(long, value_name = "FILE")]
    steps: Option<PathBuf>,
    /// Write the windows of all settings to this file, as CSV
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Write a table of Markdown to this file
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Write a page with charts to this file, which needs no network to be looked at
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Do no job, but answer SageMaker's operations on jobs and models at this address, until a signal comes.
    /// Signatures are not checked. -: over the socket that is standard input, as a server with --recommendation-jobs
    /// starts it
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = [
        "model", "model_option", "input_json", "endpoint", "payload", "content_type", "job_type", "env", "phases",
        "stairs", "max_invocations", "latency_ms", "duration", "describe", "steps", "series", "table", "html",
    ])]
    serve: Option<Door>,
    /// Directory in which --serve keeps jobs and models. Default: one that is removed at the end
    #[arg(long, value_name = "DIR", requires = "serve")]
    jobs: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum JobTypeArg {
    Default,
    Advanced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
enum PercentileArg {
    P95,
    P99,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FlatArg {
    Stop,
    Continue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ObjectiveArg {
    Cost,
    Latency,
    Throughput,
}

/// How much less than the server that has started it this program and its servers are worth to the system.
const NICE: i32 = 10;

/// Nothing was within the limits.
const NOTHING_WITHIN: u8 = 3;
/// The arguments cannot be used.
const USAGE: u8 = 2;

/// Does the job; `program` is what serves, and `stop` ends the job with what it has. Progress goes to standard error,
/// findings to standard output and the files that the arguments name. What is measured is kept below `state`, unless
/// the arguments name another place. Blocks until it is over.
pub fn run(args: &Args, program: &Path, state: Option<PathBuf>, stop: Arc<AtomicBool>) -> ExitCode {
    if let Some(door) = args.serve {
        return serve(args, door, program, &stop);
    }
    let (job, means) = match args.job().and_then(|job| Ok((args.means(&job, program, stop)?, job)))
    {
        Ok((means, job)) => (job, means),
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(USAGE);
        }
    };
    let mut say = |line: &str| {
        // Whoever took standard error away does not want the line.
        let _ = writeln!(io::stderr(), "{line}");
    };
    let journal = match args.journal(&job, &means, state, &mut say) {
        Ok(journal) => journal,
        Err(Trouble::Stopped) => {
            say(&format!("STOPPED {}", Trouble::Stopped));
            return ExitCode::FAILURE;
        }
        Err(trouble) => {
            say(&format!("WARNING {trouble}"));
            Journal::default()
        }
    };
    let is_kept = journal.created().is_some();
    let done = crate::run::go_on(job, &means, journal, &mut say);
    if is_kept && done.status == Status::Stopped {
        say("the same command goes on from here, with --fresh from the beginning");
    }
    let written = args.write(&done);
    written.iter().for_each(|problem| eprintln!("{problem}"));
    let best = done.ranked.first().and_then(|it| done.steps.get(*it));
    if let Some(best) = best {
        let model = done.job.model.as_deref().unwrap_or_default();
        let config = winner::config_pbtxt(best).unwrap_or_default();
        let word = match best.row().is_some_and(|it| it.meets) {
            true => "best",
            false => "nothing is within the limits; the nearest",
        };
        eprintln!("\n{}", done.table());
        done.differences().iter().for_each(|it| eprintln!("{it}"));
        if done.job.endpoint.is_none() {
            eprintln!("{word}: {}", best.setting.variables());
            if let Some(used) = Used::of(best) {
                eprintln!("with it {used}");
            }
            eprintln!("{config}{}", winner::docker_run(best, model));
        }
    }
    if !written.is_empty() {
        return ExitCode::FAILURE;
    }
    match (done.status, best.and_then(|it| it.row())) {
        (Status::Failed, _) | (_, None) => ExitCode::FAILURE,
        (_, Some(row)) if !row.meets => ExitCode::from(NOTHING_WITHIN),
        _ => ExitCode::SUCCESS,
    }
}

/// Answers operations until `stop` is set.
fn serve(args: &Args, door: Door, program: &Path, stop: &AtomicBool) -> ExitCode {
    if door == Door::StandardInput {
        // Where the system refuses it, the jobs are in the way of the server as any other program.
        let _ = rustix::process::nice(NICE);
    }
    let settings = match args.control(program) {
        Ok(settings) => settings,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(USAGE);
        }
    };
    let control = match ControlPlane::open(settings) {
        Ok(control) => Arc::new(control),
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let served = match door {
        Door::Address(address) => control_server::serve(address, &control, stop)
            .map_err(|problem| format!("{address}: {problem}")),
        Door::StandardInput => pipe::standard_input()
            .and_then(|socket| pipe::serve(&socket, &control, stop))
            .map_err(|problem| format!("standard input, expected a socket of a pair: {problem}")),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

impl Args {
    fn job(&self) -> Result<Job, String> {
        if let Some(file) = &self.input_json {
            let text =
                fs::read_to_string(file).map_err(|it| format!("{}: {it}", file.display()))?;
            let body: Value =
                serde_json::from_str(&text).map_err(|it| format!("{}: {it}", file.display()))?;
            let mut job = Job::parse(&body).map_err(|it| format!("{}: {it}", file.display()))?;
            job.payload = self.payload.clone().or(job.payload);
            (job.variants, job.tolerance) = (self.variants(job.model.as_deref()), self.tolerance);
            job.repeats = self.repeats(&job)?;
            if job.configurations.is_empty() && job.endpoint.is_none() {
                job.configurations = self.machines()?;
            } else if !self.instance.is_empty() {
                return Err(format!(
                    "--instance: expected none with --input-json {}, which says what is measured",
                    file.display()
                ));
            }
            return Ok(job);
        }
        let is_advanced = !self.env.is_empty() || self.phases.is_some() || self.stairs.is_some();
        let kind = match self.job_type {
            Some(JobTypeArg::Default) => Kind::Default,
            Some(JobTypeArg::Advanced) => Kind::Advanced,
            None if is_advanced => Kind::Advanced,
            None => Kind::Default,
        };
        let phases = self.phases.as_ref().map(PhasesArg::traffic);
        let traffic = phases.or(self.stairs.as_ref().map(StairsArg::traffic));
        traffic.as_ref().map_or(Ok(()), |it| it.validate()).map_err(|it| it.to_string())?;
        let percentile = match self.percentile {
            PercentileArg::P95 => Percentile::P95,
            PercentileArg::P99 => Percentile::P99,
        };
        let duration = self.duration.map(Duration::from_secs);
        check_duration(duration).map_err(|it| format!("--duration: {}", it.problem))?;
        let latency = self.latency_ms.map(Duration::from_millis);
        let model = self.model.as_ref().or(self.model_option.as_ref());
        let mut job = Job {
            name: "recommend".to_owned(),
            kind,
            model: model.cloned(),
            endpoint: self.endpoint.clone(),
            payload: self.payload.clone(),
            content_types: self.content_type.clone(),
            traffic,
            duration,
            most_tests: self.max_tests.max(1),
            most_parallel: self.parallel.max(1),
            repeats: 1,
            configurations: match self.endpoint {
                Some(_) => Vec::new(),
                None => self.machines()?,
            },
            variants: self.variants(model.map(String::as_str)),
            tolerance: self.tolerance,
            stop: Conditions {
                max_invocations: self.max_invocations,
                threshold: latency.map(|latency| Threshold { percentile, latency }),
                continue_flat: self.flat == FlatArg::Continue,
            },
            input: Value::Null,
            stopping: None,
            warnings: Vec::new(),
        };
        job.repeats = self.repeats(&job)?;
        (job.input, job.stopping) = (input_config(&job), stopping_conditions(&job));
        Ok(job)
    }

    /// How often each setting of the job is tested.
    fn repeats(&self, job: &Job) -> Result<u32, String> {
        match (self.repeats, job.kind, &job.endpoint) {
            (1, ..) | (_, Kind::Advanced, None) => Ok(self.repeats),
            (given, _, Some(_)) => {
                Err(format!("--repeats: expected 1 with a server that runs already, given {given}"))
            }
            (given, Kind::Default, _) => Err(format!(
                "--repeats: expected an advanced job (--env, --phases or --stairs), as a default job has rounds of its \
                 own, given {given}"
            )),
        }
    }

    /// The forms of `--variant`, and those beside the model's file.
    fn variants(&self, model: Option<&str>) -> Variables {
        let form = |it: &String| (FORM.to_owned(), it.clone());
        let mut forms: Variables = self.variant.iter().map(form).collect();
        let found = model.map(|it| variants::beside(Path::new(it))).unwrap_or_default();
        forms.extend(found.into_iter().filter(|it| !self.variant.contains(&it.1)));
        forms
    }

    /// The machines of `--instance`, else this one.
    fn machines(&self) -> Result<Vec<Configuration>, String> {
        let machine =
            |instance_type: String| Configuration { instance_type, ranges: self.env.clone() };
        let here = format!("local.cpu{}", self.places()?.servers.len());
        let instances = if self.instance.is_empty() { vec![here] } else { self.instance.clone() };
        Ok(instances.into_iter().map(machine).collect())
    }

    /// The processors of servers and load generators.
    fn places(&self) -> Result<Places, String> {
        let [servers, generators] = [&self.server_cpus, &self.client_cpus].map(Option::as_deref);
        Places::of(crate::child::cpus(), servers, generators)
    }

    /// What an earlier start has kept of the job; nothing where there is no place for it.
    fn journal(
        &self,
        job: &Job,
        means: &Means,
        state: Option<PathBuf>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Journal, Trouble> {
        let root = self.state.clone().or(state);
        match root.filter(|_| job.endpoint.is_none()) {
            None => Ok(Journal::default()),
            Some(root) => {
                let basis = Basis::of(job, means);
                let place = Place::below(&root, &basis);
                Journal::open(&place, &basis, means.bodies.len(), self.fresh, &means.stop, say)
            }
        }
    }

    fn means(&self, job: &Job, program: &Path, stop: Arc<AtomicBool>) -> Result<Means, String> {
        self.check_time_scale()?;
        let payload =
            job.payload.as_deref().ok_or("--payload: expected a file, a directory or a .tar.gz")?;
        let prices = self.prices()?;
        let names: Vec<&str> =
            job.configurations.iter().map(|it| it.instance_type.as_str()).collect();
        let places = self.places()?;
        for name in &self.instance {
            let known = prices.machine(name, places.servers.len());
            known.map_err(|it| format!("--instance: {it}"))?;
        }
        let priced = prices.for_all(&names, places.servers.len());
        priced.map_err(|it| format!("--prices: {it}"))?;
        Ok(Means {
            program: program.to_owned(),
            prices,
            places,
            bodies: payload::read(payload, &job.content_types)?,
            time_scale: self.time_scale,
            stop,
            environment: Vec::new(),
            watch: Watch::default().telling(|line| {
                // Whoever took standard error away does not want the line.
                let _ = writeln!(io::stderr(), "{line}");
            }),
            objective: self.objective(),
        })
    }

    fn prices(&self) -> Result<Prices, String> {
        let Some(file) = &self.prices else { return Ok(Prices::default()) };
        let text = fs::read_to_string(file).map_err(|it| format!("{}: {it}", file.display()))?;
        Prices::parse(&text).map_err(|it| format!("{}: {it}", file.display()))
    }

    fn objective(&self) -> Objective {
        match self.objective {
            ObjectiveArg::Cost => Objective::Cost,
            ObjectiveArg::Latency => Objective::Latency,
            ObjectiveArg::Throughput => Objective::Throughput,
        }
    }

    fn check_time_scale(&self) -> Result<(), String> {
        match (0.01..=1000.0).contains(&self.time_scale) {
            true => Ok(()),
            false => Err(format!("--time-scale: expected 0.01 to 1000, given {}", self.time_scale)),
        }
    }

    /// What `--serve` does jobs with.
    fn control(&self, program: &Path) -> Result<Settings, String> {
        self.check_time_scale()?;
        Ok(Settings {
            program: program.to_owned(),
            jobs: self.jobs.clone(),
            prices: self.prices()?,
            objective: self.objective(),
            time_scale: self.time_scale,
            machines: self.machines()?,
            places: self.places()?,
        })
    }

    /// Writes all that the arguments name. What could not be written, a sentence each.
    fn write(&self, done: &Done) -> Vec<String> {
        let file = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
            None => Ok(()),
            Some(path) => fs::write(path, text()).map_err(|it| format!("{}: {it}", path.display())),
        };
        let pretty = |value: Value| format!("{value:#}\n");
        let describe = match &self.describe {
            Some(_) => file(&self.describe, &|| pretty(done.describe())),
            None => {
                let text = pretty(done.describe());
                io::stdout().write_all(text.as_bytes()).map_err(|it| format!("output: {it}"))
            }
        };
        let measured = done.steps.iter().filter_map(|it| Some((it, it.outcome.as_ref().ok()?)));
        let windows = measured.flat_map(|(step, measured)| {
            let of = [&step.setting.instance_type, &step.setting.variables(), step.length.name()]
                .map(str::to_owned);
            measured.windows.iter().map(move |it| (of.to_vec(), it))
        });
        let series = match &self.series {
            None => Ok(()),
            Some(path) => write_csv(path, &["machine", "settings", "tried"], windows)
                .map_err(|it| it.to_string()),
        };
        let outcomes = [
            describe,
            file(&self.steps, &|| pretty(done.list_steps())),
            file(&self.table, &|| done.table()),
            file(&self.html, &|| done.page().to_html()),
            series,
        ];
        outcomes.into_iter().filter_map(Result::err).collect()
    }
}

/// `NAME=VALUE,VALUE`.
fn range(given: &str) -> Result<(String, Vec<String>), String> {
    let (name, values) = given
        .split_once('=')
        .filter(|it| !it.0.is_empty() && !it.1.is_empty())
        .ok_or("expected NAME=VALUE,VALUE, such as OMP_NUM_THREADS=1,2,4")?;
    Ok((name.to_owned(), values.split(',').map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests;
