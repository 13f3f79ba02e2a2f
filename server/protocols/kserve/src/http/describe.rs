//! Metadata and configuration of the server and its models, in the form of each protocol.

use bytes::Bytes;
use hyper::{Response, http::request::Parts};

use formats::kserve_v2;
use frontend::{
    http::{
        address::ModelPath,
        answer::{Answer, find},
        body::Segments,
        respond,
        service::Service,
    },
    serving,
};

/// For a person who opens the port in a browser.
const ADDRESSES: &str = "\
muster, a model server. Every port answers at all of these addresses:

  GET  /v2                             the server; KServe v2, as Triton speaks it
  POST /v2/repository/index            the models, and why one is not ready
  GET  /v2/models/<model>              inputs and outputs of a model
  POST /v2/models/<model>/infer        inference
  POST /v1/models/<model>:predict      inference, as TensorFlow Serving has it
  POST /invocations                    inference, as SageMaker has it
  GET  /ping, /v2/health/ready         is the server ready?
  GET  /metrics                        metrics for Prometheus
";

/// The addresses, in words.
pub fn addresses() -> Response<Segments> {
    respond::raw("text/plain; charset=utf-8", Bytes::from_static(ADDRESSES.as_bytes()))
}

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
    let (platform, merging) = (model.platform(), model.merging());
    let merging = merging.as_deref();
    Ok(respond::ok(kserve_v2::model_metadata(&model.signature, platform, &versions, merging)))
}

pub async fn config(service: &Service, path: &ModelPath<'_>, parts: &Parts) -> Answer {
    let model = find(service, path, parts).await?;
    Ok(respond::raw("application/json", model.shown_json()))
}
