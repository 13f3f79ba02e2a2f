//! The command line: `bench URL …`. A program parses [`Args`] and calls [`run`].

use std::{
    cell::Cell,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;

use crate::{
    Blocks, Error, Interval, Plan, Report, Server, Stated, Target, compare,
    content::Content,
    export::StepLine,
    find_limit,
    listener::listening,
    load_args::LoadArgs,
    option_values::{duration, milliseconds, percent},
    page::Page,
    progress::{Bar, Expected, Progress},
    trust::Trust,
    write_csv, write_histograms, write_json,
};

/// Length of a step of --find-limit unless the arguments say another.
const STEP: Duration = Duration::from_secs(3);

/// Findings as JSON, with what they are of.
#[derive(Serialize)]
struct Findings<'a, T> {
    stated: Option<Stated>,
    /// The server of `--vs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    vs_server: Option<Server>,
    #[serde(flatten)]
    found: &'a T,
}

/// Measures an inference server.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Exit status: 0 where something was measured, 1 where no request was answered \
                        with a 2xx status or a checked answer was wrong."
)]
pub struct Args {
    /// The server; a path in it replaces the one of the format, and is fetched with GET where neither
    /// --model nor --body is given
    url: Target,
    /// A second server for the same load: both are measured in interleaved blocks of --duration
    #[arg(long, value_name = "URL")]
    vs: Option<Target>,
    /// Pairs of blocks with --vs
    #[arg(long, default_value_t = 20, requires = "vs")]
    pairs: usize,
    /// With --vs: a pair is dropped if more than this share of the machine's time was stolen in one of its
    /// blocks
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "1", requires = "vs")]
    most_steal: f64,
    #[command(flatten)]
    load: LoadArgs,
    /// Seconds of measurement; 10 unless --requests is given, and 3 for each step of --find-limit
    #[arg(long, short, value_parser = duration, value_name = "SECONDS")]
    duration: Option<Duration>,
    /// Requests to measure
    #[arg(long, short = 'n')]
    requests: Option<u64>,
    /// Seconds of load before the measurement
    #[arg(long, value_parser = duration, value_name = "SECONDS", default_value = "1")]
    warm_up: Duration,
    /// Seconds after which a request is given up
    #[arg(long, value_parser = duration, value_name = "SECONDS", default_value = "30")]
    timeout: Duration,
    /// Latency above which an answer does not count as good
    #[arg(long, value_name = "MILLISECONDS", value_parser = milliseconds)]
    deadline_ms: Option<Duration>,
    #[command(flatten)]
    content: Content,
    #[command(flatten)]
    trust: Trust,
    /// Of random data and arrivals, and of resampling
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A process of the server: reports its processor time, descendants included. Found by itself where the server
    /// listens at a loopback address of this machine and its processes may be looked at
    #[arg(long)]
    pid: Option<u32>,
    /// The server's page of metrics, such as http://localhost:8002/metrics: reports what its GPUs are used for
    #[arg(long, value_name = "URL", conflicts_with = "vs")]
    metrics: Option<Target>,
    /// The same of the server of --vs
    #[arg(long, requires = "vs", value_name = "PID")]
    vs_pid: Option<u32>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Write the course of the run to this file, as CSV: a line for each second
    #[arg(long, value_name = "FILE", conflicts_with = "vs")]
    csv: Option<PathBuf>,
    /// Write a page with a verdict, charts and tables to this file, which needs no network to be looked at
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the latencies to this file, as a log of HDR histograms
    #[arg(long, value_name = "FILE")]
    histogram: Option<PathBuf>,
}

/// Measures as the arguments say and prints to standard output. Blocks until it is done.
///
/// # Errors
/// When an argument or a file cannot be used, the server cannot be reached, or nothing can be printed.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    run_to(args, &mut io::stdout().lock())
}

/// [`run`], printing to `out`.
///
/// # Errors
/// Those of [`run`].
pub fn run_to(args: &Args, out: &mut impl Write) -> Result<ExitCode, Error> {
    let args = &args.clone().trusting()?;
    let mut plan = args.plan(&args.url, args.pid)?;
    say(args.content.refer(&mut plan)?);
    let progress = Arc::new(Progress::default());
    plan.progress = Some(progress.clone());
    let printed = |source| Error::System { what: "output", source };
    let healthy = |report: &Report| report.ok > 0 && report.wrong == 0;
    if args.load.find_limit {
        return limit(args, plan, out);
    }
    let Some(other) = &args.vs else {
        let bar = Bar::begin(progress, expected(&plan, 1));
        let report = plan.run()?;
        drop(bar);
        args.write_histograms(&[&report])?;
        let stated = args.stated(&plan);
        args.write_course(stated.as_ref(), &report.samples, || report.page())?;
        match args.json {
            true => write_json(&Findings { stated, vs_server: None, found: &report }, out),
            false => write!(out, "{report}"),
        }
        .map_err(printed)?;
        return Ok(exit_code(healthy(&report)));
    };
    let blocks = Blocks { pairs: args.pairs, seed: args.seed, most_steal: args.most_steal };
    let mut other = args.plan(other, args.vs_pid)?;
    say(args.content.refer(&mut other)?);
    other.progress = plan.progress.clone();
    let bar = Bar::begin(progress, expected(&plan, 2 * args.pairs));
    let comparison = compare(&plan, &other, &blocks)?;
    drop(bar);
    let reports: Vec<&Report> = comparison.blocks_a.iter().chain(&comparison.blocks_b).collect();
    args.write_histograms(&reports)?;
    let stated = args.stated(&plan);
    let vs_server = stated.as_ref().and_then(|_| args.content.server(&other.target));
    args.write_course(stated.as_ref(), &[], || {
        let mut page = comparison.page();
        page.notes.extend(vs_server.iter().map(|it| format!("B is {it}.")));
        page
    })?;
    match args.json {
        true => write_json(&Findings { stated, vs_server, found: &comparison }, out),
        false => write!(out, "{comparison}"),
    }
    .map_err(printed)?;
    Ok(exit_code(reports.into_iter().all(healthy)))
}

