//! Instructions that a request takes: a number that does not change with what else the machine does. Counted by
//! the processor where `perf` may ask it, else by valgrind's callgrind.
//! `cargo bench -p muster --bench instructions -- --help`; docs/background/performance.md explains.

mod callgrind;
mod perf;
#[path = "../support/mod.rs"]
mod support;

use std::{path::Path, process::ExitCode};

use clap::{Parser, ValueEnum};
use loadgen::Plan as LoadPlan;

use callgrind::Callgrind;
use support::{
    Outcome, TemporaryFolder,
    server::Server,
    workload::{self, Format, Workload, answered},
};

/// Floats of the tensor in each request and reply.
const FLOATS: usize = 16;

/// One thread does all of it, the model included, as it does by default for so fast a model.
const FLAGS: [&str; 5] = ["--http-thread-count", "1", "--drain-delay-secs", "0", "--isolation=off"];

/// Functions that `--functions` prints.
const TOP: usize = 10;

/// Who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Counter {
    /// `perf stat`: in seconds, where the processor's counters may be read.
    Perf,
    /// `valgrind --tool=callgrind`: on any machine, in a minute.
    Callgrind,
}

/// Counts instructions per request and prints Markdown.
#[derive(Parser)]
#[command(name = "instructions")]
struct Arguments {
    /// Default: perf where it works, else callgrind
    #[arg(long)]
    counter: Option<Counter>,
    /// The functions in which most instructions are spent; callgrind only
    #[arg(long)]
    functions: bool,
    /// The smaller number of requests; the difference of two runs counts, so that start and end fall out
    #[arg(long, default_value_t = 200)]
    few: u64,
    /// The larger one
    #[arg(long, default_value_t = 1200)]
    many: u64,
    /// 100 and 300 requests
    #[arg(long, conflicts_with_all = ["few", "many"])]
    quick: bool,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    support::end(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let (few, many) = if arguments.quick { (100, 300) } else { (arguments.few, arguments.many) };
    if many <= few || few == 0 {
        return Err(format!("expected 0 < --few < --many, given {few} and {many}").into());
    }
    let counter = match arguments.counter {
        Some(counter) => counter,
        None if perf::works() && !arguments.functions => Counter::Perf,
        None => Counter::Callgrind,
    };
    let folder = TemporaryFolder::new()?;
    let repository = folder.path().join("models");
    let workload = workload::identity_builtin(FLOATS)?;
    workload.install(&repository)?;
    let (mut table, mut functions) = (String::new(), String::new());
    for format in [Format::Binary, Format::Json, Format::Grpc] {
        eprintln!("{format} ..");
        let bench = Bench { repository: &repository, workload: &workload, format };
        let per_request = match counter {
            Counter::Perf => perf::per_request(&bench, few, many)?,
            Counter::Callgrind => {
                let callgrind = Callgrind::new(folder.path())?;
                let counted = callgrind.per_request(&bench, few, many)?;
                functions += &format!("\n{format}, instructions per request:\n\n");
                for (count, name) in counted.functions.into_iter().take(TOP) {
                    functions += &format!("- {count:.0} `{name}`\n");
                }
                eprintln!("{:.0} of the main thread beside them", counted.beside);
                counted.served
            }
        };
        table += &format!("| {}, {format} | {per_request:.0} |\n", workload.name);
    }
    println!(
        "Counted by {counter:?} over {} requests, one I/O thread, one connection.\n",
        many - few
    );
    println!("| Served | instructions/request |\n|---|--:|\n{table}");
    if arguments.functions && counter == Counter::Callgrind {
        println!("{functions}");
    }
    Ok(())
}

/// What is sent to whom.
struct Bench<'b> {
    repository: &'b Path,
    workload: &'b Workload,
    format: Format,
}

impl Bench<'_> {
    /// Sends so many requests over one connection.
    fn send(&self, server: &Server, requests: u64) -> Outcome<()> {
        let load = LoadPlan {
            count: Some(requests),
            duration: None,
            ..self.workload.closed_loop(server, self.format)?
        };
        answered(self.workload.name, &load).map(drop)
    }
}
