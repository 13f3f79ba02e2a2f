//! Health over HTTP: is the server alive, is it ready, is a model ready?

use bytes::Bytes;
use hyper::{Response, StatusCode};

use frontend::{
    drain::Stage,
    http::{address::ModelPath, answer::Answer, body::Segments, respond, service::Service},
};

pub fn live(service: &Service) -> Response<Segments> {
    match service.serving.drain.stage() {
        Stage::Serving => yes(service, r#"{"live":true}"#),
        Stage::Leaving | Stage::Closing => {
            respond::unhealthy(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down")
        }
    }
}

pub fn ready(service: &Service) -> Response<Segments> {
    match service.serving.not_ready() {
        None => yes(service, r#"{"ready":true}"#),
        Some(reason) if service.serving.drain.stage() != Stage::Serving => {
            respond::unhealthy(StatusCode::SERVICE_UNAVAILABLE, reason)
        }
        Some(reason) => respond::unhealthy(StatusCode::BAD_REQUEST, reason),
    }
}

/// Clients of KServe read the body that the open inference protocol has. Triton sends none, and scripts that wait for
/// Triton compare all that `curl -s -w %{http_code}` prints with the status.
fn yes(service: &Service, body: &'static str) -> Response<Segments> {
    if !service.settings.health_bodies {
        return respond::empty(StatusCode::OK);
    }
    respond::raw("application/json", Bytes::from_static(body.as_bytes()))
}

pub async fn model_ready(service: &Service, path: &ModelPath<'_>) -> Answer {
    // A question for readiness does not load the model.
    service.serving.models.own_ready(&path.name, path.version).await?;
    Ok(respond::empty(StatusCode::OK))
}
