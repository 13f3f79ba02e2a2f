//! What the server costs beside the model: requests/s, latency and processor time over HTTP, and the same
//! runs made by a loop without a server. `cargo bench --bench serve -- --help`;
//! docs/background/performance.md explains.

mod bare;
mod cases;
mod measure;
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use onnxruntime::{OnnxRuntime, Options};

use cases::Series;
use measure::Bench;
use support::{
    Outcome, TemporaryFolder,
    machine::{self, Pinning},
    server::Start,
};

/// Measures the server and the bare loop in turns and prints Markdown.
#[derive(Parser)]
#[command(name = "serve")]
struct Arguments {
    /// Measure only what has this in its name, as `identity`, `mlp/json` or `binary/16`
    filter: Option<String>,
    /// Three rounds of 0.4 s: a look, no measurement
    #[arg(long, conflicts_with_all = ["seconds", "rounds"])]
    quick: bool,
    /// Length of one block
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Blocks of each kind
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The server and the loop on core 0, the load generator on core 1
    #[arg(long)]
    pin: bool,
    /// Where the server's processor time goes: user, system, context switches
    #[arg(long)]
    split: bool,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    onnxruntime::disable_telemetry();
    support::end(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let (block, rounds) = match arguments.quick {
        true => (0.4, 3),
        false => (arguments.seconds, arguments.rounds.max(1)),
    };
    let block = Duration::try_from_secs_f64(block)?;
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let series = cases::all()?;
    let wanted = |series: &Series| series.cases().any(|it| it.name().contains(filter));
    if !series.iter().any(wanted) {
        return Err(format!("'{filter}' is in no name such as mlp/json/16").into());
    }
    let pinning = Pinning::new(arguments.pin);
    let folder = TemporaryFolder::new()?;
    for it in series.iter().filter(|it| wanted(it)) {
        it.workload.install(folder.path())?;
    }
    let server = Start { pinning, ..Start::new(folder.path()) }.start()?;
    println!("{}", machine::description(&OnnxRuntime::new(Options::default()).open()?.path));
    println!("{rounds} rounds of {} s blocks{pinning}.\n", block.as_secs_f64());

    let mut rows = Vec::new();
    for it in series.iter().filter(|it| wanted(it)) {
        let mut bench = Bench::new(&server, &it.workload, pinning)?;
        for case in it.cases().filter(|it| it.name().contains(filter)) {
            eprintln!("{} ..", case.name());
            rows.push(bench.measure(case, block, rounds)?);
        }
    }
    println!("{}", table::served(&rows));
    println!("{}", table::beside_the_loop(&rows));
    if arguments.split {
        println!("{}", table::split(&rows));
    }
    Ok(())
}
