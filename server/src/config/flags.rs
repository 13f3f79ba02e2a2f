//! The table of settings: name, default, help. Names and defaults are Triton's where it has the option.

/// One setting: the flag `--<name>` and the variable `MUSTER_<NAME>`.
pub(super) struct Setting {
    /// Without dashes in front.
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    /// The default as one would write it; empty where there is none, or where it depends.
    pub(super) default: &'static str,
    /// For `--help`.
    pub(super) help: &'static str,
    /// Its heading in `--help`.
    pub(super) section: &'static str,
}

/// How a setting is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// `--name value`; the last one counts.
    Value,
    /// As often as one likes; in a variable the values are separated by `;`.
    Many,
    /// `--name` alone is true.
    Switch,
}

const fn value(
    section: &'static str,
    name: &'static str,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, takes: Takes::Value, default, help, section }
}

const fn many(section: &'static str, name: &'static str, help: &'static str) -> Setting {
    Setting { name, takes: Takes::Many, default: "", help, section }
}

const SERVER: &str = "Server";
const MODELS: &str = "Models";
const LISTEN: &str = "Ports";
const SAGEMAKER: &str = "SageMaker";
const LIMITS: &str = "Limits";
const QUEUE: &str = "Scheduling";
const LOG: &str = "Log";

/// Every setting that does something.
#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SERVER, "id", "triton", "Name of the server in its metadata. Clients of Triton may look for its name, hence the default"),
    value(SERVER, "exit-on-error", "false", "End the start when a model fails to load. Triton's default is true; here what loaded is served, and readiness tells"),
    value(SERVER, "strict-readiness", "true", "Ready only when every model asked for at the start is"),
    value(SERVER, "exit-timeout-secs", "25", "Time from SIGTERM to the end, all steps together. Platforms kill after 30 s, so the default is less than Triton's 30"),
    value(SERVER, "drain-delay-secs", "2", "Time after SIGTERM in which requests are still taken, while readiness says no; part of the exit timeout"),

    many(MODELS, "model-repository", "Directory of models: <name>/config.pbtxt, <name>/<version>/model.onnx. May be given several times. Default: /opt/ml/model, else ./model_repository, whichever exists"),
    value(MODELS, "model-name", "", "Name of the model where there is only one. Default: its directory's or file's"),
    value(MODELS, "model-control-mode", "none", "none: all models are loaded at the start"),
    many(MODELS, "load-model", "A model to load in the control mode explicit, which this version does not have"),
    Setting { name: "disable-auto-complete-config", takes: Takes::Switch, default: "false", help: "Do not fill in what config.pbtxt leaves out", section: MODELS },
    value(MODELS, "strict-model-config", "false", "Older name of --disable-auto-complete-config"),
    value(MODELS, "model-load-thread-count", "", "Models that load at the same time. Default: as many as there are processors"),
    many(MODELS, "backend-config", "[<backend>,]<key>=<value>, as default-max-batch-size=8 or onnxruntime,intra_op_thread_count=2"),
    value(MODELS, "default-instance-count", "auto", "Instances of a model that does not say (instance_group.count); on GPUs, on each"),
    value(MODELS, "default-intra-op-threads", "auto", "Threads inside an operator, per instance, where the model does not say"),
    value(MODELS, "default-inter-op-threads", "auto", "Operators at the same time, per instance, where the model does not say"),
    value(MODELS, "pytorch-plugin", "", "The libtorch engine, libmuster_pytorch.so. Default: the one in pytorch/ beside the program or one folder up"),
    value(MODELS, "onnxruntime-library", "", "The ONNX Runtime shared library. Default: the one that came along"),
    value(MODELS, "model-cache-dir", "", "Directory in which optimised forms of models of 16 MiB or more are kept, so that later starts are faster and processes share their weights. It must belong to the server alone. Default: none are kept"),

    value(LISTEN, "allow-http", "", "Serve KServe v2 and TensorFlow Serving requests over HTTP. Default: true, but false where a hosting platform starts `serve`, unless --http-port is given"),
    value(LISTEN, "http-address", "0.0.0.0", "Address of the HTTP port, and of the others that have none of their own"),
    value(LISTEN, "http-port", "8000", "The HTTP port; 0 takes any free one"),
    value(LISTEN, "reuse-http-port", "false", "Let several processes share the HTTP port"),
    value(LISTEN, "http-thread-count", "auto", "Threads that serve sockets, of all HTTP ports together"),
    value(LISTEN, "allow-metrics", "", "Serve /metrics on a port of its own; the SageMaker port has it in any case. Default: as --allow-http"),
    value(LISTEN, "metrics-address", "", "Address of the metrics port. Default: the HTTP address"),
    value(LISTEN, "metrics-port", "8002", "The metrics port"),
    value(LISTEN, "metrics-interval-ms", "2000", "How often gauges of the machine are read"),
    value(LISTEN, "allow-gpu-metrics", "true", "Show the use of GPUs among the metrics"),

    value(SAGEMAKER, "allow-sagemaker", "true", "Serve /ping and /invocations"),
    value(SAGEMAKER, "sagemaker-address", "", "Address of the SageMaker port. Default: the HTTP address"),
    value(SAGEMAKER, "sagemaker-port", "8080", "The SageMaker port"),
    value(SAGEMAKER, "sagemaker-safe-port-range", "", "<lowest>-<highest>: all other ports must be in it; one that was not given is taken from it"),
    value(SAGEMAKER, "sagemaker-default-model", "", "The model behind /invocations. Default: the only one"),
    value(SAGEMAKER, "default-accept", "", "Media type of a reply to a client that takes any. Default: that of the request's format"),
    value(SAGEMAKER, "sagemaker-batch", "false", "A batch transform job: nothing is refused for having to wait"),

    value(LIMITS, "http-max-input-size", "1GiB", "Largest body in bytes. Triton's 64 MiB do not apply to binary tensors, so that the same number here would refuse what Triton takes. Lowered to --max-inflight-bytes where that is less and this is not given"),
    value(LIMITS, "max-inflight-bytes", "", "Bytes of all bodies and replies in memory at one time. Default: a quarter of the memory of the machine or container"),
    value(LIMITS, "max-connections", "", "Open connections, all ports together. Default: by the limit of open files, at most 65536"),
    value(LIMITS, "header-timeout-secs", "10", "Time for the headers of a request"),
    value(LIMITS, "idle-timeout-secs", "75", "Time that a connection may be idle between requests"),
    value(LIMITS, "body-grace-secs", "10", "Time that every body has to arrive"),
    value(LIMITS, "body-min-rate", "1KiB", "Bytes per second: a body gets a further second for each such amount that has arrived; 0 for no limit of time"),

    value(QUEUE, "max-queue-wait-ms", "auto", "Refuse a request that would have to wait longer: auto (by the model's speed), 0 (never), or milliseconds"),
    value(QUEUE, "request-timeout-ms", "none", "Longest time from the headers of a request to its answer"),
    value(QUEUE, "caller-runs", "auto", "auto or off: run a small request to an idle model on the thread that read it"),
    value(QUEUE, "worker-spin-us", "0", "Microseconds, at most 1000, for which a thread of a model that has run out of work looks for more before it sleeps, if work has lately come as soon as that"),
    value(QUEUE, "scheduler-hold", "0", "For tests: begin to batch once so many requests wait"),

    value(LOG, "log-verbose", "0", "0, 1 for debug lines, 2 for those of libraries as well"),
    value(LOG, "log-info", "true", "Log what happens"),
    value(LOG, "log-warning", "true", "Log what looks wrong"),
    value(LOG, "log-error", "true", "Log what went wrong"),
    value(LOG, "log-format", "text", "text or json, one line for each event"),
    value(LOG, "log-file", "", "Write all lines to this file. Default: standard output, and standard error for warnings and errors"),
];

