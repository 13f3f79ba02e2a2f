//! Inference by Triton's generate extension.

use bytes::Bytes;
use hyper::body::Incoming;

use formats::{
    EncodedReply,
    kserve_v2::generate::{self, Framing},
};
use frontend::{
    exchange::{Decoded, Failure},
    http::{
        address::ModelPath,
        answer::{Answer, find},
        inference::{HttpCodec, inference, of_request},
        parts::Parts,
        service::Service,
    },
};
use inference::{error::Error, grant::Grant, request::InferenceResponse, signature::Signature};

pub async fn object(
    service: &Service,
    path: &ModelPath<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    answer(service, path, parts, body, Framing::Object).await
}

pub async fn events(
    service: &Service,
    path: &ModelPath<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    answer(service, path, parts, body, Framing::Events).await
}

/// Engines give one response to a request, so the status is known before the stream begins.
async fn answer(
    service: &Service,
    path: &ModelPath<'_>,
    parts: &Parts,
    body: &mut Incoming,
    framing: Framing,
) -> Answer {
    let model = find(service, path, parts).await?;
    inference(service, model, parts, body, Generate { framing }, None).await
}

/// The codec of the extension.
struct Generate {
    framing: Framing,
}

impl HttpCodec for Generate {
    type Format = Framing;

    fn decode(
        self,
        signature: &Signature,
        body: Bytes,
        grant: &Grant,
    ) -> Result<Decoded<Framing>, Failure> {
        let request = generate::decode(signature, &body, grant).map_err(of_request)?;
        Ok(Decoded { request, format: self.framing, shared: None })
    }

    fn encode(
        framing: &Framing,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error> {
        generate::encode(framing, signature, response, grant)
    }
}
