//! The model repository: what is in it, loading and unloading.

use hyper::body::Incoming;

use super::{
    super::{body, respond, service::Service},
    Answer, Failure,
};
use crate::{error::Error, models::State, protocol::kserve_v2};

pub(super) async fn index(service: &Service, body: &mut Incoming) -> Answer {
    let received = body::read(body, 0, &service.settings.body).await?;
    let only_ready = kserve_v2::index_request(&received.bytes)?;
    let index = service.serving.models.index();
    let shown = index.iter().filter(|it| !only_ready || it.state == State::Ready);
    let entries = shown.map(|it| kserve_v2::IndexEntry {
        name: &it.name,
        version: it.version,
        state: Some(it.state.name()),
        reason: &it.reason,
    });
    Ok(respond::ok(kserve_v2::repository_index(entries)))
}

pub(super) fn control() -> Answer {
    Err(Failure::from(Error::Unavailable(
        "models are loaded and unloaded by request only with --model-control-mode=explicit".into(),
    )))
}
