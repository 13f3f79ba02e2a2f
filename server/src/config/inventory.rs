//! `muster env`: the effect of the environment, as a text for a human reader.

use std::{
    fmt::{Display, Write as _},
    num::NonZeroUsize,
};

use super::{assemble, server_config::ServerConfig};
use crate::features::{self, FEATURES};
use ::sagemaker::settings::Vendor;
use configuration::{
    ConfigError, Environment, FlagTable, Given, NoticeLevel, Origin, Sources, Typed,
    command_line::Serve,
    compat::{sagemaker::Others, variables},
    gather, variable_text,
};
use frontend::settings::Listeners;
use loading::settings::HostedWay;
use machine::Machine;

/// What follows from the place of TensorFlow Serving's container.
const ALL_VERSIONS: &str =
    "every one of a model is loaded, unless its config.pbtxt has a version_policy";

/// The text.
///
/// # Errors
/// All problems that would keep a server with this environment and these options from starting, except missing
/// models.
pub(super) fn of(
    settings: Vec<Typed>,
    flags: &FlagTable,
    environment: &dyn Environment,
    machine: &Machine,
) -> Result<String, ConfigError> {
    let mut problems = Vec::new();
    let serve = Serve { word: true, rehearsed: true, settings, ..Serve::default() };
    let sources = gather(&serve.settings, flags, environment, &mut problems);
    let mut text = variables(&sources, environment);
    write_settings(&mut text, &sources);
    let config = assemble::resolve(&serve, sources, environment, machine, &mut problems);
    if !problems.is_empty() {
        return Err(ConfigError::of_env(problems));
    }
    write_outcome(&mut text, &config);
    Ok(text)
}

/// The effect of each variable that is set.
fn variables(sources: &Sources, environment: &dyn Environment) -> String {
    let given = sources.given();
    let counted = given.iter().flat_map(|it| it.1);
    let mut applied: Vec<String> =
        counted.filter_map(|it| Some(format!("{} -> {}", variable(it)?, option(it)))).collect();
    applied.extend(places(environment));
    applied.sort_unstable();
    let lost = |it: &Given| {
        let winner = sources.last(it.name).map(source).unwrap_or_default();
        Some(format!("{} -> {}: {winner} goes before it", variable(it)?, option(it)))
    };
    let mut lost: Vec<String> = sources.lost().iter().filter_map(lost).collect();
    lost.sort_unstable();
    let Others { noted, mut without_effect, telling, warned, unknown } =
        Others::of(environment, sources.flags());
    without_effect.extend(warned.into_iter().map(|(name, why)| format!("{name} ({why})")));
    let mut text = String::new();
    write_list(&mut text, "Variables that count", &applied);
    write_list(&mut text, "Variables that lost", &lost);
    write_list(&mut text, "Only written into the log", &noted);
    write_list(&mut text, "Without effect", &without_effect);
    write_list(&mut text, "No setting of their own; tell whose container is meant", &telling);
    write_list(&mut text, "Unknown, and ignored", &unknown);
    match text.is_empty() {
        true => "No variable is set that muster knows.\n".to_owned(),
        false => text,
    }
}

/// The variables that say where something is, for which there is no option.
fn places(environment: &dyn Environment) -> impl Iterator<Item = String> {
    let meanings = [
        (variables::MODEL_PATH, "the folder of the models"),
        (variables::BASE_DIR, "the folder above that of the models"),
    ];
    meanings.into_iter().filter_map(|(name, meaning)| {
        let text = variable_text(environment, name, &mut Vec::new())?;
        Some(format!("{name}={text} -> {meaning}"))
    })
}

/// The settings that differ from their defaults.
fn write_settings(text: &mut String, sources: &Sources) {
    let flags = sources.flags();
    let differs = |it: &&Given| flags.flag(it.name).is_none_or(|own| own.default != it.text);
    let given = sources.given();
    let given = given.iter().flat_map(|it| it.1).filter(differs);
    let shown = given.map(|it| {
        let default = match flags.flag(it.name).map_or("", |own| own.default) {
            "" => String::new(),
            default => format!(" (default {default})"),
        };
        format!("{}{default}, by {}", option(it), source(it))
    });
    write_list(text, "Settings that differ from the default", &shown.collect::<Vec<_>>());
}

