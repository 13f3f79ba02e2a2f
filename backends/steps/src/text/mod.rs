//! Text to tokens and back.

mod encoded;
mod limits;
mod prompt;
#[cfg(feature = "pipelines")]
mod targets;
mod template;
#[cfg(feature = "pipelines")]
mod tokenize;
mod truncate;

pub use encoded::{Detail, Encode, Encoded, Encoding};
pub use limits::TextLimits;
pub use prompt::Prompts;
#[cfg(feature = "pipelines")]
pub(crate) use targets::target_ids;
#[cfg(feature = "pipelines")]
pub use tokenize::Tokenizer;
pub use truncate::{Strategy, Truncation};
