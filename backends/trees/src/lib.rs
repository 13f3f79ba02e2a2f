//! The engine `fil`: tree models as XGBoost, LightGBM and scikit-learn save them, with the answers of the library that
//! wrote the file, bit for bit.
//!
//! Each format has a reader, a pure function from bytes to a [`forest::document::Document`]. All else is common: the
//! checks, the packed nodes, the walks from rows to sums, and the transforms from sums to predictions. Files are data
//! of strangers: nothing in them is run, no reader recurses, and what they take of memory is bounded by their size.
#![forbid(unsafe_code)]

pub mod error;
pub mod forest;
pub mod lightgbm;
pub mod limits;
pub mod ndarray;
pub mod pickle;
pub mod xgboost;
