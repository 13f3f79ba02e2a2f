//! All families of containers whose variables are known. Within a setting the more specific family wins: Triton,
//! TensorFlow Serving, TorchServe, toolkits, those of every container.

use super::{
    common,
    mapping::Family,
    tensorflow, toolkits, torchserve, triton,
    variables::{
        BASE_DIR, FURTHER_OPTIONS, HF_TASK, HUB_MODEL, MLFLOW_FLAVOR, MODEL_PATH, PROGRAM,
        SUBMIT_DIRECTORY,
    },
};
use crate::flags::FlagTable;

/// The most specific first.
pub(super) const FAMILIES: &[Family] = &[
    triton::FAMILY,
    tensorflow::FAMILY,
    torchserve::FAMILY,
    toolkits::FAMILY,
    common::FAMILY,
    common::NOT_SAGEMAKER,
];

/// Those that are not texts for one setting, and are read where they are needed.
pub(super) const READ_ELSEWHERE: &[&str] = &[
    FURTHER_OPTIONS,
    MODEL_PATH,
    BASE_DIR,
    PROGRAM,
    SUBMIT_DIRECTORY,
    HF_TASK,
    HUB_MODEL,
    MLFLOW_FLAVOR,
];

/// Does what this variable says change anything?
pub(super) fn means_something(name: &str, flags: &FlagTable) -> bool {
    let mut meant = FAMILIES.iter().flat_map(|it| it.means);
    READ_ELSEWHERE.contains(&name) || meant.any(|it| it.0 == name && it.1.has_effect(flags))
}
