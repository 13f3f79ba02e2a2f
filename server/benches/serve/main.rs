//! What the server costs beside the model: requests/s, latency and processor time over HTTP, and the same
//! runs made by a loop without a server. `cargo bench --bench serve -- --help`; docs/performance.md explains.

mod bare;
mod machine;
mod measure;
mod reply;
mod server;
mod table;
mod workload;

use std::{error::Error, fs, path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use onnxruntime::{OnnxRuntime, Options};

use machine::Pinning;
use measure::Bench;
use server::Server;
use workload::Workload;

/// Whatever goes wrong ends the run: half a table would be taken for a whole one.
type Outcome<T> = Result<T, Box<dyn Error>>;

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
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let (block, rounds) = match arguments.quick {
        true => (0.4, 3),
        false => (arguments.seconds, arguments.rounds.max(1)),
    };
    let block = Duration::try_from_secs_f64(block)?;
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let workloads = workload::all()?;
    let wanted = |workload: &Workload| workload.cases().any(|it| it.name().contains(filter));
    if !workloads.iter().any(wanted) {
        return Err(format!("'{filter}' is in no name such as mlp/json/16").into());
    }
    let pinning = Pinning::new(arguments.pin);
    let folder = TemporaryFolder::new()?;
    for workload in workloads.iter().filter(|it| wanted(it)) {
        workload.install(&folder.0)?;
    }
    let server = Server::start(&folder.0, pinning)?;
    let engine = OnnxRuntime::new(Options::default());
    println!("{}", machine::description(&engine.open()?.path));
    println!("{rounds} rounds of {} s blocks{pinning}.\n", block.as_secs_f64());

    let mut rows = Vec::new();
    for workload in workloads.iter().filter(|it| wanted(it)) {
        let mut bench = Bench::new(&server, workload, &engine, pinning)?;
        for case in workload.cases().filter(|it| it.name().contains(filter)) {
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

/// Holds the model repository, and is removed with what is in it.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Outcome<TemporaryFolder> {
        let path = std::env::temp_dir().join(format!("muster-bench-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(TemporaryFolder(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What is left is a few megabytes in the system's folder for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}
