//! Rankings of documents by a query, as clients of Cohere, Jina, infinity, vLLM and Text Embeddings Inference ask for
//! them.
//!
//! Sources: <https://docs.cohere.com/reference/rerank>, <https://jina.ai/reranker>,
//! <https://huggingface.github.io/text-embeddings-inference/>.

mod documents;
mod error;
mod ranking;
mod reply;
mod request;
mod score;

pub use error::error_body;
pub use reply::{RerankFormat, encode};
pub use request::{decode_documents, decode_texts, decode_v1, decode_v2};
pub use score::{ScoreFormat, decode as decode_score, encode as encode_score};
