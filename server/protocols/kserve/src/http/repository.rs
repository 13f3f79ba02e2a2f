//! The model repository over HTTP: its index, loading and unloading.

use hyper::body::Incoming;

use formats::kserve_v2;
use frontend::{
    exchange::{
        admin,
        intake::{self, Received},
    },
    http::{address::ModelPath, answer::Answer, respond, service::Service},
};
use serving::LoadOverride;

pub async fn index(service: &Service, body: &mut Incoming) -> Answer {
    let received = intake::read(body, 0, &service.settings.body).await?;
    let only_ready = kserve_v2::index_request(&received.bytes)?;
    let index = admin::index(&service.serving, only_ready).await?;
    let entries = index.iter().map(|it| kserve_v2::IndexEntry {
        name: &it.name,
        version: it.version,
        state: admin::state_name(it),
        reason: it.reason.text(),
    });
    Ok(respond::ok(kserve_v2::repository_index(entries)))
}

/// Answers once the model serves. A client that leaves does not stop a load that has begun.
pub async fn load(service: &Service, path: &ModelPath<'_>, body: &mut Incoming) -> Answer {
    let received = intake::read(body, 0, &service.settings.body).await?;
    let Received { bytes, permit } = received;
    let given = move || {
        let request = kserve_v2::load_request(&bytes)?;
        // The permit of the body suffices: the decoded files are smaller than their text.
        Ok(LoadOverride { config: request.config, files: request.files })
    };
    admin::load(&service.serving, path.name.to_string(), permit, given).await?;
    Ok(respond::empty(hyper::StatusCode::OK))
}

pub async fn unload(service: &Service, path: &ModelPath<'_>, body: &mut Incoming) -> Answer {
    let received = intake::read(body, 0, &service.settings.body).await?;
    let dependents = kserve_v2::unload_request(&received.bytes)?;
    admin::unload(&service.serving, path.name.to_string(), dependents).await?;
    Ok(respond::empty(hyper::StatusCode::OK))
}
