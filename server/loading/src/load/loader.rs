//! What loads models: it reads their configurations, chooses their engines, plans where they run, and supervises the
//! load.
//!
//! A GPU may be there and a library for it may not, and only the engine finds out. So a load is planned with the GPUs
//! that the driver knows. If the engine answers with an error of the device, and the model leaves its place open, the
//! load is planned again without GPUs, with one warning.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use backend::Backend;

use crate::{
    config::{
        choose::{self, Completion, EngineChoice, choose},
        engines::Engines,
        give_way::give_way,
        pbtxt::{ConfigReader, MOST_BYTES},
        reach::{beyond_the_model, of_others, runs_unread},
    },
    load::{
        create_error::CreateError,
        files::{bytes_of, config_file, files_of},
        load_error::LoadError,
        load_log::{self, LoadLog},
        load_settings::LoadSettings,
        load_watch::LoadWatch,
        lost_loads::LostLoads,
        options::{engine_options, in_one_thread},
        placement::{NoGpus, Plan},
        version_load::{Prospect, Version},
    },
    repository::{
        denied::cannot,
        flat::{besides_code, besides_mlflow},
        local::FoundModel,
        mlflow, torchserve,
    },
    settings::{UserScripts, repository::Repository},
};
use schedule::prepare::PreparePool;
use serving::{
    Hosts,
    config::{ensemble::is_ensemble, raw},
    manager::ModelManager,
    served::{Dispatch, ServedModel},
};
use telemetry::metrics::Metrics;

/// Below that many bytes of files threads inside a run gain little, and those of several hundred models are thousands.
const SMALL: u64 = 16 << 20;

/// Loads models, and keeps none of them.
pub struct Loader {
    pub(super) engines: Vec<Arc<dyn Backend>>,
    lost_loads: Arc<LostLoads>,
    /// What they say of themselves.
    pub(crate) descriptions: Engines,
    pub(super) settings: LoadSettings,
    /// Where ensembles find their members.
    pub(super) manager: Arc<ModelManager>,
    pub(super) metrics: Metrics,
    pub(crate) reader: ConfigReader,
    /// How long sequences may be idle on models that do not say; `None` for Triton's second.
    pub(super) sequence_idle: Option<Duration>,
    /// Where inputs of models are prepared that take texts, once there is one.
    pub(super) prepare_pool: OnceLock<Arc<PreparePool>>,
    /// Where it is kept what runs of texts cost; `None` for nowhere.
    pub(super) costs: Option<PathBuf>,
    /// What models with code of their own may ask; `None` where no server is behind this.
    pub(super) hosts: Option<Hosts>,
    /// Processors to share out; at least 1.
    pub(super) cpus: AtomicUsize,
}

impl Loader {
    /// A loader for models of these engines. Ensembles look their members up in `manager`.
    pub fn new(
        engines: Vec<Arc<dyn Backend>>,
        settings: LoadSettings,
        manager: Arc<ModelManager>,
        metrics: Metrics,
    ) -> Loader {
        let reader = ConfigReader::default();
        let descriptions = Engines::of(&engines);
        let cpus = AtomicUsize::new(settings.cpus.get());
        let (sequence_idle, lost_loads, prepare_pool, costs, hosts) = Default::default();
        Loader {
            engines,
            lost_loads,
            descriptions,
            settings,
            manager,
            metrics,
            reader,
            sequence_idle,
            prepare_pool,
            costs,
            hosts,
            cpus,
        }
    }

    /// The same, whose models keep idle sequences for so long where their configurations do not say.
    pub fn keeping_sequences(self, idle: Option<Duration>) -> Loader {
        Loader { sequence_idle: idle, ..self }
    }

    /// The same, whose models with code of their own may ask that server, where there is one.
    pub fn answering(self, hosts: Option<Hosts>) -> Loader {
        Loader { hosts, ..self }
    }

    /// The same, which keeps what runs of texts cost in that folder, where there is one.
    pub fn keeping_costs(self, folder: Option<PathBuf>) -> Loader {
        Loader { costs: folder, ..self }
    }

    /// Scripts that come with models.
    pub(crate) fn scripts(&self) -> &UserScripts {
        &self.settings.repository.platform.scripts
    }

    /// From now on models are planned for so many processors.
    pub(crate) fn set_cpus(&self, cpus: NonZeroUsize) {
        self.cpus.store(cpus.get(), Ordering::Relaxed);
    }

