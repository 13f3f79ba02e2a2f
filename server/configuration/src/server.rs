//! The result: what a server is made from. Values have units in their types; nothing is left to parse.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use super::{
    access::AccessConfig,
    aws::AwsFacade,
    cache::CacheConfig,
    capture::CaptureConfig,
    control::ModelControl,
    emf::EmfConfig,
    grpc::Grpc,
    hosting::{Hosting, PlatformFolder},
    metrics::MetricsConfig,
    model_defaults::ModelDefaults,
    named::NamedModels,
    rate_limit::RateLimit,
    report::Notice,
    sagemaker::SageMaker,
    sessions::SessionSettings,
    stores::StoreSettings,
    tls::HttpTls,
    vertex::VertexAi,
};
use inference::trace::TraceConfig;
use machine::gpus::Visibility;

/// Everything that a server is told at its start.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// `--id`: the server's name in its metadata.
    pub id: String,
    /// Started by a hosting platform (`serve`, with its port or its model folder): one port, unless
    /// more are asked for.
    pub hosted: bool,
    /// Where to listen.
    pub listeners: Listeners,
    /// How gRPC is served.
    pub grpc: Grpc,
    /// Which models.
    pub repository: Repository,
    /// When they are loaded and unloaded.
    pub control: ModelControl,
    /// How repositories in object stores are opened.
    pub stores: StoreSettings,
    /// What a model gets that does not say.
    pub model_defaults: ModelDefaults,
    /// What a client may use up.
    pub limits: Limits,
    /// Who may do what.
    pub access: AccessConfig,
    /// TLS of the HTTP ports; `None` where they are plain.
    pub tls: Option<HttpTls>,
    /// How requests wait and run.
    pub scheduling: Scheduling,
    /// Resources that instances share; `None` where they are not looked at.
    pub rate_limit: Option<RateLimit>,
    /// `--cache-config`: where answers are kept; `None` for nowhere.
    pub cache: Option<CacheConfig>,
    /// How to start, stop, and call oneself ready.
    pub lifecycle: Lifecycle,
    /// The routes of the SageMaker port.
    pub sagemaker: SageMaker,
    /// Stateful sessions there; `None` where they are off.
    pub sessions: Option<SessionSettings>,
    /// `--allow-websocket`: may clients talk over WebSockets?
    pub allow_websocket: bool,
    /// The addresses of SageMaker's runtime; `None` where they are off.
    pub aws: Option<AwsFacade>,
    /// What a hosting platform's container is told.
    pub hosting: Hosting,
    /// The routes of the Vertex AI port; `None` where it is off.
    pub vertex_ai: Option<VertexAi>,
    /// `--allow-client-shm`: may clients register shared memory?
    pub client_shared_memory: bool,
    /// Which metrics are shown.
    pub metrics: MetricsConfig,
    /// `--metrics-interval-ms`: how often gauges of the machine are read.
    pub metrics_interval: Duration,
    /// `--emf`: metrics as lines on standard output; `None` where there are none.
    pub emf: Option<EmfConfig>,
    /// `--data-capture-dir`: which invocations are written down; `None` where none are.
    pub capture: Option<CaptureConfig>,
    /// `--allow-gpu-metrics`: are GPUs among them?
    pub gpu_metrics: bool,
    /// `CUDA_VISIBLE_DEVICES` and the like.
    pub gpu_visibility: Visibility,
    /// Where log lines go, and which.
    pub log: LogConfig,
    /// Which requests are traced, and where the traces go.
    pub trace: TraceConfig,
    /// `--onnxruntime-library`, `ORT_DYLIB_PATH`: the shared library; `None` for the one that came along.
    pub onnxruntime_library: Option<PathBuf>,
    /// `--pytorch-plugin`: the libtorch engine's shared library; `None` for the one that came along.
    pub pytorch_plugin: Option<PathBuf>,
    /// `--model-cache-dir`: where optimised forms of large models are kept; `None` for nowhere.
    pub model_cache_dir: Option<PathBuf>,
    /// Lines for the log: foreign variables that were applied, options without effect.
    pub notices: Vec<Notice>,
}

