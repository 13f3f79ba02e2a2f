//! Which of a pipeline's outputs a reply shows.

use std::sync::Arc;

use backend::NamedTensor;

use super::ReplyFormat;
use formats::typed_outputs;
use inference::{
    signature::{Port, Signature},
    task::{Csv, EMBEDDING, RESULT},
};

/// The outputs that a request is to ask for, so that its reply can have that form; `None` where it is for no pipeline.
pub(super) fn outputs(
    signature: &Signature,
    inputs: &[NamedTensor],
    format: &ReplyFormat,
) -> Option<Vec<Arc<str>>> {
    let (Some(task), signature) = signature.of_inputs(inputs) else { return None };
    let is_of_columns = task.facts().csv == Csv::Numbers;
    Some(match (format.inner(), port(signature)) {
        (ReplyFormat::HuggingFaceCsv, _) if !is_of_columns => vec![RESULT.into()],
        (ReplyFormat::Algorithm(reply), _) => reply.outputs(),
        (ReplyFormat::HuggingFace(_) | ReplyFormat::HuggingFaceLines(..), _) => {
            vec![RESULT.into()]
        }
        (ReplyFormat::Npy, Some(array)) => vec![array.name.clone()],
        _ => typed_outputs::of(signature),
    })
}

/// The output of a pipeline that can be an array of numbers by itself.
pub(super) fn array(signature: &Signature) -> Option<&Port> {
    signature.pipeline.as_ref().and_then(|_| port(signature))
}

fn port(signature: &Signature) -> Option<&Port> {
    signature.outputs.iter().find(|it| &*it.name == EMBEDDING)
}
