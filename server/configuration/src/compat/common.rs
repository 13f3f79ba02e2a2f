//! Variables that the platform sets for every container, and those that belong to no container.

use super::{
    mapping::{
        Family,
        Means::{FirstOfList, Length, Noted, Payload, PythonLevel, Same, VertexMode},
    },
    variables::{BIND_TO_PORT, VERTEX_MODE},
};

#[rustfmt::skip]
pub(super) const FAMILY: Family = Family {
    means: &[
        (BIND_TO_PORT, Same("sagemaker-port")),
        ("SAGEMAKER_SAFE_PORT_RANGE", Same("sagemaker-safe-port-range")),
        ("SAGEMAKER_MULTI_MODEL", Same("sagemaker-multi-model")),
        ("SAGEMAKER_MULTI_MODE", Same("sagemaker-multi-model")),
        ("SAGEMAKER_BATCH", Same("sagemaker-batch")),
        ("SAGEMAKER_BATCH_STRATEGY", Noted),
        ("SAGEMAKER_MAX_CONCURRENT_TRANSFORMS", Same("sagemaker-max-concurrent-transforms")),
        ("SAGEMAKER_MAX_PAYLOAD_IN_MB", Payload("http-max-input-size", "sagemaker-max-payload-mb")),
        ("MAX_CONTENT_LENGTH", Length("http-max-input-size", "sagemaker-max-payload-mb")),
        ("SAGEMAKER_CONTAINER_LOG_LEVEL", PythonLevel),
        ("SAGEMAKER_REGION", Noted),
        ("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", Same("default-accept")),
        ("SAGEMAKER_ENABLE_CLOUDWATCH_METRICS", Same("emf")),
        ("OMP_NUM_THREADS", FirstOfList("default-intra-op-threads")),
        ("NVIDIA_VISIBLE_DEVICES", Noted),
        ("CUDA_VISIBLE_DEVICES", Noted),
    ],
    without_effect: &[
        "SAGEMAKER_SERVE_SECRET_KEY",
        "SAGEMAKER_INFERENCE_ACCELERATOR_PRESENT",
    ],
};

/// Variables that have nothing to do with SageMaker.
#[rustfmt::skip]
pub(super) const NOT_SAGEMAKER: Family = Family {
    means: &[
        (VERTEX_MODE, VertexMode("allow-vertex-ai")),
        ("AIP_HTTP_PORT", Same("vertex-ai-port")),
        ("AIP_PREDICT_ROUTE", Same("vertex-ai-predict-route")),
        ("AIP_HEALTH_ROUTE", Same("vertex-ai-health-route")),
        ("HF_ENDPOINT", Same("hub-endpoint")),
        ("HF_TOKEN", Same("hub-token")),
        ("HUGGING_FACE_HUB_TOKEN", Same("hub-token")),
        ("HF_HUB_CACHE", Same("hub-cache-dir")),
        ("HUGGINGFACE_HUB_CACHE", Same("hub-cache-dir")),
        ("HF_HUB_OFFLINE", Same("hub-offline")),
        ("ORT_DYLIB_PATH", Same("onnxruntime-library")),
        ("TRITONSERVER_DELAY_SCHEDULER", Same("scheduler-hold")),
        ("TRITONSERVER_BACKLOG_DELAY_SCHEDULER", Same("scheduler-hold-backlog")),
    ],
    without_effect: &[],
};
