//! The KServe v2 protocol over HTTP, as Triton speaks it: inference with JSON and with the binary tensor
//! extension, and the small JSON bodies of metadata and repository.

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

use std::sync::Arc;

use backend::{DataType, Shape, Tensor};
use bytes::Bytes;

pub use crate::booleans::{check_booleans, find_not_boolean};
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

use crate::{
    body_memo::BodyMemo,
    elements::TensorBuilder,
    expansion,
    json::{BytesForm, JsonReader},
};
use decode::DATA_DEPTH;
use inference::{
    grant::Grant,
    request::InferenceRequest,
    signature::{Port, Signature},
};

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
    let decoded = decode::decode(signature, header_length, body, grant);
    decoded.map(|(request, format, _)| (request, format))
}

/// The same over a connection, which remembers what its requests have in common.
///
/// # Errors
/// Those of [`decode`].
pub fn decode_with(
    memo: &BodyMemo<Arc<ReplyFormat>>,
    signature: &Arc<Signature>,
    header_length: Option<usize>,
    body: Bytes,
    grant: &Grant,
) -> Result<(InferenceRequest, Arc<ReplyFormat>), DecodeError> {
    if header_length == Some(0) {
        let (request, format) = decode(signature, header_length, body, grant)?;
        return Ok((request, Arc::new(format)));
    }
    let unnamed = |error| DecodeError { id: None, error };
    expansion::hold_ports(signature, grant).map_err(unnamed)?;
    let json = body.get(..header_length.unwrap_or(body.len())).unwrap_or_default();
    let known = memo.recall(signature, header_length, &body, |name, shape, at| {
        let mut reader = JsonReader::inside(json, *at, DATA_DEPTH, grant);
        reader.takes_missing(signature.takes_missing);
        read_again(signature.input(name)?, shape, reader, at)
    });
    if let Some(known) = known {
        return Ok(known);
    }
    let (request, format, texts) = decode::decode(signature, header_length, body.clone(), grant)?;
    let format = Arc::new(format);
    // Strings may stand for numbers or be no files, and the head tells another length with each text: neither is
    // remembered.
    let has_strings = request.inputs.iter().any(|it| it.tensor.dtype() == DataType::Bytes);
    let is_fixed = texts.iter().all(Option::is_none);
    if format.shared.is_none() && (is_fixed || (!has_strings && header_length.is_none())) {
        memo.remember(signature, header_length, &body, (&request, &format), &texts);
    }
    Ok((request, format))
}

/// Reads data of that shape, which stand where the reader is; `at` goes on to their end. `None` where they are no such
/// data.
fn read_again(
    port: &Port,
    shape: &Shape,
    mut reader: JsonReader<'_>,
    at: &mut usize,
) -> Option<Tensor> {
    let elements = shape.elements()?;
    let mut builder = TensorBuilder::of(port, Some(elements), reader.grant());
    reader.elements(&mut builder, BytesForm::Text).ok()?;
    *at = reader.position();
    (builder.count() == elements).then(|| builder.finish(shape.clone()).ok())?
}

#[cfg(test)]
mod tests;
