//! The command line: what it takes.

use std::{net::SocketAddr, path::PathBuf, str::FromStr};

use clap::ValueEnum;
use loadgen::{MadeUp, PhasesArg, StairsArg, Trust, answers::TOLERANCE, share};

use crate::{ArgumentError, shares};

/// The numbers of processors; an argument that is a list of its own.
pub(crate) type Processors = Vec<usize>;

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
    pub(crate) model: Option<String>,
    /// The same
    #[arg(long = "model", value_name = "MODEL", conflicts_with = "model")]
    pub(crate) model_option: Option<String>,
    /// The body of a CreateInferenceRecommendationsJob, in a file. What it says is said there alone; of these
    /// arguments --payload goes before it, and --instance is for a body that names no machine
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "model", "model_option", "endpoint", "content_type", "job_type", "env", "phases", "stairs",
        "max_invocations", "latency_ms", "percentile", "flat", "max_tests", "parallel", "duration",
    ])]
    pub(crate) input_json: Option<PathBuf>,
    /// A running server instead of a model; it is measured as it is
    #[arg(long, value_name = "URL", conflicts_with_all = ["model", "model_option"])]
    pub(crate) endpoint: Option<String>,
    #[command(flatten)]
    pub(crate) trust: Trust,
    /// Bodies of requests to /invocations: a file, a directory of files or a .tar.gz. Without it tensors are made up
    /// that suit the model's inputs
    #[arg(long, value_name = "PATH", conflicts_with_all = ["input", "shape", "data", "value"])]
    pub(crate) payload: Option<String>,
    #[command(flatten)]
    pub(crate) made_up: MadeUp,
    /// Their type, where the endings of the files do not say it; repeatable
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Vec<String>,
    /// What is looked for: the best settings, or what given ones carry under a given load. advanced if --env, --phases
    /// or --stairs is given
    #[arg(long, value_enum)]
    pub(crate) job_type: Option<JobTypeArg>,
    /// Machines: local.cpuN has N processors of this machine, local.gpu[.cpuN] its GPU, too; or names of --prices
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) instance: Vec<String>,
    /// The processors of servers, such as 2-7; the load generator has the others
    #[arg(long, value_name = "LIST", value_parser = shares::processors, conflicts_with = "endpoint")]
    pub(crate) server_cpus: Option<Processors>,
    /// The processors of the load generator, such as 0,1; servers have the others
    #[arg(long, value_name = "LIST", value_parser = shares::processors)]
    pub(crate) client_cpus: Option<Processors>,
    /// A variable of the server and the values to try, such as OMP_NUM_THREADS=1,2,4; repeatable
    #[arg(long, value_name = "NAME=VALUES", value_parser = range)]
    pub(crate) env: Vec<(String, Vec<String>)>,
    /// Phases, each USERS:RATE:SECONDS: users at its beginning, users added per minute, and its length
    #[arg(long, value_name = "PHASES")]
    pub(crate) phases: Option<PhasesArg>,
    /// Stairs, USERS:STEPS:SECONDS: users that each step adds, number of steps, and length of each
    #[arg(long, value_name = "STAIRS", conflicts_with = "phases")]
    pub(crate) stairs: Option<StairsArg>,
    /// Requests per minute that are asked for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_invocations: Option<u64>,
    /// The longest that --percentile of the latencies may be, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) latency_ms: Option<u64>,
    /// Which one is held against --latency-ms
    #[arg(long, value_enum, default_value_t = PercentileArg::P95)]
    pub(crate) percentile: PercentileArg,
    /// What is done where more users bring no more throughput
    #[arg(long, value_enum, default_value_t = FlatArg::Stop)]
    pub(crate) flat: FlatArg,
    /// Most combinations of values
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) max_tests: usize,
    /// Most tests of an advanced job at the same time, each on processors of its own: so many as the machine has room
    /// for
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) parallel: usize,
    /// How often each setting of an advanced job is tested, in turns; the first one twice each time, which shows the
    /// noise. Six or more give an interval of 95 % for how they differ
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Seconds after which the job ends with what it has
    #[arg(long, value_name = "SECONDS")]
    pub(crate) duration: Option<u64>,
    /// Divides all times; the numbers of users stay
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(crate) time_scale: f64,
    /// Where what was measured is kept until the job is over: after Ctrl-C or a crash the same command goes on from
    /// there. Default: muster/recommend in $XDG_STATE_HOME or ~/.local/state
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Forget what an earlier start has measured
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Another form of the model, such as its file in FP16 or int8, that is tried, too; repeatable. Files beside the
    /// model's with such names are tried anyway
    #[arg(long, value_name = "PATH")]
    pub(crate) variant: Vec<String>,
    /// By which share numbers may differ from the answers of the first setting
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = TOLERANCE)]
    pub(crate) tolerance: f64,
    /// Machines with their processors and prices, as TOML
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// What is to be best
    #[arg(long, value_enum, default_value_t = ObjectiveArg::Cost)]
    pub(crate) objective: ObjectiveArg,
    /// Write the reply to DescribeInferenceRecommendationsJob to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) describe: Option<PathBuf>,
    /// Write the reply to ListInferenceRecommendationsJobSteps to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) steps: Option<PathBuf>,
    /// Write the windows of all settings to this file, as CSV; a FILE.json gets them as requests of CloudWatch's
    /// PutMetricData
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Option<PathBuf>,
    /// Write a table of Markdown to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Option<PathBuf>,
    /// Write a page with charts to this file, which needs no network to be looked at
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Do no job, but answer SageMaker's operations on jobs and models at this address, until a signal comes.
    /// Signatures are not checked. -: over the socket that is standard input, as a server with --recommendation-jobs
    /// starts it
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = [
        "model", "model_option", "input_json", "endpoint", "payload", "content_type", "job_type", "env", "phases",
        "stairs", "max_invocations", "latency_ms", "duration", "describe", "steps", "series", "table", "html", "input",
        "shape", "data", "value", "cacert", "insecure",
    ])]
    pub(crate) serve: Option<Door>,
    /// Directory in which --serve keeps jobs and models. Default: one that is removed at the end
    #[arg(long, value_name = "DIR", requires = "serve")]
    pub(crate) jobs: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JobTypeArg {
    Default,
    Advanced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum PercentileArg {
    P95,
    P99,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlatArg {
    Stop,
    Continue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectiveArg {
    Cost,
    Latency,
    Throughput,
}

/// Where operations come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// From clients at this address.
    Address(SocketAddr),
    /// From the server that has started this program.
    StandardInput,
}

impl FromStr for Door {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Door, ArgumentError> {
        match text {
            "-" => Ok(Door::StandardInput),
            _ => text.parse().map(Door::Address).map_err(|_| {
                let expected = "expected an address and a port, such as 127.0.0.1:8090, or -";
                ArgumentError::new(expected)
            }),
        }
    }
}

/// `NAME=VALUE,VALUE`.
fn range(given: &str) -> Result<(String, Vec<String>), ArgumentError> {
    let (name, values) =
        given.split_once('=').filter(|it| !it.0.is_empty() && !it.1.is_empty()).ok_or_else(
            || ArgumentError::new("expected NAME=VALUE,VALUE, such as OMP_NUM_THREADS=1,2,4"),
        )?;
    Ok((name.to_owned(), values.split(',').map(str::to_owned).collect()))
}
