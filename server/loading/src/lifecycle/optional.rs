//! Models that may be left out: what they need is not on every machine, and their configuration says so.

use std::collections::BTreeMap;

use crate::{
    lifecycle::{converge::Converger, members::members},
    repository::local::{FoundModel, FoundModels},
};
use serving::{
    config::{ensemble::is_ensemble, raw},
    model_id::ModelId,
};

/// The parameter of a configuration that says so.
const PARAMETER: &str = "OPTIONAL";

impl Converger {
    /// Takes out the models that may be left out and whose engine lacks what they need, and the ensembles of them that
    /// may be left out, too. What does not serve yet is asked for; that takes the engine's own check. Returns a
    /// sentence that names them and says why; `None` where all stay. Blocking.
    pub(super) fn leave_out(&self, found: &mut FoundModels) -> Option<String> {
        let optional = found.models.iter().filter(|(id, _)| self.manager.serving(id).is_empty());
        let optional: BTreeMap<&ModelId, raw::ModelConfig> =
            optional.filter_map(|(id, it)| Some((id, self.optional(it)?))).collect();
        let mut left: BTreeMap<ModelId, String> = BTreeMap::new();
        for (id, raw) in optional.iter().filter(|(_, raw)| !is_ensemble(Some(raw))) {
            if let Some(reason) = found.models.get(id).and_then(|it| self.lacks(it, raw)) {
                left.insert((*id).clone(), reason);
            }
        }
        let reasons: Vec<String> = left.values().cloned().collect();
        let is_left_with = |id: &ModelId, raw: &raw::ModelConfig, left: &BTreeMap<_, _>| {
            !left.contains_key(id)
                && members(&id.namespace, raw).iter().any(|it| left.contains_key(it))
        };
        // Members may be ensembles.
        while let Some((id, _)) = optional.iter().find(|(id, raw)| is_left_with(id, raw, &left)) {
            left.insert((*id).clone(), String::new());
        }
        found.models.retain(|id, _| !left.contains_key(id));
        let names: Vec<String> = left.keys().map(|it| format!("'{}'", it.name)).collect();
        (!names.is_empty()).then(|| {
            let what = if names.len() == 1 { "model" } else { "models" };
            format!(
                "left out, as {PARAMETER} allows: {what} {}: {}",
                names.join(", "),
                reasons.join("; ")
            )
        })
    }

    /// The configuration of a model that may be left out.
    fn optional(&self, found: &FoundModel) -> Option<raw::ModelConfig> {
        // What cannot be read is told by the load.
        let raw = self.loader.read_config(found).ok()??;
        let said = raw.parameters.get(PARAMETER)?;
        said.string_value.eq_ignore_ascii_case("true").then_some(raw)
    }

    /// Why its newest version would not load.
    fn lacks(&self, found: &FoundModel, raw: &raw::ModelConfig) -> Option<String> {
        let (version, path) = found.versions.last_key_value()?;
        match self.loader.check_version(found, Some(raw), *version, path) {
            Ok(outlook) => outlook.outcome.err().map(|it| it.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }
}
