//! How often is a tensor copied on its way through the server? Bytes copied in user space for each request of
//! 1 MiB, beside those that the kernel moves. `cargo bench -p muster --bench copies -- --help`;
//! docs/background/performance.md explains.

mod counters;
#[path = "../support/mod.rs"]
mod support;
mod symbols;
mod table;

use std::process::ExitCode;

use clap::Parser;
use loadgen::Plan as LoadPlan;
use onnxruntime::{OnnxRuntime, Options};

use counters::{Counters, Snapshot};
use support::{
    Outcome, TemporaryFolder, machine,
    server::{Server, Start},
    workload::{self, Format, Workload, answered},
};
use symbols::Symbols;

/// Floats of a tensor of 1 MiB.
const FLOATS: usize = 1 << 18;

/// Over one connection every run is of one row; over so many, of several.
const CONNECTIONS: [usize; 2] = [1, 16];

/// Counts copies in the server and prints Markdown.
#[derive(Parser)]
#[command(name = "copies")]
struct Arguments {
    /// Requests of each line
    #[arg(long, default_value_t = 400)]
    requests: u64,
    /// 50 requests of each line
    #[arg(long, conflicts_with = "requests")]
    quick: bool,
    /// Names the places that copy, of models in the server
    #[arg(long)]
    sites: bool,
    /// Fails where a goal is missed
    #[arg(long)]
    check: bool,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Where the models run: what a server is told of it, and what the table says.
const PLACES: [(&str, &str); 2] = [("--isolation=off", ""), ("--isolation=all", ", in a worker")];

/// One line of the table.
struct Row {
    model: &'static str,
    place: &'static str,
    connections: usize,
    requests: u64,
    rows_per_run: f64,
    counts: Snapshot,
}

fn main() -> ExitCode {
    onnxruntime::disable_telemetry();
    support::end(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let requests = if arguments.quick { 50 } else { arguments.requests.max(1) };
    let folder = TemporaryFolder::new()?;
    let repository = folder.path().join("models");
    let workloads = [workload::identity_builtin(FLOATS)?, workload::identity_onnx(FLOATS)?];
    for workload in &workloads {
        workload.install(&repository)?;
    }
    println!("{}", machine::description(&OnnxRuntime::new(Options::default()).open()?.path));
    println!("{requests} requests of 1 MiB in and 1 MiB out.\n");
    let (mut rows, mut sites) = (Vec::new(), String::new());
    for (flag, place) in PLACES {
        // Of a server and of its workers, which have the variables, too.
        let counters = Counters::new(folder.path())?;
        let variables = [
            ("LD_PRELOAD", counters.library.as_os_str()),
            ("COPIES_FILE", counters.file.as_os_str()),
        ];
        let flags = &[flag];
        let server = Start { variables: &variables, flags, ..Start::new(&repository) }.start()?;
        for workload in &workloads {
            for connections in CONNECTIONS {
                eprintln!("{}{place} over {connections} ..", workload.name);
                let row = measure(&server, &counters, workload, connections, requests)?;
                rows.push(Row { place, ..row });
            }
        }
        // Addresses of a worker mean nothing here.
        if arguments.sites && place.is_empty() {
            sites = table::sites(&rows, &Symbols::of(server.pid())?);
        }
    }
    println!("{}", table::counts(&rows));
    print!("{sites}");
    let missed = table::missed(&rows);
    missed.iter().for_each(|it| println!("missed: {it}"));
    match arguments.check && !missed.is_empty() {
        true => Err(format!("{} goals are missed", missed.len()).into()),
        false => Ok(()),
    }
}

fn measure(
    server: &Server,
    counters: &Counters,
    workload: &Workload,
    connections: usize,
    requests: u64,
) -> Outcome<Row> {
    let load = LoadPlan {
        connections,
        count: Some(requests),
        duration: None,
        ..workload.closed_loop(server, Format::Binary)?
    };
    // The first requests find out how long a run takes, and make the second instance.
    answered(workload.name, &load)?;
    let (before, runs) = (counters.read()?, server.counts(workload.name)?);
    answered(workload.name, &load)?;
    Ok(Row {
        model: workload.name,
        place: "",
        connections,
        requests,
        rows_per_run: server.counts(workload.name)?.rows_per_run_since(&runs),
        counts: counters.read()?.since(&before),
    })
}
