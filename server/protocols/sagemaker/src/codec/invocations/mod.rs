//! Bodies of SageMaker's `/invocations`: one address for every format that its containers have taught
//! clients to send. The content type picks the decoder, the content where the type says nothing, and the
//! reply takes the media type of the request unless `Accept` asks for another.
//!
//! Three words are used for formats. A media type ([`Media`]) is the format of bytes: the head declares one
//! ([`Declared`](negotiate::Declared)), and the body is read as one (`BodyType`). A document (`Document`) is what JSON
//! says, known by its keys. A reply format ([`ReplyFormat`]) is what the answer looks like. A [`Dialect`] is no format:
//! it is what a container does where a request leaves a choice.

mod algorithms;
mod arrays;
mod attributes;
mod bodies;
mod dialect;
mod dialect_rules;
mod huggingface;
mod invocation;
mod json;
mod look;
mod mlflow;
mod model_words;
pub mod models;
mod objects;
mod outputs;
mod pipelines;
pub mod session;
mod sniff;

use std::sync::Arc;

use bytes::Bytes;

use crate::codec::xgboost;
use formats::{
    EncodedReply,
    kserve_v2::{self, generate},
    negotiate::{self, LinesName, Media},
    reply,
    shapes::with_scalars,
    tfs,
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};
use invocation::{Decoded, choose, on_a_line};
use look::{RecognisedBody, look};
use sniff::BodyType;

pub use attributes::Attributes;
pub use dialect::{Dialect, InferenceType};
pub use huggingface::{PipelineReply, Top};
pub use invocation::{Invocation, Joint, LIBRARY, ModelSays, Options, ReplyFormat};
pub use model_words::ModelWords;

/// Is this request to be answered as XGBoost's container would, whatever is in its body?
pub fn speaks_xgboost(options: &Options, invocation: &Invocation) -> bool {
    objects::speaks_xgboost(options, invocation)
}

/// The request in a body with this head, and the format of its reply.
///
/// # Errors
/// [`Error::UnsupportedMediaType`] where there is no decoder for the type, or none for content without a
/// type; [`Error::NotAcceptable`] where the client accepts no format that the reply can have; and what the
/// decoders find wrong.
pub fn decode(
    signature: &Signature,
    invocation: &Invocation,
    options: &Options,
    body: Bytes,
    grant: &Grant,
) -> Result<(InferenceRequest, ReplyFormat), Error> {
    let (body_type, json) = match look(signature, invocation, options, &body)? {
        RecognisedBody::Generate(framing) => {
            let request =
                generate::decode(signature, &body, grant).map_err(|problem| problem.error)?;
            return Ok((request, on_a_line(options, ReplyFormat::Generate(framing))));
        }
        RecognisedBody::Examples(method) => {
            return decode_examples(signature, invocation, options, method, &body, grant);
        }
        RecognisedBody::KserveV2(header) => {
            return decode_kserve_v2(signature, invocation, options, header, body, grant);
        }
        RecognisedBody::Other(body_type, json) => (body_type, json),
    };
    if let BodyType::Media(media) = body_type
        && let Some(read) = objects::xgboost(signature, invocation, options, media, &body, grant)?
    {
        return Ok(read);
    }
    let decoded = match body_type {
        BodyType::Media(Media::Json) => {
            let document = json.unwrap_or_else(|| json::look(signature, options, &body))?;
            json::decode(signature, document, &body, grant)?
        }
        BodyType::Media(Media::JsonLines(name)) => {
            // Lines need not begin with a bracket, nor the first be a known document.
            let document = json.and_then(Result::ok);
            let decoded = json::decode_lines(signature, document, &body, grant)?;
            Decoded { reply_media: Media::JsonLines(name), ..decoded }
        }
        BodyType::Media(Media::Csv) => bodies::csv(signature, invocation, options, &body, grant)?,
        BodyType::Media(Media::Npy) if arrays::are_taken(signature) => {
            arrays::decode(signature, &body, grant)?
        }
        BodyType::Media(Media::Npy) => bodies::npy(signature, &body, grant)?,
        BodyType::File => {
            let content_type = invocation.content_type.as_deref();
            bodies::file(
                signature,
                content_type.unwrap_or("image/*"),
                PipelineReply::IMAGE,
                &body,
                grant,
            )?
        }
        BodyType::Text => {
            // Editors put a byte order mark in front, which is no part of the text.
            let text = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&body);
            let text = body.slice_ref(text);
            bodies::file(signature, "text/plain", PipelineReply::TEXT, &text, grant)?
        }
        BodyType::Media(Media::Npz) => bodies::npz(signature, options, &body, grant)?,
        BodyType::Media(Media::RecordIo) => objects::recordio(signature, &body, grant)?,
        BodyType::Media(Media::Libsvm) => {
            objects::libsvm(signature, invocation, options, &body, grant)?
        }
        BodyType::Media(Media::Binary) => return Err(negotiate::unsupported(Media::Binary.name())),
        BodyType::Other => bodies::raw(signature, &body)?,
    };
    let named = outputs::named(invocation, options);
    let format = reply_format(signature, invocation, options, &decoded, &named)?;
    let outputs = match named.is_empty() {
        true => pipelines::outputs(signature, &decoded.inputs, &format),
        false => None,
    };
    let outputs = outputs.unwrap_or_else(|| outputs::of_reply(signature, named, &format));
    let Decoded { inputs, mut parameters, .. } = decoded;
    if let ReplyFormat::Algorithm(reply) = format.inner() {
        reply.complete(&mut parameters);
    }
    let request = InferenceRequest {
        inputs,
        parameters,
        outputs,
        leaves_shapes_to_graph: true,
        ..InferenceRequest::default()
    };
    Ok((request, format))
}

