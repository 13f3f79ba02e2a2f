//! The variables of a server that clients may set: those that say how fast, how large or how long, and which head or
//! signature of its model it serves. All others could make it load code, write files, or open ports.

/// Of muster's own, behind `MUSTER_`.
const OWN: [&str; 53] = [
    "AUTO_TRUNCATE",
    "AVERAGE_FOLDS",
    "CALLER_RUNS",
    "DEFAULTS_OVER_CONFIG",
    "DEFAULT_ACCEPT",
    "DEFAULT_DYNAMIC_BATCHING",
    "DEFAULT_INSTANCE_COUNT",
    "DEFAULT_INTER_OP_THREADS",
    "DEFAULT_INTRA_OP_THREADS",
    "DEFAULT_MAX_BATCH_SIZE",
    "DEFAULT_MAX_QUEUE_SIZE",
    "DEFAULT_PROMPT",
    "DEFAULT_PROMPT_NAME",
    "DEFAULT_QUEUE_DELAY_US",
    "EAGER_INSTANCES",
    "GPU_MEMORY_MARGIN",
    "HTTP_COMPRESSION",
    "HTTP_MAX_INPUT_SIZE",
    "HTTP_THREAD_COUNT",
    "IGNORE_SCRIPTS",
    "LOAD_LIMIT_SECS",
    "LOAD_RUN_LIMIT_SECS",
    "MAX_AUDIO_SECONDS",
    "MAX_BATCH_REQUESTS",
    "MAX_BATCH_TOKENS",
    "MAX_CLIENT_BATCH_SIZE",
    "MAX_CONNECTIONS",
    "MAX_IMAGE_PIXELS",
    "MAX_INFLIGHT_BYTES",
    "MAX_QUEUE_WAIT_MS",
    "MAX_TEXT_BYTES",
    "MODEL_LOAD_TIMEOUT",
    "PIPELINES",
    "POOLING",
    "QUEUE_TIMEOUT",
    "RATE_LIMIT",
    "RATE_LIMIT_RESOURCE",
    "REQUEST_TIMEOUT_MS",
    "RESPONSE_CACHE_BYTE_SIZE",
    "RUN_LIMIT_SECS",
    "SAGEMAKER_INFERENCE_OUTPUT",
    "SAGEMAKER_INFERENCE_TYPE",
    "STARTUP_TIMEOUT",
    "STRICT_MAX_BATCH_SIZE",
    "TASK",
    "TENSORFLOW_MIXED_PRECISION",
    "TENSORFLOW_ONEDNN",
    "TENSORFLOW_SESSION_COUNT",
    "TENSORFLOW_TAGS",
    "TENSORFLOW_WARMUP",
    "TOKENIZATION_WORKERS",
    "WORKER_ARENA_BYTES",
    "WORKER_SPIN_US",
];

/// Of SageMaker's containers, behind `SAGEMAKER_`.
const SAGEMAKER: [&str; 43] = [
    "BATCH",
    "BATCH_STRATEGY",
    "DEFAULT_INVOCATIONS_ACCEPT",
    "GUNICORN_THREADS",
    "GUNICORN_TIMEOUT_SECONDS",
    "GUNICORN_WORKERS",
    "HEALTH_CHECK_OVERRIDE",
    "INFERENCE_ENSEMBLE",
    "INFERENCE_OUTPUT",
    "MAX_CONCURRENT_TRANSFORMS",
    "MAX_PAYLOAD_IN_MB",
    "MAX_REQUEST_SIZE",
    "MAX_RESPONSE_SIZE",
    "MODEL_JOB_QUEUE_SIZE",
    "MODEL_SERVER_TIMEOUT",
    "MODEL_SERVER_TIMEOUT_SECONDS",
    "MODEL_SERVER_WORKERS",
    "NGINX_PROXY_READ_TIMEOUT_SECONDS",
    "NUM_MODEL_WORKERS",
    "RESPONSE_TIMEOUT",
    "STARTUP_TIMEOUT",
    "TFS_BATCH_TIMEOUT_MICROS",
    "TFS_DEFAULT_MODEL_NAME",
    "TFS_ENABLE_BATCHING",
    "TFS_FRACTIONAL_GPU_MEM_MARGIN",
    "TFS_INSTANCE_COUNT",
    "TFS_INTER_OP_PARALLELISM",
    "TFS_INTRA_OP_PARALLELISM",
    "TFS_MAX_BATCH_SIZE",
    "TFS_MAX_ENQUEUED_BATCHES",
    "TFS_NUM_BATCH_THREADS",
    "TFS_WAIT_TIME_SECONDS",
    "TRITON_BUFFER_MANAGER_THREAD_COUNT",
    "TRITON_DEFAULT_MODEL_NAME",
    "TRITON_INFERENCE_TYPE",
    "TRITON_MODEL_LOAD_GPU_LIMIT",
    "TRITON_THREAD_COUNT",
    "TS_BATCH_SIZE",
    "TS_MAX_BATCH_DELAY",
    "TS_MAX_WORKERS",
    "TS_MIN_WORKERS",
    "TS_RESPONSE_TIMEOUT",
    "XGBOOST_VERSION",
];

