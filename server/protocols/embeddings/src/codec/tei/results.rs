//! Replies of which each row has written its own part.

use formats::{json::write, vectors};
use inference::{error::Error, request::InferenceResponse, task::RESULT};

/// Bytes of a reply of all rows, besides the outputs.
pub(super) fn joined(response: &InferenceResponse) -> usize {
    response.outputs.iter().map(|it| it.tensor.byte_len()).fold(2, usize::saturating_add)
}

/// What the rows say, as JSON.
///
/// # Errors
/// When they have said nothing.
pub(super) fn rows(response: &InferenceResponse) -> Result<Vec<&[u8]>, Error> {
    Ok(vectors::output(response, RESULT)?.strings().collect())
}

/// A list of these.
pub(super) fn list(rows: &[&[u8]]) -> Vec<u8> {
    let bytes: usize = rows.iter().map(|it| it.len() + 1).sum();
    let mut out = Vec::with_capacity(bytes + 1);
    out.push(b'[');
    for row in rows {
        write::item(&mut out);
        out.extend_from_slice(row);
    }
    out.push(b']');
    out
}
