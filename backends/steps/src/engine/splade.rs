//! The step `splade`: logits over the vocabulary to a sparse vector.

use std::sync::Arc;

use backend::{BackendError, NamedTensor};
use inference::task::RESULT;

use super::{
    call::{Call, invalid},
    kept::{Kept, MASK},
    kind::{Opened, Run},
    ports::{FLOAT, FLOATS, INTEGERS, TEXT, optional, port, spec},
    settings::StepSettings,
};
use crate::{
    folder::Splade,
    head::splade::weights,
    outputs::RowOutput,
    reply::{Reply, SparseEntry},
    result::{ResultForm, result_json},
};

pub(super) const PARAMETERS: &[&str] = &["pooling", "activation"];

const LOGITS: &str = "logits";
/// The index behind the last value of a row that has fewer than others.
const NONE: i64 = -1;

struct Sparse(Splade);

/// Opens it.
///
/// # Errors
/// When a parameter is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let choice = |key: &str, [no, yes]: [&str; 2]| {
        let read = |name: &str| [no, yes].contains(&name).then(|| name == yes);
        Ok::<_, BackendError>(settings.named(key, &[no, yes], read)?.unwrap_or(false))
    };
    let is_sum = choice("pooling", ["max", "sum"])?;
    let is_logarithm_twice = choice("activation", ["relu", "log1p_relu"])?;
    let spec = spec(
        settings.source,
        &[port(LOGITS, FLOATS, &[None, None, None]), optional(MASK, INTEGERS, &[None, None])],
        &[
            port("indices", INTEGERS, &[None, None]),
            port("values", FLOAT, &[None, None]),
            port(RESULT, TEXT, &[None, Some(1)]),
        ],
    );
    Ok(Opened { spec, run: Box::new(Sparse(Splade { is_sum, is_logarithm_twice })) })
}

impl Run for Sparse {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let logits = call.floats(LOGITS)?;
        let &[rows, length, width] = &*logits.dims else {
            return Err(invalid(LOGITS, &format!("its shape is {:?}", logits.dims)));
        };
        let kept = Kept::of(call, LOGITS, [rows, length])?;
        let vector = |row: usize| {
            call.check()?;
            let values = kept.select(row, logits.row(row), width);
            let output = RowOutput { name: LOGITS, dims: vec![kept.count(row), width], values };
            Ok(weights(&output, self.0)?)
        };
        let vectors = (0..rows).map(vector).collect::<Result<Vec<_>, BackendError>>()?;
        let longest = vectors.iter().map(Vec::len).max().unwrap_or(0);
        let padding = |row: &Vec<(u32, f32)>| longest - row.len();
        let output = |name: &Arc<str>| match &**name {
            "indices" => {
                let row = |it: &Vec<(u32, f32)>| {
                    let indices: Vec<i64> = it.iter().map(|it| i64::from(it.0)).collect();
                    indices.into_iter().chain(std::iter::repeat_n(NONE, padding(it)))
                };
                let indices = vectors.iter().flat_map(row).collect();
                call.integer_output("indices", &[rows, longest], indices)
            }
            "values" => {
                let row = |it: &Vec<(u32, f32)>| {
                    let values: Vec<f32> = it.iter().map(|it| it.1).collect();
                    values.into_iter().chain(std::iter::repeat_n(0.0, padding(it)))
                };
                let values = vectors.iter().flat_map(row).collect();
                call.float_output("values", &[rows, longest], values)
            }
            _ => {
                let form = ResultForm { text: "", is_best_only: false };
                let entry = |it: &(u32, f32)| SparseEntry { index: it.0, value: it.1 };
                let reply = |it: &Vec<(u32, f32)>| Reply::Sparse(it.iter().map(entry).collect());
                let results = vectors.iter().map(|it| result_json(&reply(it), &form));
                call.text_output(RESULT, &[rows, 1], results)
            }
        };
        call.batch.outputs.iter().map(output).collect()
    }
}
