//! Which variables tell whose container this one takes the place of.

use super::{
    families::means_something,
    variables::{HF_TASK, HUB_MODEL, MLFLOW_FLAVOR, PROGRAM, TENSORFLOW},
};
use crate::{environment::Environment, flags::FlagTable};

/// A container whose habits are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// TensorFlow Serving's.
    TensorFlowServing,
    /// Triton's.
    Triton,
    /// Hugging Face's.
    HuggingFace,
    /// Those made with the inference toolkits, that of PyTorch among them.
    Toolkit,
    /// XGBoost's.
    Xgboost,
    /// MLflow's image.
    Mlflow,
}

/// A variable that is set and tells whose container is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TellingVariable {
    /// Its name.
    pub name: String,
    /// The container.
    pub container: Container,
}

/// Beginnings of the names of variables that one container has, whatever they say.
const OF_ONE_CONTAINER: &[(&str, Container)] = &[
    (TENSORFLOW, Container::TensorFlowServing),
    ("SAGEMAKER_TRITON_", Container::Triton),
    (HF_TASK, Container::HuggingFace),
    (HUB_MODEL, Container::HuggingFace),
    ("SAGEMAKER_XGBOOST_", Container::Xgboost),
    ("SAGEMAKER_INFERENCE_OUTPUT", Container::Xgboost),
    ("SAGEMAKER_INFERENCE_ENSEMBLE", Container::Xgboost),
    (MLFLOW_FLAVOR, Container::Mlflow),
];

/// The same for the toolkits, which other containers are made with: these come last, and count only where they mean
/// a setting.
const OF_TOOLKITS: &[&str] = &["SAGEMAKER_TS_", "SAGEMAKER_MODEL_SERVER_", PROGRAM, "MMS_"];

impl TellingVariable {
    /// The one that is set; of several, that which comes first in the tables.
    pub fn of(environment: &dyn Environment, flags: &FlagTable) -> Option<TellingVariable> {
        let mut set = environment.names();
        set.retain(|it| environment.variable(it).is_some_and(|value| !value.is_empty()));
        set.sort_unstable();
        let telling = set.into_iter().filter_map(|it| Some((named_by(&it, flags)?, it)));
        let first = telling.min_by(|one, other| one.0.0.cmp(&other.0.0));
        first.map(|((_, container), name)| TellingVariable { name, container })
    }
}

/// Does this variable tell whose container is meant?
pub(super) fn is_telling(name: &str, flags: &FlagTable) -> bool {
    named_by(name, flags).is_some()
}

/// What the name of a variable tells, and its place among others.
fn named_by(name: &str, flags: &FlagTable) -> Option<(usize, Container)> {
    let of_one = OF_ONE_CONTAINER.iter().enumerate().find(|it| name.starts_with(it.1.0));
    let of_toolkits = || {
        let is_one =
            OF_TOOLKITS.iter().any(|it| name.starts_with(it)) && means_something(name, flags);
        is_one.then_some((OF_ONE_CONTAINER.len(), Container::Toolkit))
    };
    of_one.map(|(place, it)| (place, it.1)).or_else(of_toolkits)
}
