//! One inference, between any protocol and any engine: what is asked and what is answered.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::NamedTensor;

/// A decoded request. Its tensors are slices of the body wherever the format allows.
#[derive(Debug, Clone, Default)]
pub struct InferenceRequest {
    /// The client's name for this request, echoed in the reply and in errors.
    pub id: Option<Arc<str>>,
    /// Given inputs, in any order.
    pub inputs: Vec<NamedTensor>,
    /// Wanted outputs, in the order of the reply; empty for all of them.
    pub outputs: Vec<Arc<str>>,
    /// When the answer stops being of use.
    pub deadline: Option<Instant>,
    /// 1 is the highest; 0 for the model's default.
    pub priority: u64,
    /// The `timeout` parameter: longest time in the queue, where the model's policy heeds it.
    pub queue_timeout: Option<Duration>,
}

/// The answer to one request.
#[derive(Debug, Clone)]
pub struct InferenceResponse {
    /// Name of the model that ran.
    pub model: Arc<str>,
    /// The version that ran.
    pub version: u64,
    /// The request's id.
    pub id: Option<Arc<str>>,
    /// The wanted outputs, in the wanted order.
    pub outputs: Vec<NamedTensor>,
}
