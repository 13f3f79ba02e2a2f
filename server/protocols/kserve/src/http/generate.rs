//! Inference by Triton's generate extension.

use bytes::Bytes;
use hyper::{body::Incoming, http::request::Parts};

use formats::kserve_v2::generate::{self, Framing};
use frontend::http::{
    address::ModelPath,
    answer::{Answer, find},
    inference::{HttpCodec, Work, inference, of_request},
    service::Service,
};
use inference::signature::Signature;

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
    let decode = move |signature: &Signature, body: Bytes| {
        let request = generate::decode(signature, &body);
        Ok((request.map_err(of_request)?, framing))
    };
    let codec = HttpCodec {
        header_length: None,
        expanded: |signature: &Signature, body: &Bytes, loose| {
            generate::expanded(signature, body, loose)
        },
        work: Work::Body,
        decode,
        encode: generate::encode,
    };
    inference(service, model, parts, body, codec, None).await
}
