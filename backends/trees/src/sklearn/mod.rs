//! Estimators of scikit-learn: pickles, files of joblib, and archives of skops, to documents. Pure.
//!
//! All three hold the same objects. The module `objects` is what they have in common, and estimators are read from that
//! alone.

mod boosting;
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

/// The estimator in a pickle, which may be one of joblib. `format` is shown.
///
/// # Errors
/// It is of a class that is not served, or lacks something.
pub fn from_pickle(pickle: &Pickle, format: &'static str) -> Result<Document, FormatError> {
    if let Some(stranger) = pickle.stranger().filter(|it| it.starts_with("lightgbm.")) {
        return Err(FormatError::new(format!(
            "it holds {stranger} within an estimator of scikit-learn, which is not served: convert it to ONNX, with \
             skl2onnx and onnxmltools, or serve LightGBM's model alone, saved with model.booster_.save_model('model.txt')"
        )));
    }
    if let Some(stranger) = pickle.stranger() {
        return Err(FormatError::new(format!(
            "reading this pickle in Python would call {stranger}, which is no part of a model; nothing of it is run"
        )));
    }
    estimator::read(&pickled::Pickled(pickle), pickle.root(), format)
}

/// The estimator in an archive of skops.
///
/// # Errors
/// The archive is not sound, or the estimator is of a class that is not served, or lacks something.
pub fn from_skops(bytes: &[u8]) -> Result<Document, FormatError> {
    let archive = zip::Zip::open(bytes)?;
    let schema = archive.read("schema.json")?;
    let objects = skops::Skops { json: json::Json::parse(&schema)?, archive: &archive };
    estimator::read(&objects, objects.root(), "skops")
}
