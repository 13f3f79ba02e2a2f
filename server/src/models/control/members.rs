//! Which models a model needs to have loaded. Pure.

use super::super::raw::{self, model_config::SchedulingChoice};

/// Names of the models that this one hands requests to, each once: the steps of an ensemble.
pub(super) fn members(raw: &raw::ModelConfig) -> Vec<String> {
    let Some(SchedulingChoice::EnsembleScheduling(ensemble)) = &raw.scheduling_choice else {
        return Vec::new();
    };
    let mut names: Vec<String> = ensemble.step.iter().map(|it| it.model_name.clone()).collect();
    names.sort();
    names.dedup();
    names
}
