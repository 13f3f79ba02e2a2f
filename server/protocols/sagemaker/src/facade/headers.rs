//! Headers of SageMaker's runtime: their longest values, and the headers that describe the content of a stream or a
//! file.

use hyper::{
    HeaderMap,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName},
};

use frontend::http::service::text;
use inference::error::Error;

/// The header that names the variant to invoke.
pub const TARGET_VARIANT: HeaderName = HeaderName::from_static("x-amzn-sagemaker-target-variant");

/// The headers for the types of the content, where `Accept` and `Content-Type` are those of the event stream or of
/// the request around it.
const INNER_ACCEPT: HeaderName = HeaderName::from_static("x-amzn-sagemaker-accept");
pub const INNER_CONTENT_TYPE: HeaderName = HeaderName::from_static("x-amzn-sagemaker-content-type");

/// Most characters that the platform accepts in a header.
const LENGTHS: [(HeaderName, usize); 10] = [
    (CONTENT_TYPE, 1024),
    (ACCEPT, 1024),
    (INNER_CONTENT_TYPE, 1024),
    (INNER_ACCEPT, 1024),
    (HeaderName::from_static("x-amzn-sagemaker-custom-attributes"), 1024),
    (HeaderName::from_static("x-amzn-sagemaker-target-model"), 1024),
    (HeaderName::from_static("x-amzn-sagemaker-inference-id"), 64),
    (HeaderName::from_static("x-amzn-sagemaker-session-id"), 256),
    (TARGET_VARIANT, 63),
    (HeaderName::from_static("x-amzn-sagemaker-target-container-hostname"), 63),
];

/// Moves the types of the content to the headers that `/invocations` reads. The content of an event stream or of a
/// file is not compressed.
pub fn take_inner_types(headers: &mut HeaderMap) {
    headers.remove(ACCEPT_ENCODING);
    for (inner, plain) in [(INNER_ACCEPT, ACCEPT), (INNER_CONTENT_TYPE, CONTENT_TYPE)] {
        if let Some(value) = headers.remove(inner) {
            headers.insert(plain, value);
        }
    }
}

/// Does the platform accept these headers?
pub fn check_headers(headers: &HeaderMap) -> Result<(), Error> {
    for (name, most) in &LENGTHS {
        let Some(value) = headers.get(name) else { continue };
        let length = value.len();
        let expected = |what: &str| Err(Error::InvalidRequest(format!("header {name}: {what}")));
        if text(headers, name).is_none() {
            return expected("expected printable ASCII, given something else");
        }
        if *most < length {
            return expected(&format!("expected at most {most} characters, given {length}"));
        }
    }
    Ok(())
}
