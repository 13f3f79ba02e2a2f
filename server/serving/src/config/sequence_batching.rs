//! What a configuration says of sequence batching, in the terms of the scheduler.

use std::{sync::Arc, time::Duration};

use backend::DataType;
use schedule::sequence::{Control, Strategy};

/// How a model's sequences are scheduled.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceBatching {
    /// A sequence that has been without a request for so long is over.
    pub idle: Duration,
    /// Which requests run together.
    pub strategy: Strategy,
    /// Sequences on one instance at most; at least 1.
    pub seats: usize,
    /// Inputs that tell the model of sequences.
    pub controls: Vec<Control>,
    /// Is each request a sequence of its own, which the model has run again until it is done with it?
    pub iterates: bool,
    /// Tensors that go from one request of a sequence to the next.
    pub states: Vec<StateConfig>,
}

/// A tensor that goes from one request of a sequence to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct StateConfig {
    /// Name of the model's input.
    pub input: Arc<str>,
    /// Name of the model's output.
    pub output: Arc<str>,
    /// Element type of both.
    pub dtype: DataType,
    /// What the first request of a sequence gets: its shape, without the batch dimension.
    pub initial_dims: Vec<usize>,
    /// This file in the folder `initial_state` of the model, raw and row-major; `None` for zeros.
    pub initial_file: Option<String>,
}
