//! `/invocations`: a request of a session, or an inference by itself.

use std::sync::Arc;

use hyper::{body::Incoming, http::request::Parts};

use crate::{
    front::Hosting,
    invocations::{chosen, infer},
    sessions::handler as sessions,
};
use frontend::{exchange::intake::Payload, http::answer::Answer};
use models::ServedModel;

/// `POST /invocations`.
pub async fn invocations(hosting: &Hosting, parts: &Parts, body: Payload<'_, Incoming>) -> Answer {
    let model = chosen(hosting, parts).await?;
    invoke(hosting, model, parts, body).await
}

/// Runs a request on a chosen model, for every address with the semantics of `/invocations`.
pub async fn invoke(
    hosting: &Hosting,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: Payload<'_, Incoming>,
) -> Answer {
    if parts.headers.contains_key(sessions::SESSION) {
        // Boxed: the futures of other requests stay small.
        return Box::pin(sessions::answer(hosting, model, parts, body)).await;
    }
    infer(hosting, model, parts, body, None).await
}
