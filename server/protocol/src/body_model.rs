//! What is known of a body with texts before it is decoded: the model that it names, and what its texts take.

use crate::{
    expansion::{self, DOUBLING, KEY, PARAMETER, Separators, Text},
    json::{Reader, Token, begins_with_bracket},
    parameter,
};
use inference::{error::Error, signature::Signature};

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

/// Bytes that decoding a body of texts, or of a file, takes at most beside the body.
pub fn expanded(signature: &Signature, body: &[u8], loose: usize) -> usize {
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
pub(crate) fn of_parameters(separators: Separators, body: &[u8], loose: usize) -> usize {
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
    use std::sync::Arc;

    use allocation_counter::measure;
    use bytes::Bytes;
    use inference::task::Task;

    use crate::{
        hub, openai, samples,
        tei::{tokens, vertex},
    };

    /// Decodes, and fails where that takes more than was asked for, and more than an error takes.
    #[track_caller]
    fn within<T>(asked: usize, name: &str, decode: impl FnOnce() -> T) {
        let mut decoded = None;
        let most = measure(|| decoded = Some(decode())).bytes_max;
        assert!(most <= asked as u64 + 4096, "{name}: takes {most} bytes, {asked} were asked for");
    }

    #[test]
    fn no_body_takes_more_memory_than_is_said_beforehand() {
        let signature = samples::pipeline(Task::SentenceEmbedding, &["text BYTES [1]"], &[]);
        let signature = Signature { most_rows: Some(1 << 20), ..signature };
        let terms = Arc::new(samples::terms());
        let keys = (0..5_000).map(|it| format!("\"{it:x}\":0")).collect::<Vec<_>>().join(",");
        let (digits, ids) = ("1".repeat(40_000), "1,".repeat(20_000));
        for body in [
            format!(r#"{{"inputs":"a","parameters":{{{keys}}}}}"#),
            format!(r#"{{"inputs":"a","parameters":{{"x":[{digits}]}}}}"#),
            format!(r#"{{"inputs":"{digits}","truncation_direction":"{digits}"}}"#),
        ] {
            let asked = expanded(&signature, body.as_bytes(), 0);
            let decode = || hub::decode(&signature, None, terms.clone(), body.as_bytes());
            within(asked, "hub", decode);
        }
        for body in [
            format!(r#"{{"input":[[{digits}]]}}"#),
            format!(r#"{{"input":[{ids}1]}}"#),
            format!(r#"{{{keys},"input":["{digits}","{digits}"]}}"#),
        ] {
            let asked = expanded(&signature, body.as_bytes(), 0);
            let decode = || openai::decode(&signature, terms.clone(), body.as_bytes());
            within(asked, "embeddings", decode);
        }
        for body in [format!(r#"{{"instances":[{ids}1]}}"#), format!("{{{keys}}}")] {
            let body = Bytes::from(body);
            for most in [4, 1 << 20] {
                let asked = vertex::expanded(&body, most, 0);
                within(asked, "instances", || vertex::instances(&body, most));
            }
        }
        let (ones, empty) = ("[1],".repeat(20_000), "\"\",".repeat(20_000));
        let escapes = "\\u00e9".repeat(10_000);
        for body in [
            format!("{{{keys}}}"),
            format!(r#"{{"inputs":["{digits}",{empty}"a"]}}"#),
            format!(r#"{{"inputs":["{escapes}","{escapes}"],"prompt_name":"{escapes}"}}"#),
            format!(r#"{{"ids":[{ids}1]}}"#),
            format!(r#"{{"ids":[{ones}[1]]}}"#),
        ] {
            for most in [4, 1 << 20] {
                let asked = tokens::expanded(body.as_bytes(), most, 0);
                within(asked, "tokenize", || tokens::read_tokenize(body.as_bytes(), most));
                within(asked, "decode", || tokens::read_decode(body.as_bytes(), most));
            }
        }
    }

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
