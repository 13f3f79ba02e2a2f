//! What is known of a body with texts before it is decoded: the model that it names, and what its texts take.

use crate::{
    expansion::{self, DOUBLING, KEY, PARAMETER, Separators, Text},
    json::{Reader, Token, begins_with_bracket},
    parameter,
};
use inference::{error::Error, grant::Grant, signature::Signature};

/// Most bytes of a name as it stands in a body, for which nothing is asked.
const LONGEST_NAME: usize = 1 << 10;

/// The name of the model that a body names; `None` where it names none.
///
/// # Errors
/// When it is no JSON object, or the name no text or too long.
pub fn model_name(body: &[u8]) -> Result<Option<String>, Error> {
    let mut name = None;
    let mut reader = Reader::preview(body)?;
    reader.object(|reader, key| match &*key {
        "model" if reader.peek()? == Token::Null => reader.null(),
        "model" => {
            let start = reader.mark();
            // Before a copy is made of it.
            let given = reader.revisit(start, Reader::raw_value)?.len();
            if LONGEST_NAME < given {
                let problem =
                    format_args!("expected a name of at most {LONGEST_NAME} bytes, found {given}");
                return Err(reader.error(problem));
            }
            name = Some(reader.string()?.into_owned());
            Ok(())
        }
        _ => reader.skip_value(),
    })?;
    Ok(name)
}

/// Asks for the bytes that decoding a body of texts, or of a file, takes at most beside the body.
///
/// # Errors
/// When they are not granted.
pub fn take(grant: &Grant<'_>, signature: &Signature, body: &[u8]) -> Result<(), Error> {
    grant.take(|loose| bound(signature, body, loose))
}

fn bound(signature: &Signature, body: &[u8], loose: usize) -> usize {
    if !begins_with_bracket(body) {
        // A file becomes a string, with its length in front of it; other bodies are refused.
        return body.len().saturating_add(expansion::of_ports(signature));
    }
    let takes_files = signature.inputs.iter().any(|it| signature.takes_files(&it.name));
    let inputs = match takes_files {
        true => expansion::of_rows(signature, Separators::Document, body, loose),
        false => of_texts(body, loose).saturating_add(expansion::of_ports(signature)),
    };
    inputs.saturating_add(of_parameters(Separators::Document, body, loose))
}

/// Bytes of texts and of token ids, which are kept as the text that they are.
fn of_texts(body: &[u8], loose: usize) -> usize {
    /// The length in front of a text.
    const LENGTH: usize = 4;
    Text::bound(Separators::Document, body, loose, |text| {
        let texts = text.values.saturating_mul(LENGTH).saturating_add(text.length);
        texts.saturating_mul(DOUBLING).saturating_add(text.read(KEY))
    })
}

/// Bytes that parameters of a pipeline take at most beside their keys: a list is kept as its text.
pub fn of_parameters(separators: Separators, body: &[u8], loose: usize) -> usize {
    Text::bound(separators, body, loose, |text| match text.keys {
        // That of the inputs.
        0 | 1 => 0,
        keys => {
            let each = keys.min(parameter::MOST).saturating_mul(PARAMETER - KEY);
            each.saturating_add(text.length)
        }
    })
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

    #[test]
    fn a_name_is_as_long_as_names_are() {
        let body = |name: &str| format!("{{\"model\":\"{name}\"}}");
        let named = model_name(body(&"x".repeat(1022)).as_bytes()).unwrap();
        assert_eq!(named.map(|it| it.len()), Some(1022));
        let error = model_name(body(&"\\n".repeat(600)).as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "model: expected a name of at most 1024 bytes, found 1202, at byte 9");
    }
}
