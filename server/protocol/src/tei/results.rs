//! Replies of which each row has written its own part.

use crate::{EncodedReply, cost, terms::Terms};
use inference::{error::Error, request::InferenceResponse, task::RESULT};

/// What the rows say, as JSON.
///
/// # Errors
/// When they have said nothing.
pub(super) fn rows(response: &InferenceResponse) -> Result<Vec<&[u8]>, Error> {
    let result = response.outputs.iter().find(|it| &*it.name == RESULT);
    let missing = || Error::Internal(format!("the reply has no output '{RESULT}'"));
    Ok(result.ok_or_else(missing)?.tensor.strings().collect())
}

/// A list of these.
pub(super) fn list(rows: &[&[u8]]) -> Vec<u8> {
    let bytes: usize = rows.iter().map(|it| it.len() + 1).sum();
    let mut out = Vec::with_capacity(bytes + 1);
    out.push(b'[');
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(row);
    }
    out.push(b']');
    out
}

/// A reply with the headers of what it has taken.
///
/// # Errors
/// When the response does not say how many tokens it took.
pub(super) fn reply(
    body: Vec<u8>,
    response: &InferenceResponse,
    terms: &Terms,
    characters: usize,
) -> Result<EncodedReply, Error> {
    let headers = cost::headers(terms, characters, response)?;
    Ok(EncodedReply { headers, ..EncodedReply::json(body) })
}
