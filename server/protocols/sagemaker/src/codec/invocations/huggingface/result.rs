//! Replies of pipelines that the server itself runs: each row has written its own.

use super::PipelineReply;
use formats::{EncodedReply, json::write, negotiate::Media};
use inference::{request::InferenceResponse, task::RESULT};

/// What the rows say, one behind the other.
pub(super) fn rows(response: &InferenceResponse) -> Option<impl Iterator<Item = &[u8]>> {
    let result = response.outputs.iter().find(|it| &*it.name == RESULT)?;
    Some(result.tensor.strings())
}

/// A list of what each row says; of one row that came by itself, that alone. `None` where rows have said nothing, as
/// in a reply of the graph.
pub(super) fn json(pipeline: PipelineReply, response: &InferenceResponse) -> Option<EncodedReply> {
    let mut out = Vec::new();
    if !pipeline.one {
        out.push(b'[');
    }
    for row in rows(response)? {
        write::item(&mut out);
        out.extend_from_slice(row);
    }
    if !pipeline.one {
        out.push(b']');
    }
    Some(EncodedReply::json(out))
}

/// The same with one line for each row.
pub(super) fn lines(media: Media, response: &InferenceResponse) -> Option<EncodedReply> {
    let mut out = Vec::new();
    for row in rows(response)? {
        out.extend_from_slice(row);
        out.push(b'\n');
    }
    Some(EncodedReply { content_type: media.name().into(), ..EncodedReply::json(out) })
}
