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
use inference::error::Error;
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

/// `POST /predictions/<name>[/<version>]`, as of `/invocations`.
///
/// # Errors
/// [`Error::InvalidRequest`] for a version that is no number, or one behind which there is more than `.0`.
pub async fn predictions(
    hosting: &Hosting<'_>,
    name: &str,
    version: Option<&str>,
    parts: &Parts,
    body: Payload<'_, Incoming>,
) -> Answer {
    let version = version.map(version_of).transpose()?;
    let invocation = parse(&parts.headers)?;
    let deadline = || hosting.http.deadline(&parts.headers);
    let model = hosting.http.serving.model(name, version, deadline).await?;
    invoke(hosting, model, parts, invocation, body).await
}

/// The number of a version as TorchServe's clients write it: `1`, `1.0`.
fn version_of(text: &str) -> Result<u64, Error> {
    let number = text.strip_suffix(".0").unwrap_or(text);
    number.parse().map_err(|_| {
        Error::InvalidRequest(format!(
            "version '{}': expected the number of a version, as 1 or 1.0",
            text.escape_debug()
        ))
    })
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
