//! Does a server that nobody asks anything cost nothing? Processor time and wake-ups in idle seconds, in the second
//! after one request, and after a burst; the memory of connections that are open.
//! `cargo bench -p muster --bench idle -- --help`; docs/background/performance.md explains.

mod memory;
mod phases;
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use onnxruntime::{OnnxRuntime, Options};

use support::{
    Outcome, TemporaryFolder, machine,
    server::Start,
    workload::{self, Workload},
};

/// ONNX Runtime's own default, which the server changes.
const SPINNING: [&str; 4] = [
    "--backend-config",
    "onnxruntime,session.intra_op.allow_spinning=1",
    "--backend-config",
    "onnxruntime,session.inter_op.allow_spinning=1",
];

/// Measures the server while it is idle and prints Markdown.
#[derive(Parser)]
#[command(name = "idle")]
struct Arguments {
    /// Idle seconds in each phase
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Idle phases of 2 s
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Only the memory of connections
    #[arg(long)]
    memory: bool,
    /// Another `muster`, whose connections are measured beside those of this one
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    onnxruntime::disable_telemetry();
    support::end(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let seconds = if arguments.quick { 2.0 } else { arguments.seconds };
    let idle = Duration::try_from_secs_f64(seconds)?;
    let folder = TemporaryFolder::new()?;
    for workload in models()? {
        workload.install(folder.path())?;
    }
    let asked = threaded()?;
    asked.install(folder.path())?;
    println!("{}", machine::description(&OnnxRuntime::new(Options::default()).open()?.path));
    println!("\n{}", memory::table(folder.path(), arguments.before.as_deref())?);
    if arguments.memory {
        return Ok(());
    }
    for (title, flags) in [("muster", &[][..]), ("… with ONNX Runtime's spinning", &SPINNING)] {
        eprintln!("{title} ..");
        let server = Start { flags, ..Start::new(folder.path()) }.start()?;
        let phases = phases::measure(&server, &asked, idle)?;
        println!("\n{}", table::phases(title, &phases));
        if flags.is_empty() {
            println!("{}", table::who(&phases));
        }
    }
    Ok(())
}

/// Models that are there and are not asked anything.
fn models() -> Outcome<Vec<Workload>> {
    Ok(vec![
        workload::identity_builtin(16)?,
        workload::identity_onnx(16)?,
        workload::fixture("mlp")?,
        workload::fixture("convnet")?,
        workload::fixture("retrieval")?,
    ])
}

/// The model that is asked: two instances, each with a pool of threads.
fn threaded() -> Outcome<Workload> {
    const CONFIG: &str = r#"instance_group { count: 2 }
parameters { key: "intra_op_thread_count" value { string_value: "4" } }
"#;
    Ok(workload::fixture("transformer")?.configured(Some(CONFIG.to_owned())))
}
