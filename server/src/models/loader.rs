//! From a found model to one that serves: read its configuration, load it, complete and check the
//! configuration against it, make and warm its instances, publish.

use std::{
    collections::BTreeMap,
    fs,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use backend::{Backend, BackendError, Device, MODEL_STACK, Model, ModelSource, Placement};

use super::{
    Engine, Found, FoundModel, ModelManager, ServedModel, State,
    check::READS_ACCELERATORS,
    choose::{self, Completion, EngineChoice, choose},
    complete::{Completed, Defaults, complete},
    config::ConfigErrors,
    files::{files_of, model_path, read_labels},
    hints::hints,
    instances,
    options::{engine_options, gpu_accelerators},
    pbtxt::ConfigReader,
    plan::{NoGpus, Places, Plan, plan},
    raw,
    settings::scheduler_settings,
    told::{self, Warnings},
    versions::wanted_versions,
};
use crate::{
    config::{ModelDefaults, Repository},
    machine::gpus::{Gpu, Gpus},
    metrics::{Metrics, ModelOptions},
    schedule::{Scheduler, admission::LongestStay, run::RunContext},
};

/// How models are loaded and run, as far as the server decides it.
#[derive(Debug, Clone)]
pub struct LoadSettings {
    /// What a model gets that does not say.
    pub defaults: ModelDefaults,
    /// Completion, settings of engines, parallel loads.
    pub repository: Repository,
    /// Processors to share out.
    pub cpus: NonZeroUsize,
    /// GPUs to run on.
    pub gpus: Gpus,
    /// How long a request may stay.
    pub longest_stay: LongestStay,
    /// Runs shorter than this are made where the request was read. Zero: none.
    pub caller_runs_below: Duration,
    /// Longest that a worker without work looks for some before it sleeps. Zero: it sleeps at once.
    pub spin: Duration,
    /// Jobs that must wait before the first batch runs; 0 but in tests.
    pub hold: usize,
}

/// Loads models into a [`ModelManager`].
pub struct Loader {
    engines: Vec<Arc<dyn Backend>>,
    settings: LoadSettings,
    manager: Arc<ModelManager>,
    metrics: Metrics,
    reader: ConfigReader,
}

impl Loader {
    /// A loader for models of these engines.
    pub fn new(
        engines: Vec<Arc<dyn Backend>>,
        settings: LoadSettings,
        manager: Arc<ModelManager>,
        metrics: Metrics,
    ) -> Loader {
        Loader { engines, settings, manager, metrics, reader: ConfigReader::default() }
    }

    /// Where loaded models go.
    pub fn manager(&self) -> &ModelManager {
        &self.manager
    }

    /// Loads everything that was found, several models at a time. Blocking. What fails is noted in the
    /// manager and the log, and keeps nothing else from loading.
    pub fn load_all(&self, found: Found) {
        for warning in &found.warnings {
            tracing::warn!("{warning}");
        }
        for (name, reason) in &found.refused {
            self.failed(name, None, reason);
        }
        let models: Vec<FoundModel> = found.models.into_values().collect();
        models.iter().for_each(|it| self.manager.note(&it.name, None, State::Loading, ""));
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(model) = models.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.load(model);
            }
        };
        let threads = self.settings.repository.load_threads.get().min(models.len());
        thread::scope(|scope| {
            for number in 1..threads {
                let name = format!("load-{number}");
                let builder = thread::Builder::new().name(name).stack_size(MODEL_STACK);
                if let Err(error) = builder.spawn_scoped(scope, work) {
                    tracing::warn!(%error, "cannot start another thread to load models");
                }
            }
            work();
        });
    }

    /// Loads the wanted versions of one model.
    fn load(&self, found: &FoundModel) {
        let name = &found.name;
        let raw = match self.read_config(found) {
            Ok(raw) => raw,
            Err(reason) => return self.failed(name, None, &reason),
        };
        let wanted = match wanted_versions(raw.as_ref(), found) {
            Ok(wanted) => wanted,
            Err(reason) => return self.failed(name, None, &reason),
        };
        for version in wanted.missing {
            let dir = found.dir.display();
            tracing::error!(
                model = name,
                version,
                "version_policy asks for it, and {dir} has none"
            );
        }
        for (version, path) in wanted.here {
            self.manager.note(name, Some(version), State::Loading, "");
            let started = Instant::now();
            // An engine's panic is that model's failure, and nobody else's.
            let load = AssertUnwindSafe(|| self.load_version(found, raw.as_ref(), version, path));
            let loaded = catch_unwind(load)
                .unwrap_or_else(|_| Err("the engine panicked while loading it".to_owned()));
            match loaded {
                Ok((model, plan)) => {
                    let took = started.elapsed();
                    model.metrics.load_duration(took);
                    told::ready(&model, &plan, took);
                    self.manager.publish(Arc::new(model));
                }
                Err(reason) => self.failed(name, Some(version), &reason),
            }
        }
    }

    fn failed(&self, name: &str, version: Option<u64>, reason: &str) {
        let version_text = version.map_or("all".to_owned(), |it| it.to_string());
        tracing::error!(model = name, version = version_text, "cannot load the model: {reason}");
        self.manager.note(name, version, State::Unavailable, reason);
    }

    fn read_config(&self, found: &FoundModel) -> Result<Option<raw::ModelConfig>, String> {
        let Some(path) = &found.config else { return Ok(None) };
        let file = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|it| format!("cannot read {file}: {it}"))?;
        let mut raw = self.reader.from_text(&file, &text).map_err(|it| it.to_string())?;
        if found.renamed {
            raw.name.clone_from(&found.name);
        }
        Ok(Some(raw))
    }

    /// Loads it where it is to run; on the CPU where its GPUs turn out to be of no use and it may.
    fn load_version(
        &self,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        version: u64,
        path: &Path,
    ) -> Result<(ServedModel, Plan), String> {
        let choice = self.choose_engine(found, raw, path)?;
        let engine = self.engines.iter().find(|it| it.name() == choice.backend);
        let engine = engine.ok_or_else(|| format!("there is no engine '{}'", choice.backend))?;
        let Repository { backend_settings, .. } = &self.settings.repository;
        let options = engine_options(&choice, backend_settings, &self.settings.defaults);
        let load = Load { found, raw, version, path, choice: &choice, engine: &**engine, options };
        let gpus = &self.settings.gpus;
        let plan = match gpus.found.as_slice() {
            [] => {
                let is_there = gpus.lack.is_of_some();
                self.plan(&load, Err(NoGpus { reason: &gpus.reason, is_there }))?
            }
            found => self.plan(&load, Ok(found))?,
        };
        let mut warnings = Warnings::new(&found.name, version);
        let reason = match self.make(&load, &plan, &mut warnings) {
            Ok(model) => return Ok((model, plan)),
            Err(Unmade::Device(reason)) if plan.uses_gpus() => reason,
            Err(Unmade::Refused(reason) | Unmade::Device(reason)) => return Err(reason),
        };
        let plan = self.plan(&load, Err(NoGpus { reason: &reason, is_there: true }))?;
        let model = &found.name;
        tracing::warn!(model, version, "it runs on the CPU, as no GPU can be used: {reason}");
        match self.make(&load, &plan, &mut warnings) {
            Ok(model) => Ok((model, plan)),
            Err(Unmade::Refused(reason) | Unmade::Device(reason)) => Err(reason),
        }
    }

    fn plan(&self, load: &Load<'_>, gpus: Result<&[Gpu], NoGpus<'_>>) -> Result<Plan, String> {
        let groups = load.raw.map(|it| it.instance_group.as_slice()).unwrap_or_default();
        let places = Places { cpus: self.settings.cpus, gpus };
        plan(groups, &load.options, &self.settings.defaults, places).map_err(|problems| {
            ConfigErrors { model: load.found.name.clone(), problems }.to_string()
        })
    }

    /// Loads the model and makes its instances as planned.
    fn make(
        &self,
        load: &Load<'_>,
        plan: &Plan,
        warnings: &mut Warnings<'_>,
    ) -> Result<ServedModel, Unmade> {
        let Load { found, raw, version, choice, .. } = *load;
        let source = ModelSource {
            name: found.name.clone(),
            path: model_path(load.path, choice),
            options: load.options.clone(),
            default_threads: plan.threads,
            placements: plan.placements(),
            accelerators: raw.map(gpu_accelerators).unwrap_or_default(),
            hints: raw.map(hints).unwrap_or_default(),
        };
        let model = load.engine.load(&source)?;
        let mut completed = self.complete(found, raw, choice, &*model)?;
        // Before anything else can fail: they may say why it does.
        completed.warnings.iter().for_each(|it| warnings.tell(it));
        let accelerates = !source.accelerators.is_empty() && choice.backend == READS_ACCELERATORS;
        if accelerates && !plan.uses_gpus() {
            warnings.tell(
                "optimization.execution_accelerators.gpu_execution_accelerator is ignored, as no instance \
                 runs on a GPU",
            );
        }
        completed.show_instances(&plan.groups);
        let labels = read_labels(&completed.config, &found.dir)?;
        let signature = Arc::new(completed.config.signature(version, &labels));
        let (slots, times) =
            instances::make(&model, &completed.config, &signature, &found.dir, plan)?;
        let config = completed.config;
        let options = ModelOptions {
            tags: config.metric_tags.clone(),
            gpu_uuid: self.only_gpu(plan),
            ..ModelOptions::default()
        };
        let metrics = self.metrics.model(&found.name, version, &options);
        let context = RunContext {
            batches: signature.batches(),
            outputs: signature.outputs.iter().map(|it| it.name.clone()).collect(),
        };
        let mut settings = scheduler_settings(&config, &self.settings);
        if plan.uses_gpus() {
            // A thread that waits for a GPU is not one on which clients should wait.
            settings.caller_runs_below = Duration::ZERO;
        }
        let scheduler = Scheduler::new(settings, context, slots, times, metrics.clone());
        let config_json = self.reader.to_json(&completed.raw).to_string().into();
        let engine = Engine::Instances(scheduler);
        let config_message = completed.raw;
        Ok(ServedModel { signature, config, config_json, config_message, engine, metrics })
    }

    /// The GPU on which all instances run, if that is one.
    fn only_gpu(&self, plan: &Plan) -> Option<String> {
        let [Placement { device: Device::Gpu(number), .. }] = plan.placements()[..] else {
            return None;
        };
        let gpu = self.settings.gpus.found.iter().find(|it| it.number == number);
        gpu.map(|it| it.uuid.clone())
    }

    fn choose_engine(
        &self,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        path: &Path,
    ) -> Result<EngineChoice, String> {
        let names: Vec<&str> = self.engines.iter().map(|it| it.name()).collect();
        let files = files_of(path)?;
        let found = choose::Found { model: &found.name, directory: path, files: &files };
        choose(raw, found, &names, self.completion()).map_err(|it| it.to_string())
    }

    fn completion(&self) -> Completion {
        if self.settings.repository.auto_complete { Completion::On } else { Completion::Off }
    }

    fn complete(
        &self,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        choice: &EngineChoice,
        model: &dyn Model,
    ) -> Result<Completed, String> {
        let defaults = Defaults {
            max_batch_size: self.settings.repository.default_max_batch_size(&choice.backend),
            completion: self.completion(),
        };
        complete(raw, &found.name, choice, model.spec(), &defaults).map_err(|it| it.to_string())
    }
}

/// One model version on its way.
struct Load<'a> {
    found: &'a FoundModel,
    raw: Option<&'a raw::ModelConfig>,
    version: u64,
    path: &'a Path,
    choice: &'a EngineChoice,
    engine: &'a dyn Backend,
    options: BTreeMap<String, String>,
}

/// Why a model could not be made.
enum Unmade {
    /// A device for it cannot be used, or has too little memory; another one may do.
    Device(String),
    /// It cannot be served anywhere.
    Refused(String),
}

impl From<BackendError> for Unmade {
    fn from(error: BackendError) -> Unmade {
        match error {
            BackendError::Device(reason) | BackendError::OutOfMemory(reason) => {
                Unmade::Device(reason)
            }
            error => Unmade::Refused(error.to_string()),
        }
    }
}

impl From<String> for Unmade {
    fn from(reason: String) -> Unmade {
        Unmade::Refused(reason)
    }
}

#[cfg(test)]
mod tests;
