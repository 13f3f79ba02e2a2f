//! `/invocations`: a request of a session, or an inference by itself.

use std::sync::Arc;

use hyper::{body::Incoming, http::request::Parts};

use super::{
    invocations::{chosen, infer},
    sessions::handler as sessions,
};
use crate::{
    exchange::intake::Payload,
    http::{answer::Answer, service::Service},
};
use models::ServedModel;

/// `POST /invocations`.
pub async fn invocations(service: &Service, parts: &Parts, body: Payload<'_, Incoming>) -> Answer {
    let model = chosen(service, parts).await?;
    invoke(service, model, parts, body).await
}

/// Runs a request on a chosen model, for every address with the semantics of `/invocations`.
pub async fn invoke(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: Payload<'_, Incoming>,
) -> Answer {
    if parts.headers.contains_key(sessions::SESSION) {
        // Boxed: the futures of other requests stay small.
        return Box::pin(sessions::answer(service, model, parts, body)).await;
    }
    infer(service, model, parts, body, None).await
}
