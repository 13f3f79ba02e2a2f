//! Inference over HTTP, for every protocol: the exchange with the head of an HTTP request, and its answer as an HTTP
//! response.

use std::sync::Arc;

use backend::DataType;
use bytes::Bytes;
use flate2::Compression;
use hyper::body::Incoming;

use crate::{
    exchange::{
        self, Call, Codec, Decoded, Failure, Wire, compression::Encoding, payload::Payload,
    },
    http::{answer::Answer, encoding, parts::Parts, respond, service::Service},
};
use ::inference::{
    error::Error,
    grant::Grant,
    request::{InferenceResponse, Sequence},
    signature::Signature,
    trace::Transport,
};
use ::serving::ServedModel;
use formats::{EncodedReply, kserve_v2, signature_name::signature_name};

/// Replies of fewer bytes are not compressed: one packet has to be sent in any case.
const SMALLEST_COMPRESSED: usize = 1 << 10;

/// The wire of HTTP.
const WIRE: &Wire = &Wire {
    transport: Transport::Http,
    ok: 200,
    encoding_header: "content-encoding",
    accepted: encoding::wanted,
    smallest_compressed: SMALLEST_COMPRESSED,
};

/// A failure of KServe's codecs, which know the client's name for the request.
pub fn of_request(failed: kserve_v2::DecodeError) -> Failure {
    Failure::of(failed.id, failed.error)
}

/// How a protocol over HTTP reads requests and writes replies: a [`Codec`] of whole bodies.
pub trait HttpCodec: Sized + Send + 'static {
    /// What the reply needs to know of its request.
    type Format: Send + 'static;

    /// Bytes of the body in front of raw tensors; `None` where there are none.
    fn header_length(&self) -> Option<usize> {
        None
    }

    /// The part of the body that is read byte by byte.
    fn work(&self) -> Work {
        Work::Body
    }

    /// As of [`Codec::decode`].
    ///
    /// # Errors
    /// As of [`Codec::decode`].
    fn decode(
        self,
        signature: &Signature,
        body: Bytes,
        grant: &Grant,
    ) -> Result<Decoded<Self::Format>, Failure>;

    /// As of [`Codec::encode`].
    ///
    /// # Errors
    /// As of [`Codec::encode`].
    fn encode(
        format: &Self::Format,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error>;
}

/// The part of a body that is read byte by byte, as a measure of the time for it.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// That many bytes, and the raw tensors behind them where their elements are checked.
    Bytes(usize),
    /// All of it.
    Body,
    /// All of it, and each byte may stand for many elements.
    SparseBody,
}

/// The time for a byte of a sparse body, in bytes of a body that spells out all its elements.
const SPARSE: usize = 64;

impl<C: HttpCodec> Codec for C {
    type Parsed<'b> = &'b Bytes;
    type Format = C::Format;
    type Reply = EncodedReply;

    const SMALLER: &'static str = "expected binary tensors, or fewer elements";
    const SMALLER_REPLY: &'static str = "ask for binary outputs, or fewer elements";

    fn header_length(&self) -> Option<usize> {
        HttpCodec::header_length(self)
    }

    fn parse<'b>(&self, body: &'b Bytes) -> Result<&'b Bytes, Error> {
        Ok(body)
    }

    fn signature<'s>(&self, default: &'s Signature, body: &&Bytes) -> Result<&'s Signature, Error> {
        if default.named.is_none() {
            return Ok(default);
        }
        let json = body.get(..HttpCodec::header_length(self).unwrap_or(body.len())).unwrap_or(body);
        let name = signature_name(json).unwrap_or_default();
        default.of_name(&name).map_err(|it| Error::NoSuchSignature(it.to_string()))
    }

    fn decode_work(&self, signature: &Signature, body: &&Bytes) -> usize {
        match self.work() {
            Work::Bytes(bytes) if reads_raw(signature) => body.len().max(bytes),
            Work::Bytes(bytes) => bytes,
            Work::Body => body.len(),
            Work::SparseBody => body.len().saturating_mul(SPARSE),
        }
    }

    fn decode(
        self,
        signature: &Signature,
        body: &Bytes,
        grant: &Grant,
    ) -> Result<Decoded<C::Format>, Failure> {
        HttpCodec::decode(self, signature, body.clone(), grant)
    }

    fn encode(
        format: &C::Format,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error> {
        <C as HttpCodec>::encode(format, signature, response, grant)
    }
}

