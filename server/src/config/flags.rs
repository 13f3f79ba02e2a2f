//! All flags: the parts that declare them, and the order in which `--help-all` shows them.

use super::{
    assemble, batching_file, engines, isolation, lifecycle, monitoring_file, recommending, startup,
};
use crate::protocols::text_settings as texts;
use ::sagemaker::settings::{answers, aws, emf, sagemaker, sessions, xgboost};
use configuration::{
    Flag, FlagTable,
    compat::triton_command::{ALIASES, WITHOUT_EFFECT},
};
use frontend::settings::{access, clients, grpc, limits, listeners, tls};
use kserve::settings as vertex;
use loading::settings::{
    control, gpu_limit, hosted_start, model_defaults, multi_model, named_models, repository,
};
use schedule::{rate_limit_settings, scheduling_settings};
use serving::{cache::cache_settings, pipeline::pipeline_settings};
use sources::source_settings;
use stores::store_settings;
use telemetry::{
    capture::capture_settings, logging::log_settings, metrics::metrics_settings, trace_settings,
};

/// What the parts of the server declare.
const PARTS: &[&[Flag]] = &[
    access::FLAGS,
    assemble::FLAGS,
    aws::FLAGS,
    batching_file::FLAGS,
    cache_settings::FLAGS,
    capture_settings::FLAGS,
    clients::FLAGS,
    control::FLAGS,
    emf::FLAGS,
    engines::FLAGS,
    gpu_limit::FLAGS,
    grpc::FLAGS,
    hosted_start::FLAGS,
    isolation::FLAGS,
    answers::FLAGS,
    lifecycle::FLAGS,
    limits::FLAGS,
    listeners::FLAGS,
    log_settings::FLAGS,
    metrics_settings::FLAGS,
    model_defaults::FLAGS,
    monitoring_file::FLAGS,
    multi_model::FLAGS,
    named_models::FLAGS,
    pipeline_settings::FLAGS,
    rate_limit_settings::FLAGS,
    recommending::FLAGS,
    repository::FLAGS,
    sagemaker::FLAGS,
    scheduling_settings::FLAGS,
    sessions::FLAGS,
    source_settings::FLAGS,
    startup::FLAGS,
    store_settings::FLAGS,
    texts::FLAGS,
    tls::FLAGS,
    trace_settings::FLAGS,
    vertex::FLAGS,
    xgboost::FLAGS,
];

/// The flags of `--help`: where models are, when they are loaded, which ports answer, and what is written down.
pub(super) const COMMON: &[&str] = &[
    "model-repository",
    "model-control-mode",
    "watch",
    "load-model",
    "model-load-on-demand",
    "default-max-batch-size",
    "default-instance-count",
    "http-port",
    "grpc-port",
    "sagemaker-port",
    "metrics-port",
    "http-address",
    "max-inflight-bytes",
    "auth-tokens-file",
    "log-format",
    "log-verbose",
];

