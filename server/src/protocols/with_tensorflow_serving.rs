//! TensorFlow Serving.

use std::sync::Arc;

pub use tensorflow_serving::{
    TensorFlowServices as Services, TensorFlowServices as SERVICES, TensorFlowServing as Rest,
};

/// Its bodies, for code of models.
pub fn inside() -> Option<Arc<dyn serving::Rest>> {
    Some(Arc::new(tensorflow_serving::Inside))
}

/// Its addresses.
pub fn rest(metrics_path: Option<Arc<str>>) -> Rest {
    Rest { metrics_path }
}
