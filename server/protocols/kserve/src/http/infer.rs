//! Inference by KServe's protocol, version 2.

use std::{ptr, sync::Arc};

use bytes::Bytes;
use hyper::{
    HeaderMap,
    body::Incoming,
    header::{HeaderName, HeaderValue},
};

use ::inference::{error::Error, grant::Grant, request::InferenceResponse, signature::Signature};
use formats::{
    EncodedReply,
    body_memo::BodyMemo,
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
    let length = header.as_ref().and_then(number);
    let memo = parts.memo.clone().map(|it| (it, model.signature.clone()));
    inference(service, model, parts, body, Infer { header, length, memo }, None).await
}

/// What a connection remembers of its last request.
type Memo = BodyMemo<Arc<ReplyFormat>>;

/// The codec of inference.
struct Infer {
    header: Option<HeaderValue>,
    /// The number in the header; `None` also where it is no plain one.
    length: Option<usize>,
    /// What the connection remembers, and the signature of the model.
    memo: Option<(Arc<Memo>, Arc<Signature>)>,
}

impl HttpCodec for Infer {
    type Format = Arc<ReplyFormat>;

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
    ) -> Result<Decoded<Arc<ReplyFormat>>, Failure> {
        let length = match (&self.header, self.length) {
            (Some(header), None) => {
                let text = String::from_utf8_lossy(header.as_bytes());
                Some(kserve_v2::parse_header_length(&text, body.len())?)
            }
            (_, length) => length,
        };
        let known = self.memo.as_ref().filter(|(_, it)| ptr::eq(&**it, signature));
        let Some((memo, signature)) = known else {
            let Decoded { request, format, shared } = decode(signature, length, body, grant)?;
            return Ok(Decoded { request, format: Arc::new(format), shared });
        };
        let decoded = kserve_v2::decode_with(memo, signature, length, body, grant);
        let (request, mut format) = decoded.map_err(of_request)?;
        // A format that is remembered shares nothing.
        let shared = Arc::get_mut(&mut format).and_then(|it| it.shared.take());
        Ok(Decoded { request, format, shared })
    }

    fn encode(
        format: &Arc<ReplyFormat>,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error> {
        kserve_v2::encode(format, signature, response, grant)
    }
}

/// The number that a header is: digits, and blanks around them.
fn number(header: &HeaderValue) -> Option<usize> {
    let digits = header.as_bytes().trim_ascii();
    let digit = |it: &u8| it.is_ascii_digit().then(|| usize::from(it - b'0'));
    let number = |all: usize, it: &u8| all.checked_mul(10)?.checked_add(digit(it)?);
    if digits.is_empty() { None } else { digits.iter().try_fold(0, number) }
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
    // Requests have few headers: to compare all names takes less than to look up one.
    let mut headers = headers.iter().filter(|(name, _)| *name == HEADER_LENGTH);
    let header = headers.next().map(|(_, value)| value.clone());
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
