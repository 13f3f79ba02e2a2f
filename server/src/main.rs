//! The `muster` command: parse, start, wait for a signal, stop.
#![forbid(unsafe_code)]

mod signals;

use std::{ffi::OsString, io::Write, process::ExitCode, sync::Arc};

use backend::Backend;
use clap::Parser;
use configuration::ProcessEnvironment;
use identity::Identity;
use libtensorflow::TensorFlow;
use machine::Machine;
use muster::{
    app::App,
    config::{self, Command, Engines, ExplainCommand, HealthCheck, ServerConfig},
    explain, health,
};
use onnxruntime::OnnxRuntime;
use pytorch::PyTorch;
use signals::Signals;
use steps::Steps;
use telemetry::logging::{self, LogGuard};
use tokio::sync::mpsc::UnboundedReceiver;
use trees::Trees;

fn main() -> ExitCode {
    onnxruntime::disable_telemetry();
    onnxruntime::number_gpus_by_bus();
    libtensorflow::set_environment();
    // Before anything that takes time: process 1 of a container gets no signal without a handler.
    let signals = Signals::start();
    let machine = Machine::read();
    match config::read(std::env::args_os(), &ProcessEnvironment, &machine) {
        Ok(Command::Print(text)) => {
            // An error means that the reader has closed the pipe.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Command::Bench(args)) => {
            signals.restore_default();
            bench(args)
        }
        Ok(Command::Health(check)) => ask(&check),
        Ok(Command::Explain(command)) => explain(&command),
        Ok(Command::Serve(config)) => serve(*config, &machine, &signals),
        Err(error) => fail(&error),
    }
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

fn serve(config: ServerConfig, machine: &Machine, signals: &Signals) -> ExitCode {
    let log = match logging::start(&config.log) {
        Ok(guard) => Arc::new(guard),
        Err(error) => return fail(&error),
    };
    config.notices.iter().for_each(|it| it.log());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cpus = machine.cpus,
        cpu_limit = machine.cpu_reason,
        memory_limit = machine.memory_reason,
        "muster is starting"
    );
    let engines = engines(&config.engines);
    let outcome = App::build(config, machine, engines, log.control())
        .and_then(|app| app.run(signalled(signals.notify(), log.clone())));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Pending log lines are written first, so that the reason is the last line.
            log.flush();
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// All engines of model files, with the libraries that these settings name. The server adds that of steps.
fn engines(settings: &Engines) -> Vec<Arc<dyn Backend>> {
    let onnxruntime = onnxruntime::Options {
        library: settings.onnxruntime_library.clone(),
        model_cache_dir: settings.model_cache_dir.clone(),
    };
    let pytorch = pytorch::Options { plugin: settings.pytorch_plugin.clone() };
    let tensorflow = libtensorflow::Options { library: settings.tensorflow_library.clone() };
    vec![
        Arc::new(OnnxRuntime::new(onnxruntime)),
        Arc::new(PyTorch::new(pytorch)),
        Arc::new(TensorFlow::new(tensorflow)),
        Arc::new(Trees),
        Arc::new(Identity),
    ]
}

/// `muster explain`: what was found out, on standard output.
fn explain(command: &ExplainCommand) -> ExitCode {
    let mut engines = engines(&command.engines);
    engines.push(Arc::new(Steps::default()));
    match explain::run(command, &engines) {
        Ok(text) => {
            // An error means that the reader has closed the pipe.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

/// Ready at the first signal to stop; a second one ends the process at once.
async fn signalled(mut signals: UnboundedReceiver<()>, log: Arc<LogGuard>) {
    if signals.recv().await.is_none() {
        return std::future::pending().await;
    }
    tokio::spawn(async move {
        if signals.recv().await.is_some() {
            tracing::warn!("asked a second time to stop: stopping at once");
            log.flush();
            std::process::exit(1);
        }
    });
}

/// `muster health`: one line, and the exit code.
fn ask(check: &HealthCheck) -> ExitCode {
    match health::ask(check) {
        Ok(()) => {
            // The caller may use only the exit code: a failed write does not matter.
            let _ = writeln!(std::io::stdout(), "healthy: {check}");
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

/// `muster bench`: the load generator.
fn bench(args: Vec<OsString>) -> ExitCode {
    #[derive(Parser)]
    #[command(name = "muster bench")]
    struct Bench {
        #[command(flatten)]
        args: loadgen::cli::Args,
    }
    let program = OsString::from("muster bench");
    let bench = Bench::parse_from(std::iter::once(program).chain(args));
    loadgen::cli::run(&bench.args).unwrap_or_else(|error| fail(&error))
}
