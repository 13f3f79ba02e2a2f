//! Bodies of SageMaker's `/invocations`: one address for every format that its containers have taught
//! clients to send. The content type picks the decoder, the content where the type says nothing, and the
//! reply takes the form of the request unless `Accept` asks for another.

mod json;
pub mod models;

use backend::{DataType, NamedTensor, Shape, Tensor};
use bytes::Bytes;

use crate::{
    error::Error,
    protocol::{
        EncodedReply, csv, kserve_v2,
        negotiate::{self, Declared, LinesName, Media},
        npy, reply, rows, shapes,
    },
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

/// What the operator has set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// `SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT`: the type of replies to clients that accept any. Ignored where
    /// it cannot carry the reply.
    pub default_accept: Option<String>,
}

/// The form that the reply will have.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyFormat {
    /// A KServe v2 response, each output as its request wanted it.
    KserveV2(kserve_v2::ReplyFormat),
    /// `{"predictions": [..]}`.
    Rows,
    /// `{"outputs": ..}`.
    Columns,
    /// The value of the only output, or an object by output.
    Bare,
    /// One line of JSON per row.
    JsonLines(LinesName),
    /// One line per row, the elements of all outputs in it.
    Csv,
    /// One NumPy array.
    Npy,
}

/// A body that is not KServe v2, decoded.
struct Decoded {
    inputs: Vec<NamedTensor>,
    /// The form of a JSON reply.
    envelope: ReplyFormat,
    /// The format that a reply has by itself.
    family: Media,
}

/// Bytes of JSON in front of raw tensors, where the content type says so: known before the body is.
pub fn json_length(content_type: &str) -> Option<usize> {
    match negotiate::declared(Some(content_type)) {
        Ok(Declared::Binary { header }) => Some(header),
        _ => None,
    }
}

/// The request in a body of this type, and the form of its reply.
///
/// # Errors
/// [`Error::UnsupportedMediaType`] where there is no decoder for the type, or none for content without a
/// type; [`Error::NotAcceptable`] where the client accepts no form that the reply can have; and what the
/// decoders find wrong.
pub fn decode(
    signature: &Signature,
    content_type: Option<&str>,
    accept: Option<&str>,
    options: &Options,
    body: Bytes,
) -> Result<(InferenceRequest, ReplyFormat), Error> {
    let declared = negotiate::declared(content_type)?;
    if body.is_empty() {
        return Err(Error::InvalidRequest("the body is empty, expected a request".to_owned()));
    }
    let choose = |family, offered| {
        negotiate::choose(accept, options.default_accept.as_deref(), family, offered)
    };
    let is_json = json::may_be(&body);
    let decoded = match declared {
        Declared::Binary { header } => {
            choose(Media::Json, &KSERVE_V2)?;
            return decode_kserve_v2(signature, Some(header), body);
        }
        // AWS's own examples send KServe v2 under other types: its content decides.
        _ if is_json && json::is_kserve_v2(&body) => {
            choose(Media::Json, &KSERVE_V2)?;
            return decode_kserve_v2(signature, None, body);
        }
        Declared::Json => json::decode(signature, &body)?,
        Declared::JsonLines(name) => {
            Decoded { family: Media::JsonLines(name), ..json::decode_lines(signature, &body)? }
        }
        Declared::Csv => decode_csv(signature, &body)?,
        Declared::Npy => decode_npy(signature, &body)?,
        Declared::Unknown(name) => return Err(negotiate::unsupported(name)),
        Declared::Nothing if is_json => json::decode(signature, &body)?,
        Declared::Nothing if body.starts_with(npy::MAGIC) => decode_npy(signature, &body)?,
        Declared::Nothing if is_text(&body) => decode_csv(signature, &body)?,
        Declared::Nothing => decode_raw(signature, &body)?,
    };
    let Decoded { inputs, envelope, family } = decoded;
    let format = match choose(family, offered(signature))? {
        Media::Json | Media::Binary => envelope,
        Media::JsonLines(name) => ReplyFormat::JsonLines(name),
        Media::Csv => ReplyFormat::Csv,
        Media::Npy => ReplyFormat::Npy,
    };
    Ok((InferenceRequest { inputs, ..InferenceRequest::default() }, format))
}

/// The reply in the form that [`decode`] found.
///
/// # Errors
/// When the response cannot have that form.
pub fn encode(
    format: &ReplyFormat,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    match format {
        ReplyFormat::KserveV2(format) => {
            kserve_v2::encode(format, signature, response).map(under_binary_type)
        }
        ReplyFormat::Rows => reply::predictions(signature, response),
        ReplyFormat::Columns => reply::columns(response),
        ReplyFormat::Bare => reply::bare(response),
        ReplyFormat::JsonLines(name) => reply::json_lines(*name, signature, response),
        ReplyFormat::Csv => reply::csv(signature, response),
        ReplyFormat::Npy => reply::npy(response),
    }
}

