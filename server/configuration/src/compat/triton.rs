//! Variables of Triton's container on SageMaker.

use super::mapping::{Family, Means::Same};

#[rustfmt::skip]
pub(super) const FAMILY: Family = Family {
    means: &[
        ("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", Same("sagemaker-default-model")),
        // Its start script sets the other one; users set this.
        ("SAGEMAKER_TRITON_OVERRIDE_PING_MODE", Same("sagemaker-ping-mode")),
        ("SAGEMAKER_TRITON_PING_MODE", Same("sagemaker-ping-mode")),
        ("SAGEMAKER_TRITON_INFERENCE_TYPE", Same("sagemaker-inference-type")),
        // In spite of its name its value is that of the option.
        ("SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING", Same("model-namespacing")),
        ("SAGEMAKER_TRITON_ALLOW_GRPC", Same("allow-grpc")),
        ("SAGEMAKER_TRITON_GRPC_PORT", Same("grpc-port")),
        ("SAGEMAKER_TRITON_ALLOW_METRICS", Same("allow-metrics")),
        ("SAGEMAKER_TRITON_METRICS_PORT", Same("metrics-port")),
        ("SAGEMAKER_TRITON_THREAD_COUNT", Same("http-thread-count")),
        ("SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT", Same("buffer-manager-thread-count")),
        ("SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT", Same("model-load-gpu-limit")),
        ("SAGEMAKER_TRITON_LOG_VERBOSE", Same("log-verbose")),
        ("SAGEMAKER_TRITON_LOG_INFO", Same("log-info")),
        ("SAGEMAKER_TRITON_LOG_WARNING", Same("log-warning")),
        ("SAGEMAKER_TRITON_LOG_ERROR", Same("log-error")),
    ],
    without_effect: &[
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE",
        "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE",
        "SAGEMAKER_TRITON_TENSORFLOW_VERSION",
    ],
};