/// Addresses to listen on; `None` where the service is off. Port 0 takes any free port. No two are the
/// same, and at least one is on.
#[derive(Debug, Clone, PartialEq)]
pub struct Listeners {
    /// The KServe and TensorFlow Serving routes: 8000.
    pub http: Option<SocketAddr>,
    /// `/ping`, `/invocations`, `/metrics`: 8080.
    pub sagemaker: Option<SocketAddr>,
    /// The two routes of Vertex AI: 8080.
    pub vertex_ai: Option<SocketAddr>,
    /// `/metrics` on a port of its own: 8002.
    pub metrics: Option<SocketAddr>,
    /// gRPC: 8001.
    pub grpc: Option<SocketAddr>,
    /// The same on TensorFlow Serving's port: 8500.
    pub tfs_grpc: Option<SocketAddr>,
    /// Set `SO_REUSEPORT` on the HTTP port, so that several processes may share it.
    pub reuse_http_port: bool,
    /// The same for the gRPC port.
    pub reuse_grpc_port: bool,
    /// `--http-thread-count`: threads that serve sockets, of all HTTP ports together; `None` for the
    /// server's choice.
    pub http_threads: Option<NonZeroUsize>,
}

/// Where models are, and how they are loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Repository {
    /// Where they are.
    pub from: ModelsFrom,
    /// `--model-name`: what the only model is called, whatever its directory is.
    pub model_name: Option<String>,
    /// `--model-config-name`: `configs/<name>.pbtxt` goes before `config.pbtxt`.
    pub config_name: Option<String>,
    /// Fill in what `config.pbtxt` leaves out; off with `--disable-auto-complete-config`.
    pub auto_complete: bool,
    /// `--model-load-thread-count`: models that load at the same time.
    pub load_threads: NonZeroUsize,
    /// `--model-load-gpu-limit`, in the order given: a later one beats an earlier one.
    pub gpu_limits: Vec<GpuLimit>,
    /// `--backend-config`, in the order given: a later one beats an earlier one.
    pub backend_settings: Vec<BackendSetting>,
    /// What else may be in a platform's folder.
    pub platform: PlatformFolder,
    /// `--secure-mode`: are models refused that bring code?
    pub refuse_code: bool,
}

/// Where models are.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelsFrom {
    /// Model repositories: `<name>/config.pbtxt`, `<name>/<version>/model.onnx`. They were directories
    /// when the configuration was read, or are addresses of object stores.
    Repositories(Vec<PathBuf>),
    /// A model file, or a directory of any accepted layout: a repository, one model flat in it, or
    /// version directories. It existed when the configuration was read.
    Path(PathBuf),
    /// Each with a directory of its own.
    Named(NamedModels),
}

/// One `--model-load-gpu-limit`: the fraction of a GPU's memory above which nothing is loaded on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuLimit {
    /// Its number; `None` for every one.
    pub gpu: Option<u32>,
    /// From 0 to 1.
    pub fraction: f64,
}

/// One `--backend-config`.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendSetting {
    /// The engine it is for; `None` for all.
    pub backend: Option<String>,
    /// `default-max-batch-size`.
    pub key: String,
    /// Its value, unread but for the keys that the server knows.
    pub value: String,
}

impl Repository {
    /// The value of a key for an engine: what was set for it, else what was set for all.
    pub fn backend_setting(&self, backend: &str, key: &str) -> Option<&str> {
        let find = |wanted: Option<&str>| {
            let mut settings = self.backend_settings.iter().rev();
            settings.find(|it| it.key == key && it.backend.as_deref() == wanted)
        };
        find(Some(backend)).or_else(|| find(None)).map(|it| &*it.value)
    }

    /// `max_batch_size` of a model of this engine that can batch and does not say how much, by
    /// `--backend-config=default-max-batch-size=<n>`.
    pub fn default_max_batch_size(&self, backend: &str) -> Option<usize> {
        self.backend_setting(backend, super::value::DEFAULT_MAX_BATCH_SIZE)?.parse().ok()
    }
}