/// The reply in the format that [`decode`] found.
///
/// # Errors
/// When the response cannot have that format.
pub fn encode(
    format: &ReplyFormat,
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    match format {
        ReplyFormat::KserveV2(format) => {
            kserve_v2::encode(format, signature, response, grant).map(under_binary_type)
        }
        ReplyFormat::Generate(framing) => generate::encode(framing, signature, response, grant),
        ReplyFormat::Results(results) => tfs::encode_results(results, signature, response, grant),
        ReplyFormat::HuggingFace(pipeline) => {
            huggingface::encode(*pipeline, signature, response, grant)
        }
        ReplyFormat::HuggingFaceLines(pipeline, media) => {
            huggingface::encode_lines(*pipeline, *media, signature, response, grant)
        }
        ReplyFormat::HuggingFaceCsv => huggingface::encode_csv(signature, response, grant),
        ReplyFormat::Rows => {
            reply::predictions(signature, &with_scalars(signature, response), grant)
        }
        ReplyFormat::Columns => reply::columns(&with_scalars(signature, response), grant),
        ReplyFormat::Bare => reply::bare(&with_scalars(signature, response), grant),
        ReplyFormat::JsonLines(media) => {
            reply::json_lines(*media, signature, &with_scalars(signature, response), grant)
        }
        ReplyFormat::Csv => reply::csv(signature, response, grant),
        ReplyFormat::Npy => reply::npy(&with_scalars(signature, response), grant),
        ReplyFormat::Objects(media) => objects::encode(*media, signature, response, grant),
        ReplyFormat::Algorithm(reply) => reply.encode(signature, response, grant),
        ReplyFormat::Xgboost(reply) => xgboost::encode(reply, signature, response, grant),
        ReplyFormat::Line(format) => {
            let mut reply = encode(format, signature, response, grant)?;
            // Behind tensors, or events, a line would be part of them.
            if reply.content_type == Media::Json.name() {
                reply.body.push(Bytes::from_static(b"\n"));
            }
            Ok(reply)
        }
    }
}

