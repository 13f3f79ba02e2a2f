//! The answer of an HTTP route, and the error reply in its place where the route fails.

use std::sync::Arc;

use hyper::{
    HeaderMap, Response,
    body::{Body, Incoming},
    header::{ACCEPT_ENCODING, ALLOW, EXPECT, HeaderName, HeaderValue, WWW_AUTHENTICATE},
};

use super::{
    address::ModelPath,
    body::{self, Segments},
    failed::Failed,
    parts::Parts,
    service::{Service, TARGET_MODEL, text},
};
use crate::exchange::{Failure, failure};
use inference::error::{Error, Kind};
use serving::ServedModel;

/// SageMaker's headers that the log repeats beside an error.
const LOGGED_HEADERS: [HeaderName; 5] = [
    TARGET_MODEL,
    HeaderName::from_static("x-amzn-sagemaker-target-variant"),
    HeaderName::from_static("x-amzn-sagemaker-target-container-hostname"),
    HeaderName::from_static("x-amzn-sagemaker-inference-component"),
    HeaderName::from_static("x-amzn-sagemaker-custom-attributes"),
];

/// The answer of a route.
pub type Answer = Result<Response<Segments>, Failure>;

/// The model that an address names. Where models are loaded on demand, it is loaded for this.
pub async fn find(
    service: &Service,
    path: &ModelPath<'_>,
    parts: &Parts,
) -> Result<Arc<ServedModel>, Error> {
    let deadline = || service.deadline(&parts.headers);
    service.serving.model(&path.name, path.version, deadline).await
}

/// The value of a header; `None` where it is absent or not text.
pub fn owned_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    text(headers, name).map(str::to_owned)
}

/// The mark of a response whose request is still on its way.
#[derive(Debug, Clone, Copy)]
pub struct Unread;

/// Where `response` refuses its request, reads and drops the rest of the request, so that the client gets to read the
/// response. That is then marked with [`Unread`].
pub fn forget(parts: &Parts, body: Incoming, response: &mut Response<Segments>) {
    let (status, is_read) = (response.status(), body.is_end_stream());
    let is_refused = status.is_client_error() || status.is_server_error();
    // A client that sent `Expect: 100-continue` has its answer now, and sends no body.
    if is_refused && !is_read && !parts.headers.contains_key(EXPECT) {
        response.extensions_mut().insert(Unread);
        tokio::spawn(body::discard(body));
    }
}

/// The reply to a failure, as its protocol renders it. The failure is logged, and its trace gets the status of the
/// reply.
pub fn failed(
    service: &Service,
    parts: &Parts,
    failure: &Failure,
    render: impl FnOnce(&Failed<'_>) -> Response<Segments>,
) -> Response<Segments> {
    let id = service.request_id(parts, failure.id.as_deref());
    let named = parts.id.text();
    let [target_model, target_variant, target_container, inference_component, custom_attributes] =
        LOGGED_HEADERS.each_ref().map(|it| text(&parts.headers, it));
    let context = failure::Context {
        method: parts.method.as_str(),
        path: Some(parts.uri.path()),
        target_model,
        target_variant,
        target_container,
        inference_component,
        custom_attributes,
        x_request_id: Some(&*named).filter(|it| *it != id),
    };
    failure::log(&service.serving.failure_lines, context, &failure.error, &id);
    let mut response = render(&Failed { parts, error: &failure.error, id: &id });
    if let Error::MethodNotAllowed { allowed, .. } = failure.error {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    if let Error::UnsupportedEncoding { accepted, .. } = failure.error {
        let accepted = HeaderValue::from_static(accepted);
        response.headers_mut().insert(ACCEPT_ENCODING, accepted);
    }
    if failure.error.kind() == Kind::Unauthenticated {
        let scheme = HeaderValue::from_static("Bearer realm=\"muster\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    failure.answered(response.status().as_u16());
    response
}
