//! The length of the JSON part as a parameter of the content type, for platforms that let no other header through:
//! Vertex AI.

use std::borrow::Cow;

use crate::EncodedReply;
use inference::error::Error;

/// The content type of JSON with tensors behind it, up to the number of bytes of JSON.
const VERTEX_AI: &str = "application/vnd.vertex-ai-triton.binary+json;json-header-size=";

/// Bytes of JSON in front of a body's tensors, as its content type says; `None` where it is another type.
///
/// # Errors
/// When the type is not at the start of the value, or no number follows it.
pub fn json_length(content_type: &str) -> Result<Option<usize>, Error> {
    if !content_type.contains(VERTEX_AI) {
        return Ok(None);
    }
    let number = content_type.strip_prefix(VERTEX_AI);
    let digits = number.filter(|it| it.bytes().all(|it| it.is_ascii_digit()));
    match digits.and_then(|it| it.parse().ok()) {
        Some(length) => Ok(Some(length)),
        None => {
            let shown: String = content_type.chars().take(120).collect();
            Err(Error::InvalidRequest(format!(
                "content-type: expected '{VERTEX_AI}<bytes of JSON>', given '{shown}'"
            )))
        }
    }
}

/// The same reply with the length in its content type, too. The header stays: Triton sends it, and clients that reach
/// the container itself read it.
pub fn under_type(mut reply: EncodedReply) -> EncodedReply {
    if let Some(length) = reply.json_length {
        reply.content_type = Cow::Owned(format!("{VERTEX_AI}{length}"));
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_a_parameter_of_exactly_this_type() {
        assert_eq!(json_length("application/json"), Ok(None));
        assert_eq!(json_length(&format!("{VERTEX_AI}12")), Ok(Some(12)));
        for bad in ["x", "", "-1", "+1", "1 ", "99999999999999999999999"] {
            assert!(json_length(&format!("{VERTEX_AI}{bad}")).is_err(), "{bad}");
        }
        assert!(json_length(&format!("text/plain, {VERTEX_AI}12")).is_err());
    }

    #[test]
    fn a_reply_says_its_length_in_its_type() {
        let reply = EncodedReply {
            content_type: "application/octet-stream".into(),
            json_length: Some(7),
            headers: Vec::new(),
            body: Vec::new(),
        };
        let reply = under_type(reply);
        let said = (reply.content_type, reply.json_length);
        assert_eq!(said, (format!("{VERTEX_AI}7").into(), Some(7)));
        assert_eq!(under_type(EncodedReply::json(Vec::new())).content_type, "application/json");
    }
}
