//! What the tests share: the plugin that cargo has just built, models by name, batches in one line.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{
    Backend, BackendError, Batch, DataType, Device, Instance, Model, ModelSource, NamedTensor,
    Shape, Stop, Tensor, TensorHint,
};
use pytorch::{Options, PyTorch};

/// The plugin, which cargo puts beside the test's program.
pub(crate) fn plugin() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let plugin = program.with_file_name("libmuster_pytorch.so");
    assert!(plugin.is_file(), "{} is not there", plugin.display());
    plugin
}

pub(crate) fn engine() -> PyTorch {
    PyTorch::new(Options { plugin: Some(plugin()) })
}

/// A file among the test models.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(name)
}

/// The test model `<name>.pt`, of which nothing is configured.
pub(crate) fn source(name: &str) -> ModelSource {
    ModelSource::new(name, path(&format!("{name}.pt")))
}

/// The configuration of an input or output; -1 is an open dimension.
pub(crate) fn hint(name: &str, dtype: DataType, dims: &[i64]) -> TensorHint {
    let dims = dims.iter().map(|&it| usize::try_from(it).ok()).collect();
    TensorHint { name: name.into(), dtype: Some(dtype), dims: Some(dims) }
}

/// The test model with inputs and outputs configured.
pub(crate) fn configured(
    name: &str,
    inputs: &[(&str, DataType, &[i64])],
    outputs: &[(&str, DataType, &[i64])],
) -> ModelSource {
    let mut source = source(name);
    source.hints.inputs = inputs.iter().map(|it| hint(it.0, it.1, it.2)).collect();
    source.hints.outputs = outputs.iter().map(|it| hint(it.0, it.1, it.2)).collect();
    source
}

/// The same with these parameters.
pub(crate) fn with(mut source: ModelSource, options: &[(&str, &str)]) -> ModelSource {
    let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    source.options = options.collect();
    source
}

#[track_caller]
pub(crate) fn load(source: &ModelSource) -> Arc<dyn Model> {
    engine().load(source).unwrap_or_else(|error| panic!("{}: {error}", source.name))
}

/// The text of the error that loading it gives.
#[track_caller]
pub(crate) fn load_error(source: &ModelSource) -> String {
    match engine().load(source) {
        Ok(_) => panic!("it loaded"),
        Err(BackendError::Load(text)) => text,
        Err(error) => panic!("not a load error: {error:?}"),
    }
}

#[track_caller]
pub(crate) fn instance(source: &ModelSource) -> Box<dyn Instance> {
    load(source).instantiate(Device::Cpu).unwrap()
}

/// Runs one batch and returns the tensors of `outputs` in that order.
pub(crate) fn run(
    instance: &mut dyn Instance,
    inputs: &[(&str, Tensor)],
    outputs: &[&str],
) -> Result<Vec<Tensor>, BackendError> {
    let inputs: Vec<NamedTensor> = inputs
        .iter()
        .map(|(name, tensor)| NamedTensor { name: (*name).into(), tensor: tensor.clone() })
        .collect();
    let names: Vec<Arc<str>> = outputs.iter().map(|&it| it.into()).collect();
    let stop = Stop::new();
    let given = instance.execute(&Batch {
        signature: 0,
        inputs: &inputs,
        outputs: &names,
        rows: 1,
        stop: &stop,
    })?;
    assert_eq!(given.len(), outputs.len());
    let take = |name: &Arc<str>| {
        given.iter().find(|it| it.name == *name).expect("the wanted output").tensor.clone()
    };
    Ok(names.iter().map(take).collect())
}

/// A tensor of floats.
pub(crate) fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_vec(Shape::new(shape), values.to_vec()).unwrap()
}

/// The elements of a tensor of floats.
pub(crate) fn values(tensor: &Tensor) -> Vec<f32> {
    assert_eq!(tensor.dtype(), DataType::Fp32);
    tensor.to_bytes().chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
}

/// Shapes as a configuration would have them.
pub(crate) fn dims(model: &dyn Model) -> Vec<(String, DataType, Vec<i64>)> {
    let spec = model.spec().unwrap();
    let size = |it: &Option<usize>| it.map_or(-1, |it| i64::try_from(it).unwrap());
    let all = spec.inputs.iter().chain(&spec.outputs);
    all.map(|it| (it.name.to_string(), it.dtype, it.dims.iter().map(size).collect())).collect()
}