/// The consequences of all settings together.
fn write_outcome(text: &mut String, config: &ServerConfig) {
    let Listeners { http, sagemaker, vertex_ai, metrics, grpc, .. } = &config.listeners;
    let ports = [
        ("SageMaker", sagemaker),
        ("HTTP", http),
        ("gRPC", grpc),
        ("metrics", metrics),
        ("Vertex AI", vertex_ai),
    ];
    let open = ports.iter().filter_map(|(name, it)| it.map(|it| format!("{name} {it}")));
    write_list(text, "`muster serve` listens on", &open.collect::<Vec<_>>());
    let vendor = config.sagemaker.vendor.as_ref().map(Vendor::notice);
    write_list(text, "Dialect", vendor.as_slice());
    let all_versions = config.repository.platform.way == HostedWay::TensorFlowServing;
    let all_versions = all_versions.then(|| ALL_VERSIONS.to_owned());
    write_list(text, "Versions", all_versions.as_slice());
    write_list(text, "SavedModels run with", &tuple(config));
    let warnings = config.notices.iter().filter(|it| it.level == NoticeLevel::Warning);
    let warnings: Vec<String> = warnings.map(|it| it.text.clone()).collect();
    write_list(text, "Warnings", &warnings);
    write_list(text, "Features of this build", &features::names(&FEATURES, true));
    write_list(text, "Left out of this build", &features::names(&FEATURES, false));
}

/// Sessions and threads of SavedModels, where something is said about them.
fn tuple(config: &ServerConfig) -> Vec<String> {
    let defaults = &config.model_defaults;
    let sessions = config.engines.tensorflow_sessions;
    let mut names = defaults.variables.values();
    let is_meant = names.any(|it| it.starts_with(variables::TENSORFLOW)) || sessions.is_some();
    if !is_meant {
        return Vec::new();
    }
    let sessions = sessions.map_or(1, NonZeroUsize::get);
    let instances = defaults.instance_count.map_or("auto".to_owned(), |it| it.to_string());
    let number = |it: Option<NonZeroUsize>, default: &str| {
        it.map_or(default.to_owned(), |it| it.to_string())
    };
    let inter = number(defaults.inter_op_threads, "1");
    let intra = number(defaults.intra_op_threads, "a share of the processors");
    vec![
        format!("instances (runs at a time): {instances}"),
        format!("sessions that they run, each with its own variables and threads: {sessions}"),
        format!("threads among operators (inter), in each session: {inter}"),
        format!("threads inside an operator (intra), in each session: {intra}"),
    ]
}

fn write_list(text: &mut String, heading: &str, lines: &[impl Display]) {
    if lines.is_empty() {
        return;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{heading}:");
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}

/// The variable and its text; `None` for a typed setting.
fn variable(given: &Given) -> Option<String> {
    let shown = |text| given.shown_of(text).to_owned();
    match &given.origin {
        Origin::Own(variable) => Some(format!("{variable}={}", shown(&given.text))),
        Origin::Foreign(variable, text) => Some(format!("{variable}={}", shown(text))),
        Origin::CommandLine | Origin::Other(_) | Origin::Triton => None,
    }
}

/// `--http-port 8000`.
fn option(given: &Given) -> String {
    format!("--{} {}", given.name, given.shown()).trim_end().to_owned()
}

/// The source of the setting.
fn source(given: &Given) -> String {
    match &given.origin {
        Origin::CommandLine => "the command line".to_owned(),
        Origin::Own(variable) => variable.clone(),
        Origin::Foreign(variable, _) => (*variable).to_owned(),
        Origin::Other(text) => text.clone(),
        Origin::Triton => "the name tritonserver".to_owned(),
    }
}
