//! The command of the process, from the command line and the environment. Nothing else in the server reads the
//! environment.

use std::ffi::OsString;

use super::{
    assemble, batching_file,
    explain::{self, ExplainCommand},
    flags,
    health::{self, HealthCheck},
    inventory, monitoring_file,
    other_servers::offer_defaults,
    pull::{self, PullCommand},
    server_config::ServerConfig,
};
use configuration::{
    ConfigError, Environment, FlagTable,
    command_line::{self, Check, Parsed, Serve},
    gather,
};
use machine::Machine;

use crate::{
    features::{self, FEATURES},
    tools::{self, Tool},
};

/// The command of the process.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Serve models: `muster`, `muster serve`.
    Serve(Box<ServerConfig>),
    /// A program of its own, with all arguments after its word: `muster bench`, `muster recommend`, `muster predict`.
    Tool(Tool, Vec<OsString>),
    /// Ask a running server: `muster health`.
    Health(HealthCheck),
    /// Say what a folder is: `muster explain`.
    Explain(Box<ExplainCommand>),
    /// Say which models would be served: `muster check`.
    Check(Box<CheckCommand>),
    /// Fetch models by name: `muster pull`.
    Pull(Box<PullCommand>),
    /// Print this text to standard output and exit 0: `--help`, `--version`, `muster env`.
    Print(String),
}

/// What is to be checked, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckCommand {
    /// The server that would serve the models.
    pub config: ServerConfig,
    /// Each model is loaded, too.
    pub loads: bool,
    /// What is found out is printed as JSON.
    pub is_json: bool,
}

/// Reads the command line, program name first, and the environment.
///
/// The error's text is complete: print it to standard error and exit, with 2 where the command line is wrong.
pub fn read(
    args: impl IntoIterator<Item = OsString>,
    environment: &dyn Environment,
    machine: &Machine,
) -> Result<Command, ConfigError> {
    let flags = flags::table();
    let mut problems = Vec::new();
    let parsed = command_line::parse(args.into_iter().collect(), &flags, &mut problems);
    // From here on the problems are of what was typed, not of how.
    let is_understood = problems.is_empty();
    let wrong = |error: ConfigError| if is_understood { error } else { error.of_usage() };
    let serve = match parsed {
        Parsed::Print(text) => return Ok(Command::Print(text)),
        Parsed::Version(text) => {
            let without = features::beside_version(&FEATURES);
            return Ok(Command::Print(format!("{}{without}\n", text.trim_end())));
        }
        Parsed::Bench(args) => return Ok(Command::Tool(tools::BENCH, args)),
        Parsed::Predict(args) => return Ok(Command::Tool(tools::PREDICT, args)),
        Parsed::Recommend(args) => return Ok(Command::Tool(tools::RECOMMEND, args)),
        Parsed::Health(asked) => {
            return match health::resolve(asked, &flags, environment, &mut problems) {
                Some(check) if problems.is_empty() => Ok(Command::Health(check)),
                _ => Err(wrong(ConfigError::of_health(problems))),
            };
        }
        Parsed::Env(_) if !is_understood => return Err(wrong(ConfigError::of_env(problems))),
        Parsed::Env(settings) => {
            return inventory::of(settings, &flags, environment, machine).map(Command::Print);
        }
        Parsed::Explain(asked) => {
            let command = explain::resolve(asked, &flags, environment, &mut problems);
            return match command {
                Some(command) if problems.is_empty() => Ok(Command::Explain(Box::new(command))),
                _ => Err(wrong(ConfigError::of_explain(problems))),
            };
        }
        Parsed::Check(Check { serve, loads, is_json }) => {
            let serve = Serve { rehearsed: !is_understood, ..serve };
            let config = server(&serve, &flags, environment, machine, &mut problems);
            return match problems.is_empty() {
                true => Ok(Command::Check(Box::new(CheckCommand { config, loads, is_json }))),
                false => Err(ConfigError::of_check(problems)),
            };
        }
        Parsed::Pull(asked) => {
            let command = pull::resolve(asked, &flags, environment, &mut problems);
            return match problems.is_empty() {
                true => Ok(Command::Pull(Box::new(command))),
                false => Err(wrong(ConfigError::of_pull(problems))),
            };
        }
        Parsed::Unknown => return Err(wrong(ConfigError::new(problems))),
        // What was not understood may have been the models: nothing is said of theirs.
        Parsed::Serve(serve) => Serve { rehearsed: serve.rehearsed || !is_understood, ..serve },
    };
    let config = server(&serve, &flags, environment, machine, &mut problems);
    match problems.is_empty() {
        true => Ok(Command::Serve(Box::new(config))),
        false => Err(wrong(ConfigError::new(problems))),
    }
}

/// What a server does that is started so. If there are `problems`, it must not be used.
fn server(
    serve: &Serve,
    flags: &FlagTable,
    environment: &dyn Environment,
    machine: &Machine,
    problems: &mut Vec<String>,
) -> ServerConfig {
    let mut sources = gather(&serve.settings, flags, environment, problems);
    offer_defaults(serve, &mut sources, environment, problems);
    batching_file::offer(&mut sources, environment, problems);
    monitoring_file::offer(&mut sources, environment, problems);
    assemble::resolve(serve, sources, environment, machine, problems)
}
