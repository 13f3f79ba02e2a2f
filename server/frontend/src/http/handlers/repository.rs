//! The model repository: what is in it, loading and unloading.

use hyper::body::Incoming;

use super::{
    super::{body, respond, router::ModelPath, service::Service},
    Answer,
};
use models::{LoadOverride, State};
use protocol::kserve_v2;

pub(super) async fn index(service: &Service, body: &mut Incoming) -> Answer {
    let received = body::read(body, 0, &service.settings.body).await?;
    let only_ready = kserve_v2::index_request(&received.bytes)?;
    let control = service.serving.control.clone();
    let index = service.serving.apart.run(move || control.index()).await?;
    let shown = index.iter().filter(|it| !only_ready || it.state == State::Ready);
    let entries = shown.map(|it| kserve_v2::IndexEntry {
        name: &it.name,
        version: it.version,
        // Of a model that was never loaded there is only the name.
        state: Some(it.state.name()).filter(|_| it.state != State::Unknown),
        reason: &it.reason,
    });
    Ok(respond::ok(kserve_v2::repository_index(entries)))
}

/// Answers once the model serves. A client that leaves does not stop a load that has begun.
pub(super) async fn load(service: &Service, path: &ModelPath<'_>, body: &mut Incoming) -> Answer {
    let received = body::read(body, 0, &service.settings.body).await?;
    let (control, name) = (service.serving.control.clone(), path.name.to_string());
    let load = move || {
        let body::Received { bytes, permit } = received;
        let request = kserve_v2::load_request(&bytes)?;
        drop(bytes);
        let given = LoadOverride { config: request.config, files: request.files };
        let loaded = control.load(&name, given);
        // The files that came were less than the text that they came in.
        drop(permit);
        loaded
    };
    service.serving.apart.run(load).await??;
    Ok(respond::empty(hyper::StatusCode::OK))
}

pub(super) async fn unload(service: &Service, path: &ModelPath<'_>, body: &mut Incoming) -> Answer {
    let received = body::read(body, 0, &service.settings.body).await?;
    let dependents = kserve_v2::unload_request(&received.bytes)?;
    let (control, name) = (service.serving.control.clone(), path.name.to_string());
    service.serving.apart.run(move || control.unload(&name, dependents)).await??;
    Ok(respond::empty(hyper::StatusCode::OK))
}
