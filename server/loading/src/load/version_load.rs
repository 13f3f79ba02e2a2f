//! The load of one version of a model: what is known of it before its engine has it.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use backend::{Backend, Stop};

use crate::{
    config::choose::EngineChoice,
    load::load_watch::LoadWatch,
    repository::{local::FoundModel, mlflow, torchserve, user_script::is_script_of},
};
use serving::config::raw;

/// Which version of which model.
#[derive(Clone, Copy)]
pub(super) struct Version<'a> {
    pub(super) found: &'a FoundModel,
    pub(super) raw: Option<&'a raw::ModelConfig>,
    pub(super) version: u64,
}

/// What a version is and which engine it is for, by its files and its configuration alone.
pub(super) struct Prospect<'a> {
    /// What is to be opened.
    pub(super) path: PathBuf,
    pub(super) choice: EngineChoice,
    pub(super) engine: &'a dyn Backend,
    pub(super) options: BTreeMap<String, String>,
    /// When its files were first looked at.
    pub(super) started: SystemTime,
    /// Processors to share out.
    pub(super) cpus: NonZeroUsize,
}

impl Prospect<'_> {
    /// The load that follows.
    pub(super) fn load<'a>(&'a self, of: Version<'a>, watch: &'a LoadWatch) -> Load<'a> {
        let Version { found, raw, version } = of;
        Load {
            found,
            raw,
            version,
            path: &self.path,
            choice: &self.choice,
            engine: self.engine,
            options: self.options.clone(),
            started: self.started,
            cpus: self.cpus,
            watch,
            stop: Arc::default(),
        }
    }
}

/// One model version on its way.
pub(super) struct Load<'a> {
    pub(super) found: &'a FoundModel,
    pub(super) raw: Option<&'a raw::ModelConfig>,
    pub(super) version: u64,
    pub(super) path: &'a Path,
    pub(super) choice: &'a EngineChoice,
    pub(super) engine: &'a dyn Backend,
    pub(super) options: BTreeMap<String, String>,
    pub(super) started: SystemTime,
    /// Processors to share out.
    pub(super) cpus: NonZeroUsize,
    pub(super) watch: &'a LoadWatch,
    /// Requested when the engine takes too long, to load the model or to make an instance.
    pub(super) stop: Arc<Stop>,
}

impl Load<'_> {
    /// The file or the directory of which it is made: of a script, the directory that is its model's; of a folder that
    /// Python opens, the folder.
    pub(super) fn files(&self) -> &Path {
        let of_mlflow = self.path.parent().filter(|_| mlflow::is_for_python(self.path));
        let folder = of_mlflow.or_else(|| torchserve::folder_of(self.path));
        match is_script_of(self.path, &self.found.dir) {
            true => &self.found.dir,
            false => folder.unwrap_or(self.path),
        }
    }

    /// The same with that configuration.
    pub(super) fn with_config<'b>(&'b self, raw: &'b raw::ModelConfig) -> Load<'b> {
        let Load { found, version, path, choice, engine, started, cpus, watch, .. } = *self;
        let (options, stop) = (self.options.clone(), self.stop.clone());
        Load {
            found,
            raw: Some(raw),
            version,
            path,
            choice,
            engine,
            options,
            started,
            cpus,
            watch,
            stop,
        }
    }
}
