//! The three traits of an engine over one step.

use std::sync::Arc;

use backend::{
    Backend, BackendError, Batch, Device, EngineDescription, Instance, Model, ModelSource,
    ModelSpec, NamedTensor, PortNames,
};

use super::{bounds::FileBounds, call::Call, kind::Opened, open::open};

/// The engine. It opens no model file: a step is its parameters and the files that they name.
#[derive(Debug, Clone, Default)]
pub struct Steps(FileBounds);

impl Steps {
    /// The engine, whose steps decode files within these bounds.
    pub fn within(bounds: FileBounds) -> Steps {
        Steps(bounds)
    }
}

const DESCRIPTION: EngineDescription = EngineDescription {
    settings_of_repository: &["file", "labels", "dense"],
    is_version_optional: true,
    // How long the rows of a request are padded would depend on the requests of others.
    merges_by_default: false,
    shows_optional_inputs: true,
    ..EngineDescription::PLAIN
};

impl Backend for Steps {
    fn name(&self) -> &'static str {
        "steps"
    }

    fn description(&self) -> &'static EngineDescription {
        &DESCRIPTION
    }

    /// Blocking: some 100 ms for a tokenizer with a large vocabulary.
    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        Ok(Arc::new(StepModel(Arc::new(open(source, &self.0)?))))
    }

    fn check(&self, source: &ModelSource) -> Result<PortNames, BackendError> {
        open(source, &self.0).map(|_| PortNames::default())
    }
}

/// A step that is ready. Immutable, shared by its instances.
struct StepModel(Arc<Opened>);

impl Model for StepModel {
    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.0.spec)
    }

    fn instantiate(&self, _: Device) -> Result<Box<dyn Instance>, BackendError> {
        Ok(Box::new(StepInstance(self.0.clone())))
    }
}

struct StepInstance(Arc<Opened>);

impl Instance for StepInstance {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        self.0.run.run(&Call { batch, spec: &self.0.spec })
    }
}
