//! Models that are measured, the one row that every request brings, and the answer that it must get.

use std::{
    fmt, fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{Backend, DataType, Model, ModelSource, NamedTensor, Shape, Tensor};
use base64::{Engine, prelude::BASE64_STANDARD};
use identity::Identity;
use loadgen::{
    Check, Input, Plan as LoadPlan, Report, Request, Target, grpc_raw_outputs, kserve_binary,
    kserve_grpc, kserve_json,
};
use onnxruntime::OnnxRuntime;
use pytorch::PyTorch;
use serde_json::Value;

use super::{Outcome, reply::Expected, server::Server};

/// The repository's root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// How requests and replies are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// KServe v2 with raw tensors behind the JSON.
    Binary,
    /// KServe v2 with all data in the JSON.
    Json,
    /// KServe v2 over gRPC, with raw tensors.
    Grpc,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Binary => "binary",
            Format::Json => "json",
            Format::Grpc => "grpc",
        })
    }
}

/// What runs a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EngineKind {
    Identity,
    OnnxRuntime,
    PyTorch,
}

/// A model and its request.
pub struct Workload {
    /// Of the model in the repository.
    pub name: &'static str,
    engine: EngineKind,
    /// The model's file; none for a model that is made of its configuration alone.
    file: Option<PathBuf>,
    /// The text of `config.pbtxt`; none for the server's own choice.
    config: Option<String>,
    /// One row.
    pub input: NamedTensor,
    pub expected: Arc<Expected>,
}

/// So many floats with all their digits, which the engine of that name gives back as they are.
pub fn identity_builtin(floats: usize) -> Outcome<Workload> {
    let config = identity_config(floats);
    identity("identity-builtin", ["INPUT0", "OUTPUT0"], floats, None, Some(config))
}

/// So many floats with all their digits, which an ONNX graph of one Identity gives back as they are.
pub fn identity_onnx(floats: usize) -> Outcome<Workload> {
    let file = Path::new(ROOT).join("backends/onnxruntime/tests/models/identity/FP32.onnx");
    identity("identity-onnx", ["x", "y"], floats, Some(file), None)
}

/// An image of 3 × 224 × 224 as a camera's bytes become floats, of five decimals, of which a model that does
/// little else gives the mean of each channel: what it costs is to read the request.
pub fn image() -> Outcome<Workload> {
    const CHANNEL: usize = 224 * 224;
    let pixel = |at: usize| ((at * 7919 % 256) as f32 / 255.0 * 1e5).round() / 1e5;
    let pixels: Vec<f32> = (0..3 * CHANNEL).map(pixel).collect();
    let sum = |channel: &[f32]| channel.iter().map(|&it| f64::from(it)).sum::<f64>();
    let values = pixels.chunks(CHANNEL).map(|it| (sum(it) / CHANNEL as f64) as f32).collect();
    let tensor = Tensor::from_vec(Shape::new(&[1, 3, 224, 224]), pixels)?;
    Ok(Workload {
        name: "image",
        engine: EngineKind::OnnxRuntime,
        file: Some(Path::new(ROOT).join("backends/onnxruntime/tests/models/means.onnx")),
        config: None,
        input: NamedTensor { name: "x".into(), tensor },
        expected: Arc::new(Expected { output: "y".into(), values, tolerance: 1e-4 }),
    })
}

fn identity(
    name: &'static str,
    [input, output]: [&str; 2],
    floats: usize,
    file: Option<PathBuf>,
    config: Option<String>,
) -> Outcome<Workload> {
    let values: Vec<f32> = (1..=floats).map(|it| (it as f32).sqrt()).collect();
    let tensor = Tensor::from_vec(Shape::new(&[1, values.len()]), values.clone())?;
    Ok(Workload {
        name,
        engine: if file.is_some() { EngineKind::OnnxRuntime } else { EngineKind::Identity },
        file,
        config,
        input: NamedTensor { name: input.into(), tensor },
        expected: Arc::new(Expected { output: output.into(), values, tolerance: 0.0 }),
    })
}

/// The identity engine learns its inputs and outputs from here alone; what is not said is as the server
/// completes it for an ONNX model.
fn identity_config(floats: usize) -> String {
    format!(
        r#"backend: "identity"
max_batch_size: 4
dynamic_batching {{ }}
input {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ {floats} ] }}
output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {floats} ] }}
"#
    )
}

/// A model of the fixtures with the first case of its expectations, which is of one row.
pub fn fixture(name: &'static str) -> Outcome<Workload> {
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
        engine: EngineKind::OnnxRuntime,
        file: Some(fixtures.join(format!("models/{name}/1/model.onnx"))),
        config: None,
        input,
        expected: Arc::new(expected),
    })
}

