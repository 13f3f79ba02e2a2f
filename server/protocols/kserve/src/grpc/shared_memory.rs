//! Registering memory that clients share with the server.

use frontend::{
    exchange::admin,
    grpc::proto::{
        CudaSharedMemoryRegisterRequest, CudaSharedMemoryRegisterResponse,
        CudaSharedMemoryStatusRequest, CudaSharedMemoryStatusResponse,
        CudaSharedMemoryUnregisterRequest, CudaSharedMemoryUnregisterResponse,
        SystemSharedMemoryRegisterRequest, SystemSharedMemoryRegisterResponse,
        SystemSharedMemoryStatusRequest, SystemSharedMemoryStatusResponse,
        SystemSharedMemoryUnregisterRequest, SystemSharedMemoryUnregisterResponse,
        system_shared_memory_status_response::RegionStatus,
    },
    memory::Region,
    serving::Serving,
};
use inference::error::Error;

pub(super) fn status(
    serving: &Serving,
    request: &SystemSharedMemoryStatusRequest,
) -> Result<SystemSharedMemoryStatusResponse, Error> {
    let name = Some(&*request.name).filter(|it| !it.is_empty());
    let regions = admin::regions(serving, name)?.into_iter().map(|it| {
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
    admin::register_region(serving, Region { name, key, offset, byte_size }).await?;
    Ok(SystemSharedMemoryRegisterResponse {})
}

pub(super) fn unregister(
    serving: &Serving,
    request: &SystemSharedMemoryUnregisterRequest,
) -> Result<SystemSharedMemoryUnregisterResponse, Error> {
    admin::unregister_region(serving, Some(&*request.name).filter(|it| !it.is_empty()))?;
    Ok(SystemSharedMemoryUnregisterResponse {})
}

/// This server has no regions of CUDA memory.
pub(super) fn cuda_status(
    request: &CudaSharedMemoryStatusRequest,
) -> Result<CudaSharedMemoryStatusResponse, Error> {
    admin::cuda_regions(Some(&*request.name).filter(|it| !it.is_empty()))?;
    Ok(CudaSharedMemoryStatusResponse::default())
}

pub(super) fn cuda_register(
    serving: &Serving,
    request: &CudaSharedMemoryRegisterRequest,
) -> Result<CudaSharedMemoryRegisterResponse, Error> {
    admin::register_cuda_region(serving, &request.name, &request.raw_handle)?;
    Ok(CudaSharedMemoryRegisterResponse {})
}

/// An unknown region is no error, and all regions of CUDA memory are unknown.
pub(super) fn cuda_unregister(
    serving: &Serving,
    _: &CudaSharedMemoryUnregisterRequest,
) -> Result<CudaSharedMemoryUnregisterResponse, Error> {
    admin::unregister_cuda_region(serving)?;
    Ok(CudaSharedMemoryUnregisterResponse {})
}
