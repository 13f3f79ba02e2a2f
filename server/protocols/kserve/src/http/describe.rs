//! Metadata and configuration of the server and its models, in the form of each protocol.

use hyper::Response;

use formats::kserve_v2;
use frontend::{
    http::{
        address::ModelPath,
        answer::{Answer, find},
        body::Segments,
        examples::Lines,
        parts::Parts,
        respond,
        routes::Listed,
        service::Service,
    },
    serving,
};

/// For a person who opens the port in a browser.
const ADDRESSES: &str = "\
muster, a model server. Every port answers at all of these addresses:

  GET  /v2                             the server; KServe v2, as Triton speaks it
  GET  /v2/models                      the models that serve, with a line to paste
  POST /v2/repository/index            the models, and why one is not ready
  GET  /v2/models/<model>              inputs and outputs of a model
  POST /v2/models/<model>/infer        inference
  POST /v1/models/<model>:predict      inference, as TensorFlow Serving has it
  POST /invocations                    inference, as SageMaker has it
  GET  /ping, /v2/health/ready         is the server ready?
  GET  /metrics                        metrics for Prometheus
";

/// Models that have a line there.
const MOST_LINES: usize = 20;

/// The addresses that other protocols of this build add for people, where they are there.
const FOR_PEOPLE: [&str; 2] = ["/docs", "/openapi.json"];

/// The addresses, in words, and the models, each with a line to paste.
pub async fn addresses(service: &Service, parts: &Parts) -> Answer {
    let mut text = ADDRESSES.to_owned();
    let is_for_people = |it: &&Listed| FOR_PEOPLE.contains(&&*it.route.path);
    for Listed { route, .. } in service.routes.iter().filter(is_for_people) {
        text += &format!("  GET  {:<32}{}\n", route.path, route.summary);
    }
    let listed = Lines::of(service, &parts.headers, MOST_LINES).await?;
    text += match listed.names.is_empty() {
        true => "\nNo model serves.\n",
        false => "\nThe models that serve:\n",
    };
    for (name, line) in listed.names.iter().zip(&listed.lines) {
        text += &format!("\n  {name}\n    {line}\n");
    }
    let more = listed.names.len() - listed.lines.len();
    if 0 < more {
        text += &format!("\n  and {more} more: /v2/models\n");
    }
    let mut response = respond::raw("text/plain; charset=utf-8", text.into());
    response.body_mut().hold(listed.permit);
    Ok(response)
}

/// The names of all models that serve, and lines to paste.
pub async fn models(service: &Service, parts: &Parts) -> Answer {
    let listed = Lines::of(service, &parts.headers, usize::MAX).await?;
    let text = format!("{{{}}}", listed.to_json());
    let mut response = respond::raw("application/json", text.into());
    response.body_mut().hold(listed.permit);
    Ok(response)
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
