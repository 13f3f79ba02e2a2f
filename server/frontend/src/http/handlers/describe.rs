//! Metadata and configuration of the server and its models, in the form of each protocol.

use hyper::{HeaderMap, Response, http::request::Parts};

use crate::http::{
    answer::{Answer, find},
    body::Segments,
    respond,
    router::ModelPath,
    service::Service,
};
use crate::serving;
use protocol::kserve_v2;

pub fn server(service: &Service) -> Response<Segments> {
    let name = &service.serving.settings.server_name;
    respond::ok(kserve_v2::server_metadata(name, serving::VERSION))
}

pub async fn model(service: &Service, path: &ModelPath<'_>, parts: &Parts) -> Answer {
    let model = find(service, path, parts).await?;
    let versions = match path.version {
        Some(version) => vec![version],
        None => service.serving.models.ready_versions(&path.name),
    };
    let platform = model.platform();
    Ok(respond::ok(kserve_v2::model_metadata(&model.signature, platform, &versions)))
}

pub async fn config(service: &Service, path: &ModelPath<'_>, parts: &Parts) -> Answer {
    let model = find(service, path, parts).await?;
    Ok(respond::raw("application/json", model.config_json.clone()))
}

/// The version that MLflow's image reports.
pub fn version() -> Response<Segments> {
    respond::raw("text/plain; charset=utf-8", env!("CARGO_PKG_VERSION").into())
}

/// How a batch transform job should send its records.
pub async fn execution_parameters(service: &Service) -> Response<Segments> {
    /// Most bytes of all concurrent payloads, in MB.
    const TOGETHER: u64 = 100;
    let model = service.invoked(&HeaderMap::new(), None).await.ok();
    let instances = model.map_or(1, |it| it.instances());
    let concurrent = instances.max(service.settings.cpus.get()).clamp(1, 16);
    // A payload must not exceed the limit of a body.
    let taken = (service.settings.body.limit >> 20).max(1);
    let payload = service.settings.hosting.max_payload_mb.min(taken);
    let payload = payload.min(TOGETHER / concurrent as u64);
    let body = format!(
        "{{\"MaxConcurrentTransforms\":{concurrent},\"BatchStrategy\":\"MULTI_RECORD\",\
         \"MaxPayloadInMB\":{payload}}}"
    );
    respond::raw("application/json", body.into())
}
