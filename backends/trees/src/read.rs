//! The bytes of a file become a document, whatever their format. Pure.

use crate::{
    error::FormatError,
    forest::document::Document,
    lightgbm,
    sniff::{BEGIN, FileFormat, sniff},
    xgboost,
};

/// Reads a file of any format. `objective` takes the place of the objective of a file of XGBoost.
///
/// # Errors
/// What is wrong, and where.
pub fn read(bytes: &[u8], objective: Option<&str>) -> Result<Document, FormatError> {
    match sniff(&bytes[..bytes.len().min(BEGIN)]) {
        Some(FileFormat::XgboostJson) => xgboost::read_json(bytes)?.into_document(objective),
        Some(FileFormat::XgboostUbj) => xgboost::read_ubj(bytes)?.into_document(objective),
        Some(FileFormat::Lightgbm) => lightgbm::read(bytes),
        None => Err(FormatError::new(
            "this is no tree model by its first bytes: expected a file that save_model of XGBoost or LightGBM wrote",
        )),
    }
}
