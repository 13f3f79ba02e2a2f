//! The routes: the operation of an address, the protocol that it belongs to, and the access that it needs.

use std::borrow::Cow;

use hyper::Method;

use inference::{
    access::{Category, Need},
    task::Task,
};
use protocol::tfs;

/// A model from an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPath<'a> {
    /// Name of the model, percent-decoded.
    pub name: Cow<'a, str>,
    /// The version, where the address names one.
    pub version: Option<u64>,
}

/// The operation of an address and a method.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Route<'a> {
    /// The addresses, in words.
    Addresses,
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
    // Triton's extensions of KServe v2
    Generate(ModelPath<'a>),
    GenerateStream(ModelPath<'a>),
    /// Statistics of one model, or of all.
    Statistics(Option<ModelPath<'a>>),
    /// Trace settings of one model, or of the server; read or changed.
    TraceSetting(Option<ModelPath<'a>>),
    /// Settings of the log; read or changed.
    Logging,
    SharedMemory(MemoryPath<'a>),
    // TensorFlow Serving
    Apply(tfs::Method, VersionPath<'a>),
    ModelStatus(VersionPath<'a>),
    TensorFlowMetadata(VersionPath<'a>),
    /// What clients of text models of other servers ask for.
    Pipeline(PipelineRoute<'a>),
    /// An address of a hosting platform.
    Platform(PlatformRoute<'a>),
    // Prometheus
    Metrics,
    /// Metrics with TensorFlow Serving's names.
    TensorFlowMetrics,
}

/// The operation of a hosting platform's address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PlatformRoute<'a> {
    // SageMaker
    Ping,
    Invocations,
    /// Invocations over a WebSocket.
    InvocationsStream,
    ExecutionParameters,
    MultiModel(MultiModelPath<'a>),
    // MLflow
    Version,
    // Vertex AI
    VertexHealth,
    /// Inference on that model, or on the model for requests without a name.
    VertexInfer(Option<ModelPath<'a>>),
}

impl<'a> From<PlatformRoute<'a>> for Route<'a> {
    fn from(route: PlatformRoute<'a>) -> Route<'a> {
        Route::Platform(route)
    }
}

/// What clients of text models of other servers ask for, and the model where the address names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineRoute<'a> {
    /// What is asked for.
    pub operation: TextOperation,
    /// The model; `None` where the body, a header or the task decides.
    pub model: Option<ModelPath<'a>>,
}

/// An operation on a model that takes texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TextOperation {
    // OpenAI
    Embeddings,
    ListModels,
    // Text Embeddings Inference
    Embed,
    EmbedAll,
    EmbedSparse,
    Predict,
    Similarity,
    Tokenize,
    Decode,
    Info,
    Vertex,
    /// Also as Jina's clients say it.
    Rerank,
    // Cohere, Jina
    RerankV1,
    RerankV2,
    // infinity
    Classify,
    // vLLM
    Score,
    /// A pipeline of Hugging Face's hub, of that task or of the model's own.
    Hub(Option<Task>),
}

/// A family of addresses: a label of metrics, and the dialect of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Family {
    KServe,
    TensorFlowServing,
    SageMaker,
    MultiModel,
    OpenAi,
    TextEmbeddingsInference,
    Rerank,
    HuggingFace,
    Metrics,
}

impl Family {
    /// The family of an address without a route.
    pub fn of(path: &str) -> Option<Family> {
        is_below(path).then_some(Family::TensorFlowServing)
    }
}

impl Route<'_> {
    /// The family of this route, and the access that a request needs for it on every port.
    pub fn family_and_need(&self, method: &Method) -> (Family, Need) {
        let reading = Need::reading;
        let by_method = |category| match *method {
            Method::POST => Need::changing(category),
            _ => Need::reading(category),
        };
        match self {
            Route::Live | Route::Ready | Route::ModelReady(_) => {
                (Family::KServe, reading(Category::Health))
            }
            Route::Addresses | Route::ServerMetadata | Route::ModelMetadata(_) => {
                (Family::KServe, reading(Category::Metadata))
            }
            Route::ModelConfig(_) => (Family::KServe, reading(Category::ModelConfig)),
            Route::Infer(_) | Route::Generate(_) | Route::GenerateStream(_) => {
                (Family::KServe, reading(Category::Inference))
            }
            Route::Statistics(_) => (Family::KServe, reading(Category::Statistics)),
            Route::TraceSetting(_) => (Family::KServe, by_method(Category::Trace)),
            Route::Logging => (Family::KServe, by_method(Category::Logging)),
            Route::SharedMemory(_) => (Family::KServe, by_method(Category::SharedMemory)),
            Route::RepositoryIndex => (Family::KServe, reading(Category::ModelRepository)),
            Route::LoadModel(_) | Route::UnloadModel(_) => {
                (Family::KServe, Need::changing(Category::ModelRepository))
            }
            Route::ModelStatus(_) | Route::TensorFlowMetadata(_) => {
                (Family::TensorFlowServing, reading(Category::Metadata))
            }
            Route::Apply(..) => (Family::TensorFlowServing, reading(Category::Inference)),
            Route::Pipeline(route) => route.operation.family_and_need(),
            Route::Platform(route) => route.family_and_need(),
            Route::Metrics | Route::TensorFlowMetrics => {
                (Family::Metrics, reading(Category::Metrics))
            }
        }
    }
}

impl TextOperation {
    /// The family of this operation, and the access that a request needs for it on every port.
    pub fn family_and_need(self) -> (Family, Need) {
        match self {
            TextOperation::Embeddings | TextOperation::Classify | TextOperation::Score => {
                (Family::OpenAi, Need::reading(Category::Inference))
            }
            TextOperation::Hub(_) => (Family::HuggingFace, Need::reading(Category::Inference)),
            TextOperation::RerankV1 | TextOperation::RerankV2 => {
                (Family::Rerank, Need::reading(Category::Inference))
            }
            TextOperation::ListModels => (Family::OpenAi, Need::reading(Category::Metadata)),
            TextOperation::Embed
            | TextOperation::Rerank
            | TextOperation::EmbedAll
            | TextOperation::EmbedSparse
            | TextOperation::Predict
            | TextOperation::Similarity
            | TextOperation::Tokenize
            | TextOperation::Vertex
            | TextOperation::Decode => {
                (Family::TextEmbeddingsInference, Need::reading(Category::Inference))
            }
            TextOperation::Info => {
                (Family::TextEmbeddingsInference, Need::reading(Category::Metadata))
            }
        }
    }
}

impl PlatformRoute<'_> {
    /// The family of this route, and the access that a request needs for it on every port.
    pub fn family_and_need(&self) -> (Family, Need) {
        let reading = Need::reading;
        match self {
            PlatformRoute::Ping => (Family::SageMaker, reading(Category::Health)),
            PlatformRoute::Version | PlatformRoute::ExecutionParameters => {
                (Family::SageMaker, reading(Category::Metadata))
            }
            PlatformRoute::Invocations | PlatformRoute::InvocationsStream => {
                (Family::SageMaker, reading(Category::Inference))
            }
            PlatformRoute::MultiModel(path) => (Family::MultiModel, path.need()),
            PlatformRoute::VertexHealth => (Family::KServe, reading(Category::Health)),
            PlatformRoute::VertexInfer(_) => (Family::KServe, reading(Category::Inference)),
        }
    }
}

/// The kind of shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Shared memory objects of the system.
    System,
    /// Memory of GPUs.
    Cuda,
}

/// The operation on regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MemoryAction {
    Status,
    Register,
    Unregister,
}

/// A region, or all of them, from an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPath<'a> {
    /// The kind of memory.
    pub kind: MemoryKind,
    /// The region's name, percent-decoded; `None` for all regions, and never for [`MemoryAction::Register`].
    pub region: Option<Cow<'a, str>>,
    /// The operation.
    pub action: MemoryAction,
}

/// An operation on the models of a multi-model endpoint; names are percent-decoded.
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
    /// The access that a request needs for this operation.
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

/// A model and a choice of its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionPath<'a> {
    /// Name of the model, percent-decoded.
    pub name: Cow<'a, str>,
    /// The choice of the version.
    pub version: VersionChoice<'a>,
}

/// A choice among the versions of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionChoice<'a> {
    /// No particular one: the highest, or all.
    Any,
    /// The version of that number.
    Number(u64),
    /// The version that has this label at present, percent-decoded.
    Label(Cow<'a, str>),
}

/// Does the path lie below `/v1/models`?
pub fn is_below(path: &str) -> bool {
    let mut parts = path.strip_prefix('/').unwrap_or(path).split('/');
    let mut is = |word: &str| parts.next().is_some_and(|it| it.eq_ignore_ascii_case(word));
    is("v1") && is("models")
}
