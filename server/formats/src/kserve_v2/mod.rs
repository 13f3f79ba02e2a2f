//! The KServe v2 protocol over HTTP, as Triton speaks it: inference with JSON and with the binary tensor
//! extension, and the small JSON bodies of metadata and repository.

mod booleans;
pub mod classify;
mod control;
mod decode;
mod describe;
mod encode;
mod format;
pub mod generate;
pub mod media;
pub mod memory;
mod parameters;
mod raw;
pub mod settings;
mod shared;
mod statistics;

use bytes::Bytes;

pub use booleans::{check_booleans, find_not_boolean};
pub use control::{LoadRequest, load_request, unload_request};
pub use describe::{
    EXTENSIONS, IndexEntry, index_request, model_metadata, repository_index, server_metadata,
};
pub use encode::encode;
pub use format::{
    DecodeError, HEADER_LENGTH, OutputFormat, ReplyFormat, parse_header_length, suggestion,
};
pub use shared::{RegionPart, SharedInput, SharedParts};
pub use statistics::model_statistics;

use crate::expansion;
use inference::{grant::Grant, request::InferenceRequest, signature::Signature};

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
    grant: &Grant,
) -> Result<(InferenceRequest, ReplyFormat), DecodeError> {
    let unnamed = |error| DecodeError { id: None, error };
    if header_length == Some(0) && !body.is_empty() {
        return raw::decode(signature, body, grant).map_err(unnamed);
    }
    expansion::hold_ports(signature, grant).map_err(unnamed)?;
    decode::decode(signature, header_length, body, grant)
}

#[cfg(test)]
mod tests;
