//! What is counted and shown of each model.

use std::collections::BTreeMap;

/// Buckets of the first-response histogram where a model has none of its own, in milliseconds.
const FIRST_RESPONSE_MS: [u64; 4] = [100, 500, 2000, 5000];

/// What a model's configuration says about its metrics.
#[derive(Debug, Clone)]
pub struct ModelOptions {
    /// `metric_tags`: each becomes a label, its name after an underscore. What a label's name cannot
    /// hold becomes an underscore.
    pub tags: BTreeMap<String, String>,
    /// The GPU on which all instances run, where that is one: the label `gpu_uuid`.
    pub gpu_uuid: Option<String>,
    /// Where models of different repositories may have one name, the model's: the label `namespace`.
    pub namespace: Option<String>,
    /// Upper bounds of the first-response histogram, in milliseconds: `model_metrics`, or Triton's own.
    pub first_response_ms: Vec<u64>,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            tags: BTreeMap::new(),
            gpu_uuid: None,
            namespace: None,
            first_response_ms: FIRST_RESPONSE_MS.to_vec(),
        }
    }
}
