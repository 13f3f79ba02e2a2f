//! The log lines of the start: the GPUs, the models, the addresses, and a request that works when pasted.

use std::net::SocketAddr;

use crate::config::ServerConfig;
use frontend::{
    http::examples::{self, zeros},
    serving::Serving,
};
use inference::{
    signature::Signature,
    task::{Medium, RowForm, Task},
};
use machine::{
    bytes_text,
    gpus::{Gpu, Gpus, Lack},
};
use serving::{ServedModel, request_of_zeros};

/// Logs the GPUs that models may use. A missing driver is only a debug line, because most machines have none.
pub(super) fn gpus(gpus: &Gpus) {
    for Gpu { number, uuid, name, memory, capability } in &gpus.found {
        let memory = memory.map_or("unknown".to_owned(), bytes_text);
        tracing::info!(gpu = number, name, uuid, memory, capability, "found a GPU");
    }
    let Gpus { found, reason, lack } = gpus;
    match lack {
        Lack::Nothing => {}
        Lack::NoDriver => tracing::debug!("there is no GPU that can be used: {reason}"),
        Lack::Hidden => tracing::info!("no GPU is used: {reason}"),
        Lack::Fault if found.is_empty() => {
            tracing::warn!("there is no GPU that can be used: {reason}");
        }
        Lack::Fault => tracing::warn!("not all GPUs are used: {reason}"),
    }
}

/// Logs who may administrate the server.
pub(super) fn administration(config: &ServerConfig) {
    let access = &config.access;
    let reason = &access.remote_administration.reason;
    match access.remote_administration.is_allowed {
        _ if access.has_tokens() => {
            tracing::info!(
                "administration (load, unload, shared memory, trace, log) needs a token"
            );
        }
        true => tracing::info!(
            "administration (load, unload, shared memory, trace, log) is open to all machines, {reason}"
        ),
        false => tracing::info!(
            "administration (load, unload, shared memory, trace, log) is open to this machine only, {reason}"
        ),
    }
}

/// Logs that everything is loaded, and how to try it.
pub(super) fn serving(
    serving: &Serving,
    addresses: &[(&'static str, SocketAddr)],
    config: &ServerConfig,
) {
    let ready = serving.models.ready_names();
    let known = serving.models.index().len();
    tracing::info!(models = ready.len(), known, "ready to serve");
    if let Some(line) = line(serving, addresses, config) {
        tracing::info!("try it: {line}");
    }
}

/// A request that works when it is pasted; `None` where no model has answered any.
pub(super) fn line(
    serving: &Serving,
    addresses: &[(&'static str, SocketAddr)],
    config: &ServerConfig,
) -> Option<String> {
    let ready = serving.models.ready_names();
    let models = ready.iter().filter_map(|name| serving.models.get(name, None).ok());
    // A request that the model has answered when it was loaded, or none.
    let models = models.filter(|model| model.answers_zeros);
    // The shortest request is the easiest to try, unless it needs a file.
    let easiest = models.min_by_key(|model| {
        let length = request_body(&model.signature).map_or(usize::MAX, |it| it.len());
        (file_of(&model.signature).is_some(), length)
    });
    easiest.and_then(|model| curl(&model, addresses, config))
}

fn curl(
    model: &ServedModel,
    addresses: &[(&'static str, SocketAddr)],
    config: &ServerConfig,
) -> Option<String> {
    let port_of =
        |service| addresses.iter().find(|(it, _)| *it == service).map(|(_, it)| it.port());
    let name = &model.signature.model;
    // The certificate is hardly one for localhost, so the request skips the check.
    let curl = |service| match config.tls.as_ref().is_some_and(|it| it.ports.has(service)) {
        true => "curl -sk https",
        false => "curl -s http",
    };
    let token = match config.access.has_tokens() {
        true => " -H 'Authorization: Bearer <token>'",
        false => "",
    };
    let (service, port) = match (port_of("http"), port_of("sagemaker")) {
        (Some(port), _) => ("http", port),
        (None, Some(port)) => ("sagemaker", port),
        (None, None) => return None,
    };
    let file = file_of(&model.signature);
    let sentence = takes_a_sentence(&model.signature);
    let text = examples::sentence();
    let path = match (service, file) {
        ("http", _) if sentence => format!("/v2/models/{name}/pipeline"),
        ("http", Some(_)) => format!("/v2/models/{name}/pipeline"),
        ("http", None) => format!("/v2/models/{name}/infer"),
        _ => "/invocations".to_owned(),
    };
    let body = match (service, file) {
        ("http", _) if sentence => format!("-d '{text}'"),
        (_, None) if sentence => format!("-H 'Content-Type: application/json' -d '{text}'"),
        (_, Some((_, file))) if names_labels(&model.signature) => format!(
            "-H 'Content-Type: application/json' -d '{{\"inputs\":\"'$(base64 -w0 {file})'\",\"parameters\":\
             {{\"candidate_labels\":[\"cat\",\"dog\"]}}}}'"
        ),
        (_, Some((media, file))) => format!("-H 'Content-Type: {media}' --data-binary @{file}"),
        (service, None) => {
            let body = request_body(&model.signature)?.replace('\'', "'\\''");
            match service {
                "http" => format!("-d '{body}'"),
                _ => format!("-H 'Content-Type: application/json' -d '{body}'"),
            }
        }
    };
    Some(format!("{}://localhost:{port}{path}{token} {body}", curl(service)))
}

/// Does the model answer one text, and nothing beside it?
fn takes_a_sentence(signature: &Signature) -> bool {
    let is_text = |task: &Task| task.medium() == Medium::Text && task.facts().row == RowForm::One;
    let is_one = || request_of_zeros(signature, 1).is_some_and(|it| it.inputs.len() == 1);
    signature.pipeline.as_ref().is_some_and(|it| is_text(&it.task)) && is_one()
}

/// Does each request say what the classes of its files are?
fn names_labels(signature: &Signature) -> bool {
    signature.pipeline.as_ref().is_some_and(|it| it.task.facts().row == RowForm::Labels)
}

/// Type and name of a file of the client's own that such a model takes; `None` where it takes none.
fn file_of(signature: &Signature) -> Option<(&'static str, &'static str)> {
    match signature.pipeline.as_ref()?.task.medium() {
        Medium::Text => None,
        Medium::Image => Some(("image/jpeg", "picture.jpg")),
        Medium::Audio => Some(("audio/wav", "sound.wav")),
    }
}

/// A request of zeros in JSON; `None` where it would have too many values for a reader.
fn request_body(signature: &Signature) -> Option<String> {
    const MOST: usize = 64;
    zeros(signature, MOST).map(|it| it.to_string())
}
