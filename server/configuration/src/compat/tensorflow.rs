//! Variables of the container of TensorFlow Serving.

use super::mapping::{
    Family, Means,
    Means::{Batches, Batching, LongerSeconds, OfServers, Same, Servers, WholeSeconds},
};

const BATCH: &str = "SAGEMAKER_TFS_MAX_BATCH_SIZE";
const INSTANCES: &str = "SAGEMAKER_TFS_INSTANCE_COUNT";
const BATCH_THREADS: &str = "SAGEMAKER_TFS_NUM_BATCH_THREADS";
const GUNICORN_TIMEOUT: &str = "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS";
const NGINX_TIMEOUT: &str = "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS";

/// Each server of TensorFlow Serving has its own copy of the model, and its own threads.
const SERVERS: Means = Servers {
    sessions: "tensorflow-session-count",
    instances: "default-instance-count",
    each: BATCH_THREADS,
};

/// Behind the variables that say it themselves.
const BATCHING: Means = Batching {
    switch: "default-dynamic-batching",
    batch: "default-max-batch-size",
    delay: "default-queue-delay-us",
};

#[rustfmt::skip]
pub(super) const FAMILY: Family = Family {
    means: &[
        ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", Same("sagemaker-default-model")),
        (INSTANCES, SERVERS),
        (BATCH_THREADS, OfServers("default-instance-count", INSTANCES)),
        ("SAGEMAKER_TFS_INTRA_OP_PARALLELISM", Same("default-intra-op-threads")),
        ("SAGEMAKER_TFS_INTER_OP_PARALLELISM", Same("default-inter-op-threads")),
        (BATCH, Same("default-max-batch-size")),
        ("SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS", Same("default-queue-delay-us")),
        ("SAGEMAKER_TFS_ENABLE_BATCHING", BATCHING),
        ("SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES", Batches("default-max-queue-size", BATCH)),
        ("SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN", Same("gpu-memory-margin")),
        ("SAGEMAKER_TFS_WAIT_TIME_SECONDS", WholeSeconds("model-load-timeout")),
        (GUNICORN_TIMEOUT, LongerSeconds("request-timeout-ms", NGINX_TIMEOUT)),
        (NGINX_TIMEOUT, LongerSeconds("request-timeout-ms", GUNICORN_TIMEOUT)),
    ],
    without_effect: &[
        "SAGEMAKER_TFS_NGINX_LOGLEVEL",
        "SAGEMAKER_TFS_VERSION",
        "SAGEMAKER_GUNICORN_WORKERS",
        "SAGEMAKER_GUNICORN_THREADS",
        "SAGEMAKER_GUNICORN_WORKER_CLASS",
        "SAGEMAKER_GUNICORN_LOGLEVEL",
    ],
};
