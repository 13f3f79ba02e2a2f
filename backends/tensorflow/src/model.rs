//! A loaded SavedModel, and what runs it.

use std::{path::Path, sync::Arc};

use backend::{
    BackendError, Batch, Device, Instance, Model, ModelSource, ModelSpec, NamedTensor, Tensor,
};

use crate::{
    config::Settings,
    error,
    library::Opened,
    native::{Endpoint, Session},
    saved_model::{Signature, graph_of, read, signature_of},
};

/// One version of a model: a session that all of its instances run.
#[derive(Clone)]
pub(crate) struct TensorFlowModel {
    shared: Arc<Shared>,
}

struct Shared {
    signature: Signature,
    feeds: Vec<Endpoint>,
    fetches: Vec<Endpoint>,
    session: Session,
    /// Does a run change what later runs see?
    changes_state: bool,
}

impl TensorFlowModel {
    /// What the file says is looked at first: what is wrong with it is said without TensorFlow.
    pub(crate) fn load(
        source: &ModelSource,
        folder: &Path,
        open: impl FnOnce() -> Result<Arc<Opened>, BackendError>,
    ) -> Result<TensorFlowModel, BackendError> {
        let refused =
            |problem: String| BackendError::Load(format!("{}: {problem}", folder.display()));
        if source.placements.iter().any(|it| it.device != Device::Cpu) {
            return Err(BackendError::Device(
                "SavedModels run on the processors here; write KIND_CPU or KIND_AUTO".to_owned(),
            ));
        }
        let settings = Settings::of(source).map_err(refused)?;
        let file = read(folder)?;
        let (graph, tags) = graph_of(&file, settings.tag.as_deref()).map_err(refused)?;
        let signature = signature_of(graph, settings.signature.as_deref()).map_err(refused)?;
        drop(file);
        let library = open()?;
        let changes_state = !library.writers.is_disjoint(&signature.operations);
        let session = Session::load(&library.table, folder, &tags, &settings.config());
        let session = session.map_err(|it| error::of_load(folder, &it))?;
        let endpoint = |name: &String| {
            let found = session.endpoint(name);
            found.ok_or_else(|| refused(format!("the graph has no tensor '{name}'")))
        };
        let feeds = signature.feeds.iter().map(endpoint).collect::<Result<_, _>>()?;
        let fetches = signature.fetches.iter().map(endpoint).collect::<Result<_, _>>()?;
        let shared = Shared { signature, feeds, fetches, session, changes_state };
        Ok(TensorFlowModel { shared: Arc::new(shared) })
    }
}

impl Model for TensorFlowModel {
    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.shared.signature.spec)
    }

    fn keeps_state(&self) -> bool {
        self.shared.changes_state
    }

    fn instantiate(&self, _: Device) -> Result<Box<dyn Instance>, BackendError> {
        Ok(Box::new(self.clone()))
    }
}

impl Instance for TensorFlowModel {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let Shared { signature, feeds, fetches, session, .. } = &*self.shared;
        if batch.stop.is_stopped() {
            return Err(BackendError::Execute("the run was stopped".to_owned()));
        }
        let input = |(it, &endpoint): (&backend::TensorSpec, &Endpoint)| {
            let given = batch.inputs.iter().find(|given| given.name == it.name);
            let tensor: &Tensor = &given
                .ok_or_else(|| {
                    BackendError::InvalidInput(format!("input '{}' is missing", it.name))
                })?
                .tensor;
            match tensor.dtype() == it.dtype {
                true => Ok((endpoint, tensor)),
                false => Err(BackendError::InvalidInput(format!(
                    "input '{}' is {}, expected {}",
                    it.name,
                    tensor.dtype(),
                    it.dtype
                ))),
            }
        };
        let inputs = signature.spec.inputs.iter().zip(feeds).map(input);
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let output = |name: &Arc<str>| {
            let index = signature.spec.outputs.iter().position(|it| it.name == *name);
            index.map(|it| fetches[it]).ok_or_else(|| {
                BackendError::InvalidInput(format!("the model has no output '{name}'"))
            })
        };
        let outputs = batch.outputs.iter().map(output).collect::<Result<Vec<_>, _>>()?;
        let tensors = session.run(&inputs, &outputs);
        let tensors = tensors.map_err(|it| error::of_run(&it))?;
        let named =
            |(name, tensor): (&Arc<str>, Tensor)| NamedTensor { name: name.clone(), tensor };
        Ok(batch.outputs.iter().zip(tensors).map(named).collect())
    }
}
