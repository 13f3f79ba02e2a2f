//! What the targets of requests share: the bytes in front of a body, and the answer that an echoing model gives.

use backend::NamedTensor;
use inference::{request::InferenceResponse, signature::Signature};

use crate::signatures::signature;

/// An input taken apart: its first byte is the number of a model, its second one says the rest.
pub(crate) struct Input<'a> {
    pub(crate) signature: Signature,
    pub(crate) choice: u8,
    pub(crate) body: &'a [u8],
}

impl Input<'_> {
    /// `None` where there is less than that.
    pub(crate) fn of(data: &[u8]) -> Option<Input<'_>> {
        let [model, choice, body @ ..] = data else { return None };
        Some(Input { signature: signature(*model), choice: *choice, body })
    }
}

/// The response of a model that answers with its inputs.
pub(crate) fn echo(inputs: Vec<NamedTensor>) -> InferenceResponse {
    InferenceResponse {
        model: "m".into(),
        version: 3,
        id: None,
        rows: None,
        outputs: inputs,
        timings: None,
        parameters: Vec::new(),
    }
}

/// Each body for these models, with these choices.
pub(crate) fn inputs(
    models: impl IntoIterator<Item = u8> + Clone,
    choices: impl IntoIterator<Item = u8> + Clone,
    bodies: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let mut made = Vec::new();
    for body in bodies {
        for model in models.clone() {
            for choice in choices.clone() {
                made.push([&[model, choice], &body[..]].concat());
            }
        }
    }
    made
}
