//! Inference over HTTP, whatever the protocol: admit, read, decode, run, encode. And the address of KServe v2 for it.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{body::Incoming, header::HeaderName, http::request::Parts};

use super::{
    super::{
        body::{Payload, Received},
        compress,
        decompress::Inflation,
        encoding::{self, Encoding},
        respond,
        router::ModelPath,
        service::{Service, text},
        status::status,
    },
    Answer, Failure, find, shared,
};
use crate::{net::aside, shared::attach};
use inference::{
    error::Error,
    limits::{Permit, out_of_bytes},
    request::{InferenceRequest, InferenceResponse, Sequence},
    signature::Signature,
    trace::{self, Moment, Trace, Transport},
};
use models::ServedModel;
use protocol::{EncodedReply, kserve_v2};

/// JSON above this many bytes is read and written on a thread of its own, so that health checks and other
/// clients of the same I/O thread need not wait for it.
pub(super) const LARGE: usize = 256 << 10;

/// The same for bodies that need not spell out all elements of their tensors.
pub(super) const LARGE_SPARSE: usize = 4 << 10;

/// Compressing, and undoing it, takes as long as JSON that is some times as large.
const SLOW: usize = 64 << 10;

/// Where the JSON of a KServe request ends and its tensors begin.
const HEADER_LENGTH: HeaderName = HeaderName::from_static(kserve_v2::HEADER_LENGTH);

/// Of which trace of the client's a request is a part.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

pub(super) async fn infer_v2(
    service: &Service,
    path: &ModelPath<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let model = find(service, path, parts).await?;
    let mut headers = parts.headers.get_all(&HEADER_LENGTH).iter();
    let header = headers.next().cloned();
    if headers.next().is_some() {
        // A proxy that believes the other one would see another request than the one that runs.
        let problem =
            format!("{}: expected one such header, found several", kserve_v2::HEADER_LENGTH);
        return Err(Error::InvalidRequest(problem).into());
    }
    let json_length = header.as_ref().and_then(|it| it.to_str().ok()?.trim().parse().ok());
    let decode = move |signature: &Signature, body: Bytes| {
        let length = header.map(|it| {
            let text = String::from_utf8_lossy(it.as_bytes());
            kserve_v2::parse_header_length(&text, body.len())
        });
        let length = length.transpose()?;
        kserve_v2::decode(signature, length, body)
            .map_err(|it| Failure { id: it.id, error: it.error })
    };
    let codec = Codec { json_length, large: LARGE, decode, encode: kserve_v2::encode };
    inference(service, model, parts, body, codec).await
}

/// How a protocol reads requests and writes replies.
pub(super) struct Codec<D, F> {
    /// Bytes of the body that are JSON; `None` for all.
    pub(super) json_length: Option<usize>,
    /// More bytes than these are decoded on a thread of their own.
    pub(super) large: usize,
    /// Turns the body into a request and the form of its reply.
    pub(super) decode: D,
    /// Turns the response into that form.
    pub(super) encode: fn(&F, &Signature, &InferenceResponse) -> Result<EncodedReply, Error>,
}

/// The inference routes, and what their trace says of them.
pub(super) async fn inference<F, D>(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: impl Into<Payload<'_>>,
    codec: Codec<D, F>,
) -> Answer
where
    F: shared::MayShare + Send + 'static,
    D: FnOnce(&Signature, Bytes) -> Result<(InferenceRequest, F), Failure> + Send + 'static,
{
    let Signature { model: name, version, .. } = &*model.signature;
    let traceparent = || text(&parts.headers, &TRACEPARENT);
    let trace = service.serving.tracing.begin(Transport::Http, name, *version, traceparent);
    let mut answer = run(service, model, parts, body.into(), codec, trace.as_ref()).await;
    if let Some(trace) = trace {
        match &mut answer {
            Ok(response) => {
                trace.answered(response.status().as_u16(), None, None);
                response.body_mut().trace(trace);
            }
            Err(Failure { id, error }) => {
                let status = status(error.kind()).as_u16();
                trace.answered(status, id.as_ref(), Some(error));
            }
        }
    }
    answer
}

