//! The reply to an inference request: JSON, and behind it the outputs that the client wants as bytes. Their
//! buffers are passed on as they are.

use std::iter;

use backend::{DataType, NamedTensor, Parameter, Parameters, Tensor};
use bytes::Bytes;
use smallvec::SmallVec;

use super::{
    classify::{self, classify},
    format::ReplyFormat,
};
use crate::{
    EncodedReply,
    json::write::{self, BytesAs, NotText},
    reply_size::{self, TextForm},
};
use inference::{error::Error, grant::Grant, request::InferenceResponse, signature::Signature};

/// Encodes `response` as the client asked for it.
///
/// # Errors
/// When an output cannot be given in the form that was asked for: bytes that are not UTF-8 as JSON, classes
/// of something that is not a number.
pub fn encode(
    format: &ReplyFormat,
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|loose| bound(format, signature, response, loose))?;
    let mut json = Vec::with_capacity(length(format, response));
    let mut binary = Raw::new();
    // Keys and what stands around them are written in one piece: each reply has them.
    json.push(b'{');
    if let Some(id) = &response.id {
        json.extend_from_slice(br#""id":"#);
        write::string(&mut json, id);
        json.push(b',');
    }
    json.extend_from_slice(br#""model_name":"#);
    write::string(&mut json, &response.model);
    json.extend_from_slice(br#","model_version":""#);
    write::number(&mut json, response.version);
    json.push(b'"');
    said(&mut json, &response.parameters);
    json.extend_from_slice(br#","outputs":["#);
    for NamedTensor { name, tensor } in &response.outputs {
        let form = format.of(name);
        match form.classes {
            _ if form.shared => {
                entry(&mut json, name, tensor);
                json.push(b'}');
            }
            Some(classes) => {
                let labels = signature.output(name).map(|it| &*it.labels).unwrap_or_default();
                let classes = classify(tensor, signature.batches(), classes, labels);
                let classes = classes.map_err(|problem| refused(name, problem))?;
                output(&mut json, &mut binary, name, &classes, form.binary)?;
            }
            None => output(&mut json, &mut binary, name, tensor, form.binary)?,
        }
    }
    json.extend_from_slice(b"]}");
    if binary.is_empty() {
        return Ok(EncodedReply::json(json));
    }
    let json_length = Some(json.len());
    let body = match is_small(binary.iter().map(Bytes::len).sum()) {
        true => {
            binary.iter().for_each(|it| json.extend_from_slice(it));
            vec![json.into()]
        }
        false => iter::once(json.into()).chain(binary).collect(),
    };
    let content_type = "application/octet-stream".into();
    Ok(EncodedReply { content_type, json_length, headers: Vec::new(), body })
}

/// Raw tensors behind the JSON.
type Raw = SmallVec<[Bytes; 2]>;

/// Raw tensors up to that size are copied behind the JSON, because that costs less than pieces of their own.
const SMALL: usize = 1 << 10;

/// Are so many bytes of raw tensors copied?
fn is_small(raw: usize) -> bool {
    raw <= SMALL
}

/// What the model says to the client beside its outputs.
fn said(json: &mut Vec<u8>, parameters: &Parameters) {
    if parameters.is_empty() {
        return;
    }
    write::key(json, "parameters");
    json.push(b'{');
    for (name, value) in parameters {
        write::key(json, name);
        match value {
            Parameter::Bool(value) => write::bool(json, *value),
            Parameter::Int(value) => write::number(json, *value),
            Parameter::Double(value) => write::number(json, *value),
            Parameter::Text(value) => write::string(json, value),
        }
    }
    json.push(b'}');
}

/// Bytes that parameters take at most: each byte of a text may be written as six.
fn bytes_of(parameters: &Parameters) -> usize {
    let text = |it: &Parameter| if let Parameter::Text(text) = it { text.len() } else { 32 };
    parameters.iter().map(|(name, it)| 6 * (name.len() + text(it)) + 8).sum()
}

/// Bytes that [`encode`] takes at most beside the outputs. An estimate of up to `loose` bytes may be rough.
fn bound(
    format: &ReplyFormat,
    signature: &Signature,
    response: &InferenceResponse,
    loose: usize,
) -> usize {
    let plain = response.outputs.iter().filter(|it| {
        let form = format.of(&it.name);
        !form.shared && form.classes.is_none() && !form.binary
    });
    let plain = reply_size::of_outputs(plain, TextForm::PLAIN, loose);
    let classes = response.outputs.iter().map(|NamedTensor { name, tensor }| {
        let form = format.of(name);
        let classes = form.classes.filter(|_| !form.shared);
        classes.map_or(0, |it| {
            let labels = signature.output(name).map(|it| &*it.labels).unwrap_or_default();
            classify::bound(tensor, signature.batches(), it, labels, loose)
        })
    });
    classes.fold(plain, usize::saturating_add).saturating_add(bytes_of(&response.parameters))
}

/// About as many bytes as the JSON will have; what is missing is added as it is written.
fn length(format: &ReplyFormat, response: &InferenceResponse) -> usize {
    let output = |NamedTensor { name, tensor }: &NamedTensor| {
        let form = format.of(name);
        let data = match () {
            () if form.shared => 0,
            () if form.binary => Some(tensor.byte_len()).filter(|it| is_small(*it)).unwrap_or(0),
            () => write::length(tensor),
        };
        128 + name.len() + data
    };
    128 + response.model.len() + response.outputs.iter().map(output).sum::<usize>()
}

/// The start of an output's object, which is left open.
fn entry(json: &mut Vec<u8>, name: &str, tensor: &Tensor) {
    write::item(json);
    json.extend_from_slice(br#"{"name":"#);
    write::string(json, name);
    json.extend_from_slice(br#","datatype":""#);
    json.extend_from_slice(tensor.dtype().name().as_bytes());
    json.extend_from_slice(br#"","shape":"#);
    write::dims(json, tensor.shape().dims().iter().map(|&it| Some(it)));
}

fn output(
    json: &mut Vec<u8>,
    binary: &mut Raw,
    name: &str,
    tensor: &Tensor,
    as_binary: bool,
) -> Result<(), Error> {
    entry(json, name, tensor);
    if as_binary {
        json.extend_from_slice(br#","parameters":{"binary_data_size":"#);
        write::number(json, tensor.byte_len() as u64);
        json.push(b'}');
        binary.extend(tensor.segments().iter().filter(|it| !it.is_empty()).cloned());
    } else {
        json.extend_from_slice(br#","data":"#);
        write::flat(json, tensor, BytesAs::Text).map_err(|NotText(element)| {
            let dtype = DataType::Bytes;
            let problem = format!("element {element} of {dtype} is not UTF-8 and has no JSON form");
            refused(name, format!("{problem}; ask for it with \"binary_data\": true"))
        })?;
    }
    json.push(b'}');
    Ok(())
}

fn refused(output: &str, problem: impl std::fmt::Display) -> Error {
    Error::InvalidRequest(format!("output '{output}': {problem}"))
}