/// Other spellings of a setting, in Triton.
pub(super) const ALIASES: &[(&str, &str)] = &[("model-store", "model-repository")];

/// Triton's options that are taken and do nothing, and why.
pub(super) const WITHOUT_EFFECT: &[(&str, &[&str])] = &[
    (
        "this version has no gRPC",
        &[
            "allow-grpc",
            "grpc-address",
            "grpc-port",
            "reuse-grpc-port",
            "grpc-header-forward-pattern",
            "grpc-restricted-protocol",
            "grpc-infer-thread-count",
            "grpc-infer-allocation-pool-size",
            "grpc-max-response-pool-size",
            "grpc-infer-response-compression-level",
            "grpc-use-ssl",
            "grpc-use-ssl-mutual",
            "grpc-server-cert",
            "grpc-server-key",
            "grpc-root-cert",
            "grpc-keepalive-time",
            "grpc-keepalive-timeout",
            "grpc-keepalive-permit-without-calls",
            "grpc-http2-max-pings-without-data",
            "grpc-http2-min-recv-ping-interval-without-data",
            "grpc-http2-max-ping-strikes",
            "grpc-max-connection-age",
            "grpc-max-connection-age-grace",
        ],
    ),
    (
        "not in this version",
        &[
            "repository-poll-secs",
            "model-config-name",
            "model-namespacing",
            "model-load-retry-count",
            "model-load-gpu-limit",
            "http-header-forward-pattern",
            "allow-cpu-metrics",
            "metrics-config",
            "allow-vertex-ai",
            "vertex-ai-port",
            "vertex-ai-thread-count",
            "vertex-ai-default-model",
            "trace-config",
            "trace-file",
            "trace-level",
            "trace-rate",
            "trace-count",
            "trace-log-frequency",
            "cache-config",
            "cache-directory",
            "response-cache-byte-size",
            "rate-limit",
            "rate-limit-resource",
            "allow-client-shm",
            "host-policy",
            "min-supported-compute-capability",
        ],
    ),
    (
        "not needed here",
        &[
            "sagemaker-thread-count",
            "backend-directory",
            "repoagent-directory",
            "pinned-memory-pool-byte-size",
            "cuda-memory-pool-byte-size",
            "cuda-virtual-address-size",
            "buffer-manager-thread-count",
            "enable-peer-access",
        ],
    ),
];

/// Options that protect something, which must not be taken without doing so.
pub(super) const REFUSED: &[(&str, &str)] = &[(
    "http-restricted-api",
    "this version cannot restrict routes, and does not start as if it had",
)];

/// The setting of that name.
pub(super) fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|it| it.name == name)
}

/// Names of all options that can be given, those without effect included.
pub(super) fn all_names() -> impl Iterator<Item = &'static str> {
    let without_effect = WITHOUT_EFFECT.iter().flat_map(|(_, names)| names.iter().copied());
    SETTINGS
        .iter()
        .map(|it| it.name)
        .chain(ALIASES.iter().map(|it| it.0))
        .chain(without_effect)
        .chain(REFUSED.iter().map(|it| it.0))
}

/// `http-port` → `MUSTER_HTTP_PORT`.
pub(super) fn variable_of(name: &str) -> String {
    format!("MUSTER_{}", name.to_ascii_uppercase().replace('-', "_"))
}
