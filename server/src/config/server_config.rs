//! The result: what a server is made from. Values have units in their types; nothing is left to parse.

use super::{engines::Engines, lifecycle::Lifecycle, startup::Startup};
use configuration::Notice;
use frontend::settings::{
    AccessSettings, AwsFacade, ClientSettings, EmfSettings, Grpc, Hosting, HttpTls, Limits,
    Listeners, SageMakerSettings, SessionSettings, VertexAi,
};
use inference::trace::TraceConfig;
use machine::gpus::Visibility;
use models::{
    cache::CacheSettings,
    settings::{ModelControl, ModelDefaults, Repository},
    stores::StoreSettings,
};
use schedule::{SchedulingSettings, ratelimit::Supply};
use telemetry::{capture::CaptureSettings, logging::LogSettings, metrics::MetricsSettings};

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
    pub access: AccessSettings,
    /// TLS of the HTTP ports; `None` where they are plain.
    pub tls: Option<HttpTls>,
    /// How requests wait and run.
    pub scheduling: SchedulingSettings,
    /// Resources that instances share; `None` where they are not looked at.
    pub rate_limit: Option<Vec<Supply>>,
    /// `--cache-config`: where answers are kept; `None` for nowhere.
    pub cache: Option<CacheSettings>,
    /// How to start, stop, and call oneself ready.
    pub lifecycle: Lifecycle,
    /// The routes of the SageMaker port.
    pub sagemaker: SageMakerSettings,
    /// Stateful sessions there; `None` where they are off.
    pub sessions: Option<SessionSettings>,
    /// What clients may do beside sending requests one by one.
    pub clients: ClientSettings,
    /// The addresses of SageMaker's runtime; `None` where they are off.
    pub aws: Option<AwsFacade>,
    /// How a hosting platform is answered beside inference.
    pub hosting: Hosting,
    /// What ends a start on a hosting platform.
    pub startup: Startup,
    /// The routes of the Vertex AI port; `None` where it is off.
    pub vertex_ai: Option<VertexAi>,
    /// Which metrics are shown.
    pub metrics: MetricsSettings,
    /// `--emf`: metrics as lines on standard output; `None` where there are none.
    pub emf: Option<EmfSettings>,
    /// `--data-capture-dir`: which invocations are written down; `None` where none are.
    pub capture: Option<CaptureSettings>,
    /// `CUDA_VISIBLE_DEVICES` and the like.
    pub gpu_visibility: Visibility,
    /// Where log lines go, and which.
    pub log: LogSettings,
    /// Which requests are traced, and where the traces go.
    pub trace: TraceConfig,
    /// Where the engines find what they load.
    pub engines: Engines,
    /// Lines for the log: foreign variables that were applied, options without effect.
    pub notices: Vec<Notice>,
}