/// Tells what is to be known beside the findings.
fn say(line: Option<String>) {
    if let Some(line) = line {
        // Whoever took standard error away does not want the line.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Looks for the limit of the server of `plan` and prints it.
fn limit(args: &Args, mut plan: Plan, out: &mut impl Write) -> Result<ExitCode, Error> {
    plan.duration = Some(args.duration.unwrap_or(STEP));
    let printed = |source| Error::System { what: "output", source };
    let wrong = Cell::new(0);
    let limit = find_limit(args.load.threshold(), args.load.most_users.max(1), |users| {
        let mut step = plan.clone();
        step.connections = users;
        let bar = plan.progress.clone().map(|it| Bar::begin(it, expected(&plan, 1)));
        let report = step.run()?;
        drop(bar);
        if wrong.get() == 0 {
            let noun = if users == 1 { "user" } else { "users" };
            say(report.wrong_answers().map(|it| format!("with {users} {noun} {it}")));
        }
        wrong.set(wrong.get() + report.wrong);
        let whole = report.whole();
        // A line for each step, as they take seconds.
        if !args.json {
            writeln!(out, "{}", StepLine(&whole)).map_err(printed)?;
        }
        Ok(whole)
    })?;
    let stated = args.stated(&plan);
    args.write_course(stated.as_ref(), &limit.steps, || limit.page(&plan.target))?;
    match args.json {
        true => write_json(&Findings { stated, vs_server: None, found: &limit }, out),
        false => write!(out, "{limit}"),
    }
    .map_err(printed)?;
    Ok(exit_code(limit.best.is_some() && wrong.get() == 0))
}

/// What `blocks` runs of a plan will take.
fn expected(plan: &Plan, blocks: usize) -> Expected {
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    Expected {
        time: plan.time().map(|it| (plan.warm_up + it).saturating_mul(blocks)),
        requests: plan.count.map(|it| it.saturating_mul(blocks.into())),
    }
}

fn exit_code(healthy: bool) -> ExitCode {
    if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Args {
    /// The same with servers whose certificates are believed as it says.
    fn trusting(mut self) -> Result<Args, Error> {
        let trust = &self.trust.clone();
        let others = [&self.vs, &self.metrics, self.content.described()].into_iter().flatten();
        Target::check_trust(others.chain([&self.url]), trust)?;
        self.url = self.url.trusting(trust)?;
        self.vs = self.vs.map(|it| it.trusting(trust)).transpose()?;
        self.metrics = self.metrics.map(|it| it.trusting(trust)).transpose()?;
        self.content = self.content.trusting(trust)?;
        Ok(self)
    }

    fn plan(&self, target: &Target, pid: Option<u32>) -> Result<Plan, Error> {
        let found = || listening(target.loopback()?).filter(|it| *it != std::process::id());
        let mut plan = Plan::new(target.clone(), self.content.requests(target, self.seed)?);
        plan.check = self.content.check();
        plan.warm_up = self.warm_up;
        plan.count = self.requests;
        if self.requests.is_some() || self.duration.is_some() {
            plan.duration = self.duration;
        }
        self.load.apply(self.duration, &mut plan)?;
        plan.timeout = self.timeout;
        plan.deadline = self.deadline_ms;
        (plan.pid, plan.metrics) = (pid.or_else(found), self.metrics.clone());
        // Nobody has named what was found.
        plan.may_go = pid.is_none();
        plan.seed = self.seed;
        Ok(plan)
    }

    /// What the numbers of a plan are of, where that is shown. Asks the server what it is.
    fn stated(&self, plan: &Plan) -> Option<Stated> {
        let is_shown = self.json || self.csv.is_some() || self.html.is_some();
        let stated = || Stated::of(plan, self.content.server(&plan.target), self.load.scale());
        is_shown.then(stated)
    }

    /// Writes the files of `--csv` and `--html`.
    fn write_course(
        &self,
        stated: Option<&Stated>,
        course: &[Interval],
        page: impl Fn() -> Page,
    ) -> Result<(), Error> {
        let Some(stated) = stated else { return Ok(()) };
        if let Some(path) = &self.csv {
            let lines = course.iter().map(|it| (stated.values(), it));
            write_csv(path, &Stated::COLUMNS, lines)?;
        }
        self.html.as_ref().map_or(Ok(()), |path| {
            let mut page = page();
            page.notes.push(format!("Measured from this machine: {stated}"));
            page.write(path)
        })
    }

    fn write_histograms(&self, reports: &[&Report]) -> Result<(), Error> {
        self.histogram.as_ref().map_or(Ok(()), |path| write_histograms(path, reports))
    }
}

#[cfg(test)]
mod tests;
