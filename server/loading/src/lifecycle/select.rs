//! Which of the models in a hosting platform's folder are loaded: those that its own containers would load. Pure, but
//! for a look at the files of models where no setting says whose container is meant.

use crate::{
    repository::local::{FoundModels, SERVO},
    settings::hosted_start::{HostedStart, HostedWay},
};
use inference::error::Error;
use serving::model_id::ModelId;

/// What a single model is called that lies in the folder without a directory that its owner has named.
const UNNAMED: [&str; 2] = ["model", SERVO];

/// Takes out of `found` what is not to be loaded, and returns its names. `places` is where it was looked.
///
/// # Errors
/// The default model is not there, or no setting says which of several it is.
pub(super) fn select(
    rule: &HostedStart,
    found: &mut FoundModels,
    places: &str,
) -> Result<Vec<String>, Error> {
    // It is loaded with whatever it stands around.
    let script = found.take_script();
    let left = select_models(rule, found, places);
    found.stand_around(script, rule.default_model.as_deref());
    left
}

fn select_models(
    rule: &HostedStart,
    found: &mut FoundModels,
    places: &str,
) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> =
        found.models.keys().chain(found.refused.keys()).map(|it| it.name.to_string()).collect();
    names.sort_unstable();
    names.dedup();
    let are_all_loaded = match rule.way {
        HostedWay::Triton => false,
        HostedWay::TensorFlowServing => true,
        HostedWay::ByModels => {
            found.refused.is_empty()
                && found.models.values().all(|it| it.is_of_tensorflow_serving())
        }
    };
    let Some(default) = &rule.default_model else {
        return match &*names {
            [_, _, ..] if !are_all_loaded => Err(Error::Repository(format!(
                "there are several models in {places} ({}), and none of them is named as the one to serve: set \
                 SAGEMAKER_TRITON_DEFAULT_MODEL_NAME to one of these names; or MUSTER_MODEL_CONTROL_MODE=none, to \
                 load all of them, for requests that name theirs in X-Amzn-SageMaker-Target-Model",
                names.join(", ")
            ))),
            _ => Ok(Vec::new()),
        };
    };
    // One that has no name of its own is called as people call it.
    let is_unnamed = |id: &ModelId| UNNAMED.contains(&&*id.name) && names.len() == 1;
    let is_another = !names.contains(default);
    if is_another && found.models.iter().any(|(id, it)| is_unnamed(id) && it.config.is_none()) {
        found.name_the_only(default);
        return Ok(Vec::new());
    }
    if !names.contains(default) {
        let there = match &*names {
            [] => "there is no model at all".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        };
        return Err(Error::Repository(format!(
            "the default model '{default}' is not in {places} (--sagemaker-default-model, \
             SAGEMAKER_TRITON_DEFAULT_MODEL_NAME, SAGEMAKER_TFS_DEFAULT_MODEL_NAME); {there}"
        )));
    }
    if are_all_loaded {
        return Ok(Vec::new());
    }
    found.models.retain(|id, _| *id.name == **default);
    found.refused.retain(|id, _| *id.name == **default);
    names.retain(|it| it != default);
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use super::*;
    use crate::repository::local::FoundModel;

    fn found(names: &[&str]) -> FoundModels {
        let model = |name: &&str| FoundModel {
            name: (*name).to_owned(),
            label: None,
            is_of_request: false,
            others: Default::default(),
            script: None,
            contents: Default::default(),
            namespace: Default::default(),
            config: None,
            dir: PathBuf::new(),
            versions: BTreeMap::new(),
            renamed: false,
        };
        let models = names.iter().map(|it| (ModelId::named(it), model(it)));
        FoundModels { models: models.collect(), ..FoundModels::default() }
    }

    /// The names that are loaded.
    fn chosen(way: HostedWay, default: Option<&str>, names: &[&str]) -> Result<Vec<String>, Error> {
        let rule = HostedStart { way, default_model: default.map(str::to_owned) };
        let mut found = found(names);
        select(&rule, &mut found, "/opt/ml/model")?;
        Ok(found.models.keys().map(|it| it.name.to_string()).collect())
    }

    #[test]
    fn in_tritons_way_the_default_is_loaded_and_in_that_of_tensorflow_all() {
        use HostedWay::{TensorFlowServing, Triton};
        assert_eq!(chosen(Triton, Some("b"), &["a", "b"]).unwrap(), ["b"]);
        assert_eq!(chosen(TensorFlowServing, Some("b"), &["a", "b"]).unwrap(), ["a", "b"]);
        assert_eq!(chosen(TensorFlowServing, None, &["a", "b"]).unwrap(), ["a", "b"]);
        assert_eq!(chosen(Triton, None, &["a"]).unwrap(), ["a"]);
    }

    #[test]
    fn of_several_in_tritons_way_one_must_be_named_and_be_there() {
        let several = chosen(HostedWay::Triton, None, &["a", "b"]).unwrap_err().to_string();
        assert!(
            several.contains("(a, b)") && several.contains("TRITON_DEFAULT_MODEL"),
            "{several}"
        );
        for way in [HostedWay::Triton, HostedWay::TensorFlowServing] {
            let missing = chosen(way, Some("c"), &["a", "b"]).unwrap_err().to_string();
            assert!(missing.contains("'c'") && missing.contains("a, b"), "{missing}");
        }
    }

    #[test]
    fn a_model_without_a_name_takes_that_of_the_default() {
        for name in ["model", "Servo"] {
            assert_eq!(chosen(HostedWay::Triton, Some("net"), &[name]).unwrap(), ["net"]);
            assert_eq!(chosen(HostedWay::Triton, Some(name), &[name]).unwrap(), [name]);
        }
        assert!(chosen(HostedWay::Triton, Some("net"), &["other"]).is_err());
    }
}