/// Admit, read, decode, run, encode.
async fn run<F, D>(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: Payload<'_>,
    codec: Codec<D, F>,
    trace: Option<&Arc<Trace>>,
) -> Answer
where
    F: shared::MayShare + Send + 'static,
    D: FnOnce(&Signature, Bytes) -> Result<(InferenceRequest, F), Failure> + Send + 'static,
{
    let Codec { json_length, large, decode, encode } = codec;
    // Before the body is read: a refusal must be cheap.
    model.admit()?;
    let encoding = encoding::of_body(&parts.headers, service.settings.compression)?;
    let deadline = service.deadline(&parts.headers)?;
    let aligned_at = json_length.unwrap_or(0);
    let limits = &service.settings.body;
    let mut received = body.receive(json_length, limits).await?;
    trace::stamp(trace, Moment::ReceiveEnd);
    if let Some(encoding) = encoding {
        // Boxed, as what follows: plain requests carry no room for it.
        received = Box::pin(inflate(service, encoding, received, aligned_at)).await?;
    }
    let Received { bytes, permit } = received;

    let is_large = large < json_length.unwrap_or(bytes.len());
    // The permit goes where the memory goes: a client that leaves does not stop what is put aside.
    let (decoded, mut permit) = match is_large {
        true => {
            let model = model.clone();
            aside(move || (decode(&model.signature, bytes), permit)).await?
        }
        false => (decode(&model.signature, bytes), permit),
    };
    let (mut request, mut form) = decoded?;
    // Boxed, so that requests that share no memory carry no room for it.
    let windows = match form.take_shared() {
        Some(parts) => {
            let (memory, bounds) = (&service.serving.memory, shared::bounds(service));
            let attached = attach(memory, bounds, *parts, &mut request, permit);
            let attached = Box::pin(attached).await;
            let (windows, grown) =
                attached.map_err(|error| Failure { id: request.id.clone(), error })?;
            permit = grown;
            Some(windows)
        }
        None => None,
    };
    // A short text can be a large tensor: too large for the budget only where others have a part of it.
    let length = request.inputs.iter().map(|it| it.tensor.byte_len()).sum();
    if permit.grow_to(length) || permit.is_alone() {
        permit.cover(length);
    } else {
        return Err(Failure { id: request.id, error: out_of_bytes(&service.settings.body.budget) });
    }
    if let Some(forwarding) = &service.settings.forwarding {
        let headers = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let selected = forwarding.select(headers);
        let selected = selected.map_err(|error| Failure { id: request.id.clone(), error })?;
        selected.into_iter().for_each(|(name, text)| request.override_parameter(name, text));
    }
    if let Some(place) = parts.extensions.get::<Sequence>() {
        put_into_session(&mut request, place);
    }
    request.deadline = deadline;
    request.trace = trace.cloned();
    let id = request.id.clone();
    let response = service.serving.inference.run(&model, request).await;
    let response = response.map_err(|error| Failure { id: id.clone(), error })?;
    if let Some(windows) = windows {
        let stored = Box::pin(windows.store(&response)).await;
        stored.map_err(|error| Failure { id: id.clone(), error })?;
    }

    let length = response.outputs.iter().map(|it| it.tensor.byte_len()).sum();
    permit.cover(length);
    let (encoded, mut permit) = match LARGE < length {
        true => aside(move || (encode(&form, &model.signature, &response), permit)).await?,
        false => (encode(&form, &model.signature, &response), permit),
    };
    let mut reply = encoded.map_err(|error| Failure { id, error })?;
    if let Some(encoding) = wanted_encoding(service, parts, &reply) {
        (reply, permit) = Box::pin(deflate(encoding, reply, permit)).await?;
    }
    let mut response = respond::ok(reply);
    response.body_mut().hold(permit);
    Ok(response)
}

/// A request of a session is of that session's sequence, whatever its body calls it. What the body says of start and end
/// counts beside what the session knows.
fn put_into_session(request: &mut InferenceRequest, place: &Sequence) {
    let said = request.sequence.as_ref();
    let start = place.start || said.is_some_and(|it| it.start);
    let end = place.end || said.is_some_and(|it| it.end);
    request.sequence = Some(Sequence { id: place.id.clone(), start, end });
}

/// The plain form of a compressed body. What is large is made so aside.
async fn inflate(
    service: &Service,
    encoding: Encoding,
    body: Received,
    aligned_at: usize,
) -> Result<Received, Error> {
    let mut inflation = Inflation::new(encoding, body, aligned_at, &service.settings.body)?;
    if !inflation.run(SLOW)? {
        let all = aside(move || inflation.run(usize::MAX).map(|_| inflation));
        inflation = all.await??;
    }
    Ok(inflation.finish())
}

/// The encoding that this reply is to have; `None` for none.
fn wanted_encoding(service: &Service, parts: &Parts, reply: &EncodedReply) -> Option<Encoding> {
    match service.settings.compression {
        true => compress::wanted(&parts.headers, reply),
        false => None,
    }
}

/// The reply in that encoding. What is large is compressed aside.
async fn deflate(
    encoding: Encoding,
    reply: EncodedReply,
    permit: Permit,
) -> Result<(EncodedReply, Permit), Error> {
    match SLOW < compress::length(&reply) {
        true => aside(move || (compress::compress(reply, encoding), permit)).await,
        false => Ok((compress::compress(reply, encoding), permit)),
    }
}
