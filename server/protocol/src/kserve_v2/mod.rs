//! The KServe v2 protocol over HTTP, as Triton speaks it: inference with JSON and with the binary tensor
//! extension, and the small JSON bodies of metadata and repository.

mod booleans;
pub mod classify;
mod control;
mod decode;
mod describe;
mod encode;
pub mod generate;
pub mod media;
pub mod memory;
mod parameters;
mod raw;
pub mod settings;
mod shared;
mod statistics;

use std::sync::Arc;

use bytes::Bytes;

pub use booleans::{check_booleans, find_not_boolean};
pub use control::{LoadRequest, load_request, unload_request};
pub use describe::{
    EXTENSIONS, IndexEntry, error_body, index_request, model_metadata, repository_index,
    server_metadata,
};
pub use encode::encode;
pub use shared::{RegionPart, SharedInput, SharedParts};
pub use statistics::model_statistics;

use crate::expansion::{self, Elements, PARAMETER, Separators, Text};
use inference::{
    error::Error,
    request::InferenceRequest,
    signature::{Signature, nearest},
};

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

fn header_beyond_body(length: usize, body_length: usize) -> Error {
    Error::InvalidRequest(format!(
        "{HEADER_LENGTH}: {length} bytes of JSON announced, the body has {body_length}"
    ))
}

/// Decodes an inference request.
///
/// `header_length` is the value of [`HEADER_LENGTH`]: that many bytes are JSON, behind them lie the binary
/// tensors, which become slices of `body`. `None`: all of it is JSON. 0: the body is the single input's
/// tensor.
///
/// Inputs in shared memory are not there yet: [`ReplyFormat::shared`] says where they are to be read.
///
/// The names and types of inputs and outputs are checked against `signature`, and their data against the
/// shapes that the request gives; whether these shapes fit the model, and whether an input is missing, is
/// not.
///
/// # Errors
/// What is wrong with the request, with the place.
pub fn decode(
    signature: &Signature,
    header_length: Option<usize>,
    body: Bytes,
) -> Result<(InferenceRequest, ReplyFormat), DecodeError> {
    if header_length == Some(0) && !body.is_empty() {
        return raw::decode(signature, body).map_err(|error| DecodeError { id: None, error });
    }
    decode::decode(signature, header_length, body)
}

/// Bytes that [`decode`] takes at most beside the body. Tensors behind the JSON take none: they are slices of the body.
pub fn expanded(
    signature: &Signature,
    header_length: Option<usize>,
    body: &[u8],
    loose: usize,
) -> usize {
    if header_length == Some(0) && !body.is_empty() {
        return raw::expanded(signature, body);
    }
    // A length beyond the body is refused.
    let Some(text) = body.get(..header_length.unwrap_or(body.len())) else { return 0 };
    let elements = Elements::of(signature);
    let bytes = Text::bound(Separators::Document, text, loose, |text| {
        let inputs = match elements.strings {
            true => text.grown(elements),
            // As many as the shape says, as long as the text may have them.
            false => text.promised(elements),
        };
        // Names and values of parameters are copied.
        inputs.saturating_add(text.read(PARAMETER)).saturating_add(text.strings)
    });
    bytes.saturating_add(expansion::of_ports(signature))
}

/// `; did you mean 'x'? Expected one of: 'x', 'y'`, to be said behind an unknown name.
pub fn suggestion<'a>(given: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let meant = nearest(given, known.clone());
    let meant = meant.map(|it| format!("; did you mean '{it}'?")).unwrap_or(";".to_owned());
    let known: Vec<String> = known.map(|it| format!("'{it}'")).collect();
    format!("{meant} expected one of: {}", known.join(", "))
}

#[cfg(test)]
mod tests;
