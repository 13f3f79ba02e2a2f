//! The methods of gRPC by their paths, and the access that each needs.

use inference::{
    access::{Category, Need},
    error::Error,
    signature::nearest,
};

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
    Predict,
    Classify,
    Regress,
    MultiInference,
    GetModelMetadata,
    GetModelStatus,
    HandleReloadConfigRequest,
}

use Method::*;

/// Every path and its method. The most frequent one comes first, because the list is searched from the start.
const PATHS: [(&str, Method); 31] = [
    ("/inference.GRPCInferenceService/ModelInfer", ModelInfer),
    ("/tensorflow.serving.PredictionService/Predict", Predict),
    ("/tensorflow.serving.PredictionService/Classify", Classify),
    ("/tensorflow.serving.PredictionService/Regress", Regress),
    ("/tensorflow.serving.PredictionService/MultiInference", MultiInference),
    ("/tensorflow.serving.PredictionService/GetModelMetadata", GetModelMetadata),
    ("/tensorflow.serving.ModelService/GetModelStatus", GetModelStatus),
    ("/tensorflow.serving.ModelService/HandleReloadConfigRequest", HandleReloadConfigRequest),
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
    ///
    /// # Errors
    /// [`Error::Unimplemented`] with the nearest path.
    pub fn of(path: &str) -> Result<Method, Error> {
        let found = PATHS.iter().find(|(it, _)| *it == path).map(|(_, method)| *method);
        found.ok_or_else(|| {
            let shown: String = path.chars().take(128).collect();
            let hint = nearest(path, PATHS.iter().map(|it| it.0));
            let hint = hint.map(|it| format!("; did you mean '{it}'?")).unwrap_or_default();
            Error::Unimplemented(format!("there is no call '{shown}'{hint}"))
        })
    }

    /// Do its messages have inputs or files, which are as large as the client likes? All others are short.
    pub fn has_data(self) -> bool {
        match self {
            ModelInfer | ModelStreamInfer | Predict | Classify | Regress | MultiInference
            | RepositoryModelLoad => true,
            ServerLive
            | ServerReady
            | ModelReady
            | ServerMetadata
            | ModelMetadata
            | Method::ModelConfig
            | ModelStatistics
            | RepositoryIndex
            | RepositoryModelUnload
            | SystemSharedMemoryStatus
            | SystemSharedMemoryRegister
            | SystemSharedMemoryUnregister
            | CudaSharedMemoryStatus
            | CudaSharedMemoryRegister
            | CudaSharedMemoryUnregister
            | TraceSetting
            | LogSettings
            | HealthCheck
            | HealthWatch
            | Reflection
            | GetModelMetadata
            | GetModelStatus
            | HandleReloadConfigRequest => false,
        }
    }

    /// The access that a client needs to call it.
    pub fn need(self) -> Need {
        match self {
            ServerLive | ServerReady | ModelReady | HealthCheck | HealthWatch => {
                Need::reading(Category::Health)
            }
            ServerMetadata | ModelMetadata | Reflection | GetModelMetadata | GetModelStatus => {
                Need::reading(Category::Metadata)
            }
            ModelInfer | ModelStreamInfer | Predict | Classify | Regress | MultiInference => {
                Need::reading(Category::Inference)
            }
            Method::ModelConfig => Need::reading(Category::ModelConfig),
            ModelStatistics => Need::reading(Category::Statistics),
            RepositoryIndex => Need::reading(Category::ModelRepository),
            RepositoryModelLoad | RepositoryModelUnload | HandleReloadConfigRequest => {
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

    #[test]
    fn every_call_of_the_definitions_has_its_path() {
        let definitions = super::super::proto::DEFINITIONS;
        let pool = prost_reflect::DescriptorPool::decode(definitions).unwrap();
        let mut calls = 0;
        for service in pool.services() {
            for method in service.methods() {
                let path = format!("/{}/{}", service.full_name(), method.name());
                assert!(Method::of(&path).is_ok(), "{path}");
                calls += 1;
            }
        }
        // v1alpha of the reflection service is the same definition under another name.
        assert_eq!(calls + 1, PATHS.len());
    }

    #[test]
    fn an_unknown_path_is_not_implemented_and_the_nearest_is_named() {
        let error = Method::of("/inference.GRPCInferenceService/ModelInfr").unwrap_err();
        let hint = "did you mean '/inference.GRPCInferenceService/ModelInfer'?";
        assert!(matches!(&error, Error::Unimplemented(text) if text.ends_with(hint)), "{error}");
    }
}
