//! An instance: rows of a batch in the form that the forest wants, and its outputs.

use std::sync::Arc;

use backend::{BackendError, Batch, DataType, Element, Instance, NamedTensor, Tensor};

use crate::{
    categories,
    explain::{contributions, leaves},
    forest::{document::Rounding, packed::Forest, shap::Scratch, sum::Rows},
    output::{self, Form, Output, is_double},
    predicted::Predicted,
    rows::{Converted, ROWS_PER_LOOK},
    shared::Shared,
};

/// Elements that a buffer may keep between runs.
const KEPT: usize = 1 << 18;

/// What runs batches: buffers for rows that cannot be read in place.
pub(crate) struct TreeInstance {
    shared: Arc<Shared>,
    single: Vec<f32>,
    double: Vec<f64>,
    scratch: Scratch,
}

impl TreeInstance {
    pub(crate) fn new(shared: Arc<Shared>) -> TreeInstance {
        TreeInstance { shared, single: Vec::new(), double: Vec::new(), scratch: Scratch::default() }
    }
}

impl Instance for TreeInstance {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let Shared { forests, missing, outputs: all, .. } = &*self.shared;
        let forest = &forests[0];
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
        let output = |wanted: &Arc<str>| all.iter().find(|it| it.name == *wanted);
        let Some(wanted) = batch.outputs.iter().map(output).collect::<Option<Vec<_>>>() else {
            return refuse("an output that the model does not have".to_owned());
        };
        let (dtype, missing) = (tensor.dtype(), *missing);
        if !matches!(dtype, DataType::Fp32 | DataType::Fp64) {
            return refuse(format!("input '{name}' is {dtype}, expected FP32 or FP64"));
        }
        let rows = Converted {
            single: forests.iter().any(Forest::takes_single).then(|| {
                let buffer = &mut self.single;
                match (dtype, tensor.as_slice_of::<f32>()) {
                    (DataType::Fp32, Some(rows)) if missing.is_none() => rows,
                    (DataType::Fp32, _) => fill(buffer, tensor, |it: f32| marked(it, missing)),
                    _ => fill(buffer, tensor, |it: f64| marked(it as f32, missing)),
                }
            }),
            double: (!forests.iter().all(Forest::takes_single)).then(|| {
                let buffer = &mut self.double;
                let round = |it: f64| match (missing, forest.rounding) {
                    (Some(missing), _) if it == missing => f64::NAN,
                    (_, Rounding::Single) => f64::from(it as f32),
                    (_, Rounding::Double) => it,
                };
                match dtype {
                    DataType::Fp32 => {
                        fill(buffer, tensor, |it: f32| f64::from(marked(it, missing)))
                    }
                    _ => fill(buffer, tensor, round),
                }
            }),
        };
        let (categories, names) = (&self.shared.categories, &self.shared.feature_names);
        if !categories.is_empty() {
            let (single, double) = (rows.single, rows.double);
            let of_single =
                single.map(|it| categories::check(categories, names, it, forest.features));
            let of_double = || Some(categories::check(categories, names, double?, forest.features));
            let checked = of_single.or_else(of_double).unwrap_or(Ok(()));
            if let Err(problem) = checked {
                return refuse(format!("input '{name}': {problem}"));
            }
        }
        let scratch = &mut self.scratch;
        let run = Run { shared: &self.shared, rows, batch, scratch };
        let made = match is_double(forest.transform) {
            true => run.outputs::<f64>(&wanted),
            false => run.outputs::<f32>(&wanted),
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

/// What a run needs.
struct Run<'a> {
    shared: &'a Shared,
    rows: Converted<'a>,
    batch: &'a Batch<'a>,
    scratch: &'a mut Scratch,
}

impl Run<'_> {
    /// The outputs that are asked for. Nothing is computed that none of them needs.
    fn outputs<T: Predicted>(self, wanted: &[&Output]) -> Result<Vec<NamedTensor>, BackendError> {
        let Run { shared, rows, batch, scratch } = self;
        let forests = &shared.forests[..];
        let mut of_sums = wanted.iter().filter(|it| it.form.is_of_sums()).count();
        let mut sums: Vec<Vec<T>> = Vec::new();
        if of_sums != 0 {
            let sums_of = |forest| sums_of(forest, rows.of(forest), batch);
            sums = forests.iter().map(sums_of).collect::<Result<_, _>>()?;
        }
        let mut made = Vec::with_capacity(wanted.len());
        for output in wanted {
            let tensor = match output.form {
                Form::Leaves => leaves(output, forests, rows, batch)?,
                Form::Contributions { .. } => contributions(output, forests, rows, batch, scratch)?,
                _ => {
                    of_sums -= 1;
                    // The last output takes the sums, so that the usual one is no copy.
                    let own = if of_sums == 0 { std::mem::take(&mut sums) } else { sums.clone() };
                    output::of_sums(output, forests, own)?
                }
            };
            made.push(NamedTensor { name: output.name.clone(), tensor });
        }
        Ok(made)
    }
}

fn sums_of<T: Predicted>(
    forest: &Forest,
    rows: Rows<'_>,
    batch: &Batch<'_>,
) -> Result<Vec<T>, BackendError> {
    let mut sums = vec![T::default(); batch.rows * forest.sums()];
    let of_look = forest.features * ROWS_PER_LOOK;
    for (i, sums) in sums.chunks_mut(forest.sums() * ROWS_PER_LOOK).enumerate() {
        if batch.stop.is_stopped() {
            return Err(BackendError::Execute("stopped".to_owned()));
        }
        forest.sums_of(rows.slice(i * of_look, of_look), sums);
    }
    Ok(sums)
}

#[cfg(test)]
mod tests;
