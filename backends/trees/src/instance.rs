//! An instance: rows of a batch in the form that the forest wants, and its outputs.

use std::sync::Arc;

use backend::{BackendError, Batch, DataType, Element, Instance, NamedTensor, Tensor};

use crate::{
    forest::{document::Rounding, packed::Forest, sum::Rows},
    output::{Form, Predicted, is_double, outputs},
    shared::Shared,
};

/// Elements that a buffer may keep between runs.
const KEPT: usize = 1 << 18;

/// Rows between two looks at whether anybody still waits for the batch.
const ROWS_PER_LOOK: usize = 1024;

/// What runs batches: buffers for rows that cannot be read in place.
pub(crate) struct TreeInstance {
    shared: Arc<Shared>,
    single: Vec<f32>,
    double: Vec<f64>,
}

impl TreeInstance {
    pub(crate) fn new(shared: Arc<Shared>) -> TreeInstance {
        TreeInstance { shared, single: Vec::new(), double: Vec::new() }
    }
}

impl Instance for TreeInstance {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let Shared { forest, missing, outputs: all } = &*self.shared;
        let refuse = |problem: String| Err(BackendError::InvalidInput(problem));
        let [NamedTensor { name, tensor }] = batch.inputs else {
            return refuse(format!("the model takes one input, given {}", batch.inputs.len()));
        };
        if tensor.elements() != batch.rows * forest.features {
            let (features, dims) = (forest.features, tensor.shape().dims());
            return refuse(format!(
                "input '{name}' is {dims:?}, the model takes {features} features"
            ));
        }
        let form = |wanted: &Arc<str>| all.iter().find(|(name, _)| name == wanted).cloned();
        let Some(wanted) = batch.outputs.iter().map(form).collect::<Option<Vec<_>>>() else {
            return refuse("an output that the model does not have".to_owned());
        };
        let rows = match (tensor.dtype(), forest.takes_single()) {
            (DataType::Fp32, true) => match tensor.as_slice_of::<f32>() {
                Some(rows) if missing.is_none() => Rows::Single(rows),
                _ => Rows::Single(fill(&mut self.single, tensor, |it: f32| marked(it, *missing))),
            },
            (DataType::Fp64, true) => {
                let round = |it: f64| marked(it as f32, *missing);
                Rows::Single(fill(&mut self.single, tensor, round))
            }
            (DataType::Fp32, false) => {
                let widen = |it: f32| f64::from(marked(it, *missing));
                Rows::Double(fill(&mut self.double, tensor, widen))
            }
            (DataType::Fp64, false) => {
                let round = |it: f64| match (*missing, forest.rounding) {
                    (Some(missing), _) if it == missing => f64::NAN,
                    (_, Rounding::Single) => f64::from(it as f32),
                    (_, Rounding::Double) => it,
                };
                Rows::Double(fill(&mut self.double, tensor, round))
            }
            (dtype, _) => {
                return refuse(format!("input '{name}' is {dtype}, expected FP32 or FP64"));
            }
        };
        let made = match is_double(forest.transform) {
            true => run::<f64>(forest, rows, batch, &wanted),
            false => run::<f32>(forest, rows, batch, &wanted),
        };
        self.single.clear();
        self.single.shrink_to(KEPT);
        self.double.clear();
        self.double.shrink_to(KEPT);
        made
    }
}

/// NaN in the place of the number that means missing.
fn marked(value: f32, missing: Option<f64>) -> f32 {
    match missing {
        Some(missing) if value == missing as f32 => f32::NAN,
        _ => value,
    }
}

/// The elements of a tensor, each converted, in a buffer.
fn fill<'a, E: Element, F: Copy>(
    buffer: &'a mut Vec<F>,
    tensor: &Tensor,
    convert: impl Fn(E) -> F,
) -> &'a [F] {
    buffer.clear();
    buffer.reserve(tensor.elements());
    // No element is cut by the end of a segment.
    for segment in tensor.segments() {
        let elements = segment.chunks_exact(size_of::<E>());
        buffer.extend(elements.map(|it| convert(bytemuck::pod_read_unaligned(it))));
    }
    buffer
}

fn run<T: Predicted>(
    forest: &Forest,
    rows: Rows<'_>,
    batch: &Batch<'_>,
    wanted: &[(Arc<str>, Form)],
) -> Result<Vec<NamedTensor>, BackendError> {
    let mut sums = vec![T::default(); batch.rows * forest.sums()];
    let of_look = forest.features * ROWS_PER_LOOK;
    for (i, sums) in sums.chunks_mut(forest.sums() * ROWS_PER_LOOK).enumerate() {
        if batch.stop.is_stopped() {
            return Err(BackendError::Execute("stopped".to_owned()));
        }
        let start = i * of_look;
        forest.sums_of(rows.slice(start, of_look), sums);
    }
    outputs(forest, sums, wanted)
}
