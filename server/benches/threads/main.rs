//! Can settings of threads hurt, and how near is a model without any to the best of them? A grid of instances,
//! threads and spinning, best to worst, and the default beside the best in turns.
//! `cargo bench -p muster --bench threads -- --help`; docs/background/performance.md explains.

mod cell;
mod measure;
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use onnxruntime::{OnnxRuntime, Options};

use measure::Effort;
use support::{Outcome, TemporaryFolder, machine};

/// A graph of many small operators, one of few large ones, and one between.
const MODELS: [&str; 3] = ["retrieval", "convnet", "transformer"];

/// Measures every setting once, then the default and the best in turns, and prints Markdown.
#[derive(Parser)]
#[command(name = "threads")]
struct Arguments {
    /// Only models with this in their name: retrieval, convnet, transformer
    filter: Option<String>,
    /// Blocks of 0.2 s, two rounds: a look, no measurement
    #[arg(long, conflicts_with_all = ["seconds", "rounds"])]
    quick: bool,
    /// Length of one block
    #[arg(long, default_value_t = 0.3)]
    seconds: f64,
    /// Rounds of the default beside the best
    #[arg(long, default_value_t = 8)]
    rounds: usize,
    /// How many of the best, for 16 connections and for 1
    #[arg(long, default_value_t = 2)]
    rivals: usize,
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
        true => (0.2, 2),
        false => (arguments.seconds, arguments.rounds.max(1)),
    };
    let block = Duration::try_from_secs_f64(block)?;
    let effort = Effort { block, rounds, rivals: arguments.rivals.max(1) };
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let models: Vec<_> = MODELS.into_iter().filter(|it| it.contains(filter)).collect();
    if models.is_empty() {
        return Err(format!("expected a part of {}, given '{filter}'", MODELS.join(", ")).into());
    }
    let folder = TemporaryFolder::new()?;
    let engine = OnnxRuntime::new(Options::default());
    println!("{}", machine::description(&engine.open()?.path));
    println!("Blocks of {} s; the best in {rounds} rounds.\n", block.as_secs_f64());
    for model in models {
        let findings = measure::measure(model, folder.path(), effort)?;
        println!("{}", table::grid(&findings));
        println!("{}", table::duels(&findings));
    }
    Ok(())
}
