//! From a found model to one that serves: read its configuration, load it, complete and check the
//! configuration against it, make and warm its instances, publish.

use std::{
    collections::BTreeMap,
    fs,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use backend::{Backend, BackendError, Model, ModelSource};
use bytes::Bytes;

use crate::{
    config::{
        choose::{self, Completion, EngineChoice, choose},
        complete::{Completed, Defaults, RowsKnown, complete},
        engines::Engines,
        ensemble::is_ensemble,
        hints::hints,
        misspelt::misspelt_parameters,
        pbtxt::ConfigReader,
        raw,
        reach::{beyond_the_model, of_others},
        unapplied::unapplied,
    },
    load::{
        create_error::{CreateError, said_by_content},
        extra_inputs::ExtraInputs,
        files::{bytes_of, config_file, files_of, model_of_plan, read_labels},
        instances,
        load_error::LoadError,
        load_limit,
        load_log::{self, Warnings},
        load_settings::LoadSettings,
        load_watch::LoadWatch,
        lost_loads::LostLoads,
        options::{
            engine_options, first_response_ms, gpu_accelerators, in_one_thread, op_libraries,
        },
        placement::{NoGpus, Plan},
        scheduler::{InstanceSet, dispatch},
        strict_rows::strict_rows,
    },
    repository::{
        denied::cannot,
        local::{FoundModel, repository_of},
    },
    serving::{
        manager::ModelManager,
        served::{Planned, ServedModel},
    },
    settings::repository::Repository,
};
use inference::signature::Signature;
use schedule::prepare::PreparePool;
use telemetry::metrics::{Metrics, ModelOptions};

/// Below that many bytes of files threads inside a run gain little, and those of several hundred models are thousands.
const SMALL: u64 = 16 << 20;

/// `max_batch_size` of a model that can batch where no setting says, as in Triton.
const MAX_BATCH_SIZE: usize = 4;

/// Loads models, and keeps none of them.
pub struct Loader {
    engines: Vec<Arc<dyn Backend>>,
    lost_loads: Arc<LostLoads>,
    /// What they say of themselves.
    pub(crate) descriptions: Engines,
    pub(super) settings: LoadSettings,
    /// Where ensembles find their members.
    pub(super) manager: Arc<ModelManager>,
    pub(super) metrics: Metrics,
    pub(crate) reader: ConfigReader,
    /// How long sequences may be idle on models that do not say; `None` for Triton's second.
    sequence_idle: Option<Duration>,
    /// Where inputs of models are prepared that take texts, once there is one.
    pub(super) prepare_pool: OnceLock<Arc<PreparePool>>,
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
        let (sequence_idle, lost_loads, prepare_pool) = Default::default();
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
            cpus,
        }
    }

    /// The same, whose models keep idle sequences for so long where their configurations do not say.
    pub fn keeping_sequences(self, idle: Option<Duration>) -> Loader {
        Loader { sequence_idle: idle, ..self }
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

    /// Gives memory of models that are gone back to the system. Blocking.
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
        load_log::ready(&model, &plan, took);
        Ok(model)
    }

    /// May a client bring this configuration?
    ///
    /// # Errors
    /// What of it only the operator may write; a sentence.
    pub(crate) fn check_brought(&self, raw: &raw::ModelConfig) -> Result<(), String> {
        if self.settings.repository.trusts_load_requests {
            return Ok(());
        }
        let engines = &self.descriptions;
        beyond_the_model(raw, engines).or_else(|| of_others(raw, engines)).map_or(
            Ok(()),
            |beyond| {
                Err(format!(
                    "{beyond}, which a request may not bring unless the server was started with \
                 --trust-load-requests=true; the config.pbtxt in the repository may"
                ))
            },
        )
    }

    /// The configuration in the model's directory.
    ///
    /// # Errors
    /// When it cannot be read, with the line.
    pub(crate) fn read_config(
        &self,
        found: &FoundModel,
    ) -> Result<Option<raw::ModelConfig>, String> {
        let name = self.settings.repository.config_name.as_deref();
        let Some(path) = config_file(found, name) else { return Ok(None) };
        let file = path.display().to_string();
        let text = fs::read_to_string(&path).map_err(|it| cannot("read", &path, &it))?;
        let mut raw = self.reader.parse_text(&file, &text).map_err(|it| it.to_string())?;
        if found.renamed {
            raw.name.clone_from(&found.name);
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
            return Ok(self.load_ensemble(found, raw, version)?);
        }
        let beyond = raw.and_then(|it| beyond_the_model(it, &self.descriptions));
        if let Some(beyond) = beyond.filter(|_| self.settings.repository.refuse_code) {
            let refusal = "which --secure-mode (SAGEMAKER_SECURE_MODE) refuses";
            return Err(format!("{beyond}, {refusal}").into());
        }
        let started = SystemTime::now();
        let choice = self.choose_engine(found, raw, path)?;
        let engine = self.engines.iter().find(|it| it.name() == choice.backend);
        let engine = engine.ok_or_else(|| format!("there is no engine '{}'", choice.backend))?;
        let options = self.engine_options(&choice, path);
        let load = Load {
            found,
            raw,
            version,
            path,
            choice: &choice,
            engine: &**engine,
            options,
            started,
            cpus: self.cpus(),
            watch,
        };
        let plan = self.plan_here(&load.found.name, raw, &load.options, load.cpus)?;
        self.check_gpu_limits(&plan)?;
        let mut warnings = Warnings::new(&found.name, version);
        let reason = match self.make(&load, &plan, &mut warnings) {
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
        match self.make(&load, &plan, &mut warnings) {
            Ok(model) => Ok((model, plan)),
            Err(error) => Err(error.into()),
        }
    }

    /// The instances of a model on this machine with so many processors, by its configuration as it is now.
    pub(crate) fn plan_anew(
        &self,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        path: &Path,
        cpus: NonZeroUsize,
    ) -> Result<Plan, String> {
        let choice = self.choose_engine(found, raw, path)?;
        self.plan_here(&found.name, raw, &self.engine_options(&choice, path), cpus)
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

    /// Loads the model and makes its instances as planned.
    fn make(
        &self,
        load: &Load<'_>,
        plan: &Plan,
        warnings: &mut Warnings<'_>,
    ) -> Result<ServedModel, CreateError> {
        let Load { found, raw, version, choice, .. } = *load;
        let source = ModelSource {
            name: found.name.clone(),
            path: model_of_plan(load.path, choice, raw, plan, &self.settings.gpus.found)?,
            directory: found.dir.clone(),
            repository: repository_of(found, &self.settings.repository.from),
            options: self.options_here(load, plan, warnings),
            default_threads: plan.threads,
            placements: plan.placements(),
            accelerators: raw.map(gpu_accelerators).unwrap_or_default(),
            hints: raw.map(hints).unwrap_or_default(),
            op_libraries: raw.map(|it| op_libraries(it, &found.dir)).unwrap_or_default(),
            stop: Arc::default(),
        };
        let repository = &self.settings.repository;
        let limit =
            load_limit::of_engine(repository.load_limit, plan.uses_gpus(), bytes_of(load.path));
        let loaded = load.watch.during(limit, &source.stop, || load.engine.load(&source));
        let loaded = loaded.map_err(BackendError::from)?;
        load_limit::check(limit, &source.stop)?;
        let model = loaded.map_err(|it| said_by_content(it, &source, choice))?;
        let mut settled = self.settle_merging(load, plan, &*model)?;
        // Before anything else can fail: they may say why it does.
        let completed = &mut settled.completed;
        completed.warnings.iter().for_each(|it| warnings.warn(it));
        let misspelt = misspelt_parameters(raw, &choice.backend, &self.descriptions);
        misspelt.iter().for_each(|it| warnings.warn(it));
        if raw.is_some_and(|it| !it.cc_model_filenames.is_empty()) && !plan.uses_gpus() {
            warnings.warn("cc_model_filenames is ignored, as no instance runs on a GPU");
        }
        let description = self.descriptions.description(&choice.backend);
        let accelerates = !source.accelerators.is_empty() && description.has_gpu_accelerators;
        if accelerates && !plan.uses_gpus() {
            warnings.warn(
                "optimization.execution_accelerators.gpu_execution_accelerator is ignored, as no instance \
                 runs on a GPU",
            );
        }
        let unapplied =
            unapplied(raw, &completed.raw, choice, &self.descriptions, &self.settings.defaults);
        if !unapplied.is_empty() {
            let model = &found.name;
            tracing::info!(model, version, "not applied to it: {}", unapplied.join(", "));
        }
        let mut signature =
            self.signature(load, &*model, plan, &mut settled.completed, settled.has_parts)?;
        let opened = self.open_pipeline(load, &*model, &signature, plan, &mut settled, warnings)?;
        if opened.is_none() && settled.is_unproved {
            self.settle_unproved(load, &*model, &mut settled)?;
            signature =
                self.signature(load, &*model, plan, &mut settled.completed, settled.has_parts)?;
        }
        if let Some(warning) = &settled.warning {
            warnings.warn(warning);
        }
        let completed = settled.completed;
        let rows = opened.as_ref().map(|(pipeline, _)| pipeline.rows.clone());
        let extra = ExtraInputs::of(&completed.config, &found.dir)?;
        let run_limit = repository.load_run_limit;
        let warm_up = instances::WarmUp {
            dir: &found.dir,
            extra: &extra,
            run_limit,
            limit,
            watch: load.watch,
        };
        let (slots, times) = instances::make(
            &model,
            &completed.config,
            &signature,
            plan,
            warm_up,
            settled.instance,
        )?;
        let answers_zeros = times.mean(1).is_some();
        let limiter = self.settings.rate_limiter.as_ref();
        let is_limited = completed.config.instance_groups.iter().any(|it| it.limits.is_some());
        if is_limited && limiter.is_none() {
            warnings.warn(
                "instance_group.rate_limiter is ignored, as rate limiting is off (--rate-limit)",
            );
        }
        let slots = instances::limit(slots, &completed.config, plan, limiter)?;
        let config = completed.config;
        let options = ModelOptions {
            tags: config.metric_tags.clone(),
            gpu_uuid: self.only_gpu(plan),
            namespace: Some(found.id().namespace.to_string()).filter(|it| !it.is_empty()),
            first_response_ms: first_response_ms(&config),
        };
        let metrics = self.metrics.model(found.shown_name(), version, &options);
        let (keeps_state, uses_gpus) = (model.keeps_state(), plan.uses_gpus());
        let row_check = settled.row_check;
        let runs = InstanceSet { extra, slots, times, keeps_state, uses_gpus, row_check, rows };
        let dispatch = dispatch(runs, &config, &signature, &self.settings, metrics.clone());
        let config_json: Bytes = self.reader.to_json(&completed.raw).to_string().into();
        self.warn_caching(&config, warnings);
        if config.response_cache && self.settings.has_cache {
            metrics.has_cache();
        }
        let content_hash = self.content_hash(load, &config, &config_json);
        let (pipeline, signature) = match opened {
            Some((pipeline, face)) => (Some(Arc::new(pipeline)), Arc::new(face)),
            None => (None, signature),
        };
        let config_message = completed.raw;
        let (used, bytes, files) = Default::default();
        Ok(ServedModel {
            signature,
            shown_name: found.shown_name().into(),
            config,
            config_json,
            config_message,
            pipeline,
            dispatch,
            metrics,
            content_hash,
            answers_zeros,
            loaded: SystemTime::now(),
            planned: Planned { cpus: load.cpus, keeps_state },
            used,
            bytes,
            files,
        })
    }

    /// What clients see of the graph.
    fn signature(
        &self,
        load: &Load<'_>,
        model: &dyn Model,
        plan: &Plan,
        completed: &mut Completed,
        has_parts: bool,
    ) -> Result<Arc<Signature>, String> {
        completed.show_instances(&plan.groups);
        let mut labels = model.spec().map(|it| it.labels.clone()).unwrap_or_default();
        labels.extend(read_labels(&completed.config, &load.found.dir)?);
        let mut signature = completed.config.signature(load.version, &labels);
        let strict = strict_rows(load.raw, self.settings.defaults.strict_max_batch_size);
        let whole = (!has_parts).then_some(completed.config.max_batch_size);
        signature.most_rows = signature.most_rows.or(strict).or(whole);
        Ok(Arc::new(signature))
    }

    fn choose_engine(
        &self,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        path: &Path,
    ) -> Result<EngineChoice, String> {
        let files = files_of(path, &self.descriptions)?;
        let found = choose::Found { model: &found.name, directory: path, files: &files };
        choose(raw, found, &self.descriptions, self.completion()).map_err(|it| it.to_string())
    }

    fn completion(&self) -> Completion {
        if self.settings.repository.auto_complete { Completion::On } else { Completion::Off }
    }

    pub(super) fn complete(
        &self,
        load: &Load<'_>,
        model: &dyn Model,
        rows: RowsKnown,
    ) -> Result<Completed, String> {
        let Load { found, raw, choice, .. } = *load;
        let defaults = Defaults {
            max_batch_size: self
                .settings
                .repository
                .default_max_batch_size(&choice.backend)
                .or(self.settings.defaults.max_batch_size)
                .unwrap_or(MAX_BATCH_SIZE),
            dynamic_batching: self.settings.defaults.dynamic_batching,
            queue_delay: self.settings.defaults.queue_delay.unwrap_or_default(),
            max_queue_size: self.settings.defaults.max_queue_size.map_or(0, NonZeroUsize::get),
            completion: self.completion(),
            sequence_idle: self.sequence_idle.unwrap_or(Defaults::default().sequence_idle),
            rows,
        };
        complete(raw, &found.name, choice, &self.descriptions, model.spec(), &defaults)
            .map_err(|it| it.to_string())
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
}

#[cfg(test)]
mod tests;
