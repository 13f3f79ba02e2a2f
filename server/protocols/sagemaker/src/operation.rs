//! What SageMaker's clients ask for, and the access that each needs.

use std::{borrow::Cow, sync::Arc};

use crate::facade::{Call, Facade};
use inference::access::{Category, Need};

/// What a request asks for.
#[derive(Clone)]
#[allow(missing_docs)]
pub enum Operation<'a> {
    Ping,
    Invocations,
    /// Invocations over a WebSocket.
    InvocationsStream,
    ExecutionParameters,
    MultiModel(MultiModelPath<'a>),
    /// TorchServe's, of a model by its name and version.
    Predictions(Cow<'a, str>, Option<Cow<'a, str>>),
    /// Of MLflow.
    Version,
    /// A call of the local runtime.
    Runtime(Arc<Facade>, Call),
}

impl Operation<'_> {
    /// The access that a request needs for it on every port.
    pub fn need(&self) -> Need {
        match self {
            Operation::Ping => Need::reading(Category::Health),
            Operation::Version | Operation::ExecutionParameters => {
                Need::reading(Category::Metadata)
            }
            Operation::Invocations | Operation::InvocationsStream | Operation::Predictions(..) => {
                Need::reading(Category::Inference)
            }
            Operation::MultiModel(path) => path.need(),
            Operation::Runtime(_, call) => call.need(),
        }
    }
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
    fn need(&self) -> Need {
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
