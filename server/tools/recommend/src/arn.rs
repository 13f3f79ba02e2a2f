//! Names of things as clients of AWS have them.

/// A role where none was given, since a reply has to have one.
pub const ROLE: &str = "arn:aws:iam::000000000000:role/local";

/// The name of a job.
pub fn job_arn(name: &str) -> String {
    format!("arn:aws:sagemaker:local:000000000000:inference-recommendations-job/{name}")
}

/// The name of a model.
pub fn model_arn(name: &str) -> String {
    format!("arn:aws:sagemaker:local:000000000000:model/{name}")
}