/// The format of the reply to what was decoded. `named` are the outputs that the client asks for.
fn reply_format(
    signature: &Signature,
    invocation: &Invocation,
    options: &Options,
    decoded: &Decoded,
    named: &[Arc<str>],
) -> Result<ReplyFormat, Error> {
    if let ReplyFormat::Objects(_) = decoded.json_reply {
        return objects::reply_format(signature, invocation, options, decoded);
    }
    let offered = offered(signature, named);
    let rules = options.rules();
    let reply_media = rules.reply_media.unwrap_or(decoded.reply_media);
    // Where the reply cannot have the media type of its request, it has the one that is offered first.
    let reply_media = if offered.contains(&reply_media) { reply_media } else { Media::Json };
    let media = choose(invocation, options, reply_media, offered)?;
    // An image, and a text under its name, say more of the pipeline than the dialect does.
    let is_pipeline = matches!(decoded.json_reply, ReplyFormat::HuggingFace(_));
    let of_dialect = |it: &ReplyFormat| {
        let is_said = decoded.stated || is_pipeline && matches!(it, ReplyFormat::HuggingFace(_));
        !is_said
    };
    let json_reply = rules.json_reply.filter(of_dialect);
    let json_reply = match json_reply.unwrap_or_else(|| decoded.json_reply.clone()) {
        ReplyFormat::HuggingFace(pipeline) => {
            ReplyFormat::HuggingFace(pipeline.or_top(options.usual_top))
        }
        other => other,
    };
    let (accept, default) = (invocation.accept.as_deref(), options.default_accept.as_deref());
    let is_verbose = negotiate::is_verbose(accept, default);
    if let ReplyFormat::HuggingFace(_) = json_reply
        && let Media::Json | Media::JsonLines(_) = media
        && let Some(reply) =
            algorithms::reply(signature, options.dialect, is_verbose, &decoded.inputs)
    {
        return Ok(on_a_line(options, ReplyFormat::Algorithm(reply.sent_as(media))));
    }
    let lines = |media| match json_reply {
        ReplyFormat::HuggingFace(pipeline) => ReplyFormat::HuggingFaceLines(pipeline, media),
        _ => ReplyFormat::JsonLines(media),
    };
    Ok(match media {
        Media::JsonLines(_) => {
            rules.lines.filter(|_| !options.batch).unwrap_or_else(|| lines(media))
        }
        // A batch job joins lines: those without names of columns get lines without them.
        Media::Csv if options.batch && decoded.reply_media == Media::Csv && !decoded.is_headed => {
            ReplyFormat::Csv
        }
        Media::Csv if matches!(json_reply, ReplyFormat::HuggingFace(_)) => {
            ReplyFormat::HuggingFaceCsv
        }
        Media::Csv => ReplyFormat::Csv,
        Media::Npy => ReplyFormat::Npy,
        Media::Json | Media::Npz | Media::Libsvm | Media::RecordIo | Media::Binary
            if options.batch && decoded.lines =>
        {
            lines(Media::Json)
        }
        Media::Json | Media::Npz | Media::Libsvm | Media::RecordIo | Media::Binary => {
            on_a_line(options, json_reply)
        }
    })
}

/// The media types that a reply of this model can have.
fn offered(signature: &Signature, named: &[Arc<str>]) -> &'static [Media] {
    const ALL: [Media; 6] = [
        Media::Json,
        Media::JsonLines(LinesName::JsonLines),
        Media::JsonLines(LinesName::Ndjson),
        Media::JsonLines(LinesName::Jsons),
        Media::Csv,
        Media::Npy,
    ];
    let [without_npy @ .., _] = &ALL;
    match outputs::fit_npy(signature, named) || pipelines::array(signature).is_some() {
        true => &ALL,
        false => without_npy,
    }
}

/// The media types that a KServe v2 response can have. Which of them it has, the request says elsewhere.
const KSERVE_V2: [Media; 2] = [Media::Json, Media::Binary];

fn decode_kserve_v2(
    signature: &Signature,
    invocation: &Invocation,
    options: &Options,
    header: Option<usize>,
    body: Bytes,
    grant: &Grant,
) -> Result<(InferenceRequest, ReplyFormat), Error> {
    choose(invocation, options, Media::Json, &KSERVE_V2)?;
    if let Some(header) = header.filter(|&it| it > body.len()) {
        return Err(Error::InvalidRequest(format!(
            "json-header-size: {header} bytes of JSON announced, the body has {}",
            body.len()
        )));
    }
    let decoded = kserve_v2::decode(signature, header, body, grant);
    let (request, format) = decoded.map_err(|problem| problem.error)?;
    Ok((request, on_a_line(options, ReplyFormat::KserveV2(format))))
}

/// Examples for classes or values, which have no reply but JSON.
fn decode_examples(
    signature: &Signature,
    invocation: &Invocation,
    options: &Options,
    method: tfs::Method,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, ReplyFormat), Error> {
    choose(invocation, options, Media::Json, &[Media::Json])?;
    let (request, results) = tfs::decode_examples(signature, method, body, grant)?;
    Ok((request, on_a_line(options, ReplyFormat::Results(results))))
}

/// The same reply with the length of its JSON part in the content type, where SageMaker lets it through.
fn under_binary_type(mut reply: EncodedReply) -> EncodedReply {
    if let Some(length) = reply.json_length.take() {
        reply.content_type = negotiate::binary_type(length).into();
    }
    reply
}

#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod tests;
