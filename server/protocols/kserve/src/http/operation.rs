//! What requests of KServe v2 ask for, and the access that each needs.

use std::borrow::Cow;

use hyper::Method;

use frontend::http::address::ModelPath;
use inference::access::{Category, Need};

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation<'a> {
    /// The addresses, in words.
    Addresses,
    Live,
    Ready,
    ServerMetadata,
    /// The names of all models that serve.
    ListModels,
    ModelMetadata(ModelPath<'a>),
    ModelReady(ModelPath<'a>),
    ModelConfig(ModelPath<'a>),
    Infer(ModelPath<'a>),
    // Triton's extensions
    RepositoryIndex,
    LoadModel(ModelPath<'a>),
    UnloadModel(ModelPath<'a>),
    Generate(ModelPath<'a>),
    GenerateStream(ModelPath<'a>),
    /// Statistics of one model, or of all.
    Statistics(Option<ModelPath<'a>>),
    /// Trace settings of one model, or of the server; read or changed.
    TraceSetting(Option<ModelPath<'a>>),
    /// Settings of the log; read or changed.
    Logging,
    SharedMemory(MemoryPath<'a>),
}

impl Operation<'_> {
    /// The access that a request needs for it on every port.
    pub fn need(&self, method: &Method) -> Need {
        let by_method = |category| match *method {
            Method::POST => Need::changing(category),
            _ => Need::reading(category),
        };
        match self {
            Operation::Live | Operation::Ready | Operation::ModelReady(_) => {
                Need::reading(Category::Health)
            }
            Operation::Addresses
            | Operation::ServerMetadata
            | Operation::ListModels
            | Operation::ModelMetadata(_) => Need::reading(Category::Metadata),
            Operation::ModelConfig(_) => Need::reading(Category::ModelConfig),
            Operation::Infer(_) | Operation::Generate(_) | Operation::GenerateStream(_) => {
                Need::reading(Category::Inference)
            }
            Operation::Statistics(_) => Need::reading(Category::Statistics),
            Operation::TraceSetting(_) => by_method(Category::Trace),
            Operation::Logging => by_method(Category::Logging),
            Operation::SharedMemory(_) => by_method(Category::SharedMemory),
            Operation::RepositoryIndex => Need::reading(Category::ModelRepository),
            Operation::LoadModel(_) | Operation::UnloadModel(_) => {
                Need::changing(Category::ModelRepository)
            }
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
