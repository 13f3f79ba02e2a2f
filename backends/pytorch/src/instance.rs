//! Running batches: inputs and outputs by name.

use std::sync::Arc;

use backend::{BackendError, Batch, Instance, NamedTensor, Tensor, TensorSpec};
use smallvec::SmallVec;

use crate::{
    error,
    native::Produced,
    outputs::{Output, Source},
    runner::{Few, RunError, Runner, take},
};

/// What the instances of a model have in common.
#[derive(Debug)]
pub(crate) struct Ports {
    /// In the order of the runner's inputs.
    pub(crate) inputs: Vec<TensorSpec>,
    pub(crate) outputs: Vec<Output>,
}

/// A runner, and the names of what goes in and out.
pub(crate) struct TorchInstance {
    runner: Runner,
    ports: Arc<Ports>,
    /// Are there inputs of any size in some dimension besides the first?
    sizes_vary: bool,
}

impl TorchInstance {
    pub(crate) fn new(runner: Runner, ports: Arc<Ports>) -> TorchInstance {
        let sizes_vary = ports.inputs.iter().any(|it| it.dims.iter().skip(1).any(Option::is_none));
        TorchInstance { runner, ports, sizes_vary }
    }
}

impl Instance for TorchInstance {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        // A run of libtorch cannot be ended once it has begun.
        if batch.stop.is_stopped() {
            let text = "the run was stopped: nobody waits for its result";
            return Err(BackendError::Execute(text.to_owned()));
        }
        let tensors = order(&self.ports.inputs, batch.inputs)?;
        let produced = self.runner.run(&tensors).map_err(|it| match it {
            RunError::Unusable(index, problem) => refused(&self.ports.inputs[index], problem),
            RunError::Failed(failure) => error::of_run(&failure, self.sizes_vary),
        })?;
        let mut produced: Few<Option<Produced>> = produced.into_iter().map(Some).collect();
        let named = batch.outputs.iter().map(|name| {
            let output = self.ports.outputs.iter().find(|it| it.name == *name);
            let output = output.ok_or_else(|| {
                BackendError::InvalidInput(format!("the model has no output '{name}'"))
            })?;
            let value = find(&output.source, &mut produced).ok_or_else(|| {
                let given = given(&produced);
                BackendError::Execute(format!(
                    "output '{name}' is missing: forward returned {given}"
                ))
            })?;
            Ok(NamedTensor { name: output.name.clone(), tensor: take(value, name)? })
        });
        named.collect()
    }
}

/// The batch's inputs in the order of `specs`; `None` for an optional one that is not given.
fn order<'a>(
    specs: &[TensorSpec],
    given: &'a [NamedTensor],
) -> Result<Few<Option<&'a Tensor>>, BackendError> {
    let mut tensors: Few<Option<&Tensor>> = SmallVec::new();
    let mut found = 0;
    for (index, spec) in specs.iter().enumerate() {
        // Lists that are in the same order, as they mostly are, are matched at the first look.
        let named = given.get(index).filter(|it| it.name == spec.name);
        match named.or_else(|| given.iter().find(|it| it.name == spec.name)) {
            Some(it) if it.tensor.dtype() == spec.dtype => tensors.push(Some(&it.tensor)),
            Some(it) => {
                let problem = format!("is {}, expected {}", it.tensor.dtype(), spec.dtype);
                return Err(refused(spec, problem));
            }
            None if spec.optional => {
                tensors.push(None);
                continue;
            }
            None => return Err(refused(spec, "is missing")),
        }
        found += 1;
    }
    match given.len() == found {
        true => Ok(tensors),
        false => {
            let stranger = given.iter().find(|it| !specs.iter().any(|spec| spec.name == it.name));
            Err(BackendError::InvalidInput(match stranger {
                Some(it) => format!("the model has no input '{}'", it.name),
                None => "an input is given twice".to_owned(),
            }))
        }
    }
}

fn refused(spec: &TensorSpec, problem: impl std::fmt::Display) -> BackendError {
    BackendError::InvalidInput(format!("input '{}' {problem}", spec.name))
}

fn find(source: &Source, produced: &mut [Option<Produced>]) -> Option<Produced> {
    match source {
        Source::Value(place) => produced.get_mut(*place)?.take(),
        Source::Entry(key) => {
            let is_it = |it: &Produced| it.key.as_ref() == Some(key);
            produced.iter_mut().find(|it| it.as_ref().is_some_and(is_it))?.take()
        }
    }
}

/// What a run gave, for an error text.
fn given(produced: &[Option<Produced>]) -> String {
    let keys = produced.iter().flatten().filter_map(|it| it.key.as_ref());
    let keys: Vec<String> = keys.map(|it| format!("'{it}'")).collect();
    match (keys.is_empty(), produced.len()) {
        (false, _) => format!("the keys {}", keys.join(", ")),
        (true, 1) => "1 value".to_owned(),
        (true, count) => format!("{count} values"),
    }
}
