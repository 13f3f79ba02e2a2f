//! What a body is, by the settings, the head, and the first look at its content: found once for the bound of what
//! decoding takes, and once by decoding.

use super::{
    InferenceType, Invocation, Options, json,
    sniff::{self, BodyType, Document},
};
use backend::DataType;

use formats::{
    inputs,
    json::begins_with_bracket,
    kserve_v2::generate,
    medium,
    negotiate::{self, Declared, Media},
    npy, shapes, tfs,
};
use inference::{error::Error, signature::Signature, task::Medium};

/// What a body is.
pub(super) enum RecognisedBody {
    /// A flat object of Triton's generate extension, whose reply is framed so.
    Generate(generate::Framing),
    /// Examples for that method.
    Examples(tfs::Method),
    /// KServe v2; with raw tensors behind so many bytes of JSON, or all JSON.
    KserveV2(Option<usize>),
    /// A body of another format; what its first document is, where that looks like JSON.
    Other(BodyType, Option<Result<Document, Error>>),
}

/// Is the only input one text for each row?
fn takes_texts(signature: &Signature) -> bool {
    let port = inputs::only_input(signature);
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
) -> Result<RecognisedBody, Error> {
    let content_type = invocation.content_type.as_deref().unwrap_or_default();
    if invocation.declared == Declared::Malformed {
        return Err(negotiate::malformed(content_type));
    }
    if body.is_empty() {
        return Err(Error::InvalidRequest("the body is empty, expected a request".to_owned()));
    }
    match options.inference_type {
        InferenceType::Infer => {}
        InferenceType::Generate => return Ok(RecognisedBody::Generate(generate::Framing::Object)),
        InferenceType::GenerateStream => {
            return Ok(RecognisedBody::Generate(generate::Framing::Events));
        }
    }
    if invocation.attributes.method != tfs::Method::Predict {
        return Ok(RecognisedBody::Examples(invocation.attributes.method));
    }
    if let Some(header) = invocation.declared.json_length() {
        return Ok(RecognisedBody::KserveV2(Some(header)));
    }
    // AWS's own examples send KServe v2 under other types: its content decides.
    let json = begins_with_bracket(body).then(|| json::look(signature, options, body));
    match json {
        Some(Ok(Document::KserveV2)) => return Ok(RecognisedBody::KserveV2(None)),
        Some(_) if options.rules().only_kserve_v2 => return Ok(RecognisedBody::KserveV2(None)),
        Some(Ok(Document::Examples)) => {
            let classes = tfs::Results::of(signature, tfs::Method::Classify).is_ok();
            let method = if classes { tfs::Method::Classify } else { tfs::Method::Regress };
            return Ok(RecognisedBody::Examples(method));
        }
        _ => {}
    }
    let body_type = match invocation.declared {
        declared if signature.medium().is_some_and(|it| it != Medium::Text) => {
            of_file_model(signature, declared, content_type, body)?
        }
        Declared::As(media) => BodyType::Media(media),
        Declared::File => {
            let named = medium::of_type(content_type).unwrap_or(Medium::Image);
            medium::check(signature, named, &medium::named(content_type))?;
            BodyType::File
        }
        Declared::Text if takes_texts(signature) => BodyType::Text,
        Declared::Text => sniff::sniff(body),
        Declared::Nothing | Declared::Binary { .. } => {
            if let Some(found) = medium::of_bytes(body) {
                medium::check(signature, found, medium::described(found))?;
            }
            sniff::sniff(body)
        }
        Declared::Unknown | Declared::Malformed => {
            return Err(negotiate::unsupported(content_type));
        }
    };
    Ok(RecognisedBody::Other(body_type, json))
}

/// What a body is for a pipeline of images or sounds: JSON, an array of NumPy's, or a file.
///
/// # Errors
/// [`Error::UnsupportedMediaType`] where it is neither.
fn of_file_model(
    signature: &Signature,
    declared: Declared,
    content_type: &str,
    body: &[u8],
) -> Result<BodyType, Error> {
    let taken = signature.medium().unwrap_or(Medium::Image);
    let refused = || medium::refusal(signature, taken, &medium::named(content_type));
    match declared {
        Declared::As(media @ (Media::Json | Media::JsonLines(_) | Media::Npy)) => {
            Ok(BodyType::Media(media))
        }
        Declared::File if medium::of_type(content_type) == Some(taken) => Ok(BodyType::File),
        Declared::Nothing | Declared::Binary { .. } if begins_with_bracket(body) => {
            Ok(BodyType::Media(Media::Json))
        }
        Declared::Nothing | Declared::Binary { .. } if body.starts_with(npy::MAGIC) => {
            Ok(BodyType::Media(Media::Npy))
        }
        // What else it is, if no file of the medium, its decoder says.
        Declared::Nothing | Declared::Binary { .. } => {
            if let Some(found) = medium::of_bytes(body) {
                medium::check(signature, found, medium::described(found))?;
            }
            Ok(BodyType::File)
        }
        Declared::As(_) | Declared::File | Declared::Text => Err(refused()),
        Declared::Unknown | Declared::Malformed => Err(negotiate::unsupported(content_type)),
    }
}