    /// The processors that models are planned for.
    pub(crate) fn cpus(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.cpus.load(Ordering::Relaxed)).unwrap_or(NonZeroUsize::MIN)
    }

    /// Models that may load at the same time.
    pub(crate) fn threads(&self) -> NonZeroUsize {
        self.settings.repository.load_threads
    }

    /// Lets the engine of a model that it runs in this process look at how long runs of clients take: runs at load may
    /// have been of the wrong size. Blocking.
    pub(crate) fn reconsider_place(&self, model: &ServedModel) {
        let Some(source) = &model.decided else { return };
        let Dispatch::Batches(scheduler) = &model.dispatch else { return };
        let engine = self.engines.iter().find(|it| it.name() == model.config.backend);
        let Some((engine, took)) = engine.zip(scheduler.usual_time()) else { return };
        if let Some(why) = engine.reconsider_place(source, took) {
            tracing::warn!(model = %model.shown_name, version = source.version, "{why}");
        }
    }

    /// Gives memory back to the system that models have freed and engines hold. Blocking.
    pub(crate) fn give_back_memory(&self) {
        self.engines.iter().for_each(|it| it.give_back_memory());
    }

    /// Loads one version of a model, of which `path` is the directory or the file. Blocking.
    ///
    /// # Errors
    /// Why it cannot be served. An engine's panic is a failure of that model alone, and so is a load that does not end.
    pub(crate) fn load_version(
        self: &Arc<Self>,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        version: u64,
        path: &Path,
    ) -> Result<ServedModel, LoadError> {
        let started = Instant::now();
        let (loader, of, raw, path) = (self.clone(), found.clone(), raw.cloned(), path.to_owned());
        let loaded = self.lost_loads.supervise(&found.id(), move |watch| {
            let load = || loader.load_where_it_fits(&of, raw.as_ref(), version, &path, watch);
            catch_unwind(AssertUnwindSafe(load))
                .unwrap_or_else(|_| Err("the engine panicked while loading it".to_owned().into()))
        })?;
        let (model, plan) = loaded?;
        let took = started.elapsed();
        model.metrics.load_duration(took);
        let engine = self.engines.iter().find(|it| it.name() == model.config.backend);
        let library = engine.and_then(|it| it.version());
        load_log::ready(&model, &plan, library.as_deref(), took);
        Ok(model)
    }

    /// May a client bring this configuration?
    ///
    /// # Errors
    /// What of it only the operator may write.
    pub(crate) fn check_brought(&self, raw: &raw::ModelConfig) -> Result<(), LoadError> {
        if self.settings.repository.trusts_load_requests {
            return Ok(());
        }
        let engines = &self.descriptions;
        let beyond = beyond_the_model(raw, engines)
            .or_else(|| of_others(raw, engines))
            .or_else(|| runs_unread(raw, engines));
        beyond.map_or(Ok(()), |beyond| {
            Err(LoadError::Refused(format!(
                "{beyond}, which a request may not bring unless the server was started with \
                 --trust-load-requests=true; the config.pbtxt in the repository may"
            )))
        })
    }

    /// The configuration in the model's directory.
    ///
    /// # Errors
    /// When it cannot be read, with the line.
    pub(crate) fn read_config(
        &self,
        found: &FoundModel,
    ) -> Result<Option<raw::ModelConfig>, LoadError> {
        let name = self.settings.repository.config_name.as_deref();
        let Some(path) = config_file(found, name) else { return Ok(None) };
        let file = path.display().to_string();
        let text = backend::read_text_within(&path, MOST_BYTES);
        let text = text.map_err(|it| cannot("read", &path, &it))?;
        let mut raw = self.reader.parse_text(&file, &text).map_err(|it| it.to_string())?;
        if found.renamed {
            raw.name.clone_from(&found.name);
        }
        if self.settings.defaults.over_config {
            give_way(&mut raw, &self.settings.defaults, &self.descriptions);
        }
        Ok(Some(raw))
    }

    /// A model without version directories is version 1, where its engine needs none.
    pub(crate) fn find_version(&self, found: &mut FoundModel, raw: Option<&raw::ModelConfig>) {
        let engine = raw.map(|it| self.descriptions.description(&it.backend));
        if engine.is_some_and(|it| it.is_version_optional) && found.versions.is_empty() {
            found.versions.insert(1, found.dir.clone());
        }
    }

    /// Loads it where it is to run; on the CPU where its GPUs turn out to be of no use and it may.
    fn load_where_it_fits(
        &self,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        version: u64,
        path: &Path,
        watch: &LoadWatch,
    ) -> Result<(ServedModel, Plan), LoadError> {
        if let Some(raw) = raw.filter(|it| is_ensemble(Some(it))) {
            return self.load_ensemble(found, raw, version);
        }
        let prospect = self.prospect(found, raw, path)?;
        let load = prospect.load(Version { found, raw, version }, watch);
        let plan = self.plan_here(&load.found.name, raw, &load.options, load.cpus)?;
        self.check_gpu_limits(&plan)?;
        let mut log = LoadLog::new(found.shown_name(), version);
        let reason = match self.make(&load, &plan, &mut log) {
            Ok(model) => return Ok((model, plan)),
            Err(CreateError::Device(reason) | CreateError::Memory(reason)) if plan.uses_gpus() => {
                reason
            }
            Err(error) => return Err(error.into()),
        };
        let none = NoGpus { reason: &reason, is_there: true };
        let plan = self.plan(&found.name, raw, &load.options, load.cpus, Err(none))?;
        let model = &found.name;
        tracing::warn!(model, version, "it runs on the CPU, as no GPU can be used: {reason}");
        match self.make(&load, &plan, &mut log) {
            Ok(model) => Ok((model, plan)),
            Err(error) => Err(error.into()),
        }
    }

    /// What is known of a version before it is loaded.
    ///
    /// # Errors
    /// When no engine of this server is for it.
    pub(super) fn prospect(
        &self,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        path: &Path,
    ) -> Result<Prospect<'_>, LoadError> {
        let beyond = raw.and_then(|it| beyond_the_model(it, &self.descriptions));
        if let Some(beyond) = beyond.filter(|_| self.settings.repository.refuse_code) {
            let refusal = "which --secure-mode (SAGEMAKER_SECURE_MODE) refuses";
            return Err(format!("{beyond}, {refusal}").into());
        }
        let started = SystemTime::now();
        let path = self.of_folder(raw, path)?.unwrap_or_else(|| path.to_owned());
        let choice = self.choose_engine(found, raw, &path)?;
        let engine = self.engines.iter().find(|it| it.name() == choice.backend);
        let engine = engine.ok_or_else(|| format!("there is no engine '{}'", choice.backend))?;
        let options = self.engine_options(&choice, &path);
        Ok(Prospect { path, choice, engine: &**engine, options, started, cpus: self.cpus() })
    }

    /// The instances of a model on this machine with so many processors, by its configuration as it is now.
    pub(crate) fn plan_anew(
        &self,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        path: &Path,
        cpus: NonZeroUsize,
    ) -> Result<Plan, LoadError> {
        let of_folder = self.of_folder(raw, path)?;
        let path = of_folder.as_deref().unwrap_or(path);
        let choice = self.choose_engine(found, raw, path)?;
        Ok(self.plan_here(&found.name, raw, &self.engine_options(&choice, path), cpus)?)
    }

    fn engine_options(&self, choice: &EngineChoice, path: &Path) -> BTreeMap<String, String> {
        let Repository { backend_settings, .. } = &self.settings.repository;
        let defaults = &self.settings.defaults;
        let description = self.descriptions.description(&choice.backend);
        let mut options = engine_options(choice, description, backend_settings, defaults);
        let has_many = self.settings.has_many_models && defaults.intra_op_threads.is_none();
        if has_many && bytes_of(path) < SMALL {
            in_one_thread(&mut options, description);
        }
        options
    }

    /// What is to be opened of a folder that MLflow has saved, unless a configuration names the file, or the folder has
    /// a model besides and no file of MLflow's. Of an archive of TorchServe, the manifest.
    fn of_folder(
        &self,
        raw: Option<&raw::ModelConfig>,
        path: &Path,
    ) -> Result<Option<PathBuf>, LoadError> {
        if raw.is_some_and(|it| !it.default_model_filename.is_empty()) {
            return Ok(None);
        }
        let engines = &self.descriptions;
        let said = raw.map_or("", |it| engines.name_of(&it.backend));
        let is_for_python = said.is_empty() || Some(said) == engines.runner_of_unread();
        if let Some(manifest) = torchserve::manifest_in(path).filter(|_| is_for_python) {
            return Ok(Some(manifest));
        }
        let model = mlflow::model_in(path);
        let besides = match &model {
            Ok(Some(file)) if mlflow::is_for_python(file) => besides_code(path, engines),
            Ok(_) => Ok(None),
            Err(_) => besides_mlflow(path, engines),
        };
        match besides {
            Ok(Some(_)) => Ok(None),
            Ok(None) | Err(_) => model.map_err(|it| it.to_string().into()),
        }
    }

    fn choose_engine(
        &self,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        path: &Path,
    ) -> Result<EngineChoice, LoadError> {
        if mlflow::is_for_python(path) || torchserve::folder_of(path).is_some() {
            return self.python_for(raw, path);
        }
        let files = files_of(path, &self.descriptions)?;
        let found = choose::VersionFiles { model: &found.name, directory: path, files: &files };
        let choice = choose(raw, found, &self.descriptions, self.completion())?;
        Ok(self.engine_or_python(choice, path))
    }

    pub(super) fn completion(&self) -> Completion {
        if self.settings.repository.auto_complete { Completion::On } else { Completion::Off }
    }
}

#[cfg(test)]
mod tests;
