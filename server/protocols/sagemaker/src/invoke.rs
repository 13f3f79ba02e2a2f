//! `/invocations`: a request of a session, or an inference by itself.

use std::sync::Arc;

use hyper::body::Incoming;

use crate::{
    codec::invocations::Invocation,
    front::Hosting,
    invocations::{chosen, infer, parse},
    sessions::handler as sessions,
};
use frontend::{
    exchange::payload::Payload,
    http::{answer::Answer, parts::Parts},
};
use serving::ServedModel;

/// `POST /invocations`.
pub async fn invocations(
    hosting: &Hosting<'_>,
    parts: &Parts,
    body: Payload<'_, Incoming>,
) -> Answer {
    let invocation = parse(&parts.headers)?;
    let model = chosen(hosting, &parts.headers, &invocation.attributes).await?;
    invoke(hosting, model, parts, invocation, body).await
}

/// Runs a request on a chosen model, for every address with the semantics of `/invocations`.
pub async fn invoke(
    hosting: &Hosting<'_>,
    model: Arc<ServedModel>,
    parts: &Parts,
    invocation: Invocation,
    body: Payload<'_, Incoming>,
) -> Answer {
    if parts.headers.contains_key(sessions::SESSION) {
        // Boxed: the futures of other requests stay small.
        return Box::pin(sessions::answer(hosting, model, parts, invocation, body)).await;
    }
    infer(hosting, model, parts, invocation, body, None).await
}
