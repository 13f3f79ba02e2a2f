//! The bodies of Text Embeddings Inference. Source: <https://huggingface.github.io/text-embeddings-inference/>.

pub mod embed;
mod error;
pub mod info;
mod inputs;
pub mod per_token;
pub mod predict;
pub mod ranker;
mod results;
pub mod similarity;
pub mod tokens;
pub mod vertex;

pub use error::{ErrorType, error_body};
