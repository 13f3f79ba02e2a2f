//! Multi-model endpoints of SageMaker: no model is there at the start, the platform loads and unloads them.

use std::path::PathBuf;

use configuration::{
    Environment, Flag, Notice, Origin, Sources, compat::variables, value, variable_text,
};
use machine::Machine;

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::boolean("sagemaker-multi-model", "false", "A multi-model endpoint: models are loaded by POST /models, and none at the start"),
    Flag::value("sagemaker-models-root", "/opt/ml/models", "Where the models of such an endpoint lie").named("DIR"),
];

/// Where SageMaker puts the models of such an endpoint.
const ROOT: &str = "/opt/ml/models";

/// The setting that switches the mode on.
const SETTING: &str = "sagemaker-multi-model";

/// How the models of a multi-model endpoint come and go.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiModel {
    /// `--sagemaker-models-root`: every model lies below it. It may come into being later.
    pub root: PathBuf,
    /// `--model-memory-budget`: bytes that all models may take together; `None` for what the machine has.
    pub budget: Option<u64>,
    /// Bytes of memory that the process may have; `None` where that is not known.
    pub memory: Option<u64>,
}

/// Is the mode on?
pub fn is_on(sources: &Sources, problems: &mut Vec<String>) -> bool {
    sources.read(SETTING, value::boolean, problems).unwrap_or(false)
}

/// Was it the platform that switched it on?
pub fn is_by_platform(sources: &Sources) -> bool {
    sources.last(SETTING).is_some_and(|it| matches!(it.origin, Origin::Foreign(..)))
}

/// Reads the settings of the mode; `None` where it is off. Where it is on, other ways to load models are off.
pub fn resolve(
    is_on: bool,
    sources: &mut Sources,
    environment: &dyn Environment,
    machine: &Machine,
    problems: &mut Vec<String>,
) -> Option<MultiModel> {
    let root = sources.read("sagemaker-models-root", value::path, problems);
    if !is_on {
        return None;
    }
    let idle: Vec<String> =
        ["model-control-mode", "watch", "model-load-on-demand", "model-namespacing"]
            .iter()
            .filter_map(|it| Some(sources.last(it)?.to_string()))
            .collect();
    if !idle.is_empty() {
        sources.notices.push(Notice::warning(format!(
            "without effect, as the models of a multi-model endpoint come by POST /models: {}",
            idle.join(", ")
        )));
    }
    let base = variable_text(environment, variables::BASE_DIR, problems);
    let usual_root = || base.map_or(ROOT.into(), |it| PathBuf::from(it).join("models"));
    Some(MultiModel {
        root: root.unwrap_or_else(usual_root),
        budget: sources.read("model-memory-budget", value::bytes_from_one, problems),
        memory: machine.memory,
    })
}
