//! What addresses ask for, to which protocol it belongs, and who may.

use std::borrow::Cow;

use hyper::Method;

use inference::access::{Category, Need};
use protocol::tfs;

/// A model as an address names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPath<'a> {
    /// Name of the model, percent-decoded.
    pub name: Cow<'a, str>,
    /// The version, where the address holds one.
    pub version: Option<u64>,
}

/// What an address and a method ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Route<'a> {
    // KServe v2
    Live,
    Ready,
    ServerMetadata,
    ModelMetadata(ModelPath<'a>),
    ModelReady(ModelPath<'a>),
    ModelConfig(ModelPath<'a>),
    Infer(ModelPath<'a>),
    RepositoryIndex,
    LoadModel(ModelPath<'a>),
    UnloadModel(ModelPath<'a>),
    // Triton's extensions of it
    Generate(ModelPath<'a>),
    GenerateStream(ModelPath<'a>),
    /// Of one model, or of all.
    Statistics(Option<ModelPath<'a>>),
    /// Of one model, or of the server; read or changed.
    TraceSetting(Option<ModelPath<'a>>),
    /// Read or changed.
    Logging,
    SharedMemory(MemoryPath<'a>),
    // Vertex AI
    VertexHealth,
    /// Inference on that model, or on the default one.
    VertexInfer(Option<ModelPath<'a>>),
    // TensorFlow Serving
    Apply(tfs::Method, VersionPath<'a>),
    ModelStatus(VersionPath<'a>),
    TensorFlowMetadata(VersionPath<'a>),
    // SageMaker
    Ping,
    Invocations,
    /// Over a WebSocket.
    InvocationsStream,
    ExecutionParameters,
    MultiModel(MultiModelPath<'a>),
    // MLflow
    Version,
    // Prometheus
    Metrics,
    /// With TensorFlow Serving's names.
    TensorFlowMetrics,
}

/// The protocol that a route belongs to, as a label of metrics and as the dialect of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Family {
    KServe,
    TensorFlowServing,
    SageMaker,
    Metrics,
}

impl Family {
    /// The protocol of an address that has no route.
    pub fn of(path: &str) -> Option<Family> {
        is_below(path).then_some(Family::TensorFlowServing)
    }
}

impl Route<'_> {
    /// The protocol that this route belongs to.
    pub fn family(&self) -> Family {
        match self {
            Route::Live
            | Route::Ready
            | Route::ServerMetadata
            | Route::ModelMetadata(_)
            | Route::ModelReady(_)
            | Route::ModelConfig(_)
            | Route::Infer(_)
            | Route::RepositoryIndex
            | Route::LoadModel(_)
            | Route::UnloadModel(_)
            | Route::Generate(_)
            | Route::GenerateStream(_)
            | Route::Statistics(_)
            | Route::TraceSetting(_)
            | Route::Logging
            | Route::SharedMemory(_)
            | Route::VertexHealth
            | Route::VertexInfer(_) => Family::KServe,
            Route::Apply(..) | Route::ModelStatus(_) | Route::TensorFlowMetadata(_) => {
                Family::TensorFlowServing
            }
            Route::Ping
            | Route::Invocations
            | Route::ExecutionParameters
            | Route::InvocationsStream
            | Route::Version
            | Route::MultiModel(_) => Family::SageMaker,
            Route::Metrics | Route::TensorFlowMetrics => Family::Metrics,
        }
    }

    /// What a request must be allowed to come here, on whichever port.
    pub fn need(&self, method: &Method) -> Need {
        let by_method = |category| match *method {
            Method::POST => Need::changing(category),
            _ => Need::reading(category),
        };
        match self {
            Route::Live
            | Route::Ready
            | Route::ModelReady(_)
            | Route::Ping
            | Route::VertexHealth => Need::reading(Category::Health),
            Route::ServerMetadata
            | Route::ModelMetadata(_)
            | Route::ModelStatus(_)
            | Route::TensorFlowMetadata(_)
            | Route::Version
            | Route::ExecutionParameters => Need::reading(Category::Metadata),
            Route::ModelConfig(_) => Need::reading(Category::ModelConfig),
            Route::Infer(_)
            | Route::Generate(_)
            | Route::GenerateStream(_)
            | Route::Apply(..)
            | Route::Invocations
            | Route::InvocationsStream
            | Route::VertexInfer(_) => Need::reading(Category::Inference),
            Route::Statistics(_) => Need::reading(Category::Statistics),
            Route::TraceSetting(_) => by_method(Category::Trace),
            Route::Logging => by_method(Category::Logging),
            Route::SharedMemory(_) => by_method(Category::SharedMemory),
            Route::RepositoryIndex => Need::reading(Category::ModelRepository),
            Route::LoadModel(_) | Route::UnloadModel(_) => {
                Need::changing(Category::ModelRepository)
            }
            Route::MultiModel(path) => path.need(),
            Route::Metrics | Route::TensorFlowMetrics => Need::reading(Category::Metrics),
        }
    }
}

/// Which memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Shared memory objects of the system.
    System,
    /// Memory of GPUs.
    Cuda,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MemoryAction {
    Status,
    Register,
    Unregister,
}

/// A region, or all of them, as an address names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPath<'a> {
    /// Which memory.
    pub kind: MemoryKind,
    /// The region's name, percent-decoded; `None` for all regions, and never for [`MemoryAction::Register`].
    pub region: Option<Cow<'a, str>>,
    /// What is to be done.
    pub action: MemoryAction,
}

/// What is to be done, with which model; names are percent-decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MultiModelPath<'a> {
    Load,
    List,
    Describe(Cow<'a, str>),
    Unload(Cow<'a, str>),
    Invoke(Cow<'a, str>),
}

impl MultiModelPath<'_> {
    /// What a request must be allowed to come here.
    pub(super) fn need(&self) -> Need {
        match self {
            MultiModelPath::Load | MultiModelPath::Unload(_) => {
                Need::changing(Category::ModelRepository)
            }
            MultiModelPath::List | MultiModelPath::Describe(_) => {
                Need::reading(Category::ModelRepository)
            }
            MultiModelPath::Invoke(_) => Need::reading(Category::Inference),
        }
    }
}

/// A model, and which of its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionPath<'a> {
    /// Name of the model, percent-decoded.
    pub name: Cow<'a, str>,
    /// The version.
    pub version: VersionChoice<'a>,
}

/// Which version of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionChoice<'a> {
    /// None in particular: the highest, or all.
    Any,
    /// The one of that number.
    Number(u64),
    /// The one that has this label now, percent-decoded.
    Label(Cow<'a, str>),
}

/// Does the path lie below `/v1/models`?
pub fn is_below(path: &str) -> bool {
    let mut parts = path.strip_prefix('/').unwrap_or(path).split('/');
    let mut is = |word: &str| parts.next().is_some_and(|it| it.eq_ignore_ascii_case(word));
    is("v1") && is("models")
}
