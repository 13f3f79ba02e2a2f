//! The methods of KServe v2 with Triton's extensions, of gRPC's own health checks and of its list of services, by their
//! paths.

use frontend::grpc::{context::Facts, layout::RAW_INPUT};
use inference::access::{Category, Need};

/// A method that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Method {
    ServerLive,
    ServerReady,
    ModelReady,
    ServerMetadata,
    ModelMetadata,
    ModelInfer,
    ModelStreamInfer,
    ModelConfig,
    ModelStatistics,
    RepositoryIndex,
    RepositoryModelLoad,
    RepositoryModelUnload,
    SystemSharedMemoryStatus,
    SystemSharedMemoryRegister,
    SystemSharedMemoryUnregister,
    CudaSharedMemoryStatus,
    CudaSharedMemoryRegister,
    CudaSharedMemoryUnregister,
    TraceSetting,
    LogSettings,
    HealthCheck,
    HealthWatch,
    Reflection,
}

use Method::*;

/// Every path and its method. The most frequent one comes first, because the list is searched from the start.
pub(super) const PATHS: [(&str, Method); 24] = [
    ("/inference.GRPCInferenceService/ModelInfer", ModelInfer),
    ("/inference.GRPCInferenceService/ModelStreamInfer", ModelStreamInfer),
    ("/inference.GRPCInferenceService/ServerLive", ServerLive),
    ("/inference.GRPCInferenceService/ServerReady", ServerReady),
    ("/inference.GRPCInferenceService/ModelReady", ModelReady),
    ("/inference.GRPCInferenceService/ServerMetadata", ServerMetadata),
    ("/inference.GRPCInferenceService/ModelMetadata", ModelMetadata),
    ("/inference.GRPCInferenceService/ModelConfig", ModelConfig),
    ("/inference.GRPCInferenceService/ModelStatistics", ModelStatistics),
    ("/inference.GRPCInferenceService/RepositoryIndex", RepositoryIndex),
    ("/inference.GRPCInferenceService/RepositoryModelLoad", RepositoryModelLoad),
    ("/inference.GRPCInferenceService/RepositoryModelUnload", RepositoryModelUnload),
    ("/inference.GRPCInferenceService/SystemSharedMemoryStatus", SystemSharedMemoryStatus),
    ("/inference.GRPCInferenceService/SystemSharedMemoryRegister", SystemSharedMemoryRegister),
    ("/inference.GRPCInferenceService/SystemSharedMemoryUnregister", SystemSharedMemoryUnregister),
    ("/inference.GRPCInferenceService/CudaSharedMemoryStatus", CudaSharedMemoryStatus),
    ("/inference.GRPCInferenceService/CudaSharedMemoryRegister", CudaSharedMemoryRegister),
    ("/inference.GRPCInferenceService/CudaSharedMemoryUnregister", CudaSharedMemoryUnregister),
    ("/inference.GRPCInferenceService/TraceSetting", TraceSetting),
    ("/inference.GRPCInferenceService/LogSettings", LogSettings),
    ("/grpc.health.v1.Health/Check", HealthCheck),
    ("/grpc.health.v1.Health/Watch", HealthWatch),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Reflection),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Reflection),
];

impl Method {
    /// The method of that path.
    pub fn of(path: &str) -> Option<Method> {
        PATHS.iter().find(|(it, _)| *it == path).map(|(_, method)| *method)
    }

    /// What is known of it before its messages are read.
    pub fn facts(self) -> Facts {
        let has_data = matches!(self, ModelInfer | ModelStreamInfer | RepositoryModelLoad);
        Facts { need: self.need(), has_data, first_tensor: RAW_INPUT }
    }

    /// The access that a client needs to call it.
    fn need(self) -> Need {
        match self {
            ServerLive | ServerReady | ModelReady | HealthCheck | HealthWatch => {
                Need::reading(Category::Health)
            }
            ServerMetadata | ModelMetadata | Reflection => Need::reading(Category::Metadata),
            ModelInfer | ModelStreamInfer => Need::reading(Category::Inference),
            Method::ModelConfig => Need::reading(Category::ModelConfig),
            ModelStatistics => Need::reading(Category::Statistics),
            RepositoryIndex => Need::reading(Category::ModelRepository),
            RepositoryModelLoad | RepositoryModelUnload => {
                Need::changing(Category::ModelRepository)
            }
            SystemSharedMemoryStatus | CudaSharedMemoryStatus => {
                Need::reading(Category::SharedMemory)
            }
            SystemSharedMemoryRegister
            | SystemSharedMemoryUnregister
            | CudaSharedMemoryRegister
            | CudaSharedMemoryUnregister => Need::changing(Category::SharedMemory),
            // Reading and changing share this method: its message says which of the two it is.
            TraceSetting => Need::changing(Category::Trace),
            LogSettings => Need::changing(Category::Logging),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontend::grpc::proto::DEFINITIONS;

    #[test]
    fn every_call_of_the_definitions_has_its_path() {
        let pool = prost_reflect::DescriptorPool::decode(DEFINITIONS).unwrap();
        let services = pool.services().filter(|it| it.package_name() != "tensorflow.serving");
        let mut calls = 0;
        for service in services {
            for method in service.methods() {
                let path = format!("/{}/{}", service.full_name(), method.name());
                assert!(Method::of(&path).is_some(), "{path}");
                calls += 1;
            }
        }
        // v1alpha of the reflection service is the same definition under another name.
        assert_eq!(calls + 1, PATHS.len());
    }
}
