//! What the graph of a sound model takes and gives.

use std::sync::Arc;

use backend::{DataType, ModelSpec, NamedTensor, Shape, Tensor, TensorSpec};

use super::extractor::Extractor;
use crate::{
    error::{FolderError, RowError},
    outputs::GraphOutput,
    step::{GraphInput, RowShape},
};

/// The mask of the samples that are no padding.
pub(super) const MASK: &str = "attention_mask";

/// What the extractor gives, and the mask of samples where the graph takes one.
///
/// # Errors
/// When an input is required that no sound fills, or takes samples of one length only.
pub(super) fn inputs(
    spec: &ModelSpec,
    extractor: &Extractor,
    file: &str,
) -> Result<Vec<GraphInput>, FolderError> {
    let name = extractor.input();
    let error = |name: &str, problem: String| FolderError::key(file, name, problem);
    let samples = spec.inputs.iter().find(|it| &*it.name == name).ok_or_else(|| {
        error(name, "the graph has no such input, so it takes no sound".to_owned())
    })?;
    if samples.dtype != DataType::Fp32 {
        return Err(error(&samples.name, format!("it is {}, samples are FP32", samples.dtype)));
    }
    if let Some(shape) = extractor.shape() {
        check_shape(samples, shape, extractor.name())
            .map_err(|problem| FolderError::key(file, name, problem.to_string()))?;
    } else if let [_, Some(length)] = *samples.dims {
        return Err(error(&samples.name, format!("it takes {length} samples and no other number")));
    }
    let port = |it: &TensorSpec| GraphInput {
        name: it.name.clone(),
        dtype: it.dtype,
        shape: RowShape::Varying,
    };
    let values = match extractor.shape() {
        Some(shape) => GraphInput { shape: RowShape::Fixed(shape.to_vec()), ..port(samples) },
        None => port(samples),
    };
    let mut inputs = vec![values];
    for other in spec.inputs.iter().filter(|it| it.name != samples.name) {
        let is_mask = &*other.name == MASK && extractor.shape().is_none();
        if is_mask && [DataType::Int64, DataType::Int32].contains(&other.dtype) {
            inputs.push(port(other));
        } else if !other.optional {
            let problem = "the graph requires this input, and a sound does not fill it";
            return Err(error(&other.name, problem.to_owned()));
        }
    }
    Ok(inputs)
}

/// The graph takes values of another shape than they have.
#[derive(Debug, thiserror::Error)]
#[error("it is not [rows, {rows}, {columns}], which is what {extractor} gives")]
struct WrongShape {
    rows: usize,
    columns: usize,
    extractor: &'static str,
}

/// Fails where the graph does not take values of that shape.
fn check_shape(
    input: &TensorSpec,
    [rows, columns]: [usize; 2],
    extractor: &'static str,
) -> Result<(), WrongShape> {
    let fits = |dim: Option<usize>, size: usize| dim.is_none_or(|it| it == size);
    match *input.dims {
        [_, first, second] if fits(first, rows) && fits(second, columns) => Ok(()),
        _ if input.any_rank => Ok(()),
        _ => Err(WrongShape { rows, columns, extractor }),
    }
}

/// The row of these values, which are samples unless they have a shape.
///
/// # Errors
/// Only when sizes overflow.
pub(super) fn row(
    inputs: &[GraphInput],
    samples: Vec<f32>,
    shape: Option<[usize; 2]>,
) -> Result<Vec<NamedTensor>, RowError> {
    let length = samples.len();
    let shape = || shape.map_or_else(|| Shape::new(&[length]), |it| Shape::new(&it));
    let mut samples = Some(samples);
    let fill = |input: &GraphInput| {
        let tensor = match (input.dtype, samples.take_if(|_| &*input.name != MASK)) {
            (_, Some(samples)) => Tensor::from_vec(shape(), samples),
            (DataType::Int32, None) => Tensor::from_vec(shape(), vec![1i32; length]),
            (_, None) => Tensor::from_vec(shape(), vec![1i64; length]),
        };
        let tensor = tensor.map_err(|error| RowError::Input(error.to_string()))?;
        Ok(NamedTensor { name: input.name.clone(), tensor })
    };
    inputs.iter().map(fill).collect()
}

/// The output with the logits.
pub(super) struct Logits {
    pub(super) output: GraphOutput,
    /// Length of its last dimension, where the graph says it.
    pub(super) width: Option<usize>,
    /// Was it taken for its shape, since none has the name?
    pub(super) is_by_shape: bool,
}

/// The output with the logits, which have so many dimensions.
///
/// # Errors
/// When there is none.
pub(super) fn logits(spec: &ModelSpec, rank: usize, file: &str) -> Result<Logits, FolderError> {
    let fits = |it: &&TensorSpec| it.any_rank || it.dims.len() == rank;
    let named = spec.outputs.iter().find(|it| &*it.name == "logits").or(spec.outputs.first());
    let found = named.filter(fits).ok_or_else(|| {
        let problem = format!("the graph has no such output of {rank} dimensions");
        FolderError::key(file, "logits", problem)
    })?;
    let name: Arc<str> = found.name.clone();
    Ok(Logits {
        is_by_shape: &*name != "logits",
        output: GraphOutput { name, has_tokens: false, is_whole: false },
        width: found.dims.last().copied().flatten(),
    })
}
