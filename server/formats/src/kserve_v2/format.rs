//! How a reply is to be written, the length of the JSON in a body, and why a request cannot be read.

use std::sync::Arc;

use super::shared::SharedParts;
use inference::{error::Error, signature::nearest};

/// The header that says how many bytes of the body are JSON. In a request and in a reply;
/// in lower case, as header names are compared.
pub const HEADER_LENGTH: &str = "inference-header-content-length";

/// How the client wants its outputs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplyFormat {
    /// Outputs that `outputs` does not name: as binary?
    pub binary_by_default: bool,
    /// The outputs that the request named.
    pub outputs: Vec<(Arc<str>, OutputFormat)>,
    /// What of the request and of its reply lies in shared memory; `None` where nothing does.
    pub shared: Option<Box<SharedParts>>,
}

/// How the client wants one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputFormat {
    /// Raw behind the JSON, or as JSON?
    pub binary: bool,
    /// So many of the best classes in place of the values.
    pub classes: Option<usize>,
    /// In shared memory, and not in the reply?
    pub shared: bool,
}

impl ReplyFormat {
    /// The format of that output.
    pub fn of(&self, name: &str) -> OutputFormat {
        let named = self.outputs.iter().find(|(it, _)| &**it == name).map(|(_, format)| *format);
        named.unwrap_or(OutputFormat { binary: self.binary_by_default, ..OutputFormat::default() })
    }
}

/// A request that could not be decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeError {
    /// The request's id, if it came before the mistake.
    pub id: Option<Arc<str>>,
    /// The mistake.
    pub error: Error,
}

/// Reads the value of [`HEADER_LENGTH`] for a body of `body_length` bytes.
///
/// # Errors
/// When it is not a number, or beyond the body.
pub fn parse_header_length(value: &str, body_length: usize) -> Result<usize, Error> {
    let value = value.trim();
    let digits = !value.is_empty() && value.bytes().all(|it| it.is_ascii_digit());
    match value.parse::<usize>() {
        Ok(length) if digits && length <= body_length => Ok(length),
        Ok(length) if digits => Err(header_beyond_body(length, body_length)),
        _ => Err(Error::InvalidRequest(format!(
            "{HEADER_LENGTH}: expected a number of bytes, found '{value}'"
        ))),
    }
}

pub(super) fn header_beyond_body(length: usize, body_length: usize) -> Error {
    Error::InvalidRequest(format!(
        "{HEADER_LENGTH}: {length} bytes of JSON announced, the body has {body_length}"
    ))
}

/// `; did you mean 'x'? Expected one of: 'x', 'y'`, to be said behind an unknown name.
pub fn suggestion<'a>(given: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let meant = nearest(given, known.clone());
    let meant = meant.map(|it| format!("; did you mean '{it}'?")).unwrap_or(";".to_owned());
    let known: Vec<String> = known.map(|it| format!("'{it}'")).collect();
    format!("{meant} expected one of: {}", known.join(", "))
}
