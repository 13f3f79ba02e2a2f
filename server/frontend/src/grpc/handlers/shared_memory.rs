//! Registering memory that clients share with the server.

use super::super::proto::{
    CudaSharedMemoryRegisterRequest, CudaSharedMemoryRegisterResponse,
    CudaSharedMemoryStatusRequest, CudaSharedMemoryStatusResponse,
    CudaSharedMemoryUnregisterRequest, CudaSharedMemoryUnregisterResponse,
    SystemSharedMemoryRegisterRequest, SystemSharedMemoryRegisterResponse,
    SystemSharedMemoryStatusRequest, SystemSharedMemoryStatusResponse,
    SystemSharedMemoryUnregisterRequest, SystemSharedMemoryUnregisterResponse,
    system_shared_memory_status_response::RegionStatus,
};
use crate::{memory::Region, net::aside, serving::Serving};
use inference::error::Error;

pub(super) fn status(
    serving: &Serving,
    request: &SystemSharedMemoryStatusRequest,
) -> Result<SystemSharedMemoryStatusResponse, Error> {
    let name = Some(&*request.name).filter(|it| !it.is_empty());
    let regions = serving.memory.status(name)?.into_iter().map(|it| {
        let Region { name, key, offset, byte_size } = it;
        (name.clone(), RegionStatus { name, key, offset, byte_size })
    });
    Ok(SystemSharedMemoryStatusResponse { regions: regions.collect() })
}

pub(super) async fn register(
    serving: &Serving,
    request: SystemSharedMemoryRegisterRequest,
) -> Result<SystemSharedMemoryRegisterResponse, Error> {
    let SystemSharedMemoryRegisterRequest { name, key, offset, byte_size } = request;
    let memory = serving.memory.clone();
    aside(move || memory.register(Region { name, key, offset, byte_size })).await??;
    Ok(SystemSharedMemoryRegisterResponse {})
}

pub(super) fn unregister(
    serving: &Serving,
    request: &SystemSharedMemoryUnregisterRequest,
) -> SystemSharedMemoryUnregisterResponse {
    serving.memory.unregister(Some(&*request.name).filter(|it| !it.is_empty()));
    SystemSharedMemoryUnregisterResponse {}
}

/// There are no regions of that kind.
pub(super) fn cuda_status(
    request: &CudaSharedMemoryStatusRequest,
) -> Result<CudaSharedMemoryStatusResponse, Error> {
    match &*request.name {
        "" => Ok(CudaSharedMemoryStatusResponse::default()),
        name => {
            let shown: String = name.chars().take(128).collect();
            Err(Error::NotFound(format!("there is no CUDA shared memory region '{shown}'")))
        }
    }
}

pub(super) fn cuda_register(
    request: &CudaSharedMemoryRegisterRequest,
) -> Result<CudaSharedMemoryRegisterResponse, Error> {
    let shown: String = request.name.chars().take(128).collect();
    Err(Error::Unimplemented(format!(
        "region '{shown}': this server does not map CUDA memory; send the data, or use system shared memory"
    )))
}

/// An unknown region is no error, and none is known.
pub(super) fn cuda_unregister(
    _: CudaSharedMemoryUnregisterRequest,
) -> CudaSharedMemoryUnregisterResponse {
    CudaSharedMemoryUnregisterResponse {}
}