/// The headings of `--help-all`, and what stands below each. Names and defaults are Triton's where it has the option.
#[rustfmt::skip]
const SECTIONS: &[(&str, &[&str])] = &[
    ("Server", &[
        "id",
        "exit-on-error",
        "strict-readiness",
        "health-bodies",
        "server-timing",
        "exit-timeout-secs",
        "drain-delay-secs",
    ]),
    ("Models", &[
        "model-repository",
        "model-name",
        "model-control-mode",
        "watch",
        "repository-poll-secs",
        "load-model",
        "model-namespacing",
        "model-load-retry-count",
        "model-load-gpu-limit",
        "model-load-on-demand",
        "model-memory-budget",
        "disable-auto-complete-config",
        "strict-model-config",
        "model-config-name",
        "model-load-thread-count",
        "backend-config",
        "isolation",
        "worker-sandbox",
        "worker-arena-bytes",
        "python",
        "python-env-dir",
        "install-requirements",
        "script-flavor",
        "run-pickles",
        "pytorch-plugin",
        "tensorflow-library",
        "tensorflow-onednn",
        "tensorflow-session-count",
        "tensorflow-warmup",
        "tensorflow-warmup-iterations",
        "tensorflow-method-name-check",
        "tensorflow-tags",
        "tensorflow-mixed-precision",
        "onnxruntime-library",
        "model-cache-dir",
    ]),
    ("Defaults of models", &[
        "default-instance-count",
        "default-intra-op-threads",
        "default-inter-op-threads",
        "default-max-batch-size",
        "defaults-over-config",
        "default-dynamic-batching",
        "strict-max-batch-size",
        "default-queue-delay-us",
        "default-max-queue-size",
    ]),
    ("Pipelines", &[
        "pipelines",
        "task",
        "pipeline-graph",
        "pipeline-precision",
        "pooling",
        "max-client-batch-size",
        "max-batch-tokens",
        "max-batch-requests",
        "max-text-bytes",
        "tokenization-workers",
        "max-image-pixels",
        "max-audio-seconds",
        "jpeg-library",
        "default-prompt",
        "default-prompt-name",
        "served-model-name",
        "auto-truncate",
        "tei-root",
        "tei-batch-status",
    ]),
    ("Models by name", &[
        "lock-file",
        "hub-endpoint",
        "hub-token",
        "hub-revision",
        "hub-cache-dir",
        "hub-offline",
    ]),
    ("Object stores", &[
        "model-repository-cache-dir",
        "store-anonymous",
    ]),
    ("Ports", &[
        "allow-http",
        "http-address",
        "http-port",
        "reuse-http-port",
        "http-thread-count",
        "allow-metrics",
        "metrics-address",
        "metrics-port",
        "metrics-interval-ms",
        "allow-gpu-metrics",
    ]),
    ("gRPC", &[
        "allow-grpc",
        "grpc-address",
        "grpc-port",
        "reuse-grpc-port",
        "allow-tfs-grpc",
        "tfs-grpc-address",
        "tfs-grpc-port",
        "grpc-infer-response-compression-level",
        "grpc-max-concurrent-streams",
        "grpc-stream-requests",
        "grpc-keepalive-time",
        "grpc-keepalive-timeout",
        "grpc-max-connection-age",
        "grpc-max-connection-age-grace",
        "grpc-use-ssl",
        "grpc-use-ssl-mutual",
        "grpc-server-cert",
        "grpc-server-key",
        "grpc-root-cert",
    ]),
    ("SageMaker", &[
        "allow-sagemaker",
        "sagemaker-address",
        "sagemaker-port",
        "sagemaker-safe-port-range",
        "sagemaker-default-model",
        "sagemaker-multi-model",
        "sagemaker-models-root",
        "sagemaker-dialect",
        "sagemaker-inference-type",
        "default-accept",
        "sagemaker-batch",
        "sagemaker-inference-output",
        "xgboost-csv",
        "libsvm-index-base",
    ]),
    ("A local SageMaker runtime", &[
        "aws-facade",
        "async-spool",
        "async-output",
        "async-input",
        "async-queue",
        "async-concurrency",
        "recommendation-jobs",
        "recommendation-prices",
    ]),
    ("Sessions and WebSockets", &[
        "sessions",
        "session-ttl",
        "max-sessions",
        "allow-websocket",
    ]),
    ("Hosting", &[
        "sagemaker-ping-mode",
        "sagemaker-echo-custom-attributes",
        "sagemaker-max-payload-mb",
        "sagemaker-max-concurrent-transforms",
        "root-model",
        "ignore-scripts",
        "queue-timeout",
        "startup-timeout",
        "model-load-timeout",
        "eager-instances",
        "secure-mode",
        "trust-load-requests",
        "average-folds",
        "load-limit-secs",
        "load-run-limit-secs",
        "gpu-memory-margin",
    ]),
    ("Access", &[
        "http-tls-cert",
        "http-tls-key",
        "http-tls-client-ca",
        "http-tls-ports",
        "auth-tokens-file",
        "api-key",
        "allow-remote-administration",
        "allowed-hosts",
        "cors-allow-origin",
        "auth-open",
        "http-restricted-api",
        "grpc-restricted-protocol",
        "http-header-forward-pattern",
        "grpc-header-forward-pattern",
    ]),
    ("Vertex AI", &[
        "allow-vertex-ai",
        "vertex-ai-address",
        "vertex-ai-port",
        "vertex-ai-predict-route",
        "vertex-ai-health-route",
        "vertex-ai-default-model",
    ]),
    ("TensorFlow Serving", &[
        "model-config-file",
        "model-config-file-poll-wait-seconds",
        "model-base-path",
        "file-system-poll-wait-seconds",
        "allow-version-labels-for-unavailable-models",
        "batching-parameters-file",
        "tfs-metrics",
        "tfs-metrics-path",
        "monitoring-config-file",
        "force-allow-any-version-labels-for-unavailable-models",
    ]),
    ("Shared memory", &[
        "allow-client-shm",
    ]),
    ("Limits", &[
        "http-max-input-size",
        "max-inflight-bytes",
        "max-connections",
        "header-timeout-secs",
        "idle-timeout-secs",
        "body-grace-secs",
        "body-min-rate",
        "http-compression",
    ]),
    ("Scheduling", &[
        "max-queue-wait-ms",
        "request-timeout-ms",
        "run-limit-secs",
        "caller-runs",
        "worker-spin-us",
        "rate-limit",
        "rate-limit-resource",
        "scheduler-hold",
        "scheduler-hold-backlog",
    ]),
    ("Metrics", &[
        "allow-cpu-metrics",
        "metrics-config",
        "metrics-names",
        "emf",
        "emf-interval-secs",
        "emf-namespace",
    ]),
    ("Data capture", &[
        "data-capture-dir",
        "data-capture-percent",
        "data-capture-input",
        "data-capture-output",
        "data-capture-csv-types",
        "data-capture-json-types",
        "data-capture-body-bytes",
        "data-capture-file-bytes",
    ]),
    ("Response cache", &[
        "cache-config",
        "response-cache-byte-size",
    ]),
    ("Log", &[
        "log-verbose",
        "log-info",
        "log-warning",
        "log-error",
        "log-format",
        "log-requests",
        "log-file",
    ]),
    ("Traces", &[
        "trace-config",
        "trace-file",
        "trace-level",
        "trace-rate",
        "trace-count",
        "trace-log-frequency",
    ]),
];

