//! XGBoost's models in pickles: a `Booster`, or one of the wrappers for scikit-learn with a `Booster` in it. Pure.

use std::borrow::Cow;

use crate::{
    error::FormatError,
    pickle::{
        array::{integer, number},
        value::{Pickle, Value},
    },
};

/// Attributes of the model that may be in the state of its object only.
const ATTRIBUTES: [&str; 2] = ["best_iteration", "best_ntree_limit"];

/// What a pickle holds of a model.
#[derive(Debug)]
pub struct Pickled<'a> {
    /// The model in one of XGBoost's formats.
    pub model: Cow<'a, [u8]>,
    /// The number that means missing, besides NaN.
    pub missing: Option<f64>,
    /// Attributes as the model's file would have them.
    pub attributes: Vec<(&'static str, String)>,
    /// Is it one of the wrappers for scikit-learn?
    pub is_estimator: bool,
}

/// Is the pickle that of a model of XGBoost?
pub fn is_pickled(pickle: &Pickle) -> bool {
    booster(pickle).is_some()
}

/// The model in a pickle.
///
/// # Errors
/// There is none, or it needs functions that are no part of XGBoost.
pub fn find<'a>(pickle: &'a Pickle) -> Result<Pickled<'a>, FormatError> {
    if let Some(stranger) = pickle.stranger() {
        return Err(FormatError::new(format!(
            "reading this pickle in Python would call {stranger}, which is no part of a model; nothing of it is run: \
             save the model alone, with save_model"
        )));
    }
    let Some(booster) = booster(pickle) else {
        return Err(FormatError::new("there is no Booster of XGBoost in this pickle"));
    };
    let handle = pickle.attribute(booster, "handle");
    let Some(model) = handle.and_then(|it| pickle.bytes(it)) else {
        return Err(FormatError::new(
            "the Booster in this pickle holds no model: it was not trained; train it and save it again",
        ));
    };
    let missing = pickle.attribute(pickle.root(), "missing").and_then(|it| number(pickle, it));
    let mut attributes = Vec::new();
    for name in ATTRIBUTES {
        let places = [pickle.root(), booster];
        let found = places.iter().find_map(|it| integer(pickle, pickle.attribute(*it, name)?));
        attributes.extend(found.map(|it| (name, it.to_string())));
    }
    let missing = missing.filter(|it| !it.is_nan());
    let is_estimator = !pickle.is(pickle.root(), "xgboost", "Booster");
    Ok(Pickled { model, missing, attributes, is_estimator })
}

/// The object of class `Booster`.
fn booster(pickle: &Pickle) -> Option<Value> {
    let root = pickle.root();
    let (module, _) = pickle.class(root)?;
    if module.split('.').next() != Some("xgboost") {
        return None;
    }
    let inner = pickle.attribute(root, "_Booster").unwrap_or(root);
    pickle.is(inner, "xgboost", "Booster").then_some(inner)
}
