//! Inference by Triton's generate extension.

use bytes::Bytes;
use hyper::{
    Response,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
};

use formats::{
    EncodedReply,
    kserve_v2::generate::{self, Framing},
};
use frontend::{
    exchange::{Decoded, Failure},
    http::{
        address::ModelPath,
        answer::{Answer, find},
        body::Segments,
        in_parts::{Form, error_event, inference_in_parts, inference_of_one_part},
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

/// Of a decoupled model each response is an event. Of any other one it is the only one.
async fn answer(
    service: &Service,
    path: &ModelPath<'_>,
    parts: &Parts,
    body: &mut Incoming,
    framing: Framing,
) -> Answer {
    let model = find(service, path, parts).await?;
    let codec = Generate { framing };
    match (framing, model.is_decoupled) {
        (_, false) => inference(service, model, parts, body, codec, None).await,
        // In boxes: the futures of other requests stay small.
        (Framing::Object, true) => {
            let answer = inference_of_one_part(service, model, parts, body, codec, NOT_ONE);
            Box::pin(answer).await
        }
        (Framing::Events, true) => {
            let form = |_: Option<&_>| Form::Events(error_event);
            Box::pin(inference_in_parts(service, model, parts, body, codec, None, form)).await
        }
    }
}

/// What a model itself fails with is an event, as Triton has it, also where it takes the place of the first response.
pub fn as_event(failed: Response<Segments>, error: &Error) -> Response<Segments> {
    let (mut head, _) = failed.into_parts();
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    Response::from_parts(head, error_event(error).into())
}

const EVENTS: &str = "text/event-stream; charset=utf-8";

/// Of a decoupled model that gave another number of responses.
const NOT_ONE: &str = "generate expects model to produce exactly 1 response, use generate stream for model that \
                       generates various number of responses";

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
