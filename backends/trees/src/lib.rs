//! The engine `fil`: tree models as XGBoost, LightGBM, scikit-learn and treelite save them, with the answers of the
//! library that wrote the file, bit for bit.
//!
//! Each format has a reader, a pure function from bytes to a [`forest::document::Document`]. All else is common: the
//! checks, the packed nodes, the walks from rows to sums, and the transforms from sums to predictions. Files are data
//! of strangers: nothing in them is run, no reader recurses, and what they take of memory is bounded by their size.
#![forbid(unsafe_code)]

pub mod categories;
pub mod error;
mod explain;
mod folds;
pub mod forest;
mod inflate;
mod instance;
pub mod lightgbm;
pub mod limits;
mod meaning;
mod model;
pub mod ndarray;
pub mod options;
pub mod output;
pub mod pickle;
mod ports;
mod predicted;
pub mod read;
mod rows;
mod select;
mod shared;
pub mod sklearn;
pub mod sniff;
pub mod treelite;
pub mod xgboost;
mod xz;

use std::sync::Arc;

use backend::{Backend, BackendError, EngineDescription, Format, Model, ModelSource};

use model::TreeModel;

/// The engine. It has no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trees;

/// What the engine opens, and what its settings are called.
const DESCRIPTION: EngineDescription = EngineDescription {
    formats: &[Format {
        platform: "",
        aliases: &[],
        file: "model.ubj",
        other_extensions: &[
            "json", "model", "bst", "xgb", "lgb", "txt", "tl", "skops", "joblib", "pkl",
        ],
        // Those of Triton's FIL, and that of SageMaker's XGBoost.
        other_files: &[
            "xgboost.ubj",
            "xgboost.json",
            "xgboost.model",
            "checkpoint.tl",
            "xgboost-model",
            "model.json",
            "model.txt",
            "model.skops",
            "model.joblib",
            "model.pkl",
        ],
        folds: "xgboost-model-",
        is_by_whole_name: false,
        content: Some(|begin| sniff::sniff(begin).is_some()),
        rank: 4,
        is_served: true,
    }],
    other_names: &["xgboost", "lightgbm", "sklearn", "trees"],
    parameters: &options::PARAMETERS,
    takes_missing: true,
    runs_native_code: false,
    is_unread: Some(model::is_unread),
    ..EngineDescription::PLAIN
};

impl Backend for Trees {
    fn name(&self) -> &'static str {
        "fil"
    }

    fn description(&self) -> &'static EngineDescription {
        &DESCRIPTION
    }

    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        Ok(Arc::new(TreeModel::load(source)?))
    }
}
