//! The bodies of requests to load and unload a model: `{"parameters": {..}}`, or nothing.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;

use super::format::suggestion;
use crate::json::{JsonReader, Token};
use inference::{error::Error, grant::Grant};

/// In front of the name of a file that comes along.
const FILE: &str = "file:";

/// What comes with a request to load a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadRequest {
    /// A configuration in JSON.
    pub config: Option<String>,
    /// Contents by `<version>/<name>`.
    pub files: Vec<(String, Bytes)>,
}

/// Reads the body of `POST /v2/repository/models/{name}/load`, which may be empty.
///
/// # Errors
/// When it is not JSON of that form, naming the place; for a parameter that does not exist, the nearest one.
pub fn load_request(body: &[u8]) -> Result<LoadRequest, Error> {
    let mut request = LoadRequest::default();
    parameters(body, |reader, key| {
        if key == "config" {
            request.config = Some(reader.string()?.into_owned());
        } else if let Some(name) = key.strip_prefix(FILE) {
            let text = reader.string()?;
            let content = STANDARD.decode(text.as_bytes()).map_err(|error| {
                reader.error(format_args!("expected the file's content in base64: {error}"))
            })?;
            request.files.push((name.to_owned(), content.into()));
        } else {
            let known = suggestion(key, ["config", "file:<version>/<name>"].into_iter());
            return Err(reader.error(format_args!("unknown parameter{known}")));
        }
        Ok(())
    })?;
    Ok(request)
}

/// Reads the body of `POST /v2/repository/models/{name}/unload`, which may be empty: are the members of an ensemble
/// to be unloaded as well?
///
/// # Errors
/// When it is not JSON of that form, naming the place; for a parameter that does not exist, the nearest one.
pub fn unload_request(body: &[u8]) -> Result<bool, Error> {
    let mut dependents = false;
    parameters(body, |reader, key| {
        if key != "unload_dependents" {
            let known = suggestion(key, ["unload_dependents"].into_iter());
            return Err(reader.error(format_args!("unknown parameter{known}")));
        }
        dependents = reader.bool()?;
        Ok(())
    })?;
    Ok(dependents)
}

fn parameters(
    body: &[u8],
    mut read: impl FnMut(&mut JsonReader<'_>, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    if body.trim_ascii().is_empty() {
        return Ok(());
    }
    JsonReader::request(body, &Grant::uncounted(), |reader| {
        reader.object(|reader, key| match key.as_ref() {
            "parameters" if reader.peek()? == Token::Null => reader.null(),
            "parameters" => reader.object(|reader, key| read(reader, &key)),
            other => {
                let known = suggestion(other, ["parameters"].into_iter());
                Err(reader.error(format_args!("unknown key{known}")))
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused<T: std::fmt::Debug>(outcome: Result<T, Error>, parts: &[&str]) {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)));
        for part in parts {
            assert!(error.to_string().contains(part), "no '{part}' in: {error}");
        }
    }

    #[test]
    fn an_empty_body_asks_for_nothing_special() {
        for body in ["", " \n", "{}", "{\"parameters\":{}}", "{\"parameters\":null}"] {
            assert_eq!(load_request(body.as_bytes()).unwrap(), LoadRequest::default());
            assert!(!unload_request(body.as_bytes()).unwrap());
        }
    }

    #[test]
    fn a_configuration_and_files_come_as_text_and_base64() {
        let body = r#"{"parameters":{"config":"{}","file:1/model.onnx":"AQID"}}"#;
        let request = load_request(body.as_bytes()).unwrap();
        assert_eq!(request.config.as_deref(), Some("{}"));
        assert_eq!(request.files, [("1/model.onnx".to_owned(), Bytes::from_static(&[1, 2, 3]))]);
        assert!(unload_request(br#"{"parameters":{"unload_dependents":true}}"#).unwrap());
    }

    #[test]
    fn what_is_unknown_or_of_another_type_is_named() {
        let load = |body: &str| load_request(body.as_bytes());
        check_refused(load(r#"{"parameters":{"confg":""}}"#), &["confg", "did you mean 'config'"]);
        check_refused(load(r#"{"parameters":{"config":{}}}"#), &["parameters.config", "a string"]);
        check_refused(load(r#"{"parameters":{"file:1/x":"*"}}"#), &["base64"]);
        check_refused(load(r#"{"parameter":{}}"#), &["did you mean 'parameters'"]);
        check_refused(
            unload_request(br#"{"parameters":{"unload_dependents":1}}"#),
            &["expected true or false"],
        );
    }
}
