//! Folders that have weights and no graph: what is made for them answers as transformers does. `tests/fixtures/weights`
//! has the folders and the answers.

// The lint knows test functions, not the functions they share.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{
    Backend, BackendError, Batch, DataType, Device, Instance, ModelSource, NamedTensor, Shape,
    Stop, Tensor,
};
use backend_onnxruntime::OnnxRuntime;
use safetensors::{Dtype, SafeTensors};

/// Numbers may differ so much: other kernels add in another order.
const CLOSE: f32 = 1e-5;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/weights")
}

/// A tensor of a file of expectations.
fn tensor(name: &str, view: &safetensors::tensor::TensorView<'_>) -> NamedTensor {
    let shape: Shape = view.shape().iter().copied().collect();
    let dtype = match view.dtype() {
        Dtype::I64 => DataType::Int64,
        Dtype::F32 => DataType::Fp32,
        other => panic!("{name}: {other:?}"),
    };
    let tensor = Tensor::new(dtype, shape, view.data().to_vec().into()).unwrap();
    NamedTensor { name: name.into(), tensor }
}

fn load(folder: &Path) -> Result<Box<dyn Instance>, BackendError> {
    let weights = ["model.safetensors", "model.safetensors.index.json"].map(|it| folder.join(it));
    let [one, several] = weights;
    let path = if one.exists() { one } else { several };
    let model = OnnxRuntime::default().load(&ModelSource::new("weights".to_owned(), path))?;
    model.instantiate(Device::Cpu)
}

/// The largest difference between what the folder's model answers and what is expected, where a token is no padding.
fn difference(folder: &Path, tolerance: f32) -> f32 {
    let name = folder.file_name().unwrap().to_string_lossy();
    let expected = fs::read(folder.join("expected.safetensors")).unwrap();
    let expected = SafeTensors::deserialize(&expected).unwrap();
    let part = |prefix: &str| -> Vec<NamedTensor> {
        let all = expected.iter();
        all.filter_map(|(it, view)| Some(tensor(it.strip_prefix(prefix)?, &view))).collect()
    };
    let (inputs, outputs) = (part("in."), part("out."));
    let names: Vec<Arc<str>> = outputs.iter().map(|it| it.name.clone()).collect();
    let mut instance = load(folder).unwrap_or_else(|error| panic!("{name}: {error}"));
    let stop = Stop::new();
    let batch = Batch { inputs: &inputs, outputs: &names, rows: 3, signature: 0, stop: &stop };
    let found = instance.execute(&batch).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mask = inputs.iter().find(|it| &*it.name == "attention_mask");
    let mask = mask.map(|it| it.tensor.as_slice_of::<i64>().unwrap()).unwrap_or_default();
    let mut largest = 0f32;
    for expected in &outputs {
        let found = found.iter().find(|it| it.name == expected.name).unwrap();
        assert_eq!(found.tensor.shape(), expected.tensor.shape(), "{name}");
        let [found, wanted] = [found, expected].map(|it| it.tensor.as_slice_of::<f32>().unwrap());
        let of_token = found.len().checked_div(mask.len()).unwrap_or(0);
        for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
            let is_padding = 0 < of_token && mask[at / of_token] == 0;
            if !is_padding {
                largest = largest.max((found - wanted).abs());
            }
        }
    }
    assert!(largest < tolerance, "{name}: {largest}");
    largest
}

#[test]
fn every_family_and_head_answers_as_transformers_does() {
    let mut folders = 0;
    for entry in fs::read_dir(fixtures()).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("expected.safetensors").exists() {
            difference(&folder, CLOSE);
            folders += 1;
        }
    }
    assert_eq!(folders, 66);
}

/// A copy of a folder, gone at the end.
struct Copy(PathBuf);

impl Copy {
    fn of(name: &str) -> Copy {
        let copy =
            std::env::temp_dir().join(format!("muster-weights-{name}-{}", std::process::id()));
        fs::create_dir_all(&copy).unwrap();
        for entry in fs::read_dir(fixtures().join(name)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        Copy(copy)
    }

    /// With other text in its configuration.
    fn change(&self, from: &str, to: &str) {
        let path = self.0.join("config.json");
        let config = fs::read_to_string(&path).unwrap();
        assert!(config.contains(from), "{config}");
        fs::write(path, config.replacen(from, to, 1)).unwrap();
    }

    fn refused(&self, expected: &str) {
        let Err(BackendError::Load(text)) = load(&self.0) else { panic!("it is loaded") };
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("optimum-cli export onnx"), "{text}");
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_no_graph_is_made_for_is_refused_by_its_name() {
    let folder = Copy::of("bert-ForSequenceClassification");
    for (from, to, expected) in [
        (
            "\"model_type\": \"bert\"",
            "\"model_type\": \"llama\"",
            "model_type: expected one of bert",
        ),
        (
            "ForSequenceClassification",
            "ForNextSentencePrediction",
            "given BertForNextSentencePrediction",
        ),
        ("\"gelu\"", "\"mish\"", "hidden_act: expected gelu"),
        (
            "\"num_attention_heads\": 2",
            "\"num_attention_heads\": 3",
            "num_attention_heads: expected a number",
        ),
        (
            "\"hidden_size\": 16",
            "\"hidden_size\": \"16\"",
            "hidden_size: expected a whole number above zero",
        ),
        ("\"vocab_size\": 40", "\"vocab_size\": 41", "has the shape [40, 16], and by config.json"),
        ("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "'bert.encoder.layer.1."),
        (
            "\"num_hidden_layers\": 2",
            "\"num_hidden_layers\": 3",
            "no tensor 'bert.encoder.layer.2.",
        ),
        (
            "\"model_type\": \"bert\"",
            "\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\"",
            "position_embedding_type: expected \"absolute\"",
        ),
    ] {
        folder.change(from, to);
        folder.refused(expected);
        folder.change(to, from);
    }
    difference(&folder.0, CLOSE);
}

#[test]
fn files_that_are_cut_are_refused() {
    let folder = Copy::of("bert-Model");
    let path = folder.0.join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    for (length, expected) in [(4, "its header"), (100, "its header has"), (whole.len() - 1, "'")] {
        fs::write(&path, &whole[..length]).unwrap();
        folder.refused(expected);
    }
}
