//! The protocols that are served, over HTTP and over gRPC: one line each. An address belongs to the first that takes
//! it.

#[cfg(not(feature = "browser"))]
mod no_browser;
#[cfg(not(feature = "embeddings"))]
mod no_embeddings;
#[cfg(not(feature = "tensorflow_serving"))]
mod no_tensorflow_serving;
#[cfg(feature = "browser")]
mod with_browser;
#[cfg(feature = "embeddings")]
mod with_embeddings;
#[cfg(feature = "tensorflow_serving")]
mod with_tensorflow_serving;

use std::sync::Arc;

use frontend::http::metrics::Prometheus;
use kserve::{KServe, KServeServices, VertexAiPort};
use sagemaker::SageMaker;

#[cfg(not(feature = "browser"))]
use no_browser as browser;
#[cfg(not(feature = "embeddings"))]
use no_embeddings as texts;
#[cfg(not(feature = "tensorflow_serving"))]
use no_tensorflow_serving as tensorflow;
pub use texts::settings as text_settings;
#[cfg(feature = "browser")]
use with_browser as browser;
#[cfg(feature = "embeddings")]
use with_embeddings as texts;
#[cfg(feature = "tensorflow_serving")]
use with_tensorflow_serving as tensorflow;

/// Over HTTP. What is asked most comes first.
pub type Http = (
    VertexAiPort,
    (KServe, (texts::Texts, (SageMaker, (tensorflow::Rest, (Prometheus, (browser::Pages, ())))))),
);

/// Over gRPC.
pub type Grpc = (KServeServices, (tensorflow::Services, ()));

/// Those of all HTTP ports but that of Vertex AI.
///
/// `metrics_path` is where metrics have TensorFlow Serving's names.
pub fn http(
    sagemaker: SageMaker,
    metrics_path: Option<Arc<str>>,
    texts: text_settings::TextSettings,
) -> Http {
    let vertex_ai = VertexAiPort { routes: None };
    let (tensorflow, texts) = (tensorflow::rest(metrics_path), texts::texts(texts));
    let rest = (Prometheus, (browser::pages(), ()));
    // In the place of Text Embeddings Inference those of texts take SageMaker's address of inference.
    (vertex_ai, (KServe, (texts, (sagemaker, (tensorflow, rest)))))
}

/// What reads and writes bodies of TensorFlow Serving's REST for code of models; `None` where it was left out.
pub fn tensorflow_inside() -> Option<Arc<dyn serving::Rest>> {
    tensorflow::inside()
}

/// Those of all gRPC ports.
pub fn grpc() -> Grpc {
    (KServeServices, (tensorflow::SERVICES, ()))
}