/// May raw tensors of the model be read element by element? Lengths of strings and booleans are checked.
fn reads_raw(signature: &Signature) -> bool {
    let forms = signature.pipeline.iter().flat_map(|it| &it.forms).map(|it| &it.signature);
    signature
        .usable()
        .chain(forms)
        .flat_map(|it| &it.inputs)
        .any(|it| matches!(it.dtype, DataType::Bytes | DataType::Bool))
}

/// Runs a request on `model`. `sequence` is the one that the request belongs to, whatever its body says.
pub async fn inference<C: HttpCodec>(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: impl Into<Payload<'_, Incoming>>,
    codec: C,
    sequence: Option<&Sequence>,
) -> Answer {
    let encoding = encoding::of_body(&parts.headers, service.settings.compression)?;
    let call = Call { sequence, ..call(service, parts, encoding)? };
    exchange(service, model, body.into(), codec, call).await
}

/// Runs a request on `model` whose body is in memory, and plain whatever its head says.
pub async fn inference_of_plain<C: HttpCodec>(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: Payload<'_, Incoming>,
    codec: C,
) -> Answer {
    exchange(service, model, body, codec, call(service, parts, None)?).await
}

/// What is known of a request by its head. `encoding` is that of its body.
pub(super) fn call<'a>(
    service: &'a Service,
    parts: &'a Parts,
    encoding: Option<Encoding>,
) -> Result<Call<'a>, Error> {
    let Service { serving, settings, .. } = service;
    Ok(Call {
        wire: WIRE,
        headers: &parts.headers,
        id: None,
        named: Some(&parts.id),
        began: serving.tracing.now(),
        deadline: service.deadline(&parts.headers)?,
        encoding,
        // Clients wait for the compression: the fastest level finds most of the repetitions.
        compression: settings.compression.then(Compression::fast),
        forwarding: settings.forwarding.as_deref(),
        sequence: None,
        takes_one: Some("HTTP end point"),
    })
}

async fn exchange<C: HttpCodec>(
    service: &Service,
    model: Arc<ServedModel>,
    body: Payload<'_, Incoming>,
    codec: C,
    call: Call<'_>,
) -> Answer {
    let Service { serving, settings, .. } = service;
    let answer = exchange::infer(serving, &settings.body, model, &call, body, codec).await?;
    let mut response = respond::ok(answer.reply);
    let body = response.body_mut();
    body.set_spent(answer.spent);
    body.hold(answer.permit);
    if let Some(trace) = answer.trace {
        body.trace(trace);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use inference::signature::Port;

    /// A model with one input of this type.
    fn model(dtype: DataType) -> Signature {
        let port = Port {
            name: "x".into(),
            dtype,
            dims: vec![None],
            any_rank: false,
            scalar: false,
            optional: false,
            labels: [].into(),
            text_codes: Default::default(),
        };
        Signature {
            model: "m".into(),
            version: 1,
            max_batch_size: 1,
            graph_checks_shapes: false,
            takes_missing: false,
            most_rows: None,
            inputs: vec![port],
            outputs: Vec::new(),
            on_request: Vec::new(),
            pipeline: None,
            named: None,
        }
    }

    /// A codec of bodies with ten bytes in front of their tensors.
    struct Raw;

    impl HttpCodec for Raw {
        type Format = ();

        fn work(&self) -> Work {
            Work::Bytes(10)
        }

        fn decode(self, _: &Signature, _: Bytes, _: &Grant) -> Result<Decoded<()>, Failure> {
            unreachable!("nothing is decoded")
        }

        fn encode(
            (): &(),
            _: &Signature,
            _: &InferenceResponse,
            _: &Grant,
        ) -> Result<EncodedReply, Error> {
            unreachable!("nothing is encoded")
        }
    }

    #[test]
    fn raw_strings_and_booleans_are_work() {
        let work = |dtype| Raw.decode_work(&model(dtype), &&Bytes::from(vec![0; 1000]));
        assert_eq!(work(DataType::Fp32), 10);
        assert_eq!(work(DataType::Bytes), 1000);
        assert_eq!(work(DataType::Bool), 1000);
    }
}
