//! Inference over HTTP, whatever the protocol: the exchange, with what HTTP says of a request, and its answer as a
//! response. And the address of KServe v2 for it.

use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use hyper::{body::Incoming, http::request::Parts};

use crate::exchange::{
    self, Call, Codec, Decoded, Failure, Wire, compression::Encoding, intake::Payload,
};
use crate::http::{
    answer::Answer, compress, encoding, respond, service::Service, shared_forms::TakeShared,
    status::status,
};
use ::inference::{
    error::Error,
    request::{InferenceRequest, InferenceResponse, Sequence},
    signature::Signature,
    trace::Transport,
};
use ::models::ServedModel;
use protocol::{EncodedReply, kserve_v2};

/// Shorter replies, in bytes, are not compressed: a packet has to be sent in any case.
const SMALLEST_COMPRESSED: usize = 1 << 10;

/// HTTP, as the exchange sees it.
const WIRE: &Wire = &Wire {
    transport: Transport::Http,
    ok: 200,
    status: |error| status(error.kind()).as_u16(),
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
    /// Bytes of memory that decoding takes at most, beside the body.
    pub expanded: X,
    /// What of the body is read byte by byte.
    pub work: Work,
    /// Makes a request of the body, and the form of its reply.
    pub decode: D,
    /// Writes the response in that form.
    pub encode: fn(&F, &Signature, &InferenceResponse) -> Result<EncodedReply, Error>,
}

/// What of a body is read byte by byte, as a measure of the time that it takes.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// So many bytes.
    Bytes(usize),
    /// All of it.
    Body,
    /// All of it, and each byte may stand for many elements.
    SparseBody,
}

/// Time for a byte of a body that need not spell out all its elements, in bytes of one that does.
const SPARSE: usize = 64;

impl<X, D, F> Codec for HttpCodec<X, D, F>
where
    X: Fn(&Signature, &Bytes, usize) -> usize + Send + 'static,
    D: FnOnce(&Signature, Bytes) -> Result<(InferenceRequest, F), Failure> + Send + 'static,
    F: TakeShared + Send + 'static,
{
    type Parsed<'b> = &'b Bytes;
    type Format = Format<F>;
    type Reply = EncodedReply;

    const SMALLER: &'static str = "expected binary tensors, or fewer elements";

    fn header_length(&self) -> Option<usize> {
        self.header_length
    }

    fn parse<'b>(&self, body: &'b Bytes) -> Result<&'b Bytes, Error> {
        Ok(body)
    }

    fn expanded(&self, signature: &Signature, body: &&Bytes, loose: usize) -> usize {
        (self.expanded)(signature, body, loose)
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

    fn encode(
        format: &Self::Format,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        (format.encode)(&format.format, signature, response)
    }

    fn length(reply: &EncodedReply) -> usize {
        compress::length(reply)
    }

    fn compress(
        reply: EncodedReply,
        encoding: Encoding,
        level: Compression,
    ) -> Result<EncodedReply, Error> {
        Ok(compress::compress(reply, encoding, level))
    }
}

/// The form of a reply, and how it is written.
pub struct Format<F> {
    format: F,
    encode: fn(&F, &Signature, &InferenceResponse) -> Result<EncodedReply, Error>,
}

/// Runs a request on `model`. `sequence` is the one that it is a part of, whatever its body says.
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
    F: TakeShared + Send + 'static,
{
    let Service { serving, settings, .. } = service;
    let call = Call {
        wire: WIRE,
        headers: &parts.headers,
        id: None,
        began: serving.tracing.now(),
        deadline: service.deadline(&parts.headers)?,
        encoding: encoding::of_body(&parts.headers, settings.compression)?,
        // Clients wait for it: the fastest level, which finds most of what repeats.
        compression: settings.compression.then(Compression::fast),
        forwarding: settings.forwarding.as_deref(),
        sequence,
    };
    let answer = exchange::infer(serving, &settings.body, model, &call, body.into(), codec).await?;
    let mut response = respond::ok(answer.reply);
    let body = response.body_mut();
    body.hold(answer.permit);
    if let Some(trace) = answer.trace {
        body.trace(trace);
    }
    Ok(response)
}
