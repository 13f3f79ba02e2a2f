//! A local SageMaker runtime: the addresses that clients of AWS call, in front of what `/invocations` does, with the
//! platform's headers and exceptions around it. Signatures are not checked.

mod accept;
mod exception;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{
    HeaderMap, Response,
    body::Incoming,
    header::{
        ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
    },
    http::request::Parts,
};

use super::{
    super::{
        body::Segments,
        events::EventStream,
        facade::Facade,
        respond,
        router::{
            Family,
            aws::{self, Endpoint, Operation},
        },
        service::{Service, text},
    },
    failed, forget, invocations,
};
use crate::exchange::{
    Failure,
    intake::{Payload, Received},
};
use exception::{Exception, Refusal};
use inference::{
    error::{Error, Kind},
    identifier::new_uuid,
};
use models::{ServedModel, State};
use protocol::{self, eventstream};
use telemetry::metrics::Protocol;

/// The name of a request, which the platform gives it.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

/// Who answered, and who was asked to.
const INVOKED_VARIANT: HeaderName = HeaderName::from_static("x-amzn-invoked-production-variant");
const TARGET_VARIANT: HeaderName = HeaderName::from_static("x-amzn-sagemaker-target-variant");

/// Who answers where there is no choice.
const ONLY_VARIANT: HeaderValue = HeaderValue::from_static("AllTraffic");

/// What `Accept` and `Content-Type` are called where these say something of the event stream or of the request around
/// the body.
const INNER_ACCEPT: HeaderName = HeaderName::from_static("x-amzn-sagemaker-accept");
const INNER_CONTENT_TYPE: HeaderName = HeaderName::from_static("x-amzn-sagemaker-content-type");

/// Longest text of a failure that is repeated.
const LONGEST: usize = 16 << 10;

/// The most characters that the platform takes in a header.
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

/// What stands in for the platform, where it is on and the request is for it.
pub(super) fn asked(service: &Service, parts: &Parts) -> Option<Arc<Facade>> {
    let facade = service.settings.facade.as_ref()?;
    parts.uri.path().starts_with(aws::PREFIX).then(|| facade.clone())
}

