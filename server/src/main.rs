//! The `muster` command: parse, start, wait for a signal, stop.
#![forbid(unsafe_code)]

use std::{ffi::OsString, io::Write, process::ExitCode, sync::Arc};

use backend::Backend;
use clap::Parser;
use identity::Identity;
use muster::{
    app::App,
    config::{self, Command, HealthCheck, ProcessEnvironment, ServerConfig},
    health,
    logging::{self, LogGuard},
    machine::Machine,
};
use onnxruntime::OnnxRuntime;
use pytorch::PyTorch;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    onnxruntime::disable_telemetry();
    onnxruntime::number_gpus_by_bus();
    let machine = Machine::read();
    match config::read(std::env::args_os(), &ProcessEnvironment, &machine) {
        Ok(Command::Print(text)) => {
            // Whoever closed the pipe has read enough.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Command::Bench(args)) => bench(args),
        Ok(Command::Health(check)) => ask(&check),
        Ok(Command::Serve(config)) => serve(*config, &machine),
        Err(error) => fail(&error),
    }
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

fn serve(config: ServerConfig, machine: &Machine) -> ExitCode {
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
    let onnxruntime = onnxruntime::Options {
        library: config.onnxruntime_library.clone(),
        model_cache_dir: config.model_cache_dir.clone(),
    };
    let pytorch = pytorch::Options { plugin: config.pytorch_plugin.clone() };
    let engines: Vec<Arc<dyn Backend>> = vec![
        Arc::new(OnnxRuntime::new(onnxruntime)),
        Arc::new(PyTorch::new(pytorch)),
        Arc::new(Identity),
    ];
    let outcome = App::build(config, machine, engines, log.control())
        .and_then(|app| app.run(signalled(log.clone())));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Lines of the other output are written first: the reason is what one reads last.
            log.flush();
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Ready at the first signal to stop; a second one ends the process at once.
async fn signalled(log: Arc<LogGuard>) {
    let signals =
        signal(SignalKind::terminate()).and_then(|it| Ok((it, signal(SignalKind::interrupt())?)));
    let (mut terminate, mut interrupt) = match signals {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "cannot listen for signals; only SIGKILL will stop this process");
            return std::future::pending().await;
        }
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::warn!("asked a second time to stop: stopping at once");
        log.flush();
        std::process::exit(1);
    });
}

/// `muster health`: one line, and the exit code.
fn ask(check: &HealthCheck) -> ExitCode {
    match health::ask(check) {
        Ok(()) => {
            // Who asks by the exit code need not read.
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
