//! Requests that a model answers each by itself: what is known of one beside its tensors, and what comes back.
//!
//! Most models are given a batch and know nothing of the requests in it. Code of users is given the requests: it looks
//! at their parameters, and one of them may fail where the others do not.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::NamedTensor;

/// The value of a parameter of a request or of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A truth value.
    Bool(bool),
    /// An integer; those beyond `i64` have come as texts or floating-point numbers.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A text.
    Text(Arc<str>),
}

/// Parameters by their names, in their order.
pub type Parameters = Vec<(Arc<str>, Parameter)>;

/// What is known of a request beside its tensors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct About {
    /// The client's name for it.
    pub id: Option<Arc<str>>,
    /// Parameters that mean nothing to the server.
    pub parameters: Parameters,
    /// The client's name for its sequence, and its place there.
    pub sequence: Option<(Parameter, SequenceFlags)>,
    /// The time that the client gives it, in microseconds; 0 where it gives none.
    pub timeout_us: u64,
    /// The models whose calls have led to it, the outermost first; none where it is a client's.
    pub lineage: Vec<Arc<str>>,
}

/// The place of a request in its sequence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SequenceFlags {
    /// Is it the first one?
    pub start: bool,
    /// Is it the last one?
    pub end: bool,
}

/// What one request is answered.
#[derive(Debug, Clone, Default)]
pub struct CallAnswer {
    /// Its outputs, in any order.
    pub outputs: Vec<NamedTensor>,
    /// What else the model says to the client.
    pub parameters: Parameters,
    /// Is the request to be run once more, as the next one of its sequence? It is not answered yet then.
    pub again: bool,
}

/// What an error of a model's own code says is wrong. The names are those of Triton's C interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallCode {
    /// Nothing is known of it.
    Unknown,
    /// The model is at fault.
    Internal,
    /// What is asked for is not there.
    NotFound,
    /// The request is wrong.
    InvalidArg,
    /// The model cannot answer at this moment.
    Unavailable,
    /// The model does not do that.
    Unsupported,
    /// What is to be made is there.
    AlreadyExists,
    /// The request was given up.
    Cancelled,
}

/// Why a model's own code has not answered a request. Others of the same run may be answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    /// What is wrong.
    pub code: CallCode,
    /// A sentence of the model's, or of what ran it.
    pub text: String,
}
