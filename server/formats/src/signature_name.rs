//! Which signature of a model a body of JSON names, whatever else is in it.

use crate::{
    json::{JsonReader, Token},
    rows::enough,
};
use inference::grant::Grant;

/// The key of bodies of TensorFlow Serving, and the parameter of those of KServe, with the name of a signature.
pub const SIGNATURE_NAME: &str = "signature_name";

/// The name under that key of the object that a body begins with, or of its `parameters`. `None` where there is none;
/// what is wrong with the body is said when it is decoded.
pub fn signature_name(body: &[u8]) -> Option<String> {
    let mut found = None;
    let grant = Grant::uncounted();
    let mut reader = JsonReader::preview(body, &grant).ok()?;
    if reader.peek().ok()? != Token::Object {
        return None;
    }
    let mut named = |reader: &mut JsonReader<'_>| {
        if reader.peek()? != Token::String {
            return reader.skip_value();
        }
        found = Some(reader.string()?.into_owned());
        Err(enough())
    };
    // Where it fails it has been found, or decoding says why.
    let _ = reader.object(|reader, key| match &*key {
        SIGNATURE_NAME => named(reader),
        "parameters" if reader.peek()? == Token::Object => {
            reader.object(|reader, key| match &*key {
                SIGNATURE_NAME => named(reader),
                _ => reader.skip_value(),
            })
        }
        _ => reader.skip_value(),
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: Option<&str>) {
        assert_eq!(signature_name(body.as_bytes()).as_deref(), expected);
    }

    #[test]
    fn a_name_is_found_before_and_behind_the_inputs_and_among_the_parameters() {
        check(r#"{"signature_name": "a", "instances": [1]}"#, Some("a"));
        check(
            r#"{"instances": [[1, {"signature_name": "no"}]], "signature_name": "a"}"#,
            Some("a"),
        );
        check(r#"{"inputs": [], "parameters": {"x": {}, "signature_name": "a"}}"#, Some("a"));
        check(r#"{"signature_name": ""}"#, Some(""));
    }

    #[test]
    fn where_there_is_none_decoding_says_what_is_wrong() {
        check(r#"{"signature_name": 1, "parameters": 2}"#, None);
        check(r#"{"inputs": [1,"#, None);
        check("[1]", None);
        check("1,2\n", None);
        check("", None);
    }
}
