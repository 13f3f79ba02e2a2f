//! Memory that clients share: registering regions, listing them, taking them off the list.

use hyper::{StatusCode, body::Incoming};

use super::{
    super::{
        body, respond,
        router::{MemoryAction, MemoryKind, MemoryPath},
        service::Service,
    },
    Answer, Failure,
};
use crate::{memory::Region, net::aside};
use inference::error::Error;
use protocol::kserve_v2::memory;

pub(super) async fn answer(
    service: &Service,
    path: &MemoryPath<'_>,
    body: &mut Incoming,
) -> Answer {
    match path.action {
        MemoryAction::Status => status(service, path),
        MemoryAction::Register => register(service, path, body).await,
        MemoryAction::Unregister => {
            if path.kind == MemoryKind::System {
                service.serving.memory.unregister(path.region.as_deref());
            }
            Ok(respond::empty(StatusCode::OK))
        }
    }
}

fn status(service: &Service, path: &MemoryPath<'_>) -> Answer {
    let regions = match (path.kind, &path.region) {
        (MemoryKind::System, region) => service.serving.memory.status(region.as_deref())?,
        // None can be registered.
        (MemoryKind::Cuda, None) => Vec::new(),
        (MemoryKind::Cuda, Some(region)) => {
            let error = format!("there is no CUDA shared memory region '{region}'");
            return Err(Failure::from(Error::NotFound(error)));
        }
    };
    let entries: Vec<(String, memory::SystemRegion)> = regions
        .into_iter()
        .map(|Region { name, key, offset, byte_size }| {
            (name, memory::SystemRegion { key, offset, byte_size })
        })
        .collect();
    Ok(respond::ok(memory::status(entries.iter().map(|(name, region)| (&**name, region)))))
}

async fn register(service: &Service, path: &MemoryPath<'_>, body: &mut Incoming) -> Answer {
    let name = path.region.as_deref().unwrap_or_default().to_owned();
    let received = body::read(body, 0, &service.settings.body).await?;
    let shared = service.serving.memory.clone();
    match path.kind {
        MemoryKind::System => {
            let memory::SystemRegion { key, offset, byte_size } =
                memory::register_request(&received.bytes)?;
            let region = Region { name, key, offset, byte_size };
            aside(move || shared.register(region)).await??;
        }
        MemoryKind::Cuda => {
            let handle = memory::cuda_register_request(&received.bytes)?;
            shared.register_cuda(&name, &handle)?;
        }
    }
    Ok(respond::empty(StatusCode::OK))
}
