//! Shared memory over HTTP: registering, listing and unregistering regions.

use hyper::{StatusCode, body::Incoming};

use super::operation::{MemoryAction, MemoryKind, MemoryPath};
use formats::kserve_v2::memory;
use frontend::{
    exchange::{admin, intake},
    http::{answer::Answer, respond, service::Service},
    memory::Region,
};

pub async fn answer(service: &Service, path: &MemoryPath<'_>, body: &mut Incoming) -> Answer {
    match path.action {
        MemoryAction::Status => status(service, path),
        MemoryAction::Register => register(service, path, body).await,
        MemoryAction::Unregister => {
            let serving = &service.serving;
            match path.kind {
                MemoryKind::System => admin::unregister_region(serving, path.region.as_deref()),
                MemoryKind::Cuda => admin::unregister_cuda_region(serving),
            }?;
            Ok(respond::empty(StatusCode::OK))
        }
    }
}

fn status(service: &Service, path: &MemoryPath<'_>) -> Answer {
    let regions = match (path.kind, &path.region) {
        (MemoryKind::System, region) => admin::regions(&service.serving, region.as_deref())?,
        (MemoryKind::Cuda, region) => {
            admin::cuda_regions(region.as_deref())?;
            Vec::new()
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
    let received = intake::read(body, 0, &service.settings.body).await?;
    match path.kind {
        MemoryKind::System => {
            let memory::SystemRegion { key, offset, byte_size } =
                memory::register_request(&received.bytes)?;
            let region = Region { name, key, offset, byte_size };
            admin::register_region(&service.serving, region).await?;
        }
        MemoryKind::Cuda => {
            let handle = memory::cuda_register_request(&received.bytes)?;
            admin::register_cuda_region(&service.serving, &name, &handle)?;
        }
    }
    Ok(respond::empty(StatusCode::OK))
}
