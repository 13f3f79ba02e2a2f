//! What a platform asks of a container before it sends requests: its health, its version, how to send records.

use hyper::{HeaderMap, Response, StatusCode};

use crate::front::Hosting;
use frontend::http::{body::Segments, respond};

/// `/ping`.
pub fn ping(hosting: &Hosting<'_>) -> Response<Segments> {
    match hosting.ping_fails() {
        None => respond::empty(StatusCode::OK),
        Some(reason) => respond::unhealthy(StatusCode::SERVICE_UNAVAILABLE, &reason),
    }
}

/// The version that MLflow's image reports.
pub fn version() -> Response<Segments> {
    respond::raw("text/plain; charset=utf-8", env!("CARGO_PKG_VERSION").into())
}

/// How a batch transform job should send its records.
pub async fn execution_parameters(hosting: &Hosting<'_>) -> Response<Segments> {
    /// Most bytes of all concurrent payloads, in MB.
    const TOGETHER: u64 = 100;
    let model = hosting.invoked(&HeaderMap::new(), None).await.ok();
    // A payload may hold the rows of several records, or only one.
    let any_rows = model.as_ref().is_none_or(|it| it.signature.takes_any_rows());
    let strategy = if any_rows { "MULTI_RECORD" } else { "SINGLE_RECORD" };
    let instances = model.map_or(1, |it| it.instances());
    let concurrent = instances.max(hosting.cpus.get()).clamp(1, 16);
    // A payload must not exceed the limit of a body.
    let taken = (hosting.http.settings.body.limit >> 20).max(1);
    let payload = hosting.answers.max_payload_mb.min(taken);
    let payload = payload.min(TOGETHER / concurrent as u64);
    let body = format!(
        "{{\"MaxConcurrentTransforms\":{concurrent},\"BatchStrategy\":\"{strategy}\",\
         \"MaxPayloadInMB\":{payload}}}"
    );
    respond::raw("application/json", body.into())
}
