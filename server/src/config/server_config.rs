//! The whole configuration of a server, which it is made from. Units are in the types; no text is left to parse.

use super::{
    engines::Engines, isolation::Isolation, lifecycle::Lifecycle, recommending::Recommending,
    startup::Startup,
};
use crate::protocols::text_settings::TextSettings;
use ::sagemaker::settings::{
    AwsFacade, EmfSettings, HostingSettings, SageMakerSettings, SessionSettings,
};
use configuration::Notice;
use frontend::settings::{
    AccessSettings, ClientSettings, GrpcOptions, HttpTls, LimitSettings, Listeners,
};
use inference::trace::TraceConfig;
use kserve::settings::VertexAi;
use loading::settings::{ModelControl, ModelDefaults, Repository};
use machine::gpus::Visibility;
use schedule::{SchedulingSettings, ratelimit::Supply};
use serving::cache::CacheSettings;
use sources::SourceSettings;
use stores::StoreSettings;
use telemetry::{capture::CaptureSettings, logging::LogSettings, metrics::MetricsSettings};

/// Everything that a server learns at its start.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// `--id`: the server's name in its metadata.
    pub id: String,
    /// Started by a hosting platform (`serve`, with its port or its model folder): only one port, unless others are
    /// requested.
    pub hosted: bool,
    /// The addresses to listen on.
    pub listeners: Listeners,
    /// Settings of gRPC.
    pub grpc: GrpcOptions,
    /// The models.
    pub repository: Repository,
    /// The model that is to be fetched before the start, whose place is that of `repository.from`; `None` for those
    /// that are here, or in a store.
    pub wanted: Option<sources::Name>,
    /// How it is fetched.
    pub sources: SourceSettings,
    /// When models are loaded and unloaded.
    pub control: ModelControl,
    /// How repositories in object stores are opened.
    pub stores: StoreSettings,
    /// Defaults for models whose configuration sets none.
    pub model_defaults: ModelDefaults,
    /// Limits of what clients may use.
    pub limits: LimitSettings,
    /// Access of clients, by tokens.
    pub access: AccessSettings,
    /// TLS of the HTTP ports; `None` where they are plain.
    pub tls: Option<HttpTls>,
    /// How requests wait and run.
    pub scheduling: SchedulingSettings,
    /// Resources that instances share; `None` where they are ignored.
    pub rate_limit: Option<Vec<Supply>>,
    /// `--cache-config`: the cache of answers; `None` for no cache.
    pub cache: Option<CacheSettings>,
    /// Start, stop and readiness.
    pub lifecycle: Lifecycle,
    /// The routes of the SageMaker port.
    pub sagemaker: SageMakerSettings,
    /// Stateful sessions there; `None` where they are off.
    pub sessions: Option<SessionSettings>,
    /// What clients may do beside sending requests one by one.
    pub clients: ClientSettings,
    /// What holds on the addresses of other servers of texts.
    pub texts: TextSettings,
    /// The addresses of SageMaker's runtime; `None` where they are off.
    pub aws: Option<AwsFacade>,
    /// Jobs of the Inference Recommender; `None` where they are off.
    pub recommending: Option<Recommending>,
    /// The answers that a hosting platform gets beside inference.
    pub hosting: HostingSettings,
    /// What ends a start on a hosting platform.
    pub startup: Startup,
    /// The routes of the Vertex AI port; `None` where it is off.
    pub vertex_ai: Option<VertexAi>,
    /// Which metrics are shown.
    pub metrics: MetricsSettings,
    /// `--emf`: metrics as lines on standard output; `None` where there are none.
    pub emf: Option<EmfSettings>,
    /// `--data-capture-dir`: which invocations are captured; `None` where none are.
    pub capture: Option<CaptureSettings>,
    /// `CUDA_VISIBLE_DEVICES` and the like.
    pub gpu_visibility: Visibility,
    /// The level and the target of log lines.
    pub log: LogSettings,
    /// Which requests are traced, and where the traces go.
    pub trace: TraceConfig,
    /// Where the engines find their libraries.
    pub engines: Engines,
    /// Which models run in processes of their own.
    pub isolation: Isolation,
    /// Lines for the log: variables of other servers that were applied, and options without effect.
    pub notices: Vec<Notice>,
}
