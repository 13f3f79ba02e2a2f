//! Estimators of XGBoost and LightGBM: the model in their own format that each of them holds. Pure.

use crate::{
    error::FormatError,
    forest::{
        document::{Document, Library, Transform},
        double, single,
    },
    lightgbm,
    sklearn::{
        objects::{Objects, class_names, class_numbers, count, needed},
        tree::TreeReader,
    },
    xgboost,
};

/// Rounds of training that an attribute may name.
const ROUNDS: usize = 1 << 31;

/// The document of such an estimator.
pub(super) fn read<O: Objects>(
    reader: &mut TreeReader<O>,
    of: O::Ref,
    library: Library,
    is_classifier: bool,
) -> Result<Document, FormatError> {
    let mut document = match library {
        Library::Xgboost => of_xgboost(reader, of)?,
        _ => of_lightgbm_estimator(reader, of)?,
    };
    document.is_estimator = true;
    if !is_classifier {
        document.classes = None;
        return Ok(document);
    }
    let gives_probabilities = match document.transform {
        Transform::Single(single::Transform::Logistic) => document.sums() == 1,
        Transform::Single(single::Transform::Softmax)
        | Transform::Double(double::Transform::Logistic { .. } | double::Transform::Softmax) => {
            true
        }
        Transform::Single(_) | Transform::Double(_) => false,
    };
    if document.classes.is_none() || !gives_probabilities {
        return Err(FormatError::new(format!(
            "its classifier has the objective '{}', of which probabilities of classes are not known here: save its \
             model alone, with save_model",
            document.objective
        )));
    }
    Ok(document)
}

/// The model of an attribute of a booster, whose bytes count for the file's.
fn model<O: Objects>(
    reader: &mut TreeReader<O>,
    booster: O::Ref,
    name: &str,
) -> Result<Vec<u8>, FormatError> {
    let objects = reader.objects();
    let handle = objects.attribute(booster, name).and_then(|it| objects.bytes_of(it));
    let model = handle.ok_or_else(|| {
        FormatError::new(
            "the Booster in this estimator holds no model: it was not trained; fit it and save it again",
        )
    })?;
    reader.count(model.len(), 0)?;
    Ok(model.into_owned())
}

fn of_xgboost<O: Objects>(reader: &mut TreeReader<O>, of: O::Ref) -> Result<Document, FormatError> {
    let objects = reader.objects();
    let booster = needed(objects, of, "_Booster")?;
    let mut learner = xgboost::read(&model(reader, booster, "handle")?)?;
    for name in ["best_iteration", "best_ntree_limit"] {
        let mut places = [of, booster].into_iter();
        let given =
            |it: &O::Ref| objects.attribute(*it, name).and_then(|it| objects.number(it)).is_some();
        if let Some(place) = places.find(given) {
            let value = count(objects, place, name, ROUNDS)?;
            learner.attributes.insert(name.to_owned(), value.to_string());
        }
    }
    learner.is_of_estimator = true;
    let mut document = learner.into_document(None)?;
    let missing = objects.attribute(of, "missing").and_then(|it| objects.number(it));
    document.missing = missing.filter(|it| !it.is_nan());
    // Until 1.5 it had labels of its own.
    if let Some(encoder) = objects.attribute(of, "_le").filter(|it| !objects.is_none(*it)) {
        named(objects, needed(objects, encoder, "classes_")?, &mut document)?;
    }
    Ok(document)
}

fn of_lightgbm_estimator<O: Objects>(
    reader: &mut TreeReader<O>,
    of: O::Ref,
) -> Result<Document, FormatError> {
    let objects = reader.objects();
    let booster = needed(objects, of, "_Booster")?;
    let mut document = of_lightgbm(reader, booster)?;
    if let Some(classes) = objects.attribute(of, "_classes").filter(|it| !objects.is_none(*it)) {
        named(objects, classes, &mut document)?;
    }
    Ok(document)
}

/// The document of a `Booster` of LightGBM.
pub(super) fn of_lightgbm<O: Objects>(
    reader: &mut TreeReader<O>,
    booster: O::Ref,
) -> Result<Document, FormatError> {
    let objects = reader.objects();
    // Before 4.0 it had a public name.
    let names = ["_handle", "handle"];
    let name = names.into_iter().find(|it| objects.attribute(booster, it).is_some());
    let mut document = lightgbm::read(&model(reader, booster, name.unwrap_or(names[0]))?)?;
    let best = objects.attribute(booster, "best_iteration").and_then(|it| objects.number(it));
    if best.is_some_and(|it| 0.0 < it) {
        // Where training stopped early, its Booster predicts with the rounds up to the best.
        let rounds = count(objects, booster, "best_iteration", ROUNDS)?;
        document.best_round = Some(rounds - 1);
        document.best_trees =
            Some(rounds.saturating_mul(document.sums()).min(document.trees.len()));
    }
    Ok(document)
}

/// Gives a document these classes.
fn named<O: Objects>(
    objects: &O,
    classes: O::Ref,
    document: &mut Document,
) -> Result<(), FormatError> {
    document.class_numbers = class_numbers(objects, classes)?;
    document.class_names = class_names(objects, classes)?;
    Ok(())
}
