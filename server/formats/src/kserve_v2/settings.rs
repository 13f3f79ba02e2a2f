//! The bodies of the trace and logging extensions: settings by name. What names and values there are, their owners
//! know.

use std::collections::BTreeMap;

use crate::{
    EncodedReply,
    json::{JsonReader, Token, write},
};
use inference::{error::Error, grant::Grant, log_value::LogValue};

/// The one trace setting that is a list also where it has one value.
const TRACE_LEVEL: &str = "trace_level";

/// Reads changes of trace settings: texts, lists of them, numbers for texts, and `null` for the default. An empty
/// body changes nothing.
///
/// # Errors
/// When it is something else.
pub fn trace_request(body: &[u8]) -> Result<BTreeMap<String, Option<Vec<String>>>, Error> {
    let mut changes = BTreeMap::new();
    if body.trim_ascii().is_empty() {
        return Ok(changes);
    }
    JsonReader::request(body, &Grant::uncounted(), |reader| {
        reader.object(|reader, name| {
            let value = match reader.peek()? {
                Token::Null => reader.null().map(|()| None)?,
                Token::Array => {
                    let mut values = Vec::new();
                    reader.array(|reader, _| {
                        values.push(trace_value(reader)?);
                        Ok(())
                    })?;
                    Some(values)
                }
                _ => Some(vec![trace_value(reader)?]),
            };
            changes.insert(name.into_owned(), value);
            Ok(())
        })
    })?;
    Ok(changes)
}

fn trace_value(reader: &mut JsonReader<'_>) -> Result<String, Error> {
    match reader.peek()? {
        Token::String => Ok(reader.string()?.into_owned()),
        Token::Number => Ok(reader.number::<i64>()?.to_string()),
        found @ (Token::Bool | Token::Object | Token::Array | Token::Null) => {
            let expected = "expected a string or a number";
            Err(reader.error(format_args!("{expected}, found {found}")))
        }
    }
}

/// All trace settings.
pub fn trace_settings(settings: &BTreeMap<String, Vec<String>>) -> EncodedReply {
    let mut out = b"{".to_vec();
    for (name, values) in settings {
        write::key(&mut out, name);
        match values.as_slice() {
            [only] if name != TRACE_LEVEL => write::string(&mut out, only),
            several => {
                out.push(b'[');
                for value in several {
                    write::item(&mut out);
                    write::string(&mut out, value);
                }
                out.push(b']');
            }
        }
    }
    out.push(b'}');
    EncodedReply::json(out)
}

/// Reads changes of the log's settings. An empty body changes nothing.
///
/// # Errors
/// When it is no object of booleans, numbers from 0 and strings.
pub fn log_request(body: &[u8]) -> Result<Vec<(String, LogValue)>, Error> {
    let mut changes = Vec::new();
    if body.trim_ascii().is_empty() {
        return Ok(changes);
    }
    JsonReader::request(body, &Grant::uncounted(), |reader| {
        reader.object(|reader, name| {
            let value = match reader.peek()? {
                Token::Bool => LogValue::Bool(reader.bool()?),
                Token::Number => LogValue::Number(reader.number()?),
                Token::String => LogValue::Text(reader.string()?.into_owned()),
                found @ (Token::Object | Token::Array | Token::Null) => {
                    let expected = "expected a boolean, a number or a string";
                    return Err(reader.error(format_args!("{expected}, found {found}")));
                }
            };
            changes.push((name.into_owned(), value));
            Ok(())
        })
    })?;
    Ok(changes)
}

/// All settings of the log.
pub fn log_settings(settings: &[(&'static str, LogValue)]) -> EncodedReply {
    let mut out = b"{".to_vec();
    for (name, value) in settings {
        write::key(&mut out, name);
        match value {
            LogValue::Bool(value) => write::bool(&mut out, *value),
            LogValue::Number(value) => write::number(&mut out, *value),
            LogValue::Text(value) => write::string(&mut out, value),
        }
    }
    out.push(b'}');
    EncodedReply::json(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(reply: EncodedReply) -> String {
        String::from_utf8(reply.body.concat()).unwrap()
    }

    #[test]
    fn a_trace_setting_is_a_text_a_list_a_number_or_nothing() {
        let body =
            br#"{"trace_level":["TIMESTAMPS","TENSORS"],"trace_rate":5,"log_frequency":null,"trace_count":"-1"}"#;
        let changes = trace_request(body).unwrap();
        let list = |values: &[&str]| Some(values.iter().map(|it| (*it).to_owned()).collect());
        let expected = [
            ("trace_level".to_owned(), list(&["TIMESTAMPS", "TENSORS"])),
            ("trace_rate".to_owned(), list(&["5"])),
            ("log_frequency".to_owned(), None),
            ("trace_count".to_owned(), list(&["-1"])),
        ];
        assert_eq!(changes, expected.into());
        assert_eq!(trace_request(b" "), Ok(BTreeMap::new()));
        let error = trace_request(br#"{"trace_rate":{}}"#).unwrap_err().to_string();
        let expected = "trace_rate: expected a string or a number, found an object, at byte 14";
        assert_eq!(error, expected);
    }

    #[test]
    fn the_level_of_traces_is_always_a_list() {
        let settings = [("trace_level", "OFF"), ("trace_rate", "1000")]
            .map(|(name, value)| (name.to_owned(), vec![value.to_owned()]));
        let json = r#"{"trace_level":["OFF"],"trace_rate":"1000"}"#;
        assert_eq!(text(trace_settings(&settings.into())), json);
    }

    #[test]
    fn log_settings_have_types() {
        let json = r#"{"log_info":true,"log_verbose_level":2,"log_format":"ISO8601"}"#;
        let changes = log_request(json.as_bytes()).unwrap();
        let shown = [
            ("log_info", LogValue::Bool(true)),
            ("log_verbose_level", LogValue::Number(2)),
            ("log_format", LogValue::Text("ISO8601".to_owned())),
        ];
        assert_eq!(changes, shown.clone().map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(text(log_settings(&shown)), json);
        assert!(log_request(br#"{"log_verbose_level":-1}"#).is_err());
        assert!(log_request(br#"{"log_info":null}"#).is_err());
    }
}
