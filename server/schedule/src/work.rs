//! What one request brings to a batch, and what it gets out of it.

use std::sync::Arc;

use backend::NamedTensor;

use inference::timings::Timings;

/// What one request brings to a batch.
#[derive(Debug, Clone)]
pub struct Work {
    /// Inputs in the order of the model's signature, in the engine's shapes. Jobs of one batch bring the
    /// same ones.
    pub inputs: Vec<NamedTensor>,
    /// Wanted outputs, in the order of the reply; never empty.
    pub outputs: Vec<Arc<str>>,
    /// Rows in the first dimension of every input; 1 without a batch dimension.
    pub rows: usize,
}

/// A request's share of what came out.
#[derive(Debug)]
pub struct Done {
    /// The wanted outputs, in the wanted order.
    pub outputs: Vec<NamedTensor>,
    /// Where the time of the execution went.
    pub timings: Timings,
}
