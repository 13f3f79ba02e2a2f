//! What the tests share: one engine per process, models by name, batches in one line.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Once},
};

use backend::{
    Backend, BackendError, Batch, DataType, Device, Instance, Model, ModelSource, NamedTensor,
    Shape, Stop, Tensor,
};
use backend_onnxruntime::{OnnxRuntime, Options};
use bytes::Bytes;

/// An engine with the library that the build made ready, and without telemetry.
pub(crate) fn engine() -> OnnxRuntime {
    engine_with(None)
}

/// An engine with that library.
pub(crate) fn engine_with(library: Option<PathBuf>) -> OnnxRuntime {
    static ENVIRONMENT: Once = Once::new();
    // SAFETY: the standard library locks the environment, and the only other reader, ONNX Runtime, is
    // not loaded before the first engine is made.
    ENVIRONMENT.call_once(|| unsafe { std::env::set_var("ORT_DISABLE_TELEMETRY", "1") });
    OnnxRuntime::new(Options { library, ..Options::default() })
}

/// An engine that keeps optimised models in that folder.
pub(crate) fn engine_with_cache(folder: &Path) -> OnnxRuntime {
    let _ = engine();
    OnnxRuntime::new(Options { model_cache_dir: Some(folder.to_owned()), ..Options::default() })
}

/// An engine of a process that may take so many bytes of memory.
pub(crate) fn engine_within(memory: u64) -> OnnxRuntime {
    let _ = engine();
    OnnxRuntime::new(Options { memory: Some(memory), ..Options::default() })
}

/// An engine whose models keep so many bytes of earlier runs for later ones.
pub(crate) fn engine_keeping(kept: u64) -> OnnxRuntime {
    let _ = engine();
    OnnxRuntime::new(Options { kept: Some(kept), ..Options::default() })
}

/// A folder of a test's own, gone when dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file among the test models.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(name)
}

/// A source with these options, and one thread where they do not say.
pub(crate) fn source(path: PathBuf, options: &[(&str, &str)]) -> ModelSource {
    let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    let options: BTreeMap<_, _> = options.collect();
    ModelSource { options, ..ModelSource::new("test", path) }
}

/// Loads the test model `<name>.onnx`.
pub(crate) fn load(name: &str) -> Arc<dyn Model> {
    load_with(name, &[])
}

/// Loads it with these options.
pub(crate) fn load_with(name: &str, options: &[(&str, &str)]) -> Arc<dyn Model> {
    engine().load(&source(path(&format!("{name}.onnx")), options)).unwrap()
}

/// The text of the error that loading that file gives.
#[track_caller]
pub(crate) fn load_error(path: PathBuf, options: &[(&str, &str)]) -> String {
    match engine().load(&source(path, options)) {
        Ok(_) => panic!("it loaded"),
        Err(BackendError::Load(text)) => text,
        Err(error) => panic!("not a load error: {error:?}"),
    }
}

/// An instance of the test model `<name>.onnx`.
pub(crate) fn instance(name: &str) -> Box<dyn Instance> {
    load(name).instantiate(Device::Cpu).unwrap()
}

/// Runs one batch and returns the tensors of `outputs` in that order.
pub(crate) fn run(
    instance: &mut dyn Instance,
    inputs: &[(&str, Tensor)],
    outputs: &[&str],
) -> Result<Vec<Tensor>, BackendError> {
    run_until(instance, inputs, outputs, &Stop::new())
}

/// The same, to be ended by `stop`.
pub(crate) fn run_until(
    instance: &mut dyn Instance,
    inputs: &[(&str, Tensor)],
    outputs: &[&str],
    stop: &Stop,
) -> Result<Vec<Tensor>, BackendError> {
    let inputs: Vec<NamedTensor> = inputs
        .iter()
        .map(|(name, tensor)| NamedTensor { name: (*name).into(), tensor: tensor.clone() })
        .collect();
    let names: Vec<Arc<str>> = outputs.iter().map(|&it| it.into()).collect();
    let rows = inputs.first().and_then(|it| it.tensor.shape().rows()).unwrap_or(1);
    let mut given =
        instance.execute(&Batch { signature: 0, inputs: &inputs, outputs: &names, rows, stop })?;
    assert_eq!(given.len(), outputs.len());
    let mut take = |name: &Arc<str>| {
        let index = given.iter().position(|it| it.name == *name).expect("the wanted output");
        given.swap_remove(index).tensor
    };
    Ok(names.iter().map(&mut take).collect())
}

/// A tensor of floats.
pub(crate) fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_vec(Shape::new(shape), values.to_vec()).unwrap()
}

/// The elements of a tensor of floats, wherever they lie.
pub(crate) fn values(tensor: &Tensor) -> Vec<f32> {
    assert_eq!(tensor.dtype(), DataType::Fp32);
    let bytes = tensor.to_bytes();
    bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
}

/// The same tensor at an odd address, which no type of more than a byte is aligned at.
pub(crate) fn unaligned(tensor: &Tensor) -> Tensor {
    let memory = [&[0], &*tensor.to_bytes()].concat();
    // Allocators align to 8 bytes at least.
    let data = Bytes::from(memory).slice(1..);
    Tensor::new(tensor.dtype(), tensor.shape().clone(), data).unwrap()
}

/// Processor time that this process has used, in clock ticks (of 10 ms on Linux).
pub(crate) fn processor_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The second field, the program's name in brackets, may hold blanks.
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
