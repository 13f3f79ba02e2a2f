//! What a body is, by the settings, the head, and the first look at its content: found once for the bound of what
//! decoding takes, and once by decoding.

use super::{
    InferenceType, Invocation, Options, json,
    sniff::{self, Content, Kind},
};
use backend::DataType;

use crate::{
    kserve_v2::generate,
    negotiate::{self, Declared},
    rows, shapes, tfs,
};
use inference::{error::Error, signature::Signature};

/// What a body is.
pub(super) enum Found {
    /// A flat object of Triton's generate extension, whose reply is framed so.
    Generate(generate::Framing),
    /// Examples for that method.
    Examples(tfs::Method),
    /// KServe v2; with raw tensors behind so many bytes of JSON, or all JSON.
    KserveV2(Option<usize>),
    /// A body of another format; what its first document is, where that looks like JSON.
    Other(Content, Option<Result<Kind, Error>>),
}

/// Is the only input one text for each row?
fn takes_texts(signature: &Signature) -> bool {
    let port = rows::only_input(signature);
    port.is_some_and(|it| it.dtype == DataType::Bytes && shapes::scalar(it))
}

/// What a body is.
///
/// # Errors
/// [`Error::UnsupportedMediaType`] for a type without a decoder. [`Error::InvalidRequest`] for an empty body, and for
/// the binary type in another than its one form.
pub(super) fn look(
    signature: &Signature,
    invocation: &Invocation,
    options: &Options,
    body: &[u8],
) -> Result<Found, Error> {
    let content_type = invocation.content_type.as_deref().unwrap_or_default();
    if invocation.declared == Declared::Malformed {
        return Err(negotiate::malformed(content_type));
    }
    if body.is_empty() {
        return Err(Error::InvalidRequest("the body is empty, expected a request".to_owned()));
    }
    match options.inference_type {
        InferenceType::Infer => {}
        InferenceType::Generate => return Ok(Found::Generate(generate::Framing::Object)),
        InferenceType::GenerateStream => return Ok(Found::Generate(generate::Framing::Events)),
    }
    if invocation.attributes.method != tfs::Method::Predict {
        return Ok(Found::Examples(invocation.attributes.method));
    }
    if let Some(header) = invocation.declared.json_length() {
        return Ok(Found::KserveV2(Some(header)));
    }
    // AWS's own examples send KServe v2 under other types: its content decides.
    let json = sniff::is_json(body).then(|| json::look(signature, options, body));
    match json {
        Some(Ok(Kind::KserveV2)) => return Ok(Found::KserveV2(None)),
        Some(_) if options.habits().only_kserve_v2 => return Ok(Found::KserveV2(None)),
        Some(Ok(Kind::Examples)) => {
            let classes = tfs::Results::of(signature, tfs::Method::Classify).is_ok();
            let method = if classes { tfs::Method::Classify } else { tfs::Method::Regress };
            return Ok(Found::Examples(method));
        }
        _ => {}
    }
    let content = match invocation.declared {
        Declared::As(media) => Content::Media(media),
        Declared::File => Content::Image,
        Declared::Text if takes_texts(signature) => Content::Text,
        Declared::Text => sniff::sniff(body),
        Declared::Nothing | Declared::Binary { .. } => sniff::sniff(body),
        Declared::Unknown | Declared::Malformed => {
            return Err(negotiate::unsupported(content_type));
        }
    };
    Ok(Found::Other(content, json))
}
