//! A model version from its engine to one that serves: loaded, completed and checked, with instances that are warm.

use std::{num::NonZeroUsize, sync::Arc, time::SystemTime};

use backend::{
    BackendError, Device, HostHandle, Instance, Model, ModelSource, ModelSpec, RerunPolicy,
};
use bytes::Bytes;

use crate::{
    config::{
        complete::{Completed, Defaults, RowsKnown, complete},
        hints::hints,
        misspelt::misspelt_parameters,
        unapplied::unapplied,
    },
    load::{
        create_error::{CreateError, said_by_content},
        extra_inputs::ExtraInputs,
        files::{bytes_of, folds_of, is_of_tensorflow_serving, model_of_plan, read_labels},
        instances::{self, on_device},
        load_error::LoadError,
        load_limit,
        load_log::LoadLog,
        load_watch::PhaseLimit,
        loader::Loader,
        options::{first_response_ms, gpu_accelerators, op_libraries},
        own_config::{check_parts, is_decoupled},
        placement::Plan,
        precision::add_precision,
        queue_settings::asked_niceness,
        scheduler::{Faces, InstanceSet, dispatch},
        signatures::OtherSignatures,
        strict_rows::strict_rows,
        version_load::Load,
    },
    repository::{
        inspect,
        local::{FoundModel, ScriptPart, repository_of},
    },
    settings::repository::Repository,
};
use inference::signature::{Port, Signature};
use serving::{
    Hosts,
    config::{
        model::{AROUND, BEHIND, LAYOUT, PLACE, TF_SERVING},
        raw::{self, ModelParameter},
    },
    run_room::RunRoom,
    served::{Planned, ServedModel},
};
use telemetry::metrics::ModelOptions;

/// Why that model may bring no code and reach no files of this machine; `None` where it may.
fn code_refusal(settings: &Repository, found: &FoundModel) -> Option<String> {
    let reason = match settings {
        Repository { refuse_code: true, .. } => {
            "--secure-mode (SAGEMAKER_SECURE_MODE) refuses that"
        }
        Repository { trusts_load_requests: false, .. } if found.is_of_request => {
            "a request to load a model may not bring that unless the server was started with \
             --trust-load-requests=true"
        }
        Repository { .. } => return None,
    };
    Some(reason.to_owned())
}

/// `max_batch_size` of a model that can batch where no setting says, as in Triton.
const MAX_BATCH_SIZE: usize = 4;

