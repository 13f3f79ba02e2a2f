//! Would a version of a model load? What its files and its configuration tell, in the steps that a load begins with.

use std::path::Path;

use backend::{BackendError, RerunPolicy};

use crate::{
    config::{
        check::report::{Report, name_of_folder},
        complete::RowsKnown,
        fit::fit_names,
    },
    load::{
        create_error::{CreateError, said_by_content, told_by_content},
        files::read_labels,
        load_error::LoadError,
        load_log::LoadLog,
        load_watch::LoadWatch,
        loader::Loader,
        version_load::{Load, Version},
    },
    repository::local::FoundModel,
};
use serving::{config::raw, pipeline::open::overrides};
use steps::{Folder, Pipeline};

/// What is known of a version that was not loaded.
#[derive(Debug)]
pub(crate) struct VersionOutlook {
    /// For example `onnxruntime_onnx`; empty where the engine has but one format.
    pub(crate) platform: String,
    /// The engine.
    pub(crate) backend: String,
    /// Is its folder that of a pipeline?
    pub(crate) is_pipeline: bool,
    /// What of its configuration is ignored, or why the version would not load.
    pub(crate) outcome: Result<Vec<String>, LoadError>,
}

impl Loader {
    /// Takes the steps of a load that need no run of an engine. Blocking: files are read, and the engine's library is
    /// opened.
    ///
    /// # Errors
    /// When no engine of this server is for it.
    pub(crate) fn check_version(
        &self,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        version: u64,
        path: &Path,
    ) -> Result<VersionOutlook, LoadError> {
        let prospect = self.prospect(found, raw, path)?;
        let watch = LoadWatch::default();
        let load = prospect.load(Version { found, raw, version }, &watch);
        Ok(VersionOutlook {
            platform: prospect.choice.platform.clone(),
            backend: prospect.choice.backend.clone(),
            is_pipeline: self.folder_of_pipeline(&load).is_some(),
            outcome: self.check_load(&load).map_err(LoadError::from),
        })
    }

    /// What of the configuration is ignored.
    fn check_load(&self, load: &Load<'_>) -> Result<Vec<String>, CreateError> {
        let plan = self.plan_here(&load.found.name, load.raw, &load.options, load.cpus);
        let plan = plan.map_err(LoadError::from)?;
        self.check_gpu_limits(&plan)?;
        let source = self.source(load, &plan, &mut LoadLog::new(&load.found.name, load.version))?;
        RerunPolicy::of(&source)?;
        let choice = load.choice;
        let said = |it| said_by_content(it, &source, choice, &self.descriptions);
        let ports = load.engine.check(&source).map_err(said)?;
        if choice.default_model_filename.is_some() && !source.path.exists() {
            let missing = format!("{}: there is no such file", source.path.display());
            return Err(BackendError::Load(missing).into());
        }
        if let Some(what) = told_by_content(&source, choice, &self.descriptions) {
            return Err(BackendError::Load(what).into());
        }
        if let Some(dir) = self.dir_of_pipeline(load) {
            let overrides = overrides(&self.settings.repository.pipelines);
            let folder = Folder::read(&dir, &overrides);
            let checked = folder.and_then(|it| Pipeline::check(&it));
            checked.map_err(|it| LoadError::Refused(it.to_string()))?;
        }
        let Some(raw) = load.raw else { return Ok(Vec::new()) };
        let mut report = Report::default();
        fit_names(raw, &ports, &mut report);
        name_of_folder(&mut raw.clone(), &load.found.name, &mut report);
        let checked = report.into_result(&load.found.name, ()).map_err(LoadError::from)?;
        if !has_all_ports(raw) {
            // The rest of it is compared with the model.
            return Ok(checked.1);
        }
        let completed = self.complete_with(load, Some(raw), None, RowsKnown::Independent)?;
        read_labels(&completed.config, &load.found.dir)?;
        Ok(completed.warnings)
    }
}

/// Does the configuration say all of the inputs and outputs, so that none of them is taken from the model?
fn has_all_ports(raw: &raw::ModelConfig) -> bool {
    let inputs = raw.input.iter().map(|it| (it.data_type, it.dims.is_empty()));
    let outputs = raw.output.iter().map(|it| (it.data_type, it.dims.is_empty()));
    let is_whole = |(data_type, is_open): (i32, bool)| data_type != 0 && !is_open;
    !raw.input.is_empty() && !raw.output.is_empty() && inputs.chain(outputs).all(is_whole)
}
