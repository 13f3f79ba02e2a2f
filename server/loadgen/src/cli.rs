//! The command line: `bench URL …`. A program embeds [`Args`] as a sub-command and calls [`run`].

use std::{
    cell::Cell,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use crate::{
    Blocks, Error, Interval, Plan, Report, Target, compare,
    content::Content,
    export::StepLine,
    find_limit,
    load_args::LoadArgs,
    option_values::{duration, milliseconds, percent},
    page::Page,
    progress::{Bar, Expected, Progress},
    write_csv, write_histograms, write_json,
};

/// Length of a step of --find-limit unless the arguments say another.
const STEP: Duration = Duration::from_secs(3);

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
    /// Of random data and arrivals, and of resampling
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A process of the server: reports its processor time, descendants included
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
    /// Write a page with charts to this file, which needs no network to be looked at
    #[arg(long, value_name = "FILE", conflicts_with = "vs")]
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
    let mut plan = args.plan(&args.url, args.pid)?;
    args.content.refer(&mut plan)?;
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
        args.write_course(&report.samples, || report.page())?;
        match args.json {
            true => write_json(&report, out),
            false => write!(out, "{report}"),
        }
        .map_err(printed)?;
        return Ok(exit_code(healthy(&report)));
    };
    let blocks = Blocks { pairs: args.pairs, seed: args.seed, most_steal: args.most_steal };
    let mut other = args.plan(other, args.vs_pid)?;
    args.content.refer(&mut other)?;
    other.progress = plan.progress.clone();
    let bar = Bar::begin(progress, expected(&plan, 2 * args.pairs));
    let comparison = compare(&plan, &other, &blocks)?;
    drop(bar);
    let reports: Vec<&Report> = comparison.blocks_a.iter().chain(&comparison.blocks_b).collect();
    args.write_histograms(&reports)?;
    match args.json {
        true => write_json(&comparison, out),
        false => write!(out, "{comparison}"),
    }
    .map_err(printed)?;
    Ok(exit_code(reports.into_iter().all(healthy)))
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
        wrong.set(wrong.get() + report.wrong);
        let whole = report.whole();
        // A line for each step, as they take seconds.
        if !args.json {
            writeln!(out, "{}", StepLine(&whole)).map_err(printed)?;
        }
        Ok(whole)
    })?;
    args.write_course(&limit.steps, || limit.page(&plan.target))?;
    match args.json {
        true => write_json(&limit, out),
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
    fn plan(&self, target: &Target, pid: Option<u32>) -> Result<Plan, Error> {
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
        (plan.pid, plan.metrics) = (pid, self.metrics.clone());
        plan.seed = self.seed;
        Ok(plan)
    }

    /// Writes the files of `--csv` and `--html`.
    fn write_course(&self, course: &[Interval], page: impl Fn() -> Page) -> Result<(), Error> {
        let lines = course.iter().map(|it| (Vec::new(), it));
        self.csv.as_ref().map_or(Ok(()), |path| write_csv(path, &[], lines))?;
        self.html.as_ref().map_or(Ok(()), |path| page().write(path))
    }

    fn write_histograms(&self, reports: &[&Report]) -> Result<(), Error> {
        self.histogram.as_ref().map_or(Ok(()), |path| write_histograms(path, reports))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrivals, Check, Load, Phase, Request, Stairs, Traffic};
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        Command::try_parse_from(words).map(|it| it.args).map_err(|it| it.to_string())
    }

    #[test]
    fn a_line_becomes_a_plan() {
        let line = "http://h:1 -m m --input x:FP32:1,4 --input a:b:INT64: -c 8 --rate 50 \
                    --arrivals constant --duration 2.5 --warm-up 0 --deadline-ms 20";
        let args = parse(line).unwrap();
        let plan = args.plan(&args.url, None).unwrap();
        assert_eq!(plan.connections, 8);
        assert_eq!(plan.load, Load::Open { rate: 50.0, arrivals: Arrivals::Constant });
        assert_eq!(plan.duration, Some(Duration::from_millis(2500)));
        assert_eq!(plan.deadline, Some(Duration::from_millis(20)));
        assert_eq!(plan.requests[0].path(), "/v2/models/m/infer");
        assert!(matches!(plan.check, Check::FirstReply(_)));
    }

    #[test]
    fn users_come_as_the_arguments_say() {
        let load = |line: &str| {
            let args = parse(&format!("http://h/x {line}")).unwrap();
            args.plan(&args.url, None).map(|it| it.load).map_err(|it| it.to_string())
        };
        let seconds = Duration::from_secs;
        let phase = |initial_users, spawn_rate, length| Phase {
            initial_users,
            spawn_rate,
            duration: seconds(length),
        };
        let phases = Traffic::Phases(vec![phase(2, 8.0, 30), phase(6, 24.0, 30)]);
        assert_eq!(load("--phases 2:2:120,6:6:120 --time-scale 4"), Ok(Load::Users(phases)));
        let stairs = Stairs { users_per_step: 2, steps: 5, duration: seconds(60) };
        assert_eq!(load("--stairs 2:5:60"), Ok(Load::Users(Traffic::Stairs(stairs))));
        let ramp = Traffic::Phases(vec![phase(1, 60.0, 4), phase(5, 0.0, 20)]);
        assert_eq!(load("--users 5 --ramp 4 -d 20"), Ok(Load::Users(ramp)));
        let flat = Traffic::Phases(vec![phase(5, 0.0, 10)]);
        assert_eq!(load("--users 5"), Ok(Load::Users(flat)));
        assert!(load("--time-scale 2").unwrap_err().contains("--phases"));
    }

    #[test]
    fn headers_are_those_of_each_request() {
        let words = ["bench", "http://h", "-m", "m", "--input", "x:FP32:1"];
        let more = ["--header", "Authorization: Bearer a:b", "--header", "X-Target: m.tar.gz"];
        let command = Command::try_parse_from(words.into_iter().chain(more)).unwrap();
        let plan = command.args.plan(&command.args.url, None).unwrap();
        let text = String::from_utf8_lossy(&plan.requests[0].encode("h")).into_owned();
        for line in ["Authorization: Bearer a:b\r\n", "X-Target: m.tar.gz\r\n"] {
            assert!(text.contains(line), "{text}");
        }
        let args = parse("http://h/x --header Host:h").unwrap();
        let problem = args.plan(&args.url, None).unwrap_err().to_string();
        assert!(problem.contains("Host"), "{problem}");
    }

    #[test]
    fn inputs_have_the_values_of_their_names() {
        let line = "http://h -m m --format kserve-json --input input_ids:INT64:1,3 \
                    --input attention_mask:INT64:1,3 --input token_type_ids:INT64:1,3 --input t:BYTES:1";
        let body = |more: &str| {
            let args = parse(&format!("{line} {more}")).unwrap();
            let plan = args.plan(&args.url, None).map_err(|it| it.to_string())?;
            Ok::<_, String>(String::from_utf8(plan.requests[0].encode("h")).unwrap())
        };
        let usual = body("").unwrap();
        // Others follow; where nothing is random, none does.
        let sent = |more: &str| {
            let args = parse(&format!("{line} {more}")).unwrap();
            let requests = args.plan(&args.url, None).unwrap().requests;
            let mut bodies: Vec<_> = requests.iter().map(|it| it.encode("h")).collect();
            bodies.sort();
            bodies.dedup();
            (requests.len(), bodies.len())
        };
        assert_eq!(
            (sent(""), sent("--seed 7"), sent("--data zeros")),
            ((16, 16), (16, 16), (1, 1))
        );
        assert!(usual.contains(r#""data":[1,1,1]"#) && usual.contains(r#""data":[0,0,0]"#));
        let given =
            body("--value attention_mask=0 --value t=hello --value input_ids=7..7").unwrap();
        assert!(given.contains(r#""data":[7,7,7]"#) && given.contains(r#""data":["hello"]"#));
        assert!(!given.contains(r#""data":[1,1,1]"#));
        assert!(body("--value ids=1").unwrap_err().contains("'ids'; expected one of input_ids"));
    }

    #[test]
    fn a_number_of_requests_replaces_the_default_duration() {
        let plan = |line: &str| {
            let args = parse(line).unwrap();
            args.plan(&args.url, None).unwrap()
        };
        assert_eq!(plan("http://h/x").duration, Some(Duration::from_secs(10)));
        assert_eq!(plan("http://h/x -n 5").duration, None);
        assert_eq!(plan("http://h/x -n 5 -d 3s").duration, Some(Duration::from_secs(3)));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_was_expected() {
        for (line, expected) in [
            ("", "URL"),
            ("h:80", "http://"),
            ("http://h --input x:FP99:1", "FP32"),
            ("http://h --input x:FP32", "NAME:DATATYPE:DIMS"),
            ("http://h --input x:FP32:1x3", "1,30"),
            ("http://h --duration soon", "seconds"),
            ("http://h --header nothing", "NAME: VALUE"),
            ("http://h --arrivals constant", "--rate"),
            ("http://h --vs-pid 7", "--vs"),
            ("http://h --vs http://i --most-steal 101", "0 to 100"),
            ("http://h --body f --input x:FP32:1", "--body"),
            ("http://h --body f --texts g", "--texts"),
            ("http://h --bodies f --body g", "--body"),
            ("http://h --content-type text/csv", "--body"),
            ("http://h --phases 2:2", "USERS:RATE:SECONDS"),
            ("http://h --stairs 1:2:3:4", "USERS:STEPS:SECONDS"),
            ("http://h --users 5 --rate 2", "--rate"),
            ("http://h --p99 50ms", "--find-limit"),
            ("http://h --find-limit --p99 fast", "50ms"),
            ("http://h --value x", "NAME=VALUE"),
            ("http://h --value x=5..1", "no range"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn the_path_of_the_url_replaces_that_of_the_format() {
        let args = parse("http://h/behind/a/proxy -m m --input x:FP32:1").unwrap();
        let plan = args.plan(&args.url, None).unwrap();
        assert_eq!(plan.requests[0].path(), "/behind/a/proxy");
        assert!(matches!(plan.check, Check::FirstReply(_)));
    }

    #[test]
    fn each_text_is_a_request() {
        let file = std::env::temp_dir().join(format!("muster-lines-{}", std::process::id()));
        std::fs::write(&file, "one\ntwo\n").unwrap();
        for (line, path) in
            [("http://h", "/embed"), ("http://h/v2/models/m/embed", "/v2/models/m/embed")]
        {
            let args = parse(&format!("{line} --format tei-embed --texts {}", file.display()));
            let args = args.unwrap();
            let plan = args.plan(&args.url, None).unwrap();
            let paths: Vec<_> = plan.requests.iter().map(Request::path).collect();
            assert_eq!(paths, [path, path]);
            assert!(matches!(plan.check, Check::FirstReply(_)));
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn each_line_of_a_file_and_each_file_of_a_directory_is_a_body() {
        let folder = std::env::temp_dir().join(format!("muster-bodies-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("each")).unwrap();
        let lines = folder.join("bodies.csv");
        std::fs::write(&lines, "1,2\r\n\n3,4").unwrap();
        std::fs::write(folder.join("each/b"), "5,6\n").unwrap();
        std::fs::write(folder.join("each/a"), "7,8\n").unwrap();
        let sent = |bodies: &std::path::Path, more: &str| {
            let line = format!("http://h --bodies {} {more}", bodies.display());
            let args = parse(&line).unwrap();
            let plan = args.plan(&args.url, None).unwrap();
            let requests = plan.requests.iter();
            let text = |it: &Request| String::from_utf8(it.encode("h")).unwrap();
            requests.map(text).collect::<Vec<String>>()
        };
        let csv = sent(&lines, "--content-type text/csv");
        assert!(csv[0].starts_with("POST /invocations ") && csv[0].contains(": text/csv\r\n"));
        let ends = |of: &[String]| {
            of.iter().map(|it| it.split("\r\n\r\n").nth(1).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(ends(&csv), ["1,2", "3,4"]);
        let each = sent(&folder.join("each"), "-m m");
        assert!(each[0].starts_with("POST /v2/models/m/infer "), "{}", each[0]);
        assert_eq!(ends(&each), ["7,8\n", "5,6\n"]);
        std::fs::write(&lines, "\n").unwrap();
        let args = parse(&format!("http://h --bodies {}", lines.display())).unwrap();
        let error = args.plan(&args.url, None).unwrap_err().to_string();
        assert!(error.contains("expected a body"), "{error}");
        let args = parse(&format!("http://h --format image --bodies {}", lines.display())).unwrap();
        assert!(args.plan(&args.url, None).unwrap_err().to_string().contains("--files"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_request_needs_something_to_send() {
        for (line, expected) in [
            ("http://h", "--model"),
            ("http://h --format invocations", "--body"),
            ("http://h --format tei-embed", "--texts"),
            ("http://h -m m --texts f", "--format openai-embeddings"),
            ("http://h --format image", "--files"),
            ("http://h -m m --files f", "--format image"),
        ] {
            let args = parse(line).unwrap();
            let error = args.plan(&args.url, None).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
