//! The two kinds of calls of the local runtime.

use super::{address, operations};
use inference::access::Need;

/// A call of the local runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// One below `/endpoints`.
    Endpoint,
    /// An operation on jobs of the Inference Recommender.
    Job,
}

impl Call {
    /// The access that a client needs for it.
    pub fn need(self) -> Need {
        match self {
            Call::Endpoint => address::NEED,
            Call::Job => operations::NEED,
        }
    }
}
