//! The model that a body with texts names, before it is decoded.

use crate::json::{JsonReader, Token};
use inference::{error::Error, grant::Grant};

/// Most bytes of a name as it stands in a body, for which nothing is asked.
const LONGEST_NAME: usize = 1 << 10;

/// The name of the model that a body names; `None` where it names none.
///
/// # Errors
/// When it is no JSON object, or the name no text or too long.
pub fn model_name(body: &[u8]) -> Result<Option<String>, Error> {
    let mut name = None;
    let grant = Grant::uncounted();
    let mut reader = JsonReader::preview(body, &grant)?;
    reader.object(|reader, key| match &*key {
        "model" if reader.peek()? == Token::Null => reader.null(),
        "model" => {
            let start = reader.mark();
            // Before a copy is made of it.
            let given = reader.revisit(start, JsonReader::raw_value)?.len();
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