/// The same model as TorchScript, under the name `name`.
pub fn torchscript(name: &'static str, model: &'static str) -> Outcome<Workload> {
    let onnx = fixture(model)?;
    // The file says no name.
    let output = "OUTPUT__0".into();
    let Expected { values, tolerance, .. } = &*onnx.expected;
    let expected = Expected { output, values: values.clone(), tolerance: *tolerance };
    let file = Path::new(ROOT).join(format!("tests/fixtures/torchscript/{model}/1/model.pt"));
    Ok(Workload {
        name,
        engine: EngineKind::PyTorch,
        file: Some(file),
        expected: Arc::new(expected),
        ..onnx
    })
}

/// The libtorch engine that `backends/pytorch/prepare.py` has put where the server finds it; `None` where it
/// has not been run.
pub fn pytorch_plugin() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_muster")).ancestors().nth(2)?;
    Some(target.join("pytorch/libmuster_pytorch.so")).filter(|it| it.is_file())
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
    /// With this text of `config.pbtxt`; `None` for the server's own choice.
    pub fn configured(self, config: Option<String>) -> Workload {
        Workload { config, ..self }
    }

    /// Puts the model into a repository.
    pub fn install(&self, repository: &Path) -> Outcome<()> {
        let version = repository.join(self.name).join("1");
        fs::create_dir_all(&version)?;
        if let Some(file) = &self.file {
            let name = match self.engine {
                EngineKind::PyTorch => "model.pt",
                EngineKind::OnnxRuntime | EngineKind::Identity => "model.onnx",
            };
            fs::copy(file, version.join(name))?;
        }
        if let Some(config) = &self.config {
            fs::write(repository.join(self.name).join("config.pbtxt"), config)?;
        }
        Ok(())
    }

    /// Loads it without a server, for instances of so many threads.
    pub fn load(&self, threads: NonZeroUsize) -> Outcome<Arc<dyn Model>> {
        let engine: Box<dyn Backend> = match self.engine {
            EngineKind::Identity => Box::new(Identity),
            EngineKind::OnnxRuntime => Box::new(OnnxRuntime::default()),
            EngineKind::PyTorch => {
                Box::new(PyTorch::new(pytorch::Options { plugin: pytorch_plugin() }))
            }
        };
        let path = self.file.clone().unwrap_or_default();
        let source = ModelSource { default_threads: threads, ..ModelSource::new(self.name, path) };
        Ok(engine.load(&source)?)
    }

    /// The request.
    pub fn request(&self, format: Format) -> Outcome<Request> {
        let NamedTensor { name, tensor } = &self.input;
        let (dims, data) = (tensor.shape().dims(), tensor.to_bytes().to_vec());
        let input = Input::raw(name, tensor.dtype().name().parse()?, dims, data)?;
        Ok(match format {
            Format::Binary => kserve_binary(self.name, &[input])?,
            Format::Json => kserve_json(self.name, &[input])?,
            Format::Grpc => kserve_grpc(self.name, &[input])?,
        })
    }
    /// Requests to that server in a closed loop, the first answer on every connection checked.
    pub fn closed_loop(&self, server: &Server, format: Format) -> Outcome<LoadPlan> {
        let expected = self.expected.clone();
        let (target, check): (Target, Check) = match format {
            Format::Binary | Format::Json => {
                let check = Check::FirstReply(Arc::new(move |it| expected.is_body(it.body)));
                (server.address().into(), check)
            }
            Format::Grpc => {
                let right = move |body: &[u8]| match grpc_raw_outputs(body)[..] {
                    [output] => expected.is_raw(output),
                    _ => false,
                };
                let check = Check::FirstReply(Arc::new(move |it| right(it.body)));
                (server.grpc_address().into(), check)
            }
        };
        Ok(LoadPlan {
            pid: Some(server.pid()),
            check,
            ..LoadPlan::new(target, vec![self.request(format)?])
        })
    }
}

/// Carries out a load in which every request must be answered, and rightly. `what` is for the error.
pub fn answered(what: &str, load: &LoadPlan) -> Outcome<Report> {
    let report = load.run()?;
    let unanswered = report.requests - report.ok;
    if 0 < report.wrong || 0 < unanswered || report.checked == 0 {
        return Err(format!(
            "{what}: {} of {} checked answers are wrong, {unanswered} requests were not answered with 2xx",
            report.wrong, report.checked
        )
        .into());
    }
    Ok(report)
}
