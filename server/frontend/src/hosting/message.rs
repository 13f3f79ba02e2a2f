//! Messages of a WebSocket, each answered as the body of a request to `/invocations`.

use hyper::{Response, http::request::Parts};

use super::invoke::invocations;
use crate::{
    exchange::intake::{Payload, Received},
    http::{
        answer::failed,
        body::Segments,
        router::{Family, Route},
        service::Service,
    },
};
use inference::error::Error;
use telemetry::metrics::Protocol;

/// Answers a message of a WebSocket as the body of a request to `/invocations` with this head.
pub async fn message(service: &Service, parts: &Parts, body: Received) -> Response<Segments> {
    // A conversation may last for days, and the client may have lost its permission since it began.
    let need = Route::InvocationsStream.need(&parts.method);
    let answer = match service.check(need, &parts.headers) {
        Ok(()) => invocations(service, parts, Payload::Here(body)).await,
        Err(error) => Err(error.into()),
    };
    let response =
        answer.unwrap_or_else(|failure| failed(service, parts, Some(Family::SageMaker), &failure));
    service.serving.metrics.http(Protocol::Sagemaker, response.status().as_u16());
    response
}

/// The answer to a message that the reader refused.
pub fn refused(service: &Service, parts: &Parts, error: Error) -> Response<Segments> {
    let response = failed(service, parts, Some(Family::SageMaker), &error.into());
    service.serving.metrics.http(Protocol::Sagemaker, response.status().as_u16());
    response
}
