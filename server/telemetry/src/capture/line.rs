//! A captured request → one line of JSON in the form of SageMaker's data capture. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::SecondsFormat;
use serde_json::{Map, Value, json};

use super::capture_settings::CaptureSettings;
use super::record::{CapturedBody, Record};

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Csv,
    Json,
    Base64,
}

impl Encoding {
    fn name(self) -> &'static str {
        match self {
            Encoding::Csv => "CSV",
            Encoding::Json => "JSON",
            Encoding::Base64 => "BASE64",
        }
    }
}

/// The line, with its end.
pub(super) fn line(record: &Record, event_id: &str, config: &CaptureSettings) -> String {
    let Record { about, at, input, output } = record;
    let (mut data, mut cut) = (Map::new(), Map::new());
    for (key, mode, part) in
        [("endpointInput", "INPUT", input), ("endpointOutput", "OUTPUT", output)]
    {
        let Some(part) = part else { continue };
        let (encoding, text) = encode(part, config);
        let observed = json!({
            "observedContentType": part.content_type,
            "mode": mode,
            "data": text,
            "encoding": encoding.name(),
        });
        data.insert(key.to_owned(), observed);
        if part.bytes.len() < part.whole {
            cut.insert(mode.to_owned(), part.whole.into());
        }
    }
    let time = at.to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut metadata = Map::new();
    metadata.insert("eventId".to_owned(), event_id.into());
    if let Some(id) = &about.inference_id {
        metadata.insert("inferenceId".to_owned(), id.as_str().into());
    }
    if let Some(attributes) = &about.custom_attributes {
        metadata.insert("customAttributes".to_owned(), json!([attributes]));
    }
    metadata.insert("inferenceTime".to_owned(), time.into());
    if !cut.is_empty() {
        metadata.insert("truncated".to_owned(), Value::Object(cut));
    }
    let line = json!({ "captureData": data, "eventMetadata": metadata, "eventVersion": "0" });
    format!("{line}\n")
}

/// As text where the type is one of those that are, and it is text.
fn encode(part: &CapturedBody, config: &CaptureSettings) -> (Encoding, String) {
    let name = part.content_type.split(';').next().unwrap_or_default().trim();
    let is_among = |types: &[String]| types.iter().any(|it| it.eq_ignore_ascii_case(name));
    let encoding = match () {
        () if is_among(&config.csv_types) => Encoding::Csv,
        () if is_among(&config.json_types) => Encoding::Json,
        () => Encoding::Base64,
    };
    let text = match encoding {
        Encoding::Base64 => None,
        Encoding::Csv | Encoding::Json => text(part),
    };
    match text {
        Some(text) => (encoding, text.to_owned()),
        None => (Encoding::Base64, STANDARD.encode(&part.bytes)),
    }
}

/// The text of a part, without the half of a character at which it may have been cut.
fn text(part: &CapturedBody) -> Option<&str> {
    match std::str::from_utf8(&part.bytes) {
        Ok(text) => Some(text),
        Err(error) if part.bytes.len() < part.whole && error.error_len().is_none() => {
            std::str::from_utf8(part.bytes.get(..error.valid_up_to())?).ok()
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use chrono::DateTime;

    use super::*;
    use crate::capture::record::About;

    fn part(content_type: &str, bytes: &[u8], whole: usize) -> Option<CapturedBody> {
        Some(CapturedBody { content_type: content_type.to_owned(), bytes: bytes.to_vec(), whole })
    }

    fn captured(input: Option<CapturedBody>, output: Option<CapturedBody>) -> Value {
        let config = CaptureSettings {
            dir: PathBuf::new(),
            percent: 100.0,
            input: true,
            output: true,
            csv_types: vec!["text/csv".to_owned()],
            json_types: vec!["application/json".to_owned()],
            body_bytes: 1,
            file_bytes: 1,
        };
        let about = About {
            inference_id: Some("mine".to_owned()),
            custom_attributes: Some("a=b".to_owned()),
            ..About::default()
        };
        let at = DateTime::from_timestamp(1_644_859_549, 0).unwrap();
        let line = line(&Record { about, at, input, output }, "id", &config);
        assert!(line.ends_with("}\n") && line.lines().count() == 1, "{line}");
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn a_line_has_the_fields_of_the_platform() {
        let expected = json!({
            "captureData": {
                "endpointInput": {
                    "observedContentType": "text/csv", "mode": "INPUT", "data": "1,2\n", "encoding": "CSV"
                },
                "endpointOutput": {
                    "observedContentType": "application/json; charset=utf-8", "mode": "OUTPUT",
                    "data": "{\"a\": 1}", "encoding": "JSON"
                }
            },
            "eventMetadata": {
                "eventId": "id", "inferenceId": "mine", "customAttributes": ["a=b"],
                "inferenceTime": "2022-02-14T17:25:49Z"
            },
            "eventVersion": "0"
        });
        let output = part("application/json; charset=utf-8", b"{\"a\": 1}", 8);
        assert_eq!(captured(part("text/csv", b"1,2\n", 4), output), expected);
    }

    #[test]
    fn what_is_no_text_is_base64_whatever_its_type_says() {
        let of = |content_type: &str, bytes: &[u8], whole| {
            let line = captured(part(content_type, bytes, whole), None);
            let input = &line["captureData"]["endpointInput"];
            (
                input["encoding"].as_str().unwrap().to_owned(),
                input["data"].as_str().unwrap().to_owned(),
            )
        };
        assert_eq!(of("application/x-npy", b"ab", 2), ("BASE64".to_owned(), "YWI=".to_owned()));
        assert_eq!(of("text/csv", b"\xff\xfe", 2), ("BASE64".to_owned(), "//4=".to_owned()));
        // Half a character at the end of a whole body is no text; where the body was cut, it was the cut's.
        assert_eq!(of("text/csv", b"a\xc3", 2).0, "BASE64");
        assert_eq!(of("text/csv", b"a\xc3", 9), ("CSV".to_owned(), "a".to_owned()));
    }

    #[test]
    fn what_was_cut_off_is_said() {
        let line = captured(part("text/csv", b"1", 100), part("text/csv", b"2", 1));
        assert_eq!(line["eventMetadata"]["truncated"], json!({ "INPUT": 100 }));
    }
}
