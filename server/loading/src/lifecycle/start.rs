//! The models that are loaded at the start, several at the same time, and whether that is enough to serve.

use std::{collections::BTreeMap, fmt};

use crate::{
    lifecycle::{control::Control, select},
    repository::{
        catalogue::WantedModels,
        local::{FoundModel, FoundModels},
        scratch_dir,
    },
    settings::control::{AtStart, ControlMode},
};
use inference::error::Error;
use serving::{model_id::ModelId, state::State};

/// Why there is no use in serving.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is nothing to load, or it cannot be told what.
    #[error(transparent)]
    Repository(#[from] Error),
    /// Models did not load.
    #[error(transparent)]
    NotServed(#[from] NotServed),
}

/// Models that did not load. The reason of each has had a line of its own in the log, and is not said again.
#[derive(Debug, thiserror::Error)]
pub struct NotServed {
    /// What follows from that.
    pub problem: &'static str,
    /// The models by name, each with its reason.
    pub failed: BTreeMap<String, String>,
}

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 8;
        let mut names: Vec<String> =
            self.failed.keys().take(MOST).map(|it| format!("'{it}'")).collect();
        if MOST < self.failed.len() {
            names.push(format!("{} more", self.failed.len() - MOST));
        }
        let names = names.join(", ");
        let problem = self.problem;
        match self.failed.len() {
            1 => write!(f, "{problem}: model {names} could not be loaded; a line above says why"),
            _ => write!(f, "{problem}: models {names} could not be loaded; lines above say why"),
        }
    }
}

impl Control {
    /// Loads what is to serve from the start. What fails is in the log and the index, and keeps nothing else from
    /// loading. Blocking.
    ///
    /// # Errors
    /// Why there is no use in serving: nothing that was asked for is loaded; or, with `exit_on_error`, something
    /// is not.
    pub fn start(&self, exit_on_error: bool) -> Result<(), StartError> {
        if self.settings.is_explicit() {
            scratch_dir::remove_leftovers(&self.settings.scratch);
        }
        let wanted = match &self.settings.mode {
            ControlMode::Explicit(AtStart::These(names)) => WantedModels::These(names),
            ControlMode::None if self.on_demand.is_some() => WantedModels::These(&[]),
            ControlMode::None | ControlMode::Poll(_) | ControlMode::Explicit(AtStart::All) => {
                WantedModels::All
            }
        };
        let mut found = self.look_at_start(wanted)?;
        found.warnings.iter().for_each(|it| tracing::warn!("{it}"));
        found.skipped.iter().for_each(|it| tracing::debug!("{it}"));
        if let Some(rule) = &self.settings.hosted {
            let others = select::select(rule, &mut found, &self.converger.catalogue.places())?;
            if !others.is_empty() {
                tracing::info!(
                    "not loaded but as far as the default model is made of them: {}",
                    others.join(", ")
                );
            }
        }
        if self.settings.is_explicit() || self.on_demand.is_some() {
            found.models.keys().chain(&found.remote).for_each(|id| self.converger.manager.know(id));
            let requested = self.asked_for(&mut found);
            found.models = requested;
        }
        // All of them, so that a name in two repositories is seen to be before either serves.
        for id in found.models.keys().filter(|it| !it.namespace.is_empty()) {
            self.converger.manager.know(id);
        }
        for (id, reason) in &found.refused {
            self.converger.publisher.failed(id, None, reason);
        }
        let models: Vec<FoundModel> = found.models.into_values().collect();
        for model in &models {
            self.converger.manager.note(&model.id(), None, State::Loading, "");
        }
        self.converger.converge_all(models);
        if let Some(configured) = self.converger.catalogue.configured() {
            self.named_models.label_start(configured);
        }
        self.judge(exit_on_error)
    }

    /// What there is before anything is loaded.
    pub(super) fn look_at_start(&self, wanted: WantedModels<'_>) -> Result<FoundModels, Error> {
        if let Some(configured) = self.converger.catalogue.configured() {
            self.named_models.configure_start(configured)?;
        }
        let found = self.converger.catalogue.look(wanted);
        let mut found = found.map_err(|it| Error::Repository(it.to_string()))?;
        let left = self.converger.leave_out(&mut found);
        found.warnings.extend(left);
        Ok(found)
    }

    /// Of what was found, that which is to be loaded at the start.
    fn asked_for(&self, found: &mut FoundModels) -> BTreeMap<ModelId, FoundModel> {
        let all = std::mem::take(&mut found.models);
        match &self.settings.mode {
            ControlMode::Explicit(AtStart::All) => all,
            // Each is loaded when it is asked for.
            ControlMode::None | ControlMode::Poll(_) => BTreeMap::new(),
            ControlMode::Explicit(AtStart::These(names)) => {
                for name in names {
                    let is_there =
                        all.keys().chain(found.refused.keys()).any(|it| *it.name == **name);
                    if !is_there {
                        let places = self.converger.catalogue.places();
                        let reason = format!(
                            "--load-model names it, and there is no directory of that name in {places}"
                        );
                        found.refused.insert(ModelId::named(name), reason);
                    }
                }
                found.refused.retain(|id, _| names.iter().any(|it| **it == *id.name));
                all.into_iter().filter(|(id, _)| names.iter().any(|it| **it == *id.name)).collect()
            }
        }
    }

    fn judge(&self, exit_on_error: bool) -> Result<(), StartError> {
        let index = self.converger.manager.index();
        let failed = index.iter().filter(|it| it.state == State::Unavailable);
        let failed: BTreeMap<String, String> =
            failed.map(|it| (it.name.to_string(), it.reason.to_string())).collect();
        let ready = index.iter().any(|it| it.state == State::Ready);
        let polls = matches!(self.settings.mode, ControlMode::Poll(_));
        let later = polls
            || self.settings.is_explicit()
            || self.on_demand.is_some()
            || self.multi_model.is_some();
        let problem = match failed.is_empty() {
            true if ready || later => return Ok(()),
            // An empty list may be replaced by request.
            true if self.converger.catalogue.configured().is_some() => return Ok(()),
            true => return Err(Error::Repository(self.nothing_found()).into()),
            false if exit_on_error && ready => "a model is not served, and --exit-on-error is set",
            // What is polled may be repaired.
            false if ready || (polls && !exit_on_error) => return Ok(()),
            false => "no model is served",
        };
        Err(NotServed { problem, failed }.into())
    }

    pub(super) fn nothing_found(&self) -> String {
        let catalogue = &self.converger.catalogue;
        let places = catalogue.places();
        match catalogue.what_lies_there() {
            Some(what) => format!(
                "no models found in {places}: expected <name>/<version>/model.onnx there. {what}"
            ),
            None => format!(
                "no models found in {places}: expected <name>/<version>/model.onnx there, or a single \
                 model.onnx; in a container, see what is mounted there"
            ),
        }
    }
}
