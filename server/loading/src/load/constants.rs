//! A model that gives its engine the constants of its graph itself, so that nothing else knows these inputs.

use std::{sync::Arc, time::Instant};

use backend::{
    BackendError, Batch, Device, Instance, Model, ModelSpec, NamedTensor, Processes, RunMemory,
    RunTerms, Signatures, Turn, WarmUp,
};

use crate::load::{load_error::LoadError, loader::Loader, version_load::Load};
use serving::pipeline::open::overrides;
use steps::{Folder, constants, has_constants};

impl Loader {
    /// The model without the inputs that are the same in every run, where its folder answers texts.
    ///
    /// # Errors
    /// What is missing or wrong in the folder.
    pub(super) fn without_constants(
        &self,
        load: &Load<'_>,
        model: Arc<dyn Model>,
    ) -> Result<Arc<dyn Model>, LoadError> {
        let Some((dir, spec)) = self.dir_of_pipeline(load).zip(model.spec()) else {
            return Ok(model);
        };
        // Most graphs have none, and their folders need not be read twice.
        if !has_constants(spec) {
            return Ok(model);
        }
        let overrides = overrides(&self.settings.repository.pipelines);
        let folder = Folder::read(&dir, &overrides).map_err(|it| it.to_string())?;
        let constants = constants(&folder, spec).map_err(|it| it.to_string())?;
        if constants.is_empty() {
            return Ok(model);
        }
        let names: Vec<&str> = constants.iter().map(|it| &*it.name).collect();
        let (name, version) = (load.found.shown_name(), load.version);
        tracing::debug!(model = name, version, "the same in every run: {}", names.join(", "));
        Ok(Arc::new(WithConstants::new(model, constants)))
    }
}

struct WithConstants {
    model: Arc<dyn Model>,
    spec: Option<ModelSpec>,
    constants: Arc<[NamedTensor]>,
}

impl WithConstants {
    fn new(model: Arc<dyn Model>, constants: Vec<NamedTensor>) -> WithConstants {
        let mut spec = model.spec().cloned();
        if let Some(spec) = &mut spec {
            spec.inputs.retain(|input| !constants.iter().any(|it| it.name == input.name));
        }
        WithConstants { model, spec, constants: constants.into() }
    }
}

impl Model for WithConstants {
    fn spec(&self) -> Option<&ModelSpec> {
        self.spec.as_ref()
    }

    fn signatures(&self) -> Option<&Signatures> {
        self.model.signatures()
    }

    fn run_memory(&self) -> RunMemory {
        self.model.run_memory()
    }

    fn keeps_state(&self) -> bool {
        self.model.keeps_state()
    }

    fn time_follows_values(&self) -> bool {
        self.model.time_follows_values()
    }

    fn allows_trial_runs(&self) -> bool {
        self.model.allows_trial_runs()
    }

    fn warm_up(&self) -> Option<WarmUp> {
        self.model.warm_up()
    }

    fn processes(&self) -> Processes {
        self.model.processes()
    }

    fn is_warm(&self) {
        self.model.is_warm();
    }

    fn trim_memory(&self) {
        self.model.trim_memory();
    }

    fn rest(&self, now: Instant) {
        self.model.rest(now);
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError> {
        let instance = self.model.instantiate(device)?;
        Ok(Box::new(InstanceWithConstants { instance, constants: self.constants.clone() }))
    }
}

struct InstanceWithConstants {
    instance: Box<dyn Instance>,
    constants: Arc<[NamedTensor]>,
}

impl Instance for InstanceWithConstants {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        if batch.signature != 0 {
            // They are inputs of the default one.
            return self.instance.execute(batch);
        }
        let inputs: Vec<NamedTensor> =
            batch.inputs.iter().chain(&*self.constants).cloned().collect();
        let Batch { outputs, rows, stop, signature, .. } = *batch;
        self.instance.execute(&Batch { inputs: &inputs, outputs, rows, signature, stop })
    }

    fn has_lost_state(&self) -> bool {
        self.instance.has_lost_state()
    }

    fn is_fresh(&self) -> bool {
        self.instance.is_fresh()
    }

    fn has_lost_process(&self) -> bool {
        self.instance.has_lost_process()
    }

    fn has_missed_run(&self) -> bool {
        self.instance.has_missed_run()
    }

    fn has_run_wide(&self) -> bool {
        self.instance.has_run_wide()
    }

    fn last_turn(&self) -> Option<Turn> {
        self.instance.last_turn()
    }

    fn expect_runs(&mut self, terms: RunTerms) {
        self.instance.expect_runs(terms);
    }
}
