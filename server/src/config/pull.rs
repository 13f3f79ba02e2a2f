//! `muster pull`: what is to be fetched, with the server's own settings of models by name.

use configuration::{
    Environment, FlagTable, command_line::Pull, compat::variables, gather, variable_text,
};
use serving::pipeline::pipeline_settings;
use sources::{FORMS, LockUse, Name, SourceSettings, source_settings};
use stores::store_settings;

use crate::features::{self, FEATURES, SOURCES};

/// What is to be fetched.
#[derive(Debug, Clone, PartialEq)]
pub struct PullCommand {
    /// The models.
    pub names: Vec<Name>,
    /// What is done with the lock file.
    pub usage: LockUse,
    /// How they are fetched.
    pub sources: SourceSettings,
}

/// The command. If there are `problems`, it must not be used.
pub(super) fn resolve(
    command: Pull,
    flags: &FlagTable,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> PullCommand {
    let sources = gather(&command.settings, flags, environment, problems);
    let pipelines = pipeline_settings::resolve(&sources, environment, problems);
    features::refuse(&FEATURES, &sources, problems);
    if !SOURCES.is_in {
        problems.push(SOURCES.missing());
    }
    let graph = pipelines.graph.as_deref().map(steps::graph_paths).unwrap_or_default();
    // MLflow's artifacts may lie in one.
    let stores = store_settings::resolve(&sources, environment, true, problems);
    let settings = source_settings::resolve(graph, stores, &sources, environment, problems);
    let mut names = Vec::new();
    for given in &command.names {
        let text = given.to_str().unwrap_or_default();
        match Name::parse(text) {
            Some(Ok(name)) => names.push(name),
            Some(Err(expected)) => problems.push(format!("muster pull: expected {expected}")),
            None => {
                problems.push(format!("'{text}' is no name of a model elsewhere: expected {FORMS}"))
            }
        }
    }
    if command.names.is_empty() {
        let hub = variable_text(environment, variables::HUB_MODEL, problems);
        match hub.as_deref().and_then(Name::parse_id) {
            Some(Ok(name)) => names.push(name),
            _ => problems.push("no model is named; write muster pull NAME".to_owned()),
        }
    }
    let usage = match command.updates {
        true => LockUse::Renew,
        false => LockUse::Extend,
    };
    if command.updates && settings.lock_file.is_none() {
        problems.push("--update is for a lock file: name it with --lock-file".to_owned());
    }
    PullCommand { names, usage, sources: settings }
}
