//! Is a free first dimension a batch? Pure.

use backend::{Hints, ModelSpec, TensorHint, TensorSpec};

use crate::error::{ModuleError, TrialError};

use super::{
    advice::Advice,
    known::{KnownInput, ROWS, Sample, Trial},
    vary::Observed,
};

/// Would the server, left to itself, let the model batch? It does where inputs or outputs are not configured,
/// all tensors begin with a free dimension, and none is configured with it, nor is `max_batch_size` zero.
pub(super) fn would_batch(spec: &ModelSpec, hints: &Hints) -> bool {
    let all_given = !hints.inputs.is_empty() && !hints.outputs.is_empty();
    let mut all = spec.inputs.iter().chain(&spec.outputs);
    let begins_free = |it: &TensorSpec| it.dims.first().is_some_and(Option::is_none);
    let whole = |hint: &TensorHint| {
        let mut specs = spec.inputs.iter().chain(&spec.outputs).filter(|it| it.name == hint.name);
        hint.dims.as_ref().is_some_and(|dims| specs.any(|it| it.dims.len() == dims.len()))
    };
    let whole_given = hints.inputs.iter().chain(&hints.outputs).any(whole);
    !hints.is_unbatched && !all_given && !whole_given && all.all(begins_free)
}

/// Is the first dimension a batch?
///
/// # Errors
/// Why not, or why that is not known.
pub(super) fn rows_are_apart(
    samples: &[Sample],
    places: &[usize],
    observed: &Observed,
    trial: &mut dyn Trial,
) -> Result<(), TrialError> {
    if !places.iter().all(|&it| observed.rows_follow[it]) {
        let reason = "the first dimension of its inputs is free, but is not that of its outputs";
        return Err(TrialError::new(reason));
    }
    let mut samples = samples.to_vec();
    for rows in samples.iter_mut().filter_map(|it| it.dims.first_mut()) {
        // One row has no others.
        *rows = ROWS.max(*rows);
    }
    trial.rows_are_apart(&samples, places)
}

/// Asks for a configuration of a model that would be taken for one that batches.
pub(super) fn no_batch(known: &[KnownInput], spec: &ModelSpec, reason: &TrialError) -> ModuleError {
    let reason =
        format!("{reason}, so that it is not known what a batch is (max_batch_size: 0 for none)");
    let known: Vec<KnownInput> =
        known.iter().zip(&spec.inputs).map(|(it, spec)| it.with_spec(spec)).collect();
    let as_hint = |it: &TensorSpec| TensorHint {
        name: it.name.clone(),
        dtype: Some(it.dtype),
        dims: Some(it.dims.clone()),
    };
    let outputs: Vec<TensorHint> = spec.outputs.iter().map(as_hint).collect();
    ModuleError::new(Advice { inputs: &known, outputs: &outputs, reason })
}

impl KnownInput {
    fn with_spec(&self, spec: &TensorSpec) -> KnownInput {
        KnownInput { dtype: Some(spec.dtype), dims: Some(spec.dims.clone()), ..self.clone() }
    }
}
