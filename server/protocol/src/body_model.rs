//! What is known of a body with texts before it is decoded: the model that it names, and what its texts take.

use crate::{
    expansion::{self, Separators},
    json::{Reader, Token, begins_with_bracket},
};
use inference::{error::Error, signature::Signature};

/// The name of the model that a body names; `None` where it names none.
///
/// # Errors
/// When it is no JSON object, or the name no text.
pub fn model_name(body: &[u8]) -> Result<Option<String>, Error> {
    let mut name = None;
    let mut reader = Reader::preview(body)?;
    reader.object(|reader, key| match &*key {
        "model" if reader.peek()? == Token::Null => reader.null(),
        "model" => {
            name = Some(reader.string()?.into_owned());
            Ok(())
        }
        _ => reader.skip_value(),
    })?;
    Ok(name)
}

/// Bytes that decoding a body of texts, or of a file, takes at most beside the body.
pub fn expanded(signature: &Signature, body: &[u8], loose: usize) -> usize {
    if !begins_with_bracket(body) {
        // A file becomes a string, with its length in front of it; other bodies are refused.
        return body.len().saturating_add(expansion::of_ports(signature));
    }
    expansion::of_rows(signature, Separators::Document, body, loose)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_may_be_named_anywhere_and_need_not_be() {
        let name = |body: &str| model_name(body.as_bytes()).unwrap();
        assert_eq!(name(r#"{"input":{"model":"x"},"model":"m/3"}"#).as_deref(), Some("m/3"));
        assert_eq!(name(r#"{"input":"a"}"#), None);
        assert_eq!(name(r#"{"model":null,"input":"a"}"#), None);
        for wrong in ["", "[]", "{", r#"{"model":7}"#] {
            assert!(model_name(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
