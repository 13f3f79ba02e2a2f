//! Metadata and configuration of the server and its models, in the form of each protocol.

use hyper::{Response, http::request::Parts};

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
    model.check_ready()?;
    let versions = match path.version {
        Some(version) => vec![version],
        None => service.serving.models.ready_versions(&path.name),
    };
    let platform = model.platform();
    Ok(respond::ok(kserve_v2::model_metadata(&model.signature, platform, &versions)))
}

pub async fn config(service: &Service, path: &ModelPath<'_>, parts: &Parts) -> Answer {
    let model = find(service, path, parts).await?;
    Ok(respond::raw("application/json", model.shown_json()))
}
