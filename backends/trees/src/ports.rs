//! What clients send and get: the input and the outputs of a model, by its forests and its configuration. Pure.

use std::sync::Arc;

use backend::{BackendError, DataType, GraphRows, ModelSource, ModelSpec, TensorHint, TensorSpec};

use crate::{
    categories::{NamedCategories, text_codes},
    forest::{document::Rounding, layout::Extras, packed::Forest},
    meaning::Meaning,
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
/// The output with their probabilities, as converters of scikit-learn's models call it.
const PROBABILITIES: &str = "probabilities";
/// What scikit-learn's `predict` gives: of a classifier the class.
const PREDICT: &str = "predict";
/// What scikit-learn's `predict_proba` gives.
const PREDICT_PROBA: &str = "predict_proba";
/// The output with the leaf of each tree.
const LEAF: &str = "leaf";
/// The output with what each feature contributes to the sums, as Triton's FIL calls it.
const CONTRIBUTIONS: &str = "treeshap_output";

/// What the outputs of the configuration need of a forest besides its sums.
pub(crate) fn extras(source: &ModelSource) -> Extras {
    let is_named = |name: &str| source.hints.outputs.iter().any(|it| &*it.name == name);
    Extras { leaves: is_named(LEAF), contributions: is_named(CONTRIBUTIONS) }
}

/// The outputs: the first that is configured, or the usual one, and those that are asked for by name.
///
/// # Errors
/// Leaves of a model without trees; a name that no output has, where a model has several that could be meant.
pub(crate) fn outputs(
    forests: &[Forest],
    source: &ModelSource,
    options: &Options,
    meaning: &Meaning,
) -> Result<Vec<Output>, BackendError> {
    let forest = &forests[0];
    // A classifier gives both probabilities, also where its trees have that of the second class only.
    let probabilities = match meaning.classes {
        Some(2) if forest.width() == 1 => Form::BothClasses,
        _ => Form::Predictions,
    };
    let main = |hint: Option<&TensorHint>| {
        let Some(fil) = options.fil.filter(|it| it.is_classifier) else { return probabilities };
        let columns = hint.and_then(|it| it.dims.as_ref()?.last().copied().flatten());
        match (fil.predict_proba, forest.width(), columns) {
            (false, _, _) => Form::Class { threshold: fil.threshold },
            (true, 1, Some(2)) => Form::BothClasses,
            (true, _, _) => Form::Predictions,
        }
    };
    let output = |name: Arc<str>, form: Form, hint: Option<&TensorHint>| {
        let is_double =
            is_double(forest.transform) || forest.calibration.is_some() && form != Form::Margins;
        let usual = if is_double { DataType::Fp64 } else { DataType::Fp32 };
        let numbers = &meaning.class_numbers;
        let class_numbers = numbers.clone().filter(|_| [LABEL, PREDICT].contains(&&*name));
        let said = hint.and_then(|it| it.dtype);
        let class_names =
            meaning.class_names.clone().filter(|_| [LABEL, PREDICT].contains(&&*name));
        // What a configuration does not ask for as texts are numbers.
        let is_text = class_names.is_some()
            && match said {
                None => hint.is_none(),
                Some(said) => said == DataType::Bytes,
            };
        let dtype = match form {
            Form::Leaves => DataType::Int32,
            Form::Class { .. } | Form::Label { .. } if is_text => DataType::Bytes,
            Form::Class { .. } | Form::Label { .. } if class_numbers.is_some() => {
                said.filter(is_float).unwrap_or(DataType::Int64)
            }
            _ => said.filter(is_float).unwrap_or(usual),
        };
        Output { name, form, dtype, class_numbers, class_names }
    };
    let hints = &source.hints.outputs;
    let is_usual = hints.is_empty() && options.fil.is_none();
    if is_usual && meaning.classes.is_some() {
        // Whatever its file is: what a converter makes of such a model has these two, too.
        let label = Form::Label { threshold: meaning.threshold };
        return Ok(vec![
            output(LABEL.into(), label, None),
            output(PROBABILITIES.into(), probabilities, None),
        ]);
    }
    if hints.is_empty() {
        let is_number = is_usual && meaning.gives_numbers && forest.width() == 1;
        let form = match main(None) {
            Form::Predictions if is_number => Form::Number,
            form => form,
        };
        return Ok(vec![output(OUTPUT.into(), form, None)]);
    }
    let threshold = options.fil.map_or(meaning.threshold, |it| it.threshold);
    let is_classifier = meaning.class_numbers.is_some();
    let mut outputs: Vec<Output> = Vec::new();
    let mut has_main = false;
    for hint in hints {
        let form = match &*hint.name {
            MARGIN => Form::Margins,
            LABEL | PREDICT if is_classifier && is_number(hint) => Form::Label { threshold },
            LABEL => Form::Class { threshold },
            PREDICT if is_classifier => Form::Class { threshold },
            PREDICT_PROBA | PROBABILITIES if is_classifier => probabilities,
            LEAF if forests.iter().all(|it| it.trees.is_empty()) => {
                let problem = format!("output '{LEAF}': the model has no trees");
                return Err(BackendError::Load(problem));
            }
            LEAF => Form::Leaves,
            CONTRIBUTIONS => Form::Contributions { is_flat: is_flat(hint) },
            name if options.fil.is_none() && is_unclear(name, meaning) => {
                return Err(BackendError::Load(unclear(name, is_classifier)));
            }
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

/// Could an output of that name be taken for another than the usual one? A classifier of scikit-learn gives classes and
/// probabilities, its other estimators no probabilities.
fn is_unclear(name: &str, meaning: &Meaning) -> bool {
    match meaning.class_numbers {
        Some(_) => name != OUTPUT,
        None => meaning.is_estimator && [PREDICT_PROBA, PROBABILITIES].contains(&name),
    }
}

fn unclear(name: &str, is_classifier: bool) -> String {
    let of_classes = format!("'{PREDICT}', '{PREDICT_PROBA}', '{PROBABILITIES}', '{LABEL}'");
    let usual = if is_classifier { of_classes } else { format!("'{PREDICT}'") };
    format!(
        "output '{name}': the model has none of that name; its outputs are '{OUTPUT}', {usual}, '{MARGIN}', '{LEAF}' \
         and '{CONTRIBUTIONS}'"
    )
}

/// Does the configuration have no dimension behind that of the batch?
fn is_number(hint: &TensorHint) -> bool {
    hint.dims.as_ref().is_some_and(|it| it.len() == 1)
}

/// Does the configuration have one dimension behind that of the batch?
fn is_flat(hint: &TensorHint) -> bool {
    hint.dims.as_ref().is_some_and(|it| it.len() == 2)
}

fn is_float(dtype: &DataType) -> bool {
    matches!(dtype, DataType::Fp32 | DataType::Fp64)
}

/// The model's input and outputs as the engine sees them. `names` are those of the features, or none;
/// `categories` the features whose categories have names.
pub(crate) fn spec(
    forests: &[Forest],
    source: &ModelSource,
    outputs: &[Output],
    names: Vec<String>,
    categories: &[NamedCategories],
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
    let codes = text_codes(categories);
    let text_codes = (!codes.is_empty()).then(|| (name.clone(), Arc::new(codes)));
    let dtype = input.and_then(|it| it.dtype).filter(is_float).unwrap_or(usual);
    let output = |it: &Output| tensor(it.name.clone(), it.dtype, &it.form.dims(forests));
    ModelSpec {
        inputs: vec![tensor(name, dtype, &[forest.features])],
        outputs: outputs.iter().map(output).collect(),
        columns: columns.into_iter().collect(),
        text_codes: text_codes.into_iter().collect(),
        // A forest is walked for one row after the other.
        rows: GraphRows::Independent,
        ..ModelSpec::default()
    }
}
