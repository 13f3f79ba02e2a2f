//! What a hosting platform's container is told: how it answers the platform, which models of the platform's folder it
//! loads, and what ends its start.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    environment::{Environment, PathKind},
    foreign,
    server::ModelsFrom,
    sources::{Sources, variable_text},
    value,
};

/// Beside the folder of the model: further folders, by what the platform calls them.
const CHANNELS: &str = "additional-model-data-sources";

/// What the user's script is called unless somebody says otherwise.
const SCRIPT: &str = "inference.py";

/// What the platform is told and when the start ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Hosting {
    /// `--sagemaker-ping-mode`.
    pub ping: PingMode,
    /// `--sagemaker-echo-custom-attributes`.
    pub echo_attributes: bool,
    /// `--sagemaker-max-payload-mb`: what batch jobs are told before the product is looked at. At least 1.
    pub max_payload_mb: u64,
    /// `--startup-timeout`: how long loading may take at the start; `None` for any time.
    pub startup_timeout: Option<Duration>,
    /// `--model-load-timeout`: how long one model may take at the start; `None` for any time.
    pub model_load_timeout: Option<Duration>,
    /// Where a user's script would lie: it is not run.
    pub user_scripts: Vec<PathBuf>,
    /// `--fail-on-user-script`.
    pub fail_on_user_script: bool,
    /// `HF_MODEL_ID`: a model that is to come from a hub, which nobody here asks.
    pub hub_model: Option<String>,
}

/// When `/ping` is answered with 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingMode {
    /// When inference is.
    Ready,
    /// As soon as anything is.
    Live,
}

/// What the platform's folder may hold besides a repository, a model or versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlatformFolder {
    /// Further folders that may hold repositories, each in this one; `None` where there is none.
    pub channels: Option<PathBuf>,
    /// `--root-model`: `config.pbtxt` may lie directly in the folder.
    pub root_model: bool,
}

/// Which models a hosted server loads at its start, where nobody has said how models are loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedStart {
    /// Whose way.
    pub way: HostedWay,
    /// The model that is named, which must be there.
    pub default_model: Option<String>,
}

/// In the way of which container are models chosen?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostedWay {
    /// The model that is named, or the only one, and those that it is made of.
    Triton,
    /// All of them; the default is the one that is named, or the first by name.
    TensorFlowServing,
}

/// Reads it. `from` is where models are.
pub(super) fn resolve(
    sources: &Sources,
    environment: &dyn Environment,
    (from, hosted): (&ModelsFrom, bool),
    problems: &mut Vec<String>,
) -> Hosting {
    let mut flag = |name, default| sources.read(name, value::boolean, problems).unwrap_or(default);
    let echo_attributes = flag("sagemaker-echo-custom-attributes", true);
    let fail_on_user_script = flag("fail-on-user-script", false);
    let mut time = |name| sources.read(name, value::seconds_or_none, problems).flatten();
    let (startup_timeout, model_load_timeout) =
        (time("startup-timeout"), time("model-load-timeout"));
    Hosting {
        ping: sources
            .read("sagemaker-ping-mode", value::ping_mode, problems)
            .unwrap_or(PingMode::Ready),
        echo_attributes,
        max_payload_mb: sources
            .read("sagemaker-max-payload-mb", value::count, problems)
            .and_then(|it| it.get().try_into().ok())
            .unwrap_or(6),
        startup_timeout,
        model_load_timeout,
        user_scripts: match hosted {
            true => user_scripts(environment, from, problems),
            false => Vec::new(),
        },
        fail_on_user_script,
        hub_model: variable_text(environment, foreign::HUB_MODEL, problems),
    }
}

/// What there is beside the models in the platform's folder.
pub(super) fn folder(
    sources: &Sources,
    environment: &dyn Environment,
    platforms: Option<&Path>,
    problems: &mut Vec<String>,
) -> PlatformFolder {
    let channels = platforms.and_then(Path::parent).map(|it| it.join(CHANNELS));
    PlatformFolder {
        channels: channels.filter(|it| environment.kind_of(it) == Some(PathKind::Directory)),
        root_model: sources.read("root-model", value::boolean, problems).unwrap_or(false),
    }
}

/// The rule of a hosted start; `None` where somebody says how models are loaded.
pub(super) fn start(
    sources: &Sources,
    environment: &dyn Environment,
    default_model: Option<&String>,
) -> Option<HostedStart> {
    const CONTROLS: [&str; 3] = ["model-control-mode", "load-model", "model-load-on-demand"];
    if CONTROLS.iter().any(|it| sources.last(it).is_some()) {
        return None;
    }
    let names = environment.names();
    let mut tensorflows = names.iter().filter(|it| it.starts_with(foreign::TENSORFLOW));
    let is_set = |name: &String| environment.variable(name).is_some_and(|it| !it.is_empty());
    let way = match tensorflows.any(is_set) {
        true => HostedWay::TensorFlowServing,
        false => HostedWay::Triton,
    };
    Some(HostedStart { way, default_model: default_model.cloned() })
}

/// Where the user's script would be: in the folder that is named, and beside the model.
fn user_scripts(
    environment: &dyn Environment,
    from: &ModelsFrom,
    problems: &mut Vec<String>,
) -> Vec<PathBuf> {
    let program = variable_text(environment, foreign::PROGRAM, problems);
    let program = program.unwrap_or_else(|| SCRIPT.to_owned());
    let submitted = variable_text(environment, foreign::SUBMIT_DIRECTORY, problems);
    // Training jobs leave the address of an archive there.
    let submitted = submitted.as_deref().map(|it| it.strip_prefix("file://").unwrap_or(it));
    let submitted = submitted.filter(|it| !it.contains("://")).map(PathBuf::from);
    let model = match from {
        ModelsFrom::Path(path) => Some(path.join("code")),
        ModelsFrom::Repositories(_) | ModelsFrom::Named(_) => None,
    };
    let mut scripts: Vec<PathBuf> =
        submitted.into_iter().chain(model).map(|it| it.join(&program)).collect();
    scripts.dedup();
    scripts.retain(|it| environment.kind_of(it) == Some(PathKind::File));
    scripts
}
