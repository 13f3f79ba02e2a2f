//! What clients of servers of texts ask for, and what follows from that: their family, and the access that they need.

use frontend::http::address::ModelPath;
use inference::{
    access::{Category, Need},
    task::Task,
};
use telemetry::metrics::Protocol as Label;

/// What clients of text models of other servers ask for, and the model where the address names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked<'a> {
    /// What is asked for.
    pub operation: Operation,
    /// The model; `None` where the body, a header or the task decides.
    pub model: Option<ModelPath<'a>>,
}

/// An operation on a model that takes texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    // OpenAI
    Embeddings,
    ListModels,
    /// Chats and completions, which no model here does.
    Generate,
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
    /// What the model does, at the addresses that do not say it.
    ByTask,
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

/// A family of clients: it has errors of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// OpenAI's, infinity's, vLLM's.
    OpenAi,
    /// Text Embeddings Inference's.
    TextEmbeddingsInference,
    /// Cohere's and Jina's.
    Rerank,
    /// Those of Hugging Face's hub.
    HuggingFace,
}

impl Family {
    /// As metrics name it.
    pub fn label(self) -> Label {
        match self {
            Family::OpenAi => Label::OpenAi,
            Family::TextEmbeddingsInference => Label::TextEmbeddingsInference,
            Family::Rerank => Label::Rerank,
            Family::HuggingFace => Label::HuggingFace,
        }
    }
}

impl Operation {
    /// The family of this operation, and the access that a request needs for it on every port.
    pub fn family_and_need(self) -> (Family, Need) {
        match self {
            Operation::Embeddings
            | Operation::Generate
            | Operation::Classify
            | Operation::Score => (Family::OpenAi, Need::reading(Category::Inference)),
            Operation::Hub(_) => (Family::HuggingFace, Need::reading(Category::Inference)),
            Operation::RerankV1 | Operation::RerankV2 => {
                (Family::Rerank, Need::reading(Category::Inference))
            }
            Operation::ListModels => (Family::OpenAi, Need::reading(Category::Metadata)),
            Operation::Embed
            | Operation::Rerank
            | Operation::EmbedAll
            | Operation::EmbedSparse
            | Operation::Predict
            | Operation::Similarity
            | Operation::Tokenize
            | Operation::Vertex
            | Operation::ByTask
            | Operation::Decode => {
                (Family::TextEmbeddingsInference, Need::reading(Category::Inference))
            }
            Operation::Info => (Family::TextEmbeddingsInference, Need::reading(Category::Metadata)),
        }
    }
}
