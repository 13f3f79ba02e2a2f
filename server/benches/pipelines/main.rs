//! What text models cost: requests/s beside the same runs made by hand, processor time beside the run, and memory where
//! lengths are mixed. `cargo bench -p muster --bench pipelines -- --help`; docs/performance.md explains.

mod bare;
mod cost;
mod folder;
mod memory;
#[path = "../../../backends/onnxruntime/tests/support/onnx_file.rs"]
mod onnx_file;
#[path = "../support/mod.rs"]
mod support;
mod texts;
mod throughput;

use std::{process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};
use onnxruntime::{OnnxRuntime, Options};

use support::{Outcome, machine};

/// Measures text models and prints Markdown.
#[derive(Parser)]
#[command(name = "pipelines")]
struct Arguments {
    /// What is measured; all of it where nothing is named
    what: Option<What>,
    /// End with an error where a goal is missed
    #[arg(long)]
    check: bool,
    /// Two rounds of 1 s, fewer requests: a look, no measurement
    #[arg(long, conflicts_with_all = ["seconds", "rounds"])]
    quick: bool,
    /// Length of one block
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Blocks of each kind
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Requests/s of several mixes of lengths, beside loops without a server
    Throughput,
    /// Processor time of a request beside that of its run
    Cost,
    /// What one long text among short ones does to memory and to their latency
    Memory,
}

fn main() -> ExitCode {
    onnxruntime::disable_telemetry();
    support::end(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let (block, rounds) = match arguments.quick {
        true => (1.0, 2),
        false => (arguments.seconds, arguments.rounds.max(1)),
    };
    let block = Duration::try_from_secs_f64(block)?;
    println!("{}", machine::description(&OnnxRuntime::new(Options::default()).open()?.path));
    println!("{rounds} rounds of {} s blocks.", block.as_secs_f64());
    let wanted = |what| arguments.what.is_none_or(|it| it == what);
    let mut missed = Vec::new();
    if wanted(What::Throughput) {
        missed.extend(throughput::measure(block, rounds)?);
    }
    if wanted(What::Cost) {
        missed.extend(cost::measure(block, rounds)?);
    }
    if wanted(What::Memory) {
        missed.extend(memory::measure(arguments.quick)?);
    }
    missed.iter().for_each(|it| println!("missed: {it}"));
    match arguments.check && !missed.is_empty() {
        true => Err(format!("{} goals are missed", missed.len()).into()),
        false => Ok(()),
    }
}
