//! Inference over HTTP, for every protocol: the exchange with the head of an HTTP request, and its answer as an HTTP
//! response.

use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use hyper::{body::Incoming, http::request::Parts};

use crate::exchange::{
    self, Call, Codec, Decoded, Failure, Wire, compression::Encoding, payload::Payload,
    rendering::Rendering,
};
use crate::http::{answer::Answer, encoding, reply_forms::ReplyForm, respond, service::Service};
use ::inference::{
    error::Error,
    request::{InferenceRequest, InferenceResponse, Sequence},
    signature::Signature,
    trace::Transport,
};
use ::models::ServedModel;
use protocol::{EncodedReply, kserve_v2};

/// Replies of fewer bytes are not compressed: one packet has to be sent in any case.
const SMALLEST_COMPRESSED: usize = 1 << 10;

/// The wire of HTTP.
const WIRE: &Wire = &Wire {
    transport: Transport::Http,
    ok: 200,
    status: |error| Rendering::of(error).http.as_u16(),
    encoding_header: "content-encoding",
    accepted: encoding::wanted,
    smallest_compressed: SMALLEST_COMPRESSED,
};

/// A failure of KServe's codecs, which know the client's name for the request.
pub fn of_request(failed: kserve_v2::DecodeError) -> Failure {
    Failure { id: failed.id, model: None, error: failed.error }
}

/// How a protocol over HTTP reads requests and writes replies. `F` is the form of a reply.
pub struct HttpCodec<X, D, F> {
    /// Bytes of the body in front of raw tensors; `None` where there are none.
    pub header_length: Option<usize>,
    /// Bytes of memory that decoding takes at most, besides the body.
    pub expanded: X,
    /// The part of the body that is read byte by byte.
    pub work: Work,
    /// Decodes the body into a request and the form of its reply.
    pub decode: D,
    /// Encodes the response in that form.
    pub encode: fn(&F, &Signature, &InferenceResponse) -> Result<EncodedReply, Error>,
}

/// The part of a body that is read byte by byte, as a measure of the time for it.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// That many bytes.
    Bytes(usize),
    /// All of it.
    Body,
    /// All of it, and each byte may stand for many elements.
    SparseBody,
}

/// The time for a byte of a sparse body, in bytes of a body that spells out all its elements.
const SPARSE: usize = 64;

impl<X, D, F> Codec for HttpCodec<X, D, F>
where
    X: Fn(&Signature, &Bytes, usize) -> usize + Send + 'static,
    D: FnOnce(&Signature, Bytes) -> Result<(InferenceRequest, F), Failure> + Send + 'static,
    F: ReplyForm + Send + 'static,
{
    type Parsed<'b> = &'b Bytes;
    type Format = Format<F>;
    type Reply = EncodedReply;

    const SMALLER: &'static str = "expected binary tensors, or fewer elements";
    const SMALLER_REPLY: &'static str = "ask for binary outputs, or fewer elements";

    fn header_length(&self) -> Option<usize> {
        self.header_length
    }

    fn parse<'b>(&self, body: &'b Bytes) -> Result<&'b Bytes, Error> {
        Ok(body)
    }

    fn expanded(&self, signature: &Signature, body: &&Bytes, rough: usize) -> usize {
        (self.expanded)(signature, body, rough)
    }

    fn decode_work(&self, _: &Signature, body: &&Bytes) -> usize {
        match self.work {
            Work::Bytes(bytes) => bytes,
            Work::Body => body.len(),
            Work::SparseBody => body.len().saturating_mul(SPARSE),
        }
    }

    fn decode(self, signature: &Signature, body: &Bytes) -> Result<Decoded<Format<F>>, Failure> {
        let (request, mut format) = (self.decode)(signature, body.clone())?;
        let shared = format.take_shared();
        Ok(Decoded { request, format: Format { format, encode: self.encode }, shared })
    }

    fn reply_expanded(format: &Self::Format, response: &InferenceResponse, rough: usize) -> usize {
        format.format.expanded(response, rough)
    }

    fn encode(
        format: &Self::Format,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        (format.encode)(&format.format, signature, response)
    }
}

/// The form of a reply, and the function that encodes it.
pub struct Format<F> {
    format: F,
    encode: fn(&F, &Signature, &InferenceResponse) -> Result<EncodedReply, Error>,
}

/// Runs a request on `model`. `sequence` is the one that the request belongs to, whatever its body says.
pub async fn inference<X, D, F>(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: impl Into<Payload<'_, Incoming>>,
    codec: HttpCodec<X, D, F>,
    sequence: Option<&Sequence>,
) -> Answer
where
    X: Fn(&Signature, &Bytes, usize) -> usize + Send + 'static,
    D: FnOnce(&Signature, Bytes) -> Result<(InferenceRequest, F), Failure> + Send + 'static,
    F: ReplyForm + Send + 'static,
{
    let encoding = encoding::of_body(&parts.headers, service.settings.compression)?;
    let call = Call { sequence, ..call(service, parts, encoding)? };
    exchange(service, model, body.into(), codec, call).await
}

/// Runs a request on `model` whose body is in memory, and plain whatever its head says.
pub async fn inference_of_plain<X, D, F>(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: Payload<'_, Incoming>,
    codec: HttpCodec<X, D, F>,
) -> Answer
where
    X: Fn(&Signature, &Bytes, usize) -> usize + Send + 'static,
    D: FnOnce(&Signature, Bytes) -> Result<(InferenceRequest, F), Failure> + Send + 'static,
    F: ReplyForm + Send + 'static,
{
    exchange(service, model, body, codec, call(service, parts, None)?).await
}

/// What is known of a request by its head. `encoding` is that of its body.
fn call<'a>(
    service: &'a Service,
    parts: &'a Parts,
    encoding: Option<Encoding>,
) -> Result<Call<'a>, Error> {
    let Service { serving, settings, .. } = service;
    Ok(Call {
        wire: WIRE,
        headers: &parts.headers,
        id: None,
        began: serving.tracing.now(),
        deadline: service.deadline(&parts.headers)?,
        encoding,
        // Clients wait for the compression: the fastest level finds most of the repetitions.
        compression: settings.compression.then(Compression::fast),
        forwarding: settings.forwarding.as_deref(),
        sequence: None,
    })
}

async fn exchange<X, D, F>(
    service: &Service,
    model: Arc<ServedModel>,
    body: Payload<'_, Incoming>,
    codec: HttpCodec<X, D, F>,
    call: Call<'_>,
) -> Answer
where
    X: Fn(&Signature, &Bytes, usize) -> usize + Send + 'static,
    D: FnOnce(&Signature, Bytes) -> Result<(InferenceRequest, F), Failure> + Send + 'static,
    F: ReplyForm + Send + 'static,
{
    let Service { serving, settings, .. } = service;
    let answer = exchange::infer(serving, &settings.body, model, &call, body, codec).await?;
    let mut response = respond::ok(answer.reply);
    let body = response.body_mut();
    body.hold(answer.permit);
    if let Some(trace) = answer.trace {
        body.trace(trace);
    }
    Ok(response)
}