/// Of other containers, engines and the libraries that they calculate with.
const OTHERS: [&str; 34] = [
    "HF_OPTIMUM_BATCH_SIZE",
    "HF_OPTIMUM_SEQUENCE_LENGTH",
    "HF_TASK",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "KMP_HW_SUBSET",
    "MKL_DYNAMIC",
    "MKL_NUM_THREADS",
    "MMS_DEFAULT_RESPONSE_TIMEOUT",
    "MMS_DEFAULT_WORKERS_PER_MODEL",
    "MMS_JOB_QUEUE_SIZE",
    "MMS_MAX_REQUEST_SIZE",
    "MMS_MAX_RESPONSE_SIZE",
    "OMP_DYNAMIC",
    "OMP_MAX_ACTIVE_LEVELS",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_SCHEDULE",
    "OMP_STACKSIZE",
    "OMP_THREAD_LIMIT",
    "OMP_WAIT_POLICY",
    "OPENBLAS_NUM_THREADS",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GRAPH_TAG",
    "TF_NUM_INTER_THREADS",
    "TF_NUM_INTRA_THREADS",
    "TF_OVERRIDE_GLOBAL_THREADPOOL",
    "TF_SIGNATURE_DEF",
    "TS_DEFAULT_WORKERS_PER_MODEL",
    "TS_JOB_QUEUE_SIZE",
    "TS_MAX_REQUEST_SIZE",
    "TS_MAX_RESPONSE_SIZE",
];

/// All that clients may set.
pub fn settable() -> impl Iterator<Item = String> {
    let behind = |prefix: &'static str, names: &'static [&str]| {
        names.iter().map(move |it| format!("{prefix}{it}"))
    };
    behind("MUSTER_", &OWN).chain(behind("SAGEMAKER_", &SAGEMAKER)).chain(behind("", &OTHERS))
}

/// May a client set this variable of a server?
pub(super) fn may_be_set(name: &str) -> bool {
    let behind = |prefix: &str, names: &[&str]| {
        name.strip_prefix(prefix).is_some_and(|it| names.contains(&it))
    };
    behind("MUSTER_", &OWN) || behind("SAGEMAKER_", &SAGEMAKER) || OTHERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tunes_a_server_may_be_set() {
        for name in [
            "MUSTER_DEFAULT_INSTANCE_COUNT",
            "MUSTER_DEFAULT_INTRA_OP_THREADS",
            "MUSTER_DEFAULT_MAX_BATCH_SIZE",
            "SAGEMAKER_MODEL_SERVER_WORKERS",
            "SAGEMAKER_TFS_ENABLE_BATCHING",
            "OMP_NUM_THREADS",
        ] {
            assert!(may_be_set(name), "{name}");
        }
    }

    #[test]
    fn what_loads_code_writes_files_or_opens_ports_may_not() {
        for name in [
            "MUSTER_LOG_FILE",
            "MUSTER_DATA_CAPTURE_DIR",
            "MUSTER_TRACE_CONFIG",
            "MUSTER_TRACE_FILE",
            "MUSTER_MODEL_CACHE_DIR",
            "MUSTER_SAGEMAKER_ADDRESS",
            "MUSTER_ALLOW_REMOTE_ADMINISTRATION",
            "MUSTER_PYTORCH_PLUGIN",
            "MUSTER_BACKEND_CONFIG",
            "MUSTER_CACHE_CONFIG",
            "MUSTER_",
            "SAGEMAKER_BIND_TO_PORT",
            "SAGEMAKER_TRITON_ADDITIONAL_ARGS",
            "OMP_TOOL_LIBRARIES",
            "TF_XLA_FLAGS",
            "LD_PRELOAD",
            "DEFAULT_INSTANCE_COUNT",
        ] {
            assert!(!may_be_set(name), "{name}");
        }
    }
}
