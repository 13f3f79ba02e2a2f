//! What clients send and get: the input and the outputs of a model, by its forests and its configuration. Pure.

use std::sync::Arc;

use backend::{BackendError, DataType, ModelSource, ModelSpec, TensorHint, TensorSpec};

use crate::{
    forest::{
        document::{Document, Rounding, Transform},
        double,
        layout::Extras,
        packed::Forest,
        single,
    },
    options::Options,
    output::{Form, Output, is_double},
};

/// The input of a model whose configuration does not name it.
const INPUT: &str = "input__0";
/// Its output.
const OUTPUT: &str = "output__0";
/// The output with sums before the transform.
const MARGIN: &str = "margin";
/// The output with classes by their numbers.
const LABEL: &str = "label";
/// The output with the leaf of each tree.
const LEAF: &str = "leaf";
/// The output with what each feature contributes to the sums, as Triton's FIL calls it.
const CONTRIBUTIONS: &str = "treeshap_output";

/// What the outputs of the configuration need of a forest besides its sums.
pub(crate) fn extras(source: &ModelSource) -> Extras {
    let is_named = |name: &str| source.hints.outputs.iter().any(|it| &*it.name == name);
    Extras { leaves: is_named(LEAF), contributions: is_named(CONTRIBUTIONS) }
}

/// Above which prediction a label is the second of two classes, where no parameter says so: zero for sums, a half for
/// probabilities. A mean of the trees is a probability.
pub(crate) fn usual_threshold(document: &Document) -> f32 {
    let is_sum = matches!(
        document.transform,
        Transform::Single(single::Transform::Identity)
            | Transform::Double(double::Transform::Identity)
    );
    let is_classifier = document.classes == Some(2);
    if is_classifier && is_sum && document.average_over.is_none() { 0.0 } else { 0.5 }
}

/// The outputs: the first that is configured, or the usual one, and those that are asked for by name. `threshold` is
/// that of labels where no parameter says so.
///
/// # Errors
/// Leaves of a model without trees.
pub(crate) fn outputs(
    forests: &[Forest],
    source: &ModelSource,
    options: &Options,
    threshold: f32,
) -> Result<Vec<Output>, BackendError> {
    let forest = &forests[0];
    let main = |hint: Option<&TensorHint>| {
        let Some(fil) = options.fil.filter(|it| it.is_classifier) else { return Form::Predictions };
        let columns = hint.and_then(|it| it.dims.as_ref()?.last().copied().flatten());
        match (fil.predict_proba, forest.width(), columns) {
            (false, _, _) => Form::Class { threshold: fil.threshold },
            (true, 1, Some(2)) => Form::BothClasses,
            (true, _, _) => Form::Predictions,
        }
    };
    let output = |name: Arc<str>, form: Form, hint: Option<&TensorHint>| {
        let is_double = is_double(forest.transform);
        let usual = if is_double { DataType::Fp64 } else { DataType::Fp32 };
        let dtype = match form {
            Form::Leaves => DataType::Int32,
            _ => hint.and_then(|it| it.dtype).filter(is_float).unwrap_or(usual),
        };
        Output { name, form, dtype }
    };
    let hints = &source.hints.outputs;
    if hints.is_empty() {
        return Ok(vec![output(OUTPUT.into(), main(None), None)]);
    }
    let threshold = options.fil.map_or(threshold, |it| it.threshold);
    let mut outputs: Vec<Output> = Vec::new();
    let mut has_main = false;
    for hint in hints {
        let form = match &*hint.name {
            MARGIN => Form::Margins,
            LABEL => Form::Class { threshold },
            LEAF if forests.iter().all(|it| it.trees.is_empty()) => {
                let problem = format!("output '{LEAF}': the model has no trees");
                return Err(BackendError::Load(problem));
            }
            LEAF => Form::Leaves,
            CONTRIBUTIONS => Form::Contributions { is_flat: is_flat(hint) },
            _ if !has_main => {
                has_main = true;
                main(Some(hint))
            }
            // One that the model does not have, which the configuration is then refused for.
            _ => continue,
        };
        outputs.push(output(hint.name.clone(), form, Some(hint)));
    }
    if !has_main {
        outputs.push(output(OUTPUT.into(), main(None), None));
    }
    Ok(outputs)
}

/// Does the configuration have one dimension behind that of the batch?
fn is_flat(hint: &TensorHint) -> bool {
    hint.dims.as_ref().is_some_and(|it| it.len() == 2)
}

fn is_float(dtype: &DataType) -> bool {
    matches!(dtype, DataType::Fp32 | DataType::Fp64)
}

/// The model's input and outputs as the engine sees them. `names` are those of the features, or none.
pub(crate) fn spec(
    forests: &[Forest],
    source: &ModelSource,
    outputs: &[Output],
    names: Vec<String>,
) -> ModelSpec {
    let forest = &forests[0];
    let input = source.hints.inputs.first();
    let usual = match forest.rounding {
        Rounding::Single => DataType::Fp32,
        Rounding::Double => DataType::Fp64,
    };
    let tensor = |name: Arc<str>, dtype: DataType, of_row: &[usize]| TensorSpec {
        name,
        dtype,
        dims: std::iter::once(None).chain(of_row.iter().copied().map(Some)).collect(),
        any_rank: false,
        optional: false,
    };
    let name: Arc<str> = input.map_or_else(|| INPUT.into(), |it| it.name.clone());
    let columns = (!names.is_empty()).then(|| (name.clone(), names.into()));
    let dtype = input.and_then(|it| it.dtype).filter(is_float).unwrap_or(usual);
    let output = |it: &Output| tensor(it.name.clone(), it.dtype, &it.form.dims(forests));
    ModelSpec {
        inputs: vec![tensor(name, dtype, &[forest.features])],
        outputs: outputs.iter().map(output).collect(),
        columns: columns.into_iter().collect(),
        ..ModelSpec::default()
    }
}