/// All flags of the server.
pub(super) fn table() -> FlagTable {
    FlagTable::new(PARTS, SECTIONS, ALIASES, WITHOUT_EFFECT, COMMON)
}

#[cfg(test)]
mod tests {
    use configuration::compat::{sagemaker, tensorflow_command, text_embeddings_command};

    use super::*;

    #[test]
    fn every_flag_is_declared_once_and_listed_once() {
        let mut declared: Vec<&str> = PARTS.iter().copied().flatten().map(|it| it.name).collect();
        let mut listed: Vec<&str> = SECTIONS.iter().flat_map(|it| it.1).copied().collect();
        declared.sort_unstable();
        listed.sort_unstable();
        assert_eq!(declared, listed);
        let count = listed.len();
        listed.dedup();
        assert_eq!(listed.len(), count);
    }

    #[test]
    fn every_variable_means_a_setting_that_exists() {
        let flags = table();
        for (variable, names) in sagemaker::meant_settings() {
            for name in names {
                assert!(flags.all_names().any(|it| it == name), "{variable}: --{name}");
            }
        }
    }

    #[test]
    fn every_variable_is_in_one_place() {
        let known = sagemaker::known_variables(&table());
        let mut names: Vec<String> = known.into_iter().map(|it| it.0).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_flag_means_settings_that_exist() {
        let flags = table();
        let of_texts = text_embeddings_command::meant_settings();
        for (flag, names) in tensorflow_command::meant_settings().chain(of_texts) {
            for name in names {
                assert!(flags.flag(name).is_some(), "{flag}: --{name}");
            }
        }
    }
}
