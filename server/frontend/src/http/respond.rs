//! HTTP replies: a codec's result, or an error.

use std::time::Duration;

use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER},
};

use super::{body::Segments, routes::Schema};
use crate::exchange::{rendering::Rendering, retry::spread};
use formats::{
    EncodedReply,
    errors::{self, ErrorForm},
    kserve_v2::HEADER_LENGTH,
};
use inference::error::Error;

/// The type of a stream of server-sent events, even of a single one.
const EVENTS: &str = "text/event-stream";

/// The header of replies that have raw tensors.
const RAW_TENSORS: HeaderName = HeaderName::from_static(HEADER_LENGTH);

/// The body of a failure in the plain form, which most protocols have.
pub const FAILURE: Schema = Schema {
    name: "Failure",
    json: r#"{"type":"object","required":["error"],"properties":{"error":{"type":"string"},
        "request_id":{"type":"string"}}}"#,
};

/// A reply with status 200.
pub fn ok(reply: EncodedReply) -> Response<Segments> {
    let mut response = Response::new(Segments::from(reply.body));
    if reply.content_type.starts_with(EVENTS) {
        response.body_mut().stream();
    }
    let headers = response.headers_mut();
    let content_type = match reply.content_type {
        std::borrow::Cow::Borrowed(text) => HeaderValue::from_static(text),
        std::borrow::Cow::Owned(text) => header_value(text),
    };
    headers.insert(CONTENT_TYPE, content_type);
    if let Some(length) = reply.json_length {
        headers.insert(RAW_TENSORS, number(length));
    }
    for (name, value) in reply.headers {
        headers.insert(HeaderName::from_static(name), header_value(value));
    }
    response
}

/// A number as the value of a header, which takes one allocation.
fn number(number: usize) -> HeaderValue {
    let (mut digits, mut at, mut left) = ([b'0'; 20], 20, number);
    while 0 < left || at == 20 {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    HeaderValue::from_bytes(&digits[at..]).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// A reply without a body.
pub fn empty(status: StatusCode) -> Response<Segments> {
    let mut response = Response::new(Segments::default());
    *response.status_mut() = status;
    response
}

/// A reply of status 200 with an encoded body.
pub fn raw(content_type: &'static str, body: Bytes) -> Response<Segments> {
    let mut response = Response::new(Segments::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The reply to a request that failed.
pub fn error(error: &Error, request_id: &str, form: ErrorForm) -> Response<Segments> {
    let rendering = Rendering::of(error);
    let body = body(&rendering, Some(request_id), form);
    failure(rendering.http, body, rendering.retry_after)
}

/// The reply to a request that failed, with a body that has no room for the request's name.
pub fn nameless_failure(status: StatusCode, body: Vec<u8>, error: &Error) -> Response<Segments> {
    failure(status, body.into(), error.retry_after())
}

/// The text of an error, less the end of a very long one.
pub fn excerpt(error: &Error) -> String {
    error.to_string().chars().take(LONGEST_TEXT).collect()
}

/// Most characters of the text of an error.
const LONGEST_TEXT: usize = 2000;

fn failure(status: StatusCode, body: Bytes, retry_after: Option<Duration>) -> Response<Segments> {
    let mut response = raw("application/json", body);
    *response.status_mut() = status;
    if let Some(after) = retry_after {
        let seconds = spread(after.max(SOONEST)).as_secs();
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The least time after which a client is asked to come back: the header has whole seconds.
const SOONEST: Duration = Duration::from_secs(1);

/// A reply that reports a state, not a fault: for health checks.
pub fn unhealthy(status: StatusCode, reason: &str) -> Response<Segments> {
    let mut response = raw("application/json", errors::state_body(reason).into());
    *response.status_mut() = status;
    response
}

/// The body of an error that no request is known of: a sentence.
pub fn error_body(error: &Error) -> Bytes {
    body(&Rendering::of(error), None, ErrorForm::Plain)
}

fn body(rendering: &Rendering, id: Option<&str>, form: ErrorForm) -> Bytes {
    errors::error_body(form, rendering.http.as_u16(), rendering.kind, &rendering.text, id).into()
}

fn header_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}
