//! The methods of TensorFlow Serving by their paths.

use frontend::grpc::{
    context::Facts,
    layout::{RAW_INPUT, TENSOR_CONTENT},
};
use inference::access::{Category, Need};

/// A method that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Method {
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
pub(super) const PATHS: [(&str, Method); 7] = [
    ("/tensorflow.serving.PredictionService/Predict", Predict),
    ("/tensorflow.serving.PredictionService/Classify", Classify),
    ("/tensorflow.serving.PredictionService/Regress", Regress),
    ("/tensorflow.serving.PredictionService/MultiInference", MultiInference),
    ("/tensorflow.serving.PredictionService/GetModelMetadata", GetModelMetadata),
    ("/tensorflow.serving.ModelService/GetModelStatus", GetModelStatus),
    ("/tensorflow.serving.ModelService/HandleReloadConfigRequest", HandleReloadConfigRequest),
];

impl Method {
    /// The method of that path.
    pub fn of(path: &str) -> Option<Method> {
        PATHS.iter().find(|(it, _)| *it == path).map(|(_, method)| *method)
    }

    /// What is known of it before its messages are read.
    pub fn facts(self) -> Facts {
        let (need, has_data) = match self {
            Predict | Classify | Regress | MultiInference => {
                (Need::reading(Category::Inference), true)
            }
            GetModelMetadata | GetModelStatus => (Need::reading(Category::Metadata), false),
            HandleReloadConfigRequest => (Need::changing(Category::ModelRepository), false),
        };
        let first_tensor = if self == Predict { TENSOR_CONTENT } else { RAW_INPUT };
        Facts { need, has_data, first_tensor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontend::grpc::proto::DEFINITIONS;

    #[test]
    fn every_call_of_the_definitions_has_its_path() {
        let pool = prost_reflect::DescriptorPool::decode(DEFINITIONS).unwrap();
        let services = pool.services().filter(|it| it.package_name() == "tensorflow.serving");
        let mut calls = 0;
        for service in services {
            for method in service.methods() {
                let path = format!("/{}/{}", service.full_name(), method.name());
                assert!(Method::of(&path).is_some(), "{path}");
                calls += 1;
            }
        }
        assert_eq!(calls, PATHS.len());
    }
}
