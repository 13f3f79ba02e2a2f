//! Flags of other servers that muster has not: which of its own does the same, or why none does. So nobody who types
//! what another server takes starts something else. Under the name of a server whose command line muster takes, the
//! flags of that server are read before these.

mod language_models;

use crate::flags::Alias;
use language_models::LANGUAGE_MODELS;

/// Flags of others that mean the same as one of muster's, and are taken. There are no variables of these names.
pub(crate) const SPELLINGS: &[Alias] = &[("host", "http-address"), ("port", "http-port")];

/// What to do in place of a flag that muster has not.
#[derive(Debug, Clone, Copy)]
enum Advice {
    /// What muster has for it: the text names it.
    Instead(&'static str),
    /// Nothing, and why.
    Nothing(&'static str),
}

use Advice::{Instead, Nothing};

/// What to do in place of these flags, whose names have no dashes in front.
type Row = (Advice, &'static [&'static str]);

const NOT_PYTHON: &str = "muster runs no application in Python, and has no such setting";
const OF_A_GRAPH: &str = "a graph keeps the types and the precision that it was exported with";
const BY_THE_SYSTEM: &str =
    "the system's own tools set it: taskset, nice, numactl, or the container";
const NO_PREFIX: &str = "addresses have no prefix; a proxy in front of muster can add one";
const ONE_OF_GRPC: &str = "gRPC has one version of each of its services, and no channelz";
const NO_STATISTICS: &str = "muster reports to nobody";
const FEWER_LINES: &str =
    "--log-verbose=1 writes more lines, --log-info=false and --log-warning=false fewer";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Where it listens.
    (Instead("--http-address is the address of all ports, --http-port the port of HTTP"), &["bind", "address", "listen", "ip"]),
    (Nothing("muster listens on ports only: --http-address, --http-port"), &["uds", "fd"]),
    (Instead("--reuse-http-port"), &["reuse-port"]),
    (Nothing("the system says how many connections wait to be accepted; --max-connections bounds those that are open"), &["backlog"]),
    (Nothing(NO_PREFIX), &["root-path", "api-prefix", "path"]),
    (Nothing("HTTP/1.1 is always on, and HTTP/2 is on the gRPC port"), &["http", "http2"]),
    (Instead("--allow-grpc, whose port --grpc-port is"), &["grpc"]),
    (Instead("--grpc-max-concurrent-streams"), &["max-concurrent-streams"]),
    (Nothing("reflection of gRPC is always on"), &["enable-reflection"]),
    (Nothing(ONE_OF_GRPC), &["protocol-version", "enable-channelz"]),
    (Instead("--allow-websocket switches WebSockets"), &["ws", "ws-max-size", "ws-max-queue", "ws-ping-interval", "ws-ping-timeout", "ws-per-message-deflate"]),
    (Instead("--header-timeout-secs bounds the time of a head; its size is fixed"), &["h11-max-incomplete-event-size", "h11-max-header-count"]),
    (Nothing("a client is known by its connection, whatever headers of a proxy say"), &["proxy-headers", "no-proxy-headers", "forwarded-allow-ips"]),
    (Nothing("headers of replies are fixed"), &["header", "server-header", "no-server-header", "date-header", "no-date-header"]),
    (Instead("--cors-allow-origin"), &["allowed-origins", "cors-origins"]),
    (Nothing("pages of --cors-allow-origin may use all methods and headers, and send no cookies"), &["allow-credentials", "allowed-methods", "allowed-headers", "cors-methods", "cors-headers", "cors-credentials", "no-cors-credentials"]),
    (Nothing("muster opens no tunnel; a proxy can"), &["ngrok", "ngrok-authtoken", "ngrok-edge"]),
    // Processes, threads and time.
    (Instead("one process uses all processors: --http-thread-count says how many threads answer, --default-instance-count how many runs of a model go on at a time"), &["workers", "worker", "api-workers", "api-server-count", "num-workers", "renderer-num-workers"]),
    (Instead("--http-thread-count"), &["threads-http"]),
    (Instead("--default-intra-op-threads"), &["threads", "threads-batch"]),
    (Instead("--default-instance-count"), &["parallel"]),
    (Instead("--tokenization-workers"), &["validation-workers"]),
    (Instead("--model-load-thread-count"), &["max-parallel-loading-workers"]),
    (Instead("--watch loads again what changes on disk, as --model-control-mode=poll does every --repository-poll-secs"), &["reload", "reload-dir", "reload-include", "reload-exclude", "reload-delay"]),
    (Instead("--idle-timeout-secs"), &["timeout-keep-alive"]),
    (Instead("--exit-timeout-secs"), &["timeout-graceful-shutdown", "graceful-termination-timeout", "shutdown-timeout"]),
    (Instead("--request-timeout-ms"), &["timeout"]),
    (Instead("--max-connections bounds connections, --default-max-queue-size the requests that wait for a model"), &["limit-concurrency"]),
    (Instead("--default-max-queue-size"), &["max-num-queued-reqs", "max-num-active-seqs"]),
    (Nothing("a server serves for ever; the parameter RECYCLE_AFTER_REQUESTS of a model renews the process of the model"), &["limit-max-requests", "limit-max-requests-jitter"]),
    (Nothing("--isolation says which models have processes of their own, and these are watched in any case"), &["timeout-worker-healthcheck", "watchdog-config"]),
    (Nothing(BY_THE_SYSTEM), &["cpu-mask", "cpu-range", "cpu-strict", "prio", "poll", "cpu-mask-batch", "cpu-range-batch", "cpu-strict-batch", "prio-batch", "poll-batch", "numa", "numa-bind", "numa-bind-cpus", "numa-bind-nodes"]),
    (Nothing("a server runs on one machine"), &["master-addr", "master-port", "nnodes", "node-rank", "headless", "rpc", "distributed-executor-backend"]),
    // TLS and access.
    (Instead("--http-tls-key"), &["ssl-keyfile", "ssl-key-file"]),
    (Instead("--http-tls-cert"), &["ssl-certfile", "ssl-cert-file"]),
    (Instead("--http-tls-client-ca"), &["ssl-ca-certs", "ssl-cert-reqs"]),
    (Nothing("the key of --http-tls-key has no passphrase; `openssl pkey` takes it off"), &["ssl-keyfile-password"]),
    (Nothing("the library of TLS says which versions and ciphers are good"), &["ssl-version", "ssl-ciphers"]),
    (Nothing("the files of --http-tls-cert and --http-tls-key are read again when they change"), &["enable-ssl-refresh"]),
    (Instead("--auth-tokens-file"), &["api-key-file"]),
    // The log and what else tells of the server.
    (Instead(FEWER_LINES), &["log-level", "uvicorn-log-level", "verbose", "verbosity", "log-verbosity", "debug", "quiet", "log-disable"]),
    (Instead("--log-format and --log-file say how and where lines are written, --log-verbose which"), &["log-config", "log-config-file", "logging-config"]),
    (Instead("--log-format=json"), &["log-jsonl", "no-log-jsonl"]),
    (Instead("--log-format"), &["log-prefix", "no-log-prefix", "log-timestamps", "no-log-timestamps"]),
    (Instead("--log-requests writes a line for each request"), &["access-log", "no-access-log", "disable-uvicorn-access-log", "disable-access-log-for-endpoints", "enable-log-requests", "disable-log-requests"]),
    (Instead("--data-capture-dir keeps requests and replies"), &["log-prompts-dir", "enable-log-outputs", "enable-log-deltas", "max-log-len"]),
    (Nothing("the variable NO_COLOR takes colours away"), &["use-colors", "no-use-colors", "log-colors"]),
    (Instead("--allow-metrics, whose port --metrics-port is"), &["metrics", "no-metrics", "perf", "no-perf", "disable-log-stats"]),
    (Instead("--trace-config opentelemetry,url=http://host:4318/v1/traces"), &["otlp-traces-endpoint", "collect-detailed-traces"]),
    (Instead("--metrics-config"), &["custom-histogram-buckets", "show-hidden-metrics-for-version"]),
    (Nothing("replies and lines of the log name the request in any case"), &["enable-request-id-headers", "log-error-stack"]),
    (Nothing(NO_STATISTICS), &["usage-stats", "do-not-track"]),
    // Models.
    (Instead("the model follows the word: muster serve MODEL"), &["model", "model-id", "model-path", "model-url", "hf-repo", "hf-file", "docker-repo", "download-dir", "code-revision", "tokenizer-revision", "offline", "hf-config-path", "weights-cache-override"]),
    (Instead("--model-repository"), &["models-dir"]),
    (Instead("--model-load-on-demand"), &["models-autoload", "no-models-autoload"]),
    (Instead("--model-memory-budget bounds what models that are loaded on demand take together"), &["models-max", "cache-ram", "sleep-idle-seconds"]),
    (Instead("--model-name names a model, --served-model-name what replies call it"), &["alias"]),
    (Instead("config.pbtxt of each model says it"), &["models-preset", "tags", "override-kv", "hf-overrides", "model-loader-extra-config", "additional-config"]),
    (Instead("--task"), &["embedding", "embeddings", "rerank", "reranking", "runner", "convert"]),
    (Instead("--pooling"), &["pooler-config"]),
    (Nothing("the files of a folder say whether its vectors are normalised"), &["embd-normalize"]),
    (Instead("--default-max-batch-size"), &["batch-size", "ubatch-size", "max-batch-size", "max-num-seqs"]),
    (Instead("--default-dynamic-batching"), &["cont-batching", "no-cont-batching"]),
    (Instead("--max-batch-tokens"), &["max-num-batched-tokens", "max-batch-total-tokens", "max-batch-prefill-tokens", "max-num-scheduled-tokens"]),
    (Instead("--auto-truncate cuts texts that a model is too short for, --max-text-bytes bounds them"), &["max-model-len", "ctx-size", "max-input-tokens", "max-input-length", "max-total-tokens"]),
    (Nothing("models are tried when they are loaded; model_warmup of config.pbtxt says with what"), &["warmup", "no-warmup", "check-tensors"]),
    (Nothing(OF_A_GRAPH), &["quantize", "quantization", "quantization-config", "allow-deprecated-quantization"]),
    (Nothing("a folder's own tokenizer.json is read"), &["tokenizer", "tokenizer-config-path", "tokenizer-mode", "skip-tokenizer-init"]),
    (Nothing("no code that lies beside a model is run"), &["trust-remote-code"]),
    (Nothing("muster opens no file and no address that a request names"), &["allowed-local-media-path", "allowed-media-domains", "media-path"]),
    (Instead("instance_group of config.pbtxt says on which GPUs a model runs, and CUDA_VISIBLE_DEVICES which there are"), &["device", "devices", "list-devices", "device-ids", "main-gpu", "gpu-layers", "n-gpu-layers", "split-mode", "tensor-split", "tensor-parallel-size", "num-shard", "sharded"]),
    (Instead("--gpu-memory-margin says what stays free"), &["gpu-memory-utilization", "device-memory-utilization", "cuda-memory-fraction", "fit", "fit-target"]),
    // What else the program does.
    (Instead("settings are flags, and variables as MUSTER_HTTP_PORT; muster --help-all lists them"), &["config", "env-file", "usage"]),
    (Instead("muster env prints what the environment comes to"), &["env"]),
    (Nothing("muster has no page to chat on"), &["ui", "webui", "ui-config", "webui-config", "ui-config-file", "webui-config-file", "ui-mcp-proxy", "webui-mcp-proxy"]),
    (Nothing(NOT_PYTHON), &[
        "app-dir", "app", "factory", "working-dir", "arg", "arg-file", "context", "development", "production", "interface",
        "lifespan", "loop", "middleware", "reset-contextvars", "disable-fastapi-docs", "enable-offline-docs",
    ]),
    (Nothing("muster serves no language models that write a text token by token, and has no such setting"), LANGUAGE_MODELS),
];

