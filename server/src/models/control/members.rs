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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::pbtxt::ConfigReader;

    #[test]
    fn the_members_of_an_ensemble_are_the_models_of_its_steps_each_once() {
        let text = "ensemble_scheduling { step [ { model_name: 'b' }, { model_name: 'a' }, { model_name: 'b' } ] }";
        let raw = ConfigReader::default().from_text("config.pbtxt", text).unwrap();
        assert_eq!(members(&raw), ["a", "b"]);
        assert_eq!(members(&raw::ModelConfig::default()), [] as [&str; 0]);
    }
}