/// The formats that a reply of this model can have.
fn offered(signature: &Signature) -> &'static [Media] {
    const ALL: [Media; 6] = [
        Media::Json,
        Media::JsonLines(LinesName::JsonLines),
        Media::JsonLines(LinesName::Ndjson),
        Media::JsonLines(LinesName::Jsons),
        Media::Csv,
        Media::Npy,
    ];
    let [without_npy @ .., _] = &ALL;
    match signature.outputs.as_slice() {
        [only] if only.dtype != DataType::Bytes => &ALL,
        _ => without_npy,
    }
}

/// The formats that a KServe v2 response can have. Which of them it has, the request says elsewhere.
const KSERVE_V2: [Media; 2] = [Media::Json, Media::Binary];

fn decode_kserve_v2(
    signature: &Signature,
    header: Option<usize>,
    body: Bytes,
) -> Result<(InferenceRequest, ReplyFormat), Error> {
    if let Some(header) = header.filter(|&it| it > body.len()) {
        return Err(Error::InvalidRequest(format!(
            "json-header-size: {header} bytes of JSON announced, the body has {}",
            body.len()
        )));
    }
    let decoded = kserve_v2::decode(signature, header, body);
    let (request, format) = decoded.map_err(|problem| problem.error)?;
    Ok((request, ReplyFormat::KserveV2(format)))
}

/// The same reply with the length of its JSON part in the content type, where SageMaker lets it through.
fn under_binary_type(mut reply: EncodedReply) -> EncodedReply {
    let header = reply.headers.iter().position(|(name, _)| *name == kserve_v2::HEADER_LENGTH);
    if let Some(at) = header {
        let (_, length) = reply.headers.swap_remove(at);
        reply.content_type = negotiate::binary_type(&length).into();
    }
    reply
}

fn decode_csv(signature: &Signature, body: &[u8]) -> Result<Decoded, Error> {
    let inputs = csv::decode(signature, body)?;
    Ok(Decoded { inputs, envelope: ReplyFormat::Rows, family: Media::Csv })
}

fn decode_npy(signature: &Signature, body: &Bytes) -> Result<Decoded, Error> {
    let port = rows::only_input(signature).ok_or_else(|| {
        let names = rows::names_of(signature);
        Error::InvalidRequest(format!("npy carries one input, the model has {names}"))
    })?;
    let tensor = shapes::as_rows_or_one(signature, port, npy::decode(port, body)?);
    // Where the reply cannot be npy, the family is what is offered first.
    let family = if offered(signature).contains(&Media::Npy) { Media::Npy } else { Media::Json };
    let inputs = vec![NamedTensor { name: port.name.clone(), tensor }];
    Ok(Decoded { inputs, envelope: ReplyFormat::Bare, family })
}

/// One row of the only input, without any framing.
fn decode_raw(signature: &Signature, body: &Bytes) -> Result<Decoded, Error> {
    let port = rows::only_input(signature);
    let dims = port.and_then(|it| it.dims.iter().copied().collect::<Option<Vec<usize>>>());
    let (Some(port), Some(dims)) = (port, dims) else {
        return Err(unrecognised("the only input has a fixed size"));
    };
    let rows = signature.batches().then_some(1);
    let shape: Shape = rows.into_iter().chain(dims).collect();
    if port.dtype == DataType::Bytes {
        return Err(unrecognised("the only input has elements of a fixed size"));
    }
    let tensor = Tensor::new(port.dtype, shape, body.clone())
        .map_err(|problem| unrecognised(&format!("it is one row of '{}': {problem}", port.name)))?;
    if port.dtype == DataType::Bool && body.iter().any(|&it| it > 1) {
        return Err(Error::input(&*port.name, "expected bytes of 0 or 1, given others"));
    }
    let inputs = vec![NamedTensor { name: port.name.clone(), tensor }];
    Ok(Decoded { inputs, envelope: ReplyFormat::Bare, family: Media::Json })
}

fn unrecognised(unless: &str) -> Error {
    let supported = Media::ALL.map(Media::name).join(", ");
    Error::UnsupportedMediaType(format!(
        "the content type says nothing, and the body is neither JSON, npy nor CSV text, nor can it be a raw \
         tensor unless {unless}; supported content types: {supported}"
    ))
}

/// Is it text that a person could have written?
fn is_text(body: &[u8]) -> bool {
    let control = |it: &u8| it.is_ascii_control() && !b"\t\r\n".contains(it);
    !body.iter().any(control) && std::str::from_utf8(body).is_ok()
}

#[cfg(test)]
mod tests;
