//! The command line: `bench URL …`. A program embeds [`Args`] as a sub-command and calls [`run`].

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::ValueEnum;

use crate::{
    Arrivals, Blocks, Check, Error, Fill, Input, Load, Method, Plan, Report, Request, Target,
    compare, fetch, grpc_raw_outputs, inputs_from_metadata, invocations, is_inference, kserve,
    kserve_binary, kserve_grpc, kserve_json,
    option_values::{
        InputArg, ValueArg, duration, input, milliseconds, named_value, percent, shape,
    },
    progress::{Bar, Expected, Progress},
    write_histograms, write_json,
};

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
    /// Connections, each with at most one request on its way
    #[arg(long, short, default_value_t = 1)]
    connections: usize,
    /// Requests per second, sent whether or not earlier ones are answered; without it each connection
    /// sends when it has its answer
    #[arg(long)]
    rate: Option<f64>,
    /// How requests are spread in time with --rate
    #[arg(long, value_enum, default_value_t = ArrivalsArg::Poisson, requires = "rate")]
    arrivals: ArrivalsArg,
    /// Seconds of measurement; 10 unless --requests is given
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
    /// The model, for the KServe formats
    #[arg(long, short)]
    model: Option<String>,
    /// What is sent
    #[arg(long, value_enum, default_value_t = Format::KserveBinary)]
    format: Format,
    /// An input, such as x:FP32:1,30 (a scalar: x:FP32:); repeatable. Without any, the server's metadata
    /// are asked
    #[arg(long, value_name = "NAME:DATATYPE:DIMS", value_parser = input, conflicts_with = "body")]
    input: Vec<InputArg>,
    /// The shape of an input from the metadata, such as x:8,30; repeatable. Open dimensions are 1
    #[arg(long, value_name = "NAME:DIMS", value_parser = shape, conflicts_with_all = ["input", "body"])]
    shape: Vec<(String, Vec<usize>)>,
    /// The server's HTTP address, to be asked for the model's metadata where the URL is another port's
    #[arg(long, value_name = "URL", conflicts_with = "input")]
    describe: Option<Target>,
    /// What made-up inputs hold
    #[arg(long, value_enum, default_value_t = DataArg::Random)]
    data: DataArg,
    /// What an input holds, such as threshold=0.5, text=hello or input_ids=0..30521; repeatable
    #[arg(long, value_name = "NAME=VALUE|LOW..HIGH", value_parser = named_value, conflicts_with = "body")]
    value: Vec<(String, ValueArg)>,
    /// A file that is sent as it is, instead of a made-up request
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Content type of --body
    #[arg(long, value_name = "TYPE", default_value = "application/json", requires = "body")]
    content_type: String,
    /// Of random data and arrivals, and of resampling
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A process of the server: reports its processor time, descendants included
    #[arg(long)]
    pid: Option<u32>,
    /// The same of the server of --vs
    #[arg(long, requires = "vs", value_name = "PID")]
    vs_pid: Option<u32>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Write the latencies to this file, as a log of HDR histograms
    #[arg(long, value_name = "FILE")]
    histogram: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArrivalsArg {
    Poisson,
    Constant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// POST /v2/models/MODEL/infer, data in the JSON
    KserveJson,
    /// The same with raw tensors behind the JSON
    KserveBinary,
    /// ModelInfer over gRPC, with raw tensors; the URL is that of the gRPC port. Without --input, --describe says
    /// where the metadata are
    KserveGrpc,
    /// POST /invocations with --body
    Invocations,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DataArg {
    /// Floats in [0, 1), integers in 0..100, strings of eight letters; a mask is ones, ids of token types are zeros
    Random,
    /// Zeros and empty strings
    Zeros,
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
    let progress = Arc::new(Progress::default());
    plan.progress = Some(progress.clone());
    let printed = |source| Error::System { what: "output", source };
    let healthy = |report: &Report| report.ok > 0 && report.wrong == 0;
    let Some(other) = &args.vs else {
        let bar = Bar::on_terminal(progress, expected(&plan, 1));
        let report = plan.run()?;
        drop(bar);
        args.write_histograms(&[&report])?;
        match args.json {
            true => write_json(&report, out),
            false => write!(out, "{report}"),
        }
        .map_err(printed)?;
        return Ok(exit_code(healthy(&report)));
    };
    let blocks = Blocks { pairs: args.pairs, seed: args.seed, most_steal: args.most_steal };
    let mut other = args.plan(other, args.vs_pid)?;
    other.progress = plan.progress.clone();
    let bar = Bar::on_terminal(progress, expected(&plan, 2 * args.pairs));
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

/// What `blocks` runs of a plan will take.
fn expected(plan: &Plan, blocks: usize) -> Expected {
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    Expected {
        time: plan.duration.map(|it| (plan.warm_up + it).saturating_mul(blocks)),
        requests: plan.count.map(|it| it.saturating_mul(blocks.into())),
    }
}

fn exit_code(healthy: bool) -> ExitCode {
    if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Args {
    fn plan(&self, target: &Target, pid: Option<u32>) -> Result<Plan, Error> {
        let request = self.request(target)?;
        let known_format = self.format != Format::Invocations && self.body.is_none();
        let mut plan = Plan::new(target.clone(), vec![request]);
        plan.connections = self.connections;
        if let Some(rate) = self.rate {
            let arrivals = match self.arrivals {
                ArrivalsArg::Poisson => Arrivals::Poisson,
                ArrivalsArg::Constant => Arrivals::Constant,
            };
            plan.load = Load::Open { rate, arrivals };
        }
        plan.warm_up = self.warm_up;
        plan.count = self.requests;
        if self.requests.is_some() || self.duration.is_some() {
            plan.duration = self.duration;
        }
        plan.timeout = self.timeout;
        plan.deadline = self.deadline_ms;
        plan.pid = pid;
        plan.seed = self.seed;
        if known_format && self.model.is_some() {
            plan.check = match self.format {
                Format::KserveGrpc => {
                    Check::FirstReply(Arc::new(|it| !grpc_raw_outputs(it.body).is_empty()))
                }
                _ => Check::FirstReply(Arc::new(is_inference)),
            };
        }
        Ok(plan)
    }

    fn request(&self, target: &Target) -> Result<Request, Error> {
        let path = Some(target.path()).filter(|it| !it.is_empty());
        if let Some(file) = &self.body {
            let body =
                fs::read(file).map_err(|source| Error::File { path: file.clone(), source })?;
            return match (path, &self.model) {
                (None, None) => invocations(&self.content_type, body),
                (Some(path), _) => self.post(path.to_owned(), body),
                (None, Some(model)) => {
                    self.post(format!("{}/infer", kserve::model_path(model)), body)
                }
            };
        }
        let request = match (path, &self.model, self.format) {
            (Some(path), None, _) => return Request::new(Method::Get, path),
            (_, _, Format::Invocations) => {
                return Err(Error::plan(
                    "--body",
                    "expected a file to send with --format invocations",
                ));
            }
            (None, None, _) => {
                return Err(Error::plan(
                    "--model",
                    "expected a model, a --body, or a path in the URL",
                ));
            }
            (_, Some(model), Format::KserveJson) => {
                kserve_json(model, &self.inputs(target, model)?)?
            }
            (_, Some(model), Format::KserveBinary) => {
                kserve_binary(model, &self.inputs(target, model)?)?
            }
            (None, Some(model), Format::KserveGrpc) => {
                return kserve_grpc(model, &self.inputs(target, model)?);
            }
            (Some(_), Some(_), Format::KserveGrpc) => {
                return Err(Error::plan("URL", "expected no path with --format kserve-grpc"));
            }
        };
        match path {
            Some(path) => request.to(path),
            None => Ok(request),
        }
    }

    fn post(&self, path: String, body: Vec<u8>) -> Result<Request, Error> {
        let request = Request::new(Method::Post, path)?;
        Ok(request.header("Content-Type", &self.content_type)?.body(body))
    }

    /// The given inputs, or those of the model's metadata.
    fn inputs(&self, target: &Target, model: &str) -> Result<Vec<Input>, Error> {
        if self.input.is_empty() {
            let metadata =
                fetch::get(self.describe.as_ref().unwrap_or(target), &kserve::model_path(model))?;
            let shape = |name: &str| {
                self.shape.iter().find(|(it, _)| it == name).map(|(_, shape)| shape.clone())
            };
            let inputs = inputs_from_metadata(&metadata, shape, |name| self.fill(name))?;
            return self.checked(inputs);
        }
        let given = self.input.iter();
        let inputs =
            given.map(|it| Input::filled(&it.name, it.dtype, &it.shape, self.fill(&it.name)));
        self.checked(inputs.collect::<Result<_, _>>()?)
    }

    /// What an input of that name holds. Random tokens make sense to a model only where its mask says that they are
    /// there, and their types are of a table with one or two rows.
    fn fill(&self, name: &str) -> Fill {
        let given = self.value.iter().rev().find(|it| it.0 == name).map(|it| it.1.clone());
        match (given, self.data) {
            (Some(ValueArg::Value(text)), _) => Fill::Value(text),
            (Some(ValueArg::Range(low, high)), _) => Fill::Range { low, high, seed: self.seed },
            (None, DataArg::Zeros) => Fill::Zeros,
            (None, DataArg::Random) if name.ends_with("attention_mask") => {
                Fill::Value("1".to_owned())
            }
            (None, DataArg::Random) if name.ends_with("token_type_ids") => Fill::Zeros,
            (None, DataArg::Random) => Fill::Random(self.seed),
        }
    }

    /// These inputs, if there is one for each `--value`.
    fn checked(&self, inputs: Vec<Input>) -> Result<Vec<Input>, Error> {
        let is_there = |name: &String| inputs.iter().any(|it| it.name == *name);
        match self.value.iter().find(|it| !is_there(&it.0)) {
            Some((name, _)) => {
                let names: Vec<&str> = inputs.iter().map(|it| it.name.as_str()).collect();
                let problem = format!("no input '{name}'; expected one of {}", names.join(", "));
                Err(Error::plan("--value", problem))
            }
            None => Ok(inputs),
        }
    }

    fn write_histograms(&self, reports: &[&Report]) -> Result<(), Error> {
        self.histogram.as_ref().map_or(Ok(()), |path| write_histograms(path, reports))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn inputs_have_the_values_of_their_names() {
        let line = "http://h -m m --format kserve-json --input input_ids:INT64:1,3 \
                    --input attention_mask:INT64:1,3 --input token_type_ids:INT64:1,3 --input t:BYTES:1";
        let body = |more: &str| {
            let args = parse(&format!("{line} {more}")).unwrap();
            let plan = args.plan(&args.url, None).map_err(|it| it.to_string())?;
            Ok::<_, String>(String::from_utf8(plan.requests[0].encode("h")).unwrap())
        };
        let usual = body("").unwrap();
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
            ("http://h --arrivals constant", "--rate"),
            ("http://h --vs-pid 7", "--vs"),
            ("http://h --vs http://i --most-steal 101", "0 to 100"),
            ("http://h --body f --input x:FP32:1", "--body"),
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
    fn a_request_needs_something_to_send() {
        for (line, expected) in
            [("http://h", "--model"), ("http://h --format invocations", "--body")]
        {
            let args = parse(line).unwrap();
            let error = args.plan(&args.url, None).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
