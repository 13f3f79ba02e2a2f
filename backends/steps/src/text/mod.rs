//! Text to tokens and back.

mod encoded;
mod limits;
mod prompt;
mod targets;
mod template;
mod tokenize;
mod truncate;

pub use encoded::{Detail, Encode, Encoded, Encoding};
pub use limits::TextLimits;
pub use prompt::Prompts;
pub(crate) use targets::target_ids;
pub use tokenize::Tokenizer;
pub use truncate::{Strategy, Truncation};
