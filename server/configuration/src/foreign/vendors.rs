//! Which variables tell whose container this one takes the place of.

use super::{
    super::{Dialect, environment::Environment, sagemaker::Vendor},
    HF_TASK, HUB_MODEL, MLFLOW_FLAVOR, PROGRAM, TENSORFLOW, means_something,
};

/// Beginnings of the names of variables that one container has, whatever they say.
const OF_ONE_CONTAINER: &[(&str, Dialect)] = &[
    (TENSORFLOW, Dialect::Tfs),
    ("SAGEMAKER_TRITON_", Dialect::Triton),
    (HF_TASK, Dialect::HuggingFace),
    (HUB_MODEL, Dialect::HuggingFace),
    ("SAGEMAKER_XGBOOST_", Dialect::Xgboost),
    ("SAGEMAKER_INFERENCE_OUTPUT", Dialect::Xgboost),
    ("SAGEMAKER_INFERENCE_ENSEMBLE", Dialect::Xgboost),
    (MLFLOW_FLAVOR, Dialect::Mlflow),
];

/// The same for the toolkits, which other containers are made with: these come last, and count only where they mean
/// a setting.
const OF_TOOLKITS: &[&str] = &["SAGEMAKER_TS_", "SAGEMAKER_MODEL_SERVER_", PROGRAM, "MMS_"];

/// The container that is meant; of several, that which comes first in the tables.
pub(in super::super) fn vendor(environment: &dyn Environment) -> Option<Vendor> {
    let mut set = environment.names();
    set.retain(|it| environment.variable(it).is_some_and(|value| !value.is_empty()));
    set.sort_unstable();
    let told = set.into_iter().filter_map(|it| Some((told_by(&it)?, it)));
    let first = told.min_by(|one, other| one.0.0.cmp(&other.0.0));
    first.map(|((_, dialect), variable)| Vendor { dialect, variable })
}

/// Does this variable tell whose container is meant?
pub(super) fn tells(name: &str) -> bool {
    told_by(name).is_some()
}

/// What the name of a variable tells, and its place among others.
fn told_by(name: &str) -> Option<(usize, Dialect)> {
    let of_one = OF_ONE_CONTAINER.iter().enumerate().find(|it| name.starts_with(it.1.0));
    let of_toolkits = || {
        let is_one = OF_TOOLKITS.iter().any(|it| name.starts_with(it)) && means_something(name);
        is_one.then_some((OF_ONE_CONTAINER.len(), Dialect::Toolkit))
    };
    of_one.map(|(place, it)| (place, it.1)).or_else(of_toolkits)
}
