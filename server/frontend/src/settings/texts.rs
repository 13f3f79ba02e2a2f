//! What holds on the addresses of other servers of texts.

use std::sync::Arc;

use configuration::{Flag, Sources, value};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("served-model-name", "", "What replies at /v1/embeddings and /info call the model, where one model takes texts. Default: its name"),
    Flag::value("auto-truncate", "true", "Cut texts that are too long, on the addresses of OpenAI and of Text Embeddings Inference, where a request does not say"),
];

/// What holds on those addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSettings {
    /// `--served-model-name`: what replies call the only model; `None` for its name.
    pub served_model_name: Option<Arc<str>>,
    /// `--auto-truncate`: are texts that are too long cut?
    pub truncates: bool,
}

/// Reads it.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> TextSettings {
    TextSettings {
        served_model_name: sources.read("served-model-name", value::text, problems).map(Into::into),
        truncates: sources.read("auto-truncate", value::boolean, problems).unwrap_or(true),
    }
}
