//! TensorFlow Serving.

pub use tensorflow_serving::{
    TensorFlowServices as Services, TensorFlowServices as SERVICES, TensorFlowServing as Rest,
};

use crate::config::ServerConfig;

/// Its addresses.
pub fn rest(config: &ServerConfig) -> Rest {
    Rest { metrics_path: config.metrics.tensorflow_path.as_deref().map(Into::into) }
}