/// The same for short options. muster has `-h` and `-V` only.
#[rustfmt::skip]
const SHORT: &[Row] = &[
    (Instead("--version prints the version, --log-verbose=1 writes more lines"), &["v"]),
    (Instead("--http-port"), &["p"]),
    (Nothing(ONE_OF_GRPC), &["pv"]),
    (Instead("the model follows the word: muster serve MODEL"), &["m", "hf", "hfr", "hff", "hft", "mu", "dr"]),
    (Instead("--log-info=false writes fewer lines"), &["q"]),
    (Instead("--default-intra-op-threads"), &["t", "tb"]),
    (Instead("--default-max-batch-size"), &["b", "ub"]),
    (Instead("--default-instance-count"), &["np", "asc", "w"]),
    (Instead("--exit-timeout-secs"), &["g"]),
    (Instead("muster env prints what the environment comes to"), &["e"]),
    (Instead("--log-verbose=1 writes more lines"), &["lv"]),
    (Instead("--request-timeout-ms"), &["to"]),
    (Instead("--model-name names a model"), &["a"]),
];

/// What to say to one who has typed a flag that muster has not, with its dashes and without a value; `None` where it
/// is no flag of a server that is known.
pub(crate) fn advice(typed: &str) -> Option<String> {
    let Some(name) = typed.strip_prefix("--") else {
        let name = typed.strip_prefix('-')?;
        // The value may stand behind the letter.
        let letter = name.chars().next()?.to_string();
        let found = find(SHORT, name).or_else(|| find(SHORT, &letter));
        return Some(found.map_or_else(
            || {
                "muster has no short options but -h and -V; muster --help-all lists the others"
                    .to_owned()
            },
            say,
        ));
    };
    let dashed = name.replace('_', "-");
    let negated = dashed.strip_prefix("no-").unwrap_or(&dashed);
    find(ROWS, &dashed).or_else(|| find(ROWS, negated)).map(say)
}

fn find(rows: &[Row], name: &str) -> Option<Advice> {
    rows.iter().find(|it| it.1.contains(&name)).map(|it| it.0)
}

fn say(advice: Advice) -> String {
    match advice {
        Instead(text) => format!("in its place: {text}"),
        Nothing(why) => format!("muster has none like it: {why}"),
    }
}
