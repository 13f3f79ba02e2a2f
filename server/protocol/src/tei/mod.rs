//! The bodies of Text Embeddings Inference. Source: <https://huggingface.github.io/text-embeddings-inference/>.

mod embed;
mod error;
mod inputs;

pub use embed::{EmbedFormat, decode as decode_embed, encode as encode_embed};
pub use error::{ErrorType, error_body};