impl Loader {
    /// Loads the model and makes its instances as planned.
    pub(super) fn make(
        &self,
        load: &Load<'_>,
        plan: &Plan,
        log: &mut LoadLog<'_>,
    ) -> Result<ServedModel, CreateError> {
        let Load { found, version, choice, .. } = *load;
        let source = self.source(load, plan, log)?;
        let rerun = RerunPolicy::of(&source)?;
        let limit = self.engine_limit(load, plan.uses_gpus());
        let loaded = load.watch.during(limit, &load.stop, || load.engine.load(&source));
        let loaded = loaded.map_err(BackendError::from)?;
        load_limit::check(limit, &load.stop)?;
        let said = |it| said_by_content(it, &source, choice, &self.descriptions);
        let model = loaded.map_err(|it| self.told_to_run(said(it), &source, choice))?;
        let model = self.without_constants(load, model)?;
        // Code of the model's own has its word before anybody else completes its configuration.
        let own = self.completed_by_itself(&*model)?;
        let own = own.as_ref().map(|it| load.with_config(it));
        let load = own.as_ref().unwrap_or(load);
        check_parts(load.raw, &*model)?;
        let raw = load.raw;
        self.tell_config(load, &*model, plan)?;
        let mut settled = self.settle_merging(load, plan, &*model)?;
        // Before anything else can fail: they may say why it does.
        let completed = &mut settled.completed;
        for (key, note) in model.notes() {
            let parameters = &mut completed.config.parameters;
            parameters.entry(key.clone().into_owned()).or_insert_with(|| note.clone());
        }
        if is_of_tensorflow_serving(load.path) {
            let parameters = &mut completed.config.parameters;
            parameters.insert(LAYOUT.to_owned(), TF_SERVING.to_owned());
        }
        if let Some(part) = &found.script {
            let (key, name) = match part {
                ScriptPart::Around(name) => (AROUND, name),
                ScriptPart::Behind(name) => (BEHIND, name),
            };
            completed.config.parameters.insert(key.to_owned(), name.clone());
        }
        completed.warnings.iter().for_each(|it| log.warn(it));
        let misspelt = misspelt_parameters(raw, &choice.backend, &self.descriptions);
        misspelt.iter().for_each(|it| log.warn(it));
        if raw.is_some_and(|it| !it.cc_model_filenames.is_empty()) && !plan.uses_gpus() {
            log.warn("cc_model_filenames is ignored, as no instance runs on a GPU");
        }
        let description = self.descriptions.description(&choice.backend);
        let accelerates = !source.accelerators.is_empty() && description.has_gpu_accelerators;
        if accelerates && !plan.uses_gpus() {
            log.warn(
                "optimization.execution_accelerators.gpu_execution_accelerator is ignored, as no instance \
                 runs on a GPU",
            );
        }
        let unapplied =
            unapplied(raw, &completed.raw, choice, &self.descriptions, &self.settings.defaults);
        if !unapplied.is_empty() {
            log.info(&format!("not applied to it: {}", unapplied.join(", ")));
        }
        let mut signature =
            self.signature(load, &*model, plan, &mut settled.completed, settled.has_parts)?;
        let opened = self.open_pipeline(load, &*model, &signature, plan, &mut settled, log)?;
        if opened.is_none() && settled.is_unproved {
            self.settle_unproved(load, &*model, &mut settled)?;
            signature =
                self.signature(load, &*model, plan, &mut settled.completed, settled.has_parts)?;
        }
        if let Some(warning) = &settled.warning {
            log.warn(warning);
        }
        let completed = settled.completed;
        let mut instance = settled.instance;
        let others = match opened {
            Some(_) => OtherSignatures::default(),
            None => {
                self.other_signatures(load, plan, &*model, &completed.config, &mut instance, log)?
            }
        };
        if others.named.is_some() {
            signature = Arc::new(Signature { named: others.named, ..(*signature).clone() });
        }
        let rows = opened.as_ref().map(|(pipeline, _)| pipeline.rows.clone());
        let extra = ExtraInputs::of(&completed.config, &found.dir)?;
        let run_limit = self.settings.repository.load_run_limit;
        let warm_up = instances::WarmUp {
            dir: &found.dir,
            extra: &extra,
            run_limit,
            limit,
            watch: load.watch,
            stop: &load.stop,
        };
        let (slots, times) =
            instances::make(&model, &completed.config, &signature, plan, warm_up, instance)?;
        model.is_warm();
        let answers_zeros = times.mean(1).is_some();
        let limiter = self.settings.rate_limiter.as_ref();
        let is_limited = completed.config.instance_groups.iter().any(|it| it.limits.is_some());
        if is_limited && limiter.is_none() {
            log.warn(
                "instance_group.rate_limiter is ignored, as rate limiting is off (--rate-limit)",
            );
        }
        let slots = instances::limit(slots, &completed.config, plan, limiter)?;
        let is_decoupled = is_decoupled(&completed.raw);
        let mut config = completed.config;
        if config.response_cache && model.streams() {
            log.warn("response_cache is ignored, as the model answers in parts");
            config.response_cache = false;
        }
        let options = ModelOptions {
            tags: config.metric_tags.clone(),
            gpu_uuid: self.only_gpu(plan),
            namespace: Some(found.id().namespace.to_string()).filter(|it| !it.is_empty()),
            first_response_ms: first_response_ms(&config),
        };
        let metrics = self.metrics.model(found.shown_name(), version, &options);
        if let Some(warm_up) = model.warm_up() {
            metrics.warm_up(warm_up);
        }
        let keeps_state = model.keeps_state();
        let (answers_calls, streams) = (model.answers_calls(), model.streams());
        // No client's thread is to run what waits until clients have read.
        let time_follows_values = model.time_follows_values() || streams;
        let processes = model.processes();
        let runs_elsewhere = plan.uses_gpus() || !processes.is_empty();
        metrics.has_processes(processes.clone());
        let (row_check, kept) = (settled.row_check, settled.kept);
        let runs = InstanceSet {
            extra,
            slots,
            times,
            rerun,
            keeps_state,
            answers_calls,
            time_follows_values,
            runs_elsewhere,
            row_check,
            rows,
            kept,
        };
        let faces = Faces { config: &config, signature: &signature, others: &others.configs };
        let dispatch = dispatch(runs, &faces, &self.settings, metrics.clone());
        let mut config_message = completed.raw;
        let mut config_json: Bytes = self.reader.to_json(&config_message).to_string().into();
        self.warn_caching(&config, log);
        if config.response_cache && self.settings.has_cache {
            metrics.has_cache();
        }
        let content_hash = self.content_hash(load, &config, &config_json);
        let (pipeline, signature) = match opened {
            Some((pipeline, face)) => (Some(Arc::new(pipeline)), Arc::new(face)),
            None => (None, signature),
        };
        // Not in the hash: where it runs has no part in what the model answers.
        let found_place = load.engine.found_place(&source);
        let is_decided = found_place.is_some() && !runs_elsewhere;
        if let Some(string_value) = found_place {
            config_message.parameters.insert(PLACE.to_owned(), ModelParameter { string_value });
            config_json = self.reader.to_json(&config_message).to_string().into();
        }
        let (used, bytes, files) = Default::default();
        Ok(ServedModel {
            signature,
            shown_name: found.shown_name().into(),
            config,
            others: others.configs,
            config_json,
            config_message,
            shape_hashes: Default::default(),
            run_room: RunRoom::new(model.run_memory()),
            pipeline,
            dispatch,
            answers_calls,
            streams,
            is_decoupled,
            model: Some(model),
            own_readiness: Default::default(),
            processes,
            metrics,
            content_hash,
            answers_zeros,
            decided: is_decided.then(|| Arc::new(source)),
            loaded: SystemTime::now(),
            planned: Planned { cpus: load.cpus, keeps_state },
            used,
            bytes,
            files,
        })
    }

