//! Files of XGBoost: bytes to a [`learner::Learner`], whatever the format, and from it to a document.

mod base_score;
mod categories;
mod json;
pub mod learner;
pub mod legacy;
mod model;
mod objective;
pub mod pickled;
mod source;
mod tree;
mod ubj;

use crate::{
    error::FormatError,
    sniff::{BEGIN, FileFormat, sniff},
};

use learner::Learner;

/// Reads a model in whichever of these formats it is.
///
/// # Errors
/// It is in none of them, or what is wrong in it.
pub fn read(bytes: &[u8]) -> Result<Learner, FormatError> {
    match sniff(&bytes[..bytes.len().min(BEGIN)]) {
        Some(FileFormat::XgboostJson) => read_json(bytes),
        Some(FileFormat::XgboostUbj) => read_ubj(bytes),
        Some(FileFormat::XgboostLegacy) => legacy::read(bytes),
        _ => Err(FormatError::new("the model in this pickle is of no format of XGBoost's")),
    }
}

/// Reads a file in XGBoost's JSON.
///
/// # Errors
/// What is wrong, and at which byte.
pub fn read_json(bytes: &[u8]) -> Result<Learner, FormatError> {
    model::read(&mut json::Json::new(bytes), "JSON")
}

/// Reads a file in UBJSON as XGBoost writes it.
///
/// # Errors
/// What is wrong, and at which byte.
pub fn read_ubj(bytes: &[u8]) -> Result<Learner, FormatError> {
    model::read(&mut ubj::Ubj::new(bytes), "UBJ")
}
