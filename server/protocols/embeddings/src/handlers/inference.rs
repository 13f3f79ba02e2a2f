//! One inference for a client of another server of texts: its model is chosen, its body is run as any other, and the
//! reply says what it has taken.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use hyper::body::Incoming;

use super::{
    choice::{WantedModel, check},
    cost::add_times,
    received::receive,
    terms::terms,
    text_service::TextService,
};
use crate::codec::terms::Terms;
use ::inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};
use formats::{EncodedReply, expansion};
use frontend::{
    exchange::{Decoded, Failure, payload::Payload},
    http::{
        address::ModelPath,
        answer::{Answer, find},
        captures,
        inference::{HttpCodec, inference, inference_of_plain},
        parts::Parts,
    },
};
use serving::ServedModel;
use telemetry::capture::Captured;

/// How the bodies of one operation are read, and its replies written. `F` is the form of a reply.
pub struct Operation<F, D = Decode<F>> {
    /// What the model must do.
    pub wanted: WantedModel,
    /// Decodes a body.
    pub decode: D,
    /// Encodes a response.
    pub encode: Encode<F>,
}

/// A function that decodes a body.
pub type Decode<F> =
    fn(&Signature, Arc<Terms>, &[u8], &Grant) -> Result<(InferenceRequest, F), Error>;

/// What decodes a body: such a function, or one that knows more.
pub trait Decoding<F>:
    Fn(&Signature, Arc<Terms>, &[u8], &Grant) -> Result<(InferenceRequest, F), Error> + Send + 'static
{
}

impl<F, D> Decoding<F> for D where
    D: Fn(&Signature, Arc<Terms>, &[u8], &Grant) -> Result<(InferenceRequest, F), Error>
        + Send
        + 'static
{
}

/// A function that encodes a response.
pub type Encode<F> = fn(&F, &Signature, &InferenceResponse, &Grant) -> Result<EncodedReply, Error>;

/// Runs a request on the model that the address names, or that its body or its task chooses.
pub async fn infer<F: Send + 'static, D: Decoding<F>>(
    service: &TextService<'_>,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
    body: &mut Incoming,
    operation: Operation<F, D>,
) -> Answer {
    let began = Instant::now();
    let wanted = operation.wanted;
    let mut response = match path {
        // The body is received behind the admission, as any other.
        Some(path) => {
            let model = check(find(service, path, parts).await?, wanted)?;
            let captured = begin(service, &model, parts);
            let codec = codec(service, &model, operation, captured.clone());
            let answer = inference(service, model, parts, body, codec, None).await;
            captures::end(captured, &answer);
            answer?
        }
        None => {
            let (model, received) = receive(service, None, wanted, parts, body).await?;
            run(service, model, parts, Payload::Here(received), operation).await?
        }
    };
    add_times(&mut response, began);
    Ok(response)
}

/// Runs a body that is in memory on its model.
pub async fn run<F: Send + 'static, D: Decoding<F>>(
    service: &TextService<'_>,
    model: Arc<ServedModel>,
    parts: &Parts,
    payload: Payload<'_, Incoming>,
    operation: Operation<F, D>,
) -> Answer {
    let captured = begin(service, &model, parts);
    let codec = codec(service, &model, operation, captured.clone());
    let answer = inference_of_plain(service, model, parts, payload, codec).await;
    captures::end(captured, &answer);
    answer
}

/// The capture of a request, whose body is JSON where nothing else is said.
fn begin(service: &TextService<'_>, model: &ServedModel, parts: &Parts) -> Option<Arc<Captured>> {
    captures::begin(service, model, parts, Some("application/json"))
}

/// The codec of an operation, with the terms of that model.
fn codec<F, D: Decoding<F>>(
    service: &TextService<'_>,
    model: &ServedModel,
    operation: Operation<F, D>,
    captured: Option<Arc<Captured>>,
) -> OperationCodec<F, D> {
    OperationCodec { operation, terms: Arc::new(terms(service, model)), captured }
}

struct OperationCodec<F, D> {
    operation: Operation<F, D>,
    terms: Arc<Terms>,
    captured: Option<Arc<Captured>>,
}

impl<F: Send + 'static, D: Decoding<F>> HttpCodec for OperationCodec<F, D> {
    type Format = (F, Encode<F>);

    fn decode(
        self,
        signature: &Signature,
        body: Bytes,
        grant: &Grant,
    ) -> Result<Decoded<(F, Encode<F>)>, Failure> {
        let OperationCodec { operation: Operation { decode, encode, .. }, terms, captured } = self;
        if let Some(captured) = captured {
            captured.input(&body);
        }
        expansion::hold_ports(signature, grant)?;
        let (request, format) = decode(signature, terms, &body, grant)?;
        Ok(Decoded { request, format: (format, encode), shared: None })
    }

    fn encode(
        (format, encode): &(F, Encode<F>),
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error> {
        encode(format, signature, response, grant)
    }
}
