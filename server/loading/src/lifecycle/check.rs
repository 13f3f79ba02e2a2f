//! What of the models that are there would be served, and why the others would not: by the steps that loading takes, as
//! far as they go without an engine, or by loading each.

use std::{collections::BTreeMap, fmt::Display, sync::Arc, time::Duration};

use crate::{
    config::complete_ensemble::complete as complete_ensemble,
    lifecycle::{
        control::Control,
        converge::{Converger, LoadMode, Target},
        members::members,
        model_table::ModelRecord,
        publish::{member_failed, versions_failed},
        select,
    },
    load::{check_version::VersionOutlook, checksum::check_files},
    repository::{catalogue::WantedModels, local::FoundModel, versions::wanted_versions},
};
use inference::error::Error;
use serving::{
    config::{ensemble::is_ensemble, raw},
    model_id::ModelId,
    served::ServedModel,
};

/// How long the memory of a model that was loaded to be checked is waited for, before the next is loaded.
const LONGEST_END: Duration = Duration::from_secs(10);

/// How far models are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckDepth {
    /// Files and configuration; no model is loaded.
    Files,
    /// Each model is loaded and unloaded again, with the members that it needs.
    Load,
}

/// What was found out of a model.
#[derive(Debug)]
pub struct CheckedModel {
    /// Its name, and its repository where models of several may have one name.
    pub id: ModelId,
    /// Its platform, or what its configuration says of it.
    pub platform: String,
    /// Its engine, or what its configuration says of it.
    pub backend: String,
    /// The versions that are asked for.
    pub versions: Vec<CheckedVersion>,
    /// Why nothing of it is served, where that is not a fault of one version.
    pub refused: Option<String>,
    /// What is ignored of its configuration, or not there.
    pub notes: Vec<String>,
}

/// What was found out of a version.
#[derive(Debug)]
pub struct CheckedVersion {
    /// The version.
    pub version: u64,
    /// As what it is served, where that is known: a task. Or why it is not served.
    pub outcome: Result<Option<String>, String>,
}

/// Everything that was found out.
#[derive(Debug)]
pub struct CheckedModels {
    /// By name.
    pub models: Vec<CheckedModel>,
    /// What is worth knowing beside that: what is no model, what a hosting platform's start leaves out.
    pub notes: Vec<String>,
}

impl CheckedModel {
    /// Are all versions served that are asked for?
    pub fn is_served(&self) -> bool {
        self.refusal().is_none()
    }

    /// Why it is not, or not all of it.
    pub fn refusal(&self) -> Option<String> {
        let of_version = |it: &CheckedVersion| match &it.outcome {
            Ok(_) => None,
            Err(reason) => Some(format!("version {}: {reason}", it.version)),
        };
        self.refused.clone().or_else(|| self.versions.iter().find_map(of_version))
    }
}

impl Control {
    /// Checks every model that there is. Blocking, and with [`CheckDepth::Load`] as long as all loads take.
    ///
    /// # Errors
    /// Why there is nothing to check: no model, or a repository that cannot be listed.
    pub fn check(&self, depth: CheckDepth) -> Result<CheckedModels, Error> {
        let mut found = self.look_at_start(WantedModels::All)?;
        let mut notes = std::mem::take(&mut found.warnings);
        if let Some(rule) = &self.settings.hosted {
            let others = select::select(rule, &mut found, &self.converger.catalogue.places())?;
            notes.extend(others.iter().map(|it| {
                format!("model '{it}' is not loaded at the start: the default model is another")
            }));
        }
        if found.models.is_empty() && found.refused.is_empty() {
            return Err(Error::Repository(self.nothing_found()));
        }
        let mut checked = BTreeMap::new();
        for (id, reason) in found.refused {
            checked.insert(id.clone(), CheckedModel::new(id).refused(reason));
        }
        for model in found.models.into_values() {
            self.converger.check_once(model, depth, &mut checked);
        }
        Ok(CheckedModels { models: checked.into_values().collect(), notes })
    }
}

/// The models that have been checked.
type Checked = BTreeMap<ModelId, CheckedModel>;

impl Converger {
    fn check_once(&self, found: FoundModel, depth: CheckDepth, checked: &mut Checked) {
        let id = found.id();
        if checked.contains_key(&id) {
            return;
        }
        let mut model = self.check_files_of(&found, checked);
        if depth == CheckDepth::Load {
            self.try_load(found, &mut model);
        }
        checked.insert(id, model);
    }

