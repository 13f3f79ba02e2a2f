//! Messages of a WebSocket, each answered as the body of a request to `/invocations`.

use hyper::Response;

use crate::{front::Hosting, invoke::invocations, operation::Operation};
use frontend::{
    exchange::{intake::Received, payload::Payload},
    http::{
        answer::{Answer, failed},
        body::Segments,
        parts::Parts,
    },
};
use inference::{boxed::BoxFuture, error::Error};
use telemetry::metrics::Protocol;

/// Answers a message of a WebSocket as the body of a request to `/invocations` with this head. An error is why the
/// message was refused.
pub fn answer<'a>(
    hosting: Hosting<'a>,
    parts: &'a Parts,
    body: Result<Received, Error>,
) -> BoxFuture<'a, Response<Segments>> {
    Box::pin(async move {
        let answer = run(&hosting, parts, body).await;
        let failed = |failure| {
            failed(hosting.http, parts, &failure, |failed| hosting.invocation_failure(failed))
        };
        let response = answer.unwrap_or_else(failed);
        hosting.http.serving.metrics.http(Protocol::Sagemaker, response.status().as_u16());
        response
    })
}

async fn run(hosting: &Hosting<'_>, parts: &Parts, body: Result<Received, Error>) -> Answer {
    let body = Payload::Here(body?);
    // A conversation may last for days, and the client may have lost its permission since it began.
    let need = Operation::InvocationsStream.need();
    hosting.http.check(need, &parts.headers)?;
    invocations(hosting, parts, body).await
}
