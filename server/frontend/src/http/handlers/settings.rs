//! Settings that clients read, and change while the server runs: of traces and of the log.

use hyper::{Method, body::Incoming, http::request::Parts};

use super::{
    super::{body, respond, router::ModelPath, service::Service},
    Answer,
};
use inference::error::Error;
use protocol::kserve_v2::settings;
use telemetry::logging::LogChangeError;

pub(super) async fn trace(
    service: &Service,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    // To be there is enough: for this no model is loaded.
    let model = path.map(|it| service.serving.models.get(&it.name, it.version)).transpose()?;
    let model = model.as_ref().map(|it| &*it.signature.model);
    let tracing = &service.serving.tracing;
    let all = match parts.method {
        Method::POST => {
            let received = body::read(body, 0, &service.settings.body).await?;
            tracing.update(model, settings::trace_request(&received.bytes)?)?
        }
        _ => tracing.settings(model),
    };
    Ok(respond::ok(settings::trace_settings(&all)))
}

pub(super) async fn logging(service: &Service, parts: &Parts, body: &mut Incoming) -> Answer {
    let log = &service.serving.log;
    if parts.method == Method::POST {
        let received = body::read(body, 0, &service.settings.body).await?;
        let changes = settings::log_request(&received.bytes)?;
        log.update(&changes).map_err(|error| match error {
            LogChangeError::Invalid(text) => Error::InvalidRequest(text),
            LogChangeError::Fixed(text) => Error::Unimplemented(text),
        })?;
    }
    Ok(respond::ok(settings::log_settings(&log.settings())))
}
