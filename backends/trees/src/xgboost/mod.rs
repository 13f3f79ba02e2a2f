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

use crate::error::FormatError;

use learner::Learner;

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
