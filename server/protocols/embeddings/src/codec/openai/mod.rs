//! OpenAI's embeddings and list of models, and the form of its errors. Source:
//! <https://platform.openai.com/docs/api-reference/embeddings>.

mod embeddings;
mod error;
mod models;

pub use embeddings::{EmbeddingsFormat, decode, encode};
pub use error::{OpenAiError, error_body};
pub use models::{ListedModel, models};
