//! What a configuration says of an ensemble: the models that it is made of, and what their tensors are called.

use std::{collections::BTreeSet, sync::Arc};

use crate::config::raw::{ModelConfig as RawConfig, model_config::SchedulingChoice};

/// The platform of ensembles.
const PLATFORM: &str = "ensemble";

/// What a configuration says of an ensemble's steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnsembleConfig {
    /// At least one.
    pub steps: Vec<StepConfig>,
    /// Most requests in one step at the same time; 0 for any number.
    pub max_inflight: usize,
}

/// One step: a model, and what its tensors are called in the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepConfig {
    /// Name of the member.
    pub model: Arc<str>,
    /// Its version; `None` for the latest.
    pub version: Option<u64>,
    /// An input of the member, and the ensemble's tensor that it gets; each input once.
    pub inputs: Vec<(Arc<str>, Arc<str>)>,
    /// An output of the member, and the ensemble's tensor that it becomes; each output once.
    pub outputs: Vec<(Arc<str>, Arc<str>)>,
}

/// Does the configuration say that it is of an ensemble?
pub fn is_ensemble(raw: Option<&RawConfig>) -> bool {
    raw.is_some_and(|it| it.platform == PLATFORM)
}

/// Names of the models that an ensemble is made of, each once; of any other model, none.
pub fn members(raw: &RawConfig) -> Vec<String> {
    let Some(SchedulingChoice::EnsembleScheduling(given)) = &raw.scheduling_choice else {
        return Vec::new();
    };
    let names: BTreeSet<&String> = given.step.iter().map(|it| &it.model_name).collect();
    names.into_iter().cloned().collect()
}
