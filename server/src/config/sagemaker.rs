//! SageMaker: who answers `/invocations`, and how.

use super::{sources::Sources, value};

/// The routes of the SageMaker port.
#[derive(Debug, Clone, PartialEq)]
pub struct SageMaker {
    /// `--sagemaker-default-model`: who answers `/invocations`; `None` for the only model.
    pub default_model: Option<String>,
    /// `--default-accept`: the reply's type where the client takes any.
    pub default_accept: Option<String>,
    /// `--sagemaker-batch`, `SAGEMAKER_BATCH`: a batch transform job, in which nothing is refused for having to wait.
    pub batch: bool,
}

/// Reads it.
pub(super) fn resolve(sources: &Sources, problems: &mut Vec<String>) -> SageMaker {
    SageMaker {
        default_model: sources.read("sagemaker-default-model", value::text, problems),
        default_accept: sources.read("default-accept", value::media_type, problems),
        batch: sources.read("sagemaker-batch", value::boolean, problems).unwrap_or(false),
    }
}