    /// What files and configuration tell.
    fn check_files_of(&self, found: &FoundModel, checked: &mut Checked) -> CheckedModel {
        let model = CheckedModel::new(found.id());
        let target = match self.target(&mut ModelRecord::default(), found.clone(), None) {
            Ok(target) => target,
            Err(error) => return model.refused(error),
        };
        let (found, raw) = (target.found(), target.raw());
        let mut model = CheckedModel {
            platform: raw.map(|it| it.platform.clone()).unwrap_or_default(),
            backend: raw.map(|it| it.backend.clone()).unwrap_or_default(),
            ..model
        };
        let wanted = match wanted_versions(raw, found) {
            Ok(wanted) => wanted,
            Err(error) => return model.refused(error),
        };
        let missing =
            |it: &u64| format!("version_policy asks for version {it}, which is not there");
        model.notes = wanted.missing.iter().map(missing).collect();
        if let Err(error) = check_files(raw, found) {
            return model.refused(error);
        }
        let numbers: Vec<u64> = wanted.here.iter().map(|it| it.0).rev().collect();
        if let Some(raw) = raw.filter(|it| is_ensemble(Some(it))) {
            if let Err(reason) = self.check_members(&target, raw, checked) {
                return model.refused(reason);
            }
            let completed = complete_ensemble(raw, &found.name, &self.loader.descriptions);
            let outcome = match completed {
                Ok((completed, _)) => {
                    model.notes.extend(completed.warnings);
                    Ok(Some("ensemble".to_owned()))
                }
                Err(error) => Err(error.to_string()),
            };
            let version = |it: u64| CheckedVersion { version: it, outcome: outcome.clone() };
            model.versions = numbers.into_iter().map(version).collect();
            return model;
        }
        for (version, path) in wanted.here.into_iter().rev() {
            let outcome = match self.loader.check_version(found, raw, version, path) {
                Err(error) => Err(error.to_string()),
                Ok(VersionOutlook { platform, backend, is_pipeline, outcome }) => {
                    (model.platform, model.backend) = (platform, backend);
                    let as_what = is_pipeline.then(|| "pipeline".to_owned());
                    outcome.map_err(|it| it.to_string()).map(|notes| {
                        model.notes.extend(notes);
                        as_what
                    })
                }
            };
            model.versions.push(CheckedVersion { version, outcome });
        }
        model.notes.dedup();
        model
    }

    /// Would the members of an ensemble be served?
    fn check_members(
        &self,
        target: &Target,
        raw: &raw::ModelConfig,
        checked: &mut Checked,
    ) -> Result<(), String> {
        let id = target.found().id();
        let members = members(&id.namespace, raw);
        drop(self.no_circle(&id, &members)?);
        for member in members {
            if !checked.contains_key(&member) {
                let found = self.finder.find_in(&member);
                let found = found.map_err(|it| member_failed(&id, &member, it))?;
                self.check_once(found, CheckDepth::Files, checked);
            }
            let Some(model) = checked.get(&member) else { continue };
            if let Some(reason) = &model.refused {
                return Err(member_failed(&id, &member, reason));
            }
            let failed =
                |it: &CheckedVersion| Some((it.version, it.outcome.as_ref().err()?.clone()));
            let failures: Vec<(u64, String)> = model.versions.iter().filter_map(failed).collect();
            if failures.len() == model.versions.len() {
                return Err(member_failed(&id, &member, versions_failed(&member, &failures)));
            }
        }
        Ok(())
    }

    /// Loads a model and unloads it again: what becomes of its versions.
    fn try_load(&self, found: FoundModel, model: &mut CheckedModel) {
        let id = found.id();
        let outcome = self.converge_found(found, LoadMode::BestEffort, false);
        let failed = self.manager.states(&id.name).into_iter().filter(|it| it.has_failed());
        let failed: BTreeMap<Option<u64>, String> =
            failed.map(|it| (it.version, it.reason.to_string())).collect();
        let serving = self.manager.serving(&id);
        if let Some(served) = serving.values().next() {
            served.platform().clone_into(&mut model.platform);
            served.config.backend.clone_into(&mut model.backend);
        }
        let served = serving.iter().map(|(version, it)| (*version, Ok(Some(served_as(it)))));
        let of_versions =
            failed.iter().filter_map(|(version, reason)| Some(((*version)?, Err(reason.clone()))));
        let versions: BTreeMap<u64, _> = of_versions.chain(served).collect();
        let version = |(version, outcome)| CheckedVersion { version, outcome };
        model.versions = versions.into_iter().map(version).collect();
        model.refused = match outcome {
            Err(error) if model.versions.is_empty() => {
                Some(failed.get(&None).cloned().unwrap_or_else(|| error.to_string()))
            }
            _ => None,
        };
        self.unload_with(&id, true);
        drop(serving);
        self.publisher.reaper.wait(LONGEST_END);
    }
}

impl CheckedModel {
    fn new(id: ModelId) -> CheckedModel {
        let (platform, backend, versions, refused, notes) = Default::default();
        CheckedModel { id, platform, backend, versions, refused, notes }
    }

    fn refused(self, reason: impl Display) -> CheckedModel {
        CheckedModel { refused: Some(reason.to_string()), ..self }
    }
}

fn served_as(model: &Arc<ServedModel>) -> String {
    match &model.signature.pipeline {
        Some(pipeline) => pipeline.task.name().to_owned(),
        None if model.model.is_none() => "ensemble".to_owned(),
        None => "tensors".to_owned(),
    }
}
