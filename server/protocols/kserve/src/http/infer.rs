//! Inference by KServe's protocol, version 2.

use bytes::Bytes;
use hyper::{
    HeaderMap,
    body::Incoming,
    header::{HeaderName, HeaderValue},
    http::request::Parts,
};

use ::inference::{error::Error, signature::Signature};
use formats::kserve_v2;
use frontend::http::{
    address::ModelPath,
    answer::{Answer, find},
    inference::{HttpCodec, Work, inference, of_request},
    service::Service,
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
    // Such a request is refused.
    let unreadable = header.is_some() && length.is_none();
    let decode = move |signature: &Signature, body: Bytes| {
        let length = header.map(|it| {
            let text = String::from_utf8_lossy(it.as_bytes());
            kserve_v2::parse_header_length(&text, body.len())
        });
        let decoded = kserve_v2::decode(signature, length.transpose()?, body);
        decoded.map_err(of_request)
    };
    let codec = HttpCodec {
        header_length: length,
        expanded: move |signature: &Signature, body: &Bytes, loose| match unreadable {
            true => 0,
            false => kserve_v2::expanded(signature, length, body, loose),
        },
        work: length.map_or(Work::Body, Work::Bytes),
        decode,
        encode: kserve_v2::encode,
    };
    inference(service, model, parts, body, codec, None).await
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
