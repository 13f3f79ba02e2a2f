//! The `muster` command: parse, start, wait for a signal, stop.
#![forbid(unsafe_code)]

mod signals;

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    sync::Arc,
};

use configuration::ProcessEnvironment;
use loading::{CheckDepth, CheckedModel, check_report};
use machine::{Machine, MemoryLeft};
use muster::{
    OWN_PROGRAM,
    app::{self, App, AppError, Banner, Wish},
    config::{
        self, CheckCommand, Command, Engines, ExplainCommand, HealthCheck, OneDnn, PullCommand,
        ServerConfig,
    },
    engines::{self, EngineSettings},
    explain,
    features::{self, FEATURES},
    fetching, health,
    workers::{self, Children},
};
use signals::Signals;
use steps::Steps;
use telemetry::logging::{self, LogGuard};
use tokio::sync::mpsc::UnboundedReceiver;

/// What Rust's own types take is not refused, as what native libraries take is.
#[global_allocator]
static HEAP: environment::OwnHeap = environment::OwnHeap;

/// The exit code where the command line is wrong, as of most programs.
const USAGE: u8 = 2;

/// The word behind which a process runs one model for the server.
const WORKER: &str = "worker";

fn main() -> ExitCode {
    environment::keep_large_blocks_apart();
    environment::wrap_quotients();
    let memory = MemoryLeft::open();
    environment::refuse_blocks_beyond(move || memory.bytes());
    onnxruntime::disable_telemetry();
    onnxruntime::number_gpus_by_bus();
    if std::env::args_os().nth(1).is_some_and(|it| it == WORKER) {
        return worker();
    }
    let onednn = config::onednn(std::env::args_os(), &ProcessEnvironment);
    // The servers that these start decide for themselves.
    if std::env::args_os().nth(1).is_none_or(|it| it != "recommend" && it != "predict") {
        engines::prepare_tensorflow(onednn.is_on);
    }
    // Before anything that takes time: process 1 of a container gets no signal without a handler.
    let children = Children::default();
    let signals = Signals::start(children.clone());
    let machine = Machine::read();
    match config::read(std::env::args_os(), &ProcessEnvironment, &machine) {
        Ok(Command::Print(text)) => {
            // An error means that the reader has closed the pipe.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Command::Tool(tool, args)) => {
            signals.restore_default();
            fail(&tool.exec(args))
        }
        Ok(Command::Health(check)) => ask(&check),
        Ok(Command::Explain(command)) => explain(&command, onednn),
        Ok(Command::Check(command)) => check(*command, onednn, &machine, &children),
        Ok(Command::Pull(command)) => pull(&command),
        Ok(Command::Serve(config)) => serve(*config, onednn, &machine, &signals, &children),
        Err(error) if error.is_usage() => {
            fail(&error);
            ExitCode::from(USAGE)
        }
        Err(error) => fail(&error),
    }
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

fn serve(
    config: ServerConfig,
    onednn: OneDnn,
    machine: &Machine,
    signals: &Signals,
    children: &Children,
) -> ExitCode {
    let colours = std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
    let log = match logging::start(&config.log, colours) {
        Ok(guard) => Arc::new(guard),
        Err(error) => return fail(&error),
    };
    config.notices.iter().for_each(|it| it.log());
    let without = features::names(&FEATURES, false);
    let without = (!without.is_empty()).then(|| without.join(", "));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cpus = machine.cpus,
        cpu_limit = machine.cpu_reason,
        memory_limit = machine.memory_reason,
        without = without.as_deref(),
        "muster is starting"
    );
    let settings = engine_settings(&config.engines, onednn, machine.memory);
    let engines = match settings.isolated_engines(&config.isolation, OWN_PROGRAM.into(), children) {
        Ok(engines) => engines,
        Err(error) => return fail(&error),
    };
    let is_seen = config.log.is_plain() && std::io::stdout().is_terminal();
    let shown = log.clone();
    let greet = move |banner: Banner| {
        // The lines of the start stand above it.
        shown.flush();
        // A terminal that is gone needs no banner.
        let _ = std::io::stdout().write_all(banner.text(colours).as_bytes());
    };
    let app = App::build(config, machine, engines, log.control());
    let outcome = app.and_then(|app| {
        let app = if is_seen { app.greeting(greet) } else { app };
        app.run(signalled(signals.notify(), log.clone()))
    });
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

/// `muster worker`: one model, for a server that has started this process.
fn worker() -> ExitCode {
    logging::start_plain();
    match EngineSettings::of_worker(std::env::args_os().skip(2)) {
        Ok(settings) => workers::serve(settings.engines()),
        Err(error) => {
            fail(&format_args!("'muster {WORKER}' is started by the server alone: {error}"))
        }
    }
}

fn engine_settings(engines: &Engines, onednn: OneDnn, memory: Option<u64>) -> EngineSettings {
    let word = if onednn.is_on { "on" } else { "off" };
    let onednn = format!("{word}: {}", onednn.reason);
    EngineSettings::new(engines.clone(), onednn, memory)
}

/// `muster explain`: what was found out, on standard output.
fn explain(command: &ExplainCommand, onednn: OneDnn) -> ExitCode {
    let memory = Machine::read().memory;
    let mut engines = engine_settings(&command.engines, onednn, memory).engines();
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

/// `muster check`: which models would be served, on standard output.
fn check(
    command: CheckCommand,
    onednn: OneDnn,
    machine: &Machine,
    children: &Children,
) -> ExitCode {
    let CheckCommand { config, loads, is_json } = command;
    if config.wanted.is_some() {
        // It is fetched first, which takes long.
        logging::start_plain();
    }
    let depth = if loads { CheckDepth::Load } else { CheckDepth::Files };
    let settings = engine_settings(&config.engines, onednn, machine.memory);
    let engines = match settings.isolated_engines(&config.isolation, OWN_PROGRAM.into(), children) {
        Ok(engines) => engines,
        Err(error) => return fail(&error),
    };
    let fetched = fetching::bring(&config).map_err(AppError::from);
    match fetched.and_then(|()| app::check(&config, machine, engines, depth)) {
        Ok(checked) => {
            let text = match is_json {
                true => check_report::to_json(&checked, depth),
                false => check_report::text(&checked, depth),
            };
            // An error means that the reader has closed the pipe.
            let _ = std::io::stdout().write_all(text.as_bytes());
            match checked.models.iter().all(CheckedModel::is_served) {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            }
        }
        Err(error) => fail(&error),
    }
}

/// `muster pull`: where each model lies, on standard output, as soon as it is there.
fn pull(command: &PullCommand) -> ExitCode {
    logging::start_plain();
    for name in &command.names {
        match sources::fetch(name, &command.sources, command.usage) {
            // An error means that the reader has closed the pipe.
            Ok(path) => drop(writeln!(std::io::stdout(), "{}", path.display())),
            Err(error) => return fail(&error),
        }
    }
    ExitCode::SUCCESS
}

/// Ready at the first signal to stop; a second one ends the process at once.
async fn signalled(mut signals: UnboundedReceiver<Wish>, log: Arc<LogGuard>) -> Wish {
    let Some(wish) = signals.recv().await else { return std::future::pending().await };
    tokio::spawn(async move {
        if signals.recv().await.is_some() {
            tracing::warn!("asked a second time to stop: stopping at once");
            log.flush();
            std::process::exit(1);
        }
    });
    wish
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
