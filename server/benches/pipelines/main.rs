//! What models of texts and of images cost: requests/s beside the same runs made by hand, processor time beside the
//! run, memory where lengths are mixed, what tokenizers take, and a photograph as JPEG and as a tensor.
//! `cargo bench -p muster --bench pipelines -- --help`; docs/background/performance.md explains.

mod bare;
mod cost;
mod detector;
mod folder;
mod images;
mod load;
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

/// Measures models of texts and images, and prints Markdown.
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
    /// Of the servers of `memory` and `growth`; what they take by themselves where nothing is said
    #[arg(long)]
    max_batch_tokens: Option<usize>,
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
    /// Time and memory that tokenizers take beside their graphs
    Load,
    /// Texts of all lengths for ten minutes: how what is held grows; only where it is named
    Growth,
    /// A photograph to boxes, as JPEG and as a tensor; MUSTER_PYTHON names a Python with Pillow and NumPy
    Images,
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
    let flags = arguments.max_batch_tokens.map(|it| format!("--max-batch-tokens={it}"));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    if wanted(What::Memory) {
        missed.extend(memory::measure(&flags, arguments.quick)?);
    }
    if wanted(What::Load) {
        missed.extend(load::measure(rounds)?);
    }
    if arguments.what == Some(What::Growth) {
        missed.extend(memory::grow(&flags, if arguments.quick { 2 } else { 10 })?);
    }
    // Where nothing is named they are left out without a Python.
    if arguments.what == Some(What::Images)
        || (wanted(What::Images) && std::env::var_os("MUSTER_PYTHON").is_some())
    {
        missed.extend(images::measure(block, rounds)?);
    }
    missed.iter().for_each(|it| println!("missed: {it}"));
    match arguments.check && !missed.is_empty() {
        true => Err(format!("{} goals are missed", missed.len()).into()),
        false => Ok(()),
    }
}