    /// What the engine is to load.
    ///
    /// # Errors
    /// Where the model would run on GPUs that want different files, and where no file is in its place.
    pub(super) fn source(
        &self,
        load: &Load<'_>,
        plan: &Plan,
        log: &mut LoadLog<'_>,
    ) -> Result<ModelSource, LoadError> {
        let Load { found, raw, version, choice, .. } = *load;
        let usual = model_of_plan(load.path, choice, raw, plan, &self.settings.gpus.found)?;
        let path = self.graph_of(load, usual);
        if let Some(problem) = inspect::no_model(&path) {
            return Err(problem.into());
        }
        let mut options = self.options_here(load, plan, log);
        let pipelines = &self.settings.repository.pipelines;
        add_precision(&mut options, pipelines, self.folder_of_pipeline(load), &path);
        Ok(ModelSource {
            name: found.name.clone(),
            version,
            path,
            folds: match self.settings.repository.averages_folds {
                true => folds_of(load.path, choice, raw, &self.descriptions),
                false => Vec::new(),
            },
            directory: found.dir.clone(),
            repository: repository_of(found, &self.settings.repository.from),
            others: found.others.iter().filter(|it| **it != found.dir).cloned().collect(),
            options,
            default_threads: plan.threads,
            // Several hundred models are not to have two sessions each.
            wide_threads: plan.wide_threads.filter(|_| !self.settings.has_many_models),
            niceness: asked_niceness(raw),
            placements: plan.placements(),
            elsewhere: Vec::new(),
            standby: raw.is_some_and(|it| it.instance_group.iter().any(|it| it.passive)),
            accelerators: raw.map(gpu_accelerators).unwrap_or_default(),
            hints: raw.map(hints).unwrap_or_default(),
            op_libraries: raw.map(|it| op_libraries(it, &found.dir)).unwrap_or_default(),
            config: raw.map(|it| self.reader.to_json(it).to_string().into()),
            completes_config: self.settings.repository.auto_complete,
            code_refusal: code_refusal(&self.settings.repository, found),
            contents: found.contents.clone(),
            stop: load.stop.clone(),
            host: self.host_of(found),
        })
    }

