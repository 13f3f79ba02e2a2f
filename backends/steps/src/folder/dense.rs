//! `<n>_Dense`: its configuration, and its weights in `model.safetensors`.

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use super::{
    dir::Dir,
    document::{Document, read_bytes},
    notes::Notes,
};
use crate::error::FolderError;

/// A layer `act(W·x + b)`, with `x` added where it has a residual.
#[derive(Debug, Clone, PartialEq)]
pub struct Dense {
    /// The subfolder that it was read from.
    pub folder: String,
    /// Length of the vectors it takes.
    pub inputs: usize,
    /// Length of those it gives.
    pub outputs: usize,
    /// Its matrix, one row for each output.
    pub weight: Vec<f32>,
    /// What is added to each output; empty for nothing.
    pub bias: Vec<f32>,
    /// What each output goes through.
    pub activation: Activation,
    /// What is added behind the activation.
    pub residual: Residual,
}

/// What a Dense layer adds behind its activation.
#[derive(Debug, Clone, PartialEq)]
pub enum Residual {
    /// Nothing.
    None,
    /// Its input.
    Input,
    /// Its input through a matrix, since the lengths differ.
    Matrix(Vec<f32>),
}

/// A function of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Activation {
    Tanh,
    Identity,
    Relu,
    Gelu,
    Sigmoid,
    Silu,
}

impl Activation {
    /// From the last part of a class's name, such as `torch.nn.modules.activation.Tanh`.
    pub fn from_class(name: &str) -> Option<Activation> {
        match name.rsplit('.').next().unwrap_or_default() {
            "Tanh" => Some(Activation::Tanh),
            "Identity" => Some(Activation::Identity),
            "ReLU" => Some(Activation::Relu),
            "GELU" => Some(Activation::Gelu),
            "Sigmoid" => Some(Activation::Sigmoid),
            "SiLU" => Some(Activation::Silu),
            _ => None,
        }
    }
}

impl Dense {
    /// The layer in the subfolder `folder` of `dir`.
    ///
    /// # Errors
    /// When a file is missing, says something else than the other, or has an activation that is not known.
    pub(crate) fn read(dir: &Dir, folder: &str, notes: &mut Notes) -> Result<Dense, FolderError> {
        let file = format!("{folder}/config.json");
        let document = Document::read(dir, &file)?;
        let document = document.ok_or_else(|| FolderError::file(&*file, "it is missing"))?;
        notes.read(&file);
        let required = |key: &str| match document.count(key)? {
            Some(count) => Ok(count),
            None => Err(document.error(key, "it is missing")),
        };
        let (inputs, outputs) = (required("in_features")?, required("out_features")?);
        let name =
            document.text("activation_function")?.unwrap_or("torch.nn.modules.activation.Tanh");
        let activation = Activation::from_class(name).ok_or_else(|| {
            let problem = format!("'{name}' is none of Tanh, Identity, ReLU, GELU, Sigmoid, SiLU");
            document.error("activation_function", problem)
        })?;
        for key in ["module_input_name", "module_output_name"] {
            if let Some(other) = document.text(key)?.filter(|it| *it != "sentence_embedding") {
                return Err(document.error(key, format!("'{other}' is not 'sentence_embedding'")));
            }
        }
        let has_bias = document.flag("bias")?.unwrap_or(true);
        let has_residual = document.flag("use_residual")?.unwrap_or(false);

        let file = format!("{folder}/model.safetensors");
        let pickle = format!("{folder}/pytorch_model.bin");
        let Some(bytes) = read_bytes(dir, &file)? else {
            let mut error = FolderError::file(&*file, "it is missing");
            if dir.path().join(&pickle).exists() {
                error = FolderError::file(&*pickle, "it is a pickle, which could run any code");
            }
            return Err(error.remedy(
                "convert it once: SentenceTransformer(d).save_pretrained(d, safe_serialization=True)",
            ));
        };
        notes.read(&file);
        if dir.path().join(&pickle).exists() {
            notes.ignored(&pickle, "its weights are in model.safetensors");
        }
        let wrong = |error| FolderError::file(&*file, format!("it is no safetensors: {error}"));
        let tensors = SafeTensors::deserialize(&bytes).map_err(wrong)?;
        let read = |key: &str, shape: &[usize]| floats(&tensors, &file, key, shape);
        let bias = if has_bias { read("linear.bias", &[outputs])? } else { Vec::new() };
        let residual = match (has_residual, inputs == outputs) {
            (false, _) => Residual::None,
            (true, true) => Residual::Input,
            (true, false) => Residual::Matrix(read("residual.weight", &[outputs, inputs])?),
        };
        let weight = read("linear.weight", &[outputs, inputs])?;
        Ok(Dense { folder: folder.to_owned(), inputs, outputs, weight, bias, activation, residual })
    }
}

/// A tensor of this name and shape as FP32.
fn floats(
    tensors: &SafeTensors<'_>,
    file: &str,
    key: &str,
    shape: &[usize],
) -> Result<Vec<f32>, FolderError> {
    let view = tensors.tensor(key).map_err(|_| FolderError::key(file, key, "it is missing"))?;
    if view.shape() != shape {
        let problem = format!("its shape is {:?}, config.json says {shape:?}", view.shape());
        return Err(FolderError::key(file, key, problem));
    }
    let data = view.data();
    let values = match view.dtype() {
        Dtype::F32 => data.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it)).collect(),
        Dtype::F64 => data.as_chunks().0.iter().map(|it| f64::from_le_bytes(*it) as f32).collect(),
        Dtype::F16 => data.as_chunks().0.iter().map(|it| f16::from_le_bytes(*it).into()).collect(),
        Dtype::BF16 => {
            data.as_chunks().0.iter().map(|it| bf16::from_le_bytes(*it).into()).collect()
        }
        other => return Err(FolderError::key(file, key, format!("its type is {other:?}"))),
    };
    Ok(values)
}
