//! The outputs of a pipeline for clients that want values and not texts of JSON.

use std::sync::Arc;

use backend::NamedTensor;

use inference::{signature::Signature, task::RESULT};

/// All outputs of that face but the one that is JSON; all where there is no other.
pub fn of(signature: &Signature) -> Vec<Arc<str>> {
    let outputs = signature.outputs.iter().map(|it| &it.name);
    outputs.filter(|it| &***it != RESULT).cloned().collect()
}

/// The outputs that a request with these inputs is to ask for where it names none: none, which stands for all, where it
/// is not for a pipeline.
pub fn of_request(signature: &Signature, inputs: &[NamedTensor]) -> Vec<Arc<str>> {
    match signature.of_inputs(inputs) {
        (Some(_), face) => of(face),
        (None, _) => Vec::new(),
    }
}