    /// The server, as the model's own code sees it: members of its own go before others.
    fn host_of(&self, found: &FoundModel) -> HostHandle {
        let of = |it: &Hosts| it.of(found.id(), found.namespace.clone());
        self.hosts.as_ref().map(of).unwrap_or_default()
    }

    /// How long the engine may take to load the model, and to make an instance.
    fn engine_limit(&self, load: &Load<'_>, uses_gpus: bool) -> PhaseLimit {
        load_limit::of_engine(
            self.settings.repository.load_limit,
            uses_gpus,
            bytes_of(load.files()),
        )
    }

    /// An instance, made in time.
    ///
    /// # Errors
    /// Those of the engine; [`BackendError::Load`] where it takes too long.
    pub(super) fn instantiate(
        &self,
        load: &Load<'_>,
        model: &dyn Model,
        device: Device,
    ) -> Result<Box<dyn Instance>, BackendError> {
        let limit = self.engine_limit(load, device != Device::Cpu);
        let made = load.watch.during(limit, &load.stop, || model.instantiate(device))?;
        load_limit::check(limit, &load.stop)?;
        made.map_err(|it| on_device(device, it))
    }

    /// What clients see of the graph.
    fn signature(
        &self,
        load: &Load<'_>,
        model: &dyn Model,
        plan: &Plan,
        completed: &mut Completed,
        has_parts: bool,
    ) -> Result<Arc<Signature>, LoadError> {
        completed.show_instances(&plan.groups);
        let mut labels = model.spec().map(|it| it.labels.clone()).unwrap_or_default();
        labels.extend(read_labels(&completed.config, &load.found.dir)?);
        let mut signature = completed.config.signature(load.version, &labels);
        if let Some(spec) = model.spec() {
            name_columns(&mut signature.inputs, spec);
        }
        let strict = strict_rows(load.raw, self.settings.defaults.strict_max_batch_size);
        let whole = (!has_parts).then_some(completed.config.max_batch_size);
        signature.most_rows = signature.most_rows.or(strict).or(whole);
        Ok(Arc::new(signature))
    }

    pub(super) fn complete(
        &self,
        load: &Load<'_>,
        model: &dyn Model,
        rows: RowsKnown,
    ) -> Result<Completed, LoadError> {
        self.complete_with(load, load.raw, model.spec(), rows)
    }

    /// The same with that configuration, of a model of those inputs and outputs.
    pub(super) fn complete_with(
        &self,
        load: &Load<'_>,
        raw: Option<&raw::ModelConfig>,
        spec: Option<&ModelSpec>,
        rows: RowsKnown,
    ) -> Result<Completed, LoadError> {
        let Load { found, choice, .. } = *load;
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
        Ok(complete(raw, &found.name, choice, &self.descriptions, spec, &defaults)?)
    }
}

/// The names that the model's file has for the elements of a row, where a row has as many of them. And the texts that
/// some of them may be given as.
fn name_columns(inputs: &mut [Port], spec: &ModelSpec) {
    for port in inputs {
        let elements = port.elements();
        let names = spec.columns.get(&port.name).filter(|it| elements == Some(it.len()));
        if let Some(names) = names {
            port.labels = names.clone();
        }
        let codes = spec.text_codes.get(&port.name);
        if let Some(codes) =
            codes.filter(|it| it.keys().all(|at| elements.is_some_and(|all| *at < all)))
        {
            port.text_codes = codes.clone();
        }
    }
}
