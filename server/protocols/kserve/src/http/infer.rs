//! Inference by KServe's protocol, version 2.

use bytes::Bytes;
use hyper::{
    HeaderMap,
    body::Incoming,
    header::{HeaderName, HeaderValue},
};

use ::inference::{error::Error, grant::Grant, request::InferenceResponse, signature::Signature};
use formats::{
    EncodedReply,
    kserve_v2::{self, ReplyFormat},
};
use frontend::{
    exchange::{Decoded, Failure},
    http::{
        address::ModelPath,
        answer::{Answer, find},
        inference::{HttpCodec, Work, inference, of_request},
        parts::Parts,
        service::Service,
    },
};

/// The header with the length of a KServe request's JSON, behind which its tensors begin.
const HEADER_LENGTH: HeaderName = HeaderName::from_static(kserve_v2::HEADER_LENGTH);

pub async fn infer(
    service: &Service,
    path: &ModelPath<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let model = find(service, path, parts).await?;
    let header = header_length(&parts.headers)?;
    let length = header.as_ref().and_then(|it| it.to_str().ok()?.trim().parse().ok());
    inference(service, model, parts, body, Infer { header, length }, None).await
}

/// The codec of inference.
struct Infer {
    header: Option<HeaderValue>,
    /// What the header says; `None` also where it cannot be read, which is refused.
    length: Option<usize>,
}

impl HttpCodec for Infer {
    type Format = ReplyFormat;

    fn header_length(&self) -> Option<usize> {
        self.length
    }

    fn work(&self) -> Work {
        self.length.map_or(Work::Body, Work::Bytes)
    }

    fn decode(
        self,
        signature: &Signature,
        body: Bytes,
        grant: &Grant,
    ) -> Result<Decoded<ReplyFormat>, Failure> {
        let length = self.header.map(|it| {
            let text = String::from_utf8_lossy(it.as_bytes());
            kserve_v2::parse_header_length(&text, body.len())
        });
        decode(signature, length.transpose()?, body, grant)
    }

    fn encode(
        format: &ReplyFormat,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error> {
        kserve_v2::encode(format, signature, response, grant)
    }
}

/// Decodes a body of which so many bytes are JSON.
pub fn decode(
    signature: &Signature,
    json_length: Option<usize>,
    body: Bytes,
    grant: &Grant,
) -> Result<Decoded<ReplyFormat>, Failure> {
    let decoded = kserve_v2::decode(signature, json_length, body, grant);
    let (request, mut format) = decoded.map_err(of_request)?;
    let shared = format.shared.take();
    Ok(Decoded { request, format, shared })
}

/// The header with the length of the JSON, which must be there at most once.
fn header_length(headers: &HeaderMap) -> Result<Option<HeaderValue>, Error> {
    let mut headers = headers.get_all(&HEADER_LENGTH).iter();
    let header = headers.next().cloned();
    match headers.next() {
        None => Ok(header),
        // With two such headers, a proxy could see another request than the server runs.
        Some(_) => {
            let problem =
                format!("{}: expected one such header, found several", kserve_v2::HEADER_LENGTH);
            Err(Error::InvalidRequest(problem))
        }
    }
}
