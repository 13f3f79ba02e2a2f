//! Estimators of scikit-learn: pickles, files of joblib, and archives of skops, to documents. Pure.
//!
//! All three hold the same objects. The module `objects` is what they have in common, and estimators are read from that
//! alone.

mod advice;
mod booster;
mod boosting;
mod calibrated;
mod composed;
mod estimator;
mod json;
mod npy;
mod objects;
mod pickled;
mod skops;
mod steps;
mod tree;
mod zip;

use crate::{error::FormatError, forest::document::Document, pickle::value::Pickle};

use objects::Objects;
use tree::TreeReader;

/// The estimator in a pickle, which may be one of joblib, or a `Booster` of LightGBM. `format` is shown. Several
/// documents are one model, whose answers are averaged.
///
/// # Errors
/// It is of a class that is not served, or lacks something.
pub fn from_pickle(pickle: &Pickle, format: &'static str) -> Result<Vec<Document>, FormatError> {
    if let Some(stranger) = pickle.stranger() {
        return Err(FormatError::new(format!(
            "reading this pickle in Python would call {stranger}, which is no part of a model; nothing of it is run: \
             save the fitted estimator alone"
        )));
    }
    let (objects, root) = (pickled::Pickled(pickle), pickle.root());
    match pickle.is(root, "lightgbm", "Booster") {
        true => Ok(vec![booster::of_lightgbm(&mut TreeReader::new(&objects), root)?]),
        false => composed::read(&objects, root, format),
    }
}

/// The estimator in an archive of skops.
///
/// # Errors
/// The archive is not sound, or the estimator is of a class that is not served, or lacks something.
pub fn from_skops(bytes: &[u8]) -> Result<Vec<Document>, FormatError> {
    let archive = zip::Zip::open(bytes)?;
    let schema = archive.read("schema.json")?;
    let objects = skops::Skops { json: json::Json::parse(&schema)?, archive: &archive };
    composed::read(&objects, objects.root(), "skops")
}