/// Answers a request below `/endpoints`.
pub(super) async fn answer(
    service: &Service,
    facade: &Facade,
    mut parts: Parts,
    mut body: Incoming,
) -> Response<Segments> {
    let uri = parts.uri.clone();
    let (name, outcome) = match aws::endpoint(&parts.method, uri.path()) {
        Ok(endpoint) => {
            let outcome = run(service, facade, &endpoint, &mut parts, &mut body).await;
            (endpoint.name, outcome)
        }
        Err(error) => ("".into(), Err(Refusal::from(error))),
    };
    let mut response = outcome.unwrap_or_else(|refusal| {
        let (failure, exception) = refusal.into_parts();
        // As without the platform around it: with its line in the log.
        forget(&parts, body);
        let inner = failed(service, &parts, Some(Family::SageMaker), &failure);
        match exception {
            Some(exception) => exception.respond(inner, &failure.error),
            None => model_error(&name, inner),
        }
    });
    if let Ok(id) = HeaderValue::try_from(new_uuid()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    service.serving.metrics.http(Protocol::Sagemaker, response.status().as_u16());
    response
}

async fn run(
    service: &Service,
    facade: &Facade,
    endpoint: &Endpoint<'_>,
    parts: &mut Parts,
    body: &mut Incoming,
) -> Result<Response<Segments>, Refusal> {
    service.check(aws::NEED, &parts.headers)?;
    check_headers(&parts.headers)?;
    let response = match endpoint.operation {
        Operation::InvokeAsync => {
            return accept::accept(service, facade, &endpoint.name, parts, body).await;
        }
        Operation::Invoke => invoke(service, &endpoint.name, parts, body.into()).await?,
        Operation::InvokeStream => {
            take_inner_types(&mut parts.headers);
            framed(invoke(service, &endpoint.name, parts, body.into()).await?)
        }
    };
    if !response.status().is_success() {
        return Ok(model_error(&endpoint.name, response));
    }
    let variant = parts.headers.get(&TARGET_VARIANT).cloned().unwrap_or(ONLY_VARIANT);
    let mut response = response;
    response.headers_mut().insert(INVOKED_VARIANT, variant);
    Ok(response)
}

/// What `/invocations` answers, on the model that the endpoint stands for.
async fn invoke(
    service: &Service,
    endpoint: &str,
    parts: &Parts,
    body: Payload<'_, Incoming>,
) -> Result<Response<Segments>, Refusal> {
    let model = model_of(service, endpoint, parts).await?;
    let answer = invocations::invoke(service, model, parts, body).await;
    answer.map_err(|failure| of_model(service, failure))
}

/// How one attempt to run an asynchronous invocation ended.
pub(in crate::http) enum Attempt {
    /// With a reply.
    Done(Response<Segments>),
    /// There is no room for it now; perhaps after that time.
    Again(Duration),
    /// With this, which says why in JSON, and in a sentence.
    Failed(Response<Segments>, String),
}

/// The same for an invocation whose body is here, and for whose reply nobody waits.
pub(in crate::http) async fn attempt(
    service: &Service,
    endpoint: &str,
    parts: &Parts,
    body: Received,
) -> Attempt {
    let refusal = match invoke(service, endpoint, parts, Payload::Here(body)).await {
        Ok(response) if response.status().is_success() => return Attempt::Done(response),
        Ok(response) => {
            let reason = told(&response);
            return Attempt::Failed(response, reason);
        }
        Err(refusal) => refusal,
    };
    let (failure, exception) = refusal.into_parts();
    let error = &failure.error;
    let passes = error.kind() == Kind::Overloaded || exception == Some(Exception::ModelNotReady);
    if let Some(after) = error.retry_after().filter(|_| passes) {
        return Attempt::Again(after);
    }
    let response = failed(service, parts, Some(Family::SageMaker), &failure);
    let reason = match exception {
        Some(_) => error.to_string(),
        None => told(&response),
    };
    Attempt::Failed(response, reason)
}

/// The model that an endpoint stands for: the one of its name, else the one that `/invocations` would ask.
async fn model_of(
    service: &Service,
    endpoint: &str,
    parts: &Parts,
) -> Result<Arc<ServedModel>, Refusal> {
    let deadline = || service.deadline(&parts.headers);
    let named = service.serving.model(endpoint, None, deadline).await;
    let error = match named {
        Err(Error::NotFound(_)) => match invocations::chosen(service, parts).await {
            Ok(model) => return Ok(model),
            Err(error) => error,
        },
        found => return found.map_err(|error| of_model(service, error.into())),
    };
    let is_missing =
        matches!(error, Error::NotFound(_) | Error::InvalidRequest(_) | Error::Unavailable(_));
    if is_missing && service.serving.models.is_started() {
        let shown: String = endpoint.chars().take(128).collect();
        let text = format!("endpoint '{shown}': there is no model of that name, and {error}");
        return Err(Refusal::Platform(Exception::Validation, Error::InvalidRequest(text)));
    }
    Err(of_model(service, error.into()))
}

/// Whose failure it is: that of the model, or of the platform that has it.
fn of_model(service: &Service, failure: Failure) -> Refusal {
    let models = &service.serving.models;
    let is_loading = |name: &str| {
        !models.is_started() || models.states(name).iter().any(|it| it.state == State::Loading)
    };
    match &failure.error {
        Error::ModelNotReady { model, .. } if is_loading(model) => {
            Refusal::Platform(Exception::ModelNotReady, failure.error)
        }
        Error::Unavailable(_) if !models.is_started() => {
            Refusal::Platform(Exception::ModelNotReady, failure.error)
        }
        Error::ShuttingDown | Error::OutOfBudget(_) => {
            Refusal::Platform(Exception::ServiceUnavailable, failure.error)
        }
        _ => Refusal::Model(failure),
    }
}

/// `ModelError` around what the model's container would have answered.
fn model_error(endpoint: &str, inner: Response<Segments>) -> Response<Segments> {
    let body = protocol::aws::model_error(endpoint, inner.status().as_u16(), &text_of(&inner));
    let mut response = exception::respond("ModelError", exception::MODEL_ERROR, body);
    if let Some(after) = inner.headers().get(RETRY_AFTER) {
        response.headers_mut().insert(RETRY_AFTER, after.clone());
    }
    response
}

/// The sentence for such an answer.
fn told(inner: &Response<Segments>) -> String {
    protocol::aws::model_message(inner.status().as_u16(), &text_of(inner))
}

fn text_of(response: &Response<Segments>) -> String {
    let bytes = response.body().pieces().flatten().copied().take(LONGEST);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// The reply as an event stream, whose parts leave as they come.
fn framed(response: Response<Segments>) -> Response<Segments> {
    if !response.status().is_success() {
        return response;
    }
    let (mut head, inner) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    let frames = HeaderValue::from_static(eventstream::MEDIA_TYPE);
    if let Some(content_type) = head.headers.insert(CONTENT_TYPE, frames) {
        head.headers.insert(INNER_CONTENT_TYPE, content_type);
    }
    Response::from_parts(head, Segments::coming(EventStream::new(inner, |never| match never {})))
}

/// Puts what is said of the body where `/invocations` looks for it. What is inside an event stream or a file is not
/// compressed.
fn take_inner_types(headers: &mut HeaderMap) {
    headers.remove(ACCEPT_ENCODING);
    for (inner, plain) in [(INNER_ACCEPT, ACCEPT), (INNER_CONTENT_TYPE, CONTENT_TYPE)] {
        if let Some(value) = headers.remove(inner) {
            headers.insert(plain, value);
        }
    }
}

/// Are the headers as the platform takes them?
fn check_headers(headers: &HeaderMap) -> Result<(), Error> {
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

/// A reply of JSON with this status.
fn json(status: hyper::StatusCode, body: Vec<u8>) -> Response<Segments> {
    let mut response = respond::raw("application/json", Bytes::from(body));
    *response.status_mut() = status;
    response
}