/// What clients may use up.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// `--http-max-input-size`: bytes of one body. At most `inflight_bytes`.
    pub body_bytes: u64,
    /// `--max-inflight-bytes`: bytes of all bodies and replies in memory at one time.
    pub inflight_bytes: u64,
    /// `--max-connections`: open connections, all ports together.
    pub connections: NonZeroUsize,
    /// `--header-timeout-secs`: from the first byte of a request to the end of its headers.
    pub header_timeout: Duration,
    /// `--idle-timeout-secs`: a connection between two requests.
    pub idle_timeout: Duration,
    /// How slowly a body may come.
    pub body_pace: BodyPace,
    /// `--http-compression`: may bodies and replies be compressed?
    pub http_compression: bool,
}

/// How slowly a body may come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BodyPace {
    /// `--body-grace-secs`: time that every body has.
    pub grace: Duration,
    /// `--body-min-rate`: bytes per second that earn more time; 0 for no limit at all.
    pub bytes_per_second: u64,
}

impl BodyPace {
    /// How long a body may have taken by the time that `received` bytes of it have come; `None` for any
    /// time.
    pub fn allowed(&self, received: u64) -> Option<Duration> {
        let earned = received.checked_div(self.bytes_per_second)?;
        Some(self.grace.saturating_add(Duration::from_secs(earned)))
    }
}

/// How requests wait and run.
#[derive(Debug, Clone, PartialEq)]
pub struct Scheduling {
    /// `--max-queue-wait-ms`: the longest that a request may have to wait.
    pub queue_wait: QueueWait,
    /// `--request-timeout-ms`: from the headers to the answer; `None` for any time.
    pub request_timeout: Option<Duration>,
    /// `--caller-runs`: a small request to an idle model may run where it was read.
    pub caller_runs: bool,
    /// `--worker-spin-us`: longest that a thread of a model without work looks for some before it sleeps.
    pub spin: Duration,
    /// `--scheduler-hold`, `TRITONSERVER_DELAY_SCHEDULER`: batching begins once so many requests wait.
    /// For tests; 0 is off.
    pub hold: usize,
}

/// The longest that a request may have to wait in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueWait {
    /// By what is known of the model's speed.
    Auto,
    /// For ever.
    Unbounded,
    /// So long.
    AtMost(Duration),
}

/// Start, stop, readiness.
#[derive(Debug, Clone, PartialEq)]
pub struct Lifecycle {
    /// `--exit-on-error`: one model that fails to load ends the start.
    pub exit_on_error: bool,
    /// `--strict-readiness`: ready only when every model asked for at the start is.
    pub strict_readiness: bool,
    /// `--exit-timeout-secs`: from the signal to the end, all steps together.
    pub exit_timeout: Duration,
    /// `--drain-delay-secs`: from the signal to the moment that ports close; not ready, still serving.
    /// Part of `exit_timeout`.
    pub drain_delay: Duration,
}

impl Lifecycle {
    /// How long what runs may go on when nothing new is accepted any more, so that there is time to write what becomes
    /// of it.
    pub fn patience(&self) -> Duration {
        self.exit_timeout.saturating_sub(self.drain_delay).mul_f64(0.8)
    }
}

/// Which lines are logged, how, and where to.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// `--log-verbose`: 0 nothing, 1 our own debug lines, 2 and more those of libraries.
    pub verbose: u32,
    /// `--log-info`.
    pub info: bool,
    /// `--log-warning`.
    pub warning: bool,
    /// `--log-error`.
    pub error: bool,
    /// `--log-format`.
    pub format: LogFormat,
    /// `--log-requests`: one line for each inference request.
    pub requests: bool,
    /// `--log-file`: takes every line; `None` for standard output, and standard error for warnings and
    /// errors.
    pub file: Option<PathBuf>,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level, message, `name=value`.
    Text,
    /// One JSON object.
    Json,
    /// Triton's: `I0102 03:04:05.678901 123 file.rs:45] "message"`.
    Default,
    /// Triton's other one: `2026-01-02T03:04:05Z I 123 file.rs:45] "message"`.
    Iso8601,
}

impl LogFormat {
    /// All of them.
    pub const ALL: [LogFormat; 4] =
        [LogFormat::Text, LogFormat::Json, LogFormat::Default, LogFormat::Iso8601];

    /// Its name, as operators and clients give it.
    pub const fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
            LogFormat::Default => "default",
            LogFormat::Iso8601 => "ISO8601",
        }
    }

    /// The format of that name, in any case.
    pub fn named(name: &str) -> Option<LogFormat> {
        LogFormat::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name))
    }
}
