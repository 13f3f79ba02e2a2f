//! The protocols that are served: one line each, over HTTP and over gRPC. An address belongs to the first that takes it.

#[cfg(feature = "embeddings")]
#[path = "embeddings.rs"]
mod texts;
#[cfg(not(feature = "embeddings"))]
#[path = "no_embeddings.rs"]
mod texts;

#[cfg(feature = "tensorflow_serving")]
#[path = "tensorflow_serving.rs"]
mod tensorflow;
#[cfg(not(feature = "tensorflow_serving"))]
#[path = "no_tensorflow_serving.rs"]
mod tensorflow;

use frontend::http::metrics::Prometheus;
use kserve::{KServe, KServeServices, VertexAiPort};
use sagemaker::SageMaker;

use crate::config::ServerConfig;
pub use texts::settings as text_settings;

/// Over HTTP. What is asked most comes first.
pub type Http =
    (VertexAiPort, (KServe, (SageMaker, (tensorflow::Rest, (texts::Texts, (Prometheus, ()))))));

/// Over gRPC.
pub type Grpc = (KServeServices, (tensorflow::Services, ()));

/// Those of all HTTP ports but that of Vertex AI.
pub fn http(config: &ServerConfig, sagemaker: SageMaker) -> Http {
    let vertex_ai = VertexAiPort { routes: None };
    let (tensorflow, texts) = (tensorflow::rest(config), texts::texts(config));
    (vertex_ai, (KServe, (sagemaker, (tensorflow, (texts, (Prometheus, ()))))))
}

/// Those of all gRPC ports.
pub fn grpc() -> Grpc {
    (KServeServices, (tensorflow::SERVICES, ()))
}
