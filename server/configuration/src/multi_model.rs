//! Multi-model endpoints of SageMaker: no model is there at the start, the platform loads and unloads them.

use std::path::PathBuf;

use super::{
    control::{ControlMode, ModelControl},
    environment::Environment,
    foreign,
    report::Notice,
    server::ModelsFrom,
    sources::{Origin, Sources, variable_text},
    value,
};
use machine::Machine;

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
    /// Bytes of memory that the process may have; `None` where nobody says.
    pub memory: Option<u64>,
}

/// Is the mode on?
pub(super) fn is_on(sources: &Sources, problems: &mut Vec<String>) -> bool {
    sources.read(SETTING, value::boolean, problems).unwrap_or(false)
}

/// Was it the platform that switched it on?
pub(super) fn is_by_platform(sources: &Sources) -> bool {
    sources.last(SETTING).is_some_and(|it| matches!(it.origin, Origin::Foreign(..)))
}

/// The models of the start: none. To name some is a mistake.
pub(super) fn models_from(
    path: Option<&PathBuf>,
    sources: &Sources,
    problems: &mut Vec<String>,
) -> ModelsFrom {
    let told = "names models, and those of a multi-model endpoint (--sagemaker-multi-model) come by POST \
                /models alone: leave it out";
    if let Some(path) = path {
        problems.push(format!("'muster serve {}' {told}", path.display()));
    }
    for setting in ["model-repository", "load-model"] {
        problems.extend(sources.all(setting).iter().map(|it| format!("{it} {told}")));
    }
    ModelsFrom::Repositories(Vec::new())
}

/// Reads the settings of the mode. Where it is on, other ways to load models are off.
pub(super) fn resolve(
    is_on: bool,
    control: &mut ModelControl,
    sources: &mut Sources,
    environment: &dyn Environment,
    machine: &Machine,
    problems: &mut Vec<String>,
) {
    let root = sources.read("sagemaker-models-root", value::path, problems);
    if !is_on {
        return;
    }
    let idle: Vec<String> = ["model-control-mode", "model-load-on-demand", "model-namespacing"]
        .iter()
        .filter_map(|it| Some(sources.last(it)?.to_string()))
        .collect();
    if !idle.is_empty() {
        sources.notices.push(Notice::warning(format!(
            "without effect, as the models of a multi-model endpoint come by POST /models: {}",
            idle.join(", ")
        )));
    }
    let base = variable_text(environment, foreign::BASE_DIR, problems);
    let usual_root = || base.map_or(ROOT.into(), |it| PathBuf::from(it).join("models"));
    control.mode = ControlMode::None;
    control.on_demand = None;
    control.multi_model = Some(MultiModel {
        root: root.unwrap_or_else(usual_root),
        budget: sources.read("model-memory-budget", value::bytes_from_one, problems),
        memory: machine.memory,
    });
}
