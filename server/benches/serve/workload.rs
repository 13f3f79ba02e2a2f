//! What is measured: models, the one row that every request brings, and the answer that it must get.

use std::{
    fmt, fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{Backend, DataType, Model, ModelSource, NamedTensor, Shape, Tensor};
use base64::{Engine, prelude::BASE64_STANDARD};
use identity::Identity;
use loadgen::{Input, Request, kserve_binary, kserve_json};
use onnxruntime::OnnxRuntime;
use serde_json::Value;

use crate::{Outcome, reply::Expected};

/// The repository's root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// For the identity engine, which learns its inputs and outputs from here alone; what it does not say is as
/// the server completes it for an ONNX model.
const IDENTITY_CONFIG: &str = r#"backend: "identity"
max_batch_size: 4
dynamic_batching { }
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] }
"#;

/// How requests and replies are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// KServe v2 with raw tensors behind the JSON.
    Binary,
    /// KServe v2 with all data in the JSON.
    Json,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Binary => "binary",
            Format::Json => "json",
        })
    }
}

/// One line of the tables.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Name of the workload.
    pub model: &'static str,
    pub format: Format,
    pub connections: usize,
}

impl Case {
    /// As filters see it: `mlp/json/16`.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.model, self.format, self.connections)
    }
}

/// A model and its request.
pub struct Workload {
    /// Of the model in the repository.
    pub name: &'static str,
    /// The file of an ONNX model; the others are made of their configuration alone.
    file: Option<PathBuf>,
    formats: &'static [Format],
    connections: &'static [usize],
    /// One row.
    pub input: NamedTensor,
    pub expected: Arc<Expected>,
}

/// All of them, in the order of the tables.
pub fn all() -> Outcome<Vec<Workload>> {
    let onnx = Path::new(ROOT).join("backends/onnxruntime/tests/models/identity/FP32.onnx");
    Ok(vec![
        identity("identity-builtin", ["INPUT0", "OUTPUT0"], None)?,
        identity("identity-onnx", ["x", "y"], Some(onnx))?,
        fixture("mlp", &[Format::Binary, Format::Json], &[1, 16, 64])?,
        fixture("convnet", &[Format::Binary], &[16])?,
        fixture("transformer", &[Format::Binary], &[16])?,
    ])
}

/// Sixteen floats with all their digits, which come back as they are.
fn identity(
    name: &'static str,
    [input, output]: [&str; 2],
    file: Option<PathBuf>,
) -> Outcome<Workload> {
    let values: Vec<f32> = (1u8..=16).map(|it| f32::from(it).sqrt()).collect();
    let tensor = Tensor::from_vec(Shape::new(&[1, values.len()]), values.clone())?;
    Ok(Workload {
        name,
        file,
        formats: &[Format::Binary, Format::Json],
        connections: &[1, 16, 64],
        input: NamedTensor { name: input.into(), tensor },
        expected: Arc::new(Expected { output: output.into(), values, tolerance: 0.0 }),
    })
}

/// A model of the fixtures with the first case of its expectations, which is of one row.
fn fixture(
    name: &'static str,
    formats: &'static [Format],
    connections: &'static [usize],
) -> Outcome<Workload> {
    let fixtures = Path::new(ROOT).join("tests/fixtures");
    let text = fs::read(fixtures.join(format!("expected/{name}.json")))?;
    let expectation: Value = serde_json::from_slice(&text)?;
    let case = &expectation["cases"][0];
    let input = named_tensor(&case["inputs"])?;
    let output = named_tensor(&case["outputs"])?;
    let values = output.tensor.as_slice_of::<f32>().ok_or("expected an output of FP32")?;
    let expected = Expected {
        output: output.name,
        values: values.to_vec(),
        tolerance: case["rtol"].as_f64().unwrap_or(0.0),
    };
    Ok(Workload {
        name,
        file: Some(fixtures.join(format!("models/{name}/1/model.onnx"))),
        formats,
        connections,
        input,
        expected: Arc::new(expected),
    })
}

/// The only tensor of `{"<name>": {"datatype", "shape", "raw"}}`.
fn named_tensor(tensors: &Value) -> Outcome<NamedTensor> {
    let (name, tensor) =
        tensors.as_object().and_then(|it| it.iter().next()).ok_or("expected a tensor")?;
    let text = |field: &str| tensor[field].as_str().ok_or(format!("expected a text '{field}'"));
    let datatype = DataType::from_name(text("datatype")?).ok_or("expected a known 'datatype'")?;
    let dims: Vec<usize> = serde_json::from_value(tensor["shape"].clone())?;
    // Through a vector of words, so that every type finds its elements aligned.
    let raw = BASE64_STANDARD.decode(text("raw")?)?;
    let mut words = vec![0u64; raw.len().div_ceil(8)];
    bytemuck::cast_slice_mut(&mut words)[..raw.len()].copy_from_slice(&raw);
    let aligned = Tensor::from_vec(Shape::new(&[words.len()]), words)?.to_bytes();
    let tensor = Tensor::new(datatype, Shape::new(&dims), aligned.slice(..raw.len()))?;
    Ok(NamedTensor { name: name.as_str().into(), tensor })
}

impl Workload {
    /// The lines that it makes.
    pub fn cases(&self) -> impl Iterator<Item = Case> {
        let case = move |format| {
            let of = move |&connections| Case { model: self.name, format, connections };
            self.connections.iter().map(of)
        };
        self.formats.iter().copied().flat_map(case)
    }

    /// Puts the model into a repository.
    pub fn install(&self, repository: &Path) -> Outcome<()> {
        let version = repository.join(self.name).join("1");
        fs::create_dir_all(&version)?;
        match &self.file {
            Some(file) => {
                fs::copy(file, version.join("model.onnx"))?;
            }
            None => fs::write(repository.join(self.name).join("config.pbtxt"), IDENTITY_CONFIG)?,
        }
        Ok(())
    }

    /// Loads it without a server, for instances of so many threads.
    pub fn load(&self, onnx: &OnnxRuntime, threads: NonZeroUsize) -> Outcome<Arc<dyn Model>> {
        let (engine, path): (&dyn Backend, _) = match &self.file {
            Some(file) => (onnx, file.clone()),
            None => (&Identity, PathBuf::new()),
        };
        Ok(engine.load(&ModelSource {
            name: self.name.to_owned(),
            path,
            options: Default::default(),
            default_threads: threads,
            instances: NonZeroUsize::MIN,
        })?)
    }

    /// The request.
    pub fn request(&self, format: Format) -> Outcome<Request> {
        let NamedTensor { name, tensor } = &self.input;
        let (dims, data) = (tensor.shape().dims(), tensor.to_bytes().to_vec());
        let input = Input::raw(name, tensor.dtype().name().parse()?, dims, data)?;
        Ok(match format {
            Format::Binary => kserve_binary(self.name, &[input])?,
            Format::Json => kserve_json(self.name, &[input])?,
        })
    }
}
