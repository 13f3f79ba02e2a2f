//! What holds on the addresses of other servers of texts.

use std::sync::Arc;

use configuration::{
    Flag, Sources,
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("served-model-name", "", "What replies at /v1/embeddings and /info call the model, where one model takes texts. Default: its name").named("NAME"),
    Flag::boolean("auto-truncate", "true", "Cut texts that are too long, on the addresses of OpenAI and of Text Embeddings Inference, where a request does not say"),
    Flag::boolean("tei-root", "false", "At / and /invocations take and give what Text Embeddings Inference does: true in its place"),
    Flag::value("tei-batch-status", "422", "The status of a request of too many texts on the addresses of Text Embeddings Inference: 422, or 413 as its documents have it").named("STATUS"),
];

/// What holds on those addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSettings {
    /// `--served-model-name`: what replies call the only model; `None` for its name.
    pub served_model_name: Option<Arc<str>>,
    /// `--auto-truncate`: are texts that are too long cut?
    pub truncates: bool,
    /// `--tei-root`: are `/` and `/invocations` those of Text Embeddings Inference?
    pub tei_root: bool,
    /// `--tei-batch-status`: the status of a request of too many texts there.
    pub tei_batch_status: u16,
}

/// Reads it.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> TextSettings {
    TextSettings {
        served_model_name: sources.read("served-model-name", value::text, problems).map(Into::into),
        truncates: sources.read("auto-truncate", value::boolean, problems).unwrap_or(true),
        tei_root: sources.read("tei-root", value::boolean, problems).unwrap_or(false),
        tei_batch_status: sources.read("tei-batch-status", batch_status, problems).unwrap_or(422),
    }
}

fn batch_status(text: &str) -> Parse<u16> {
    match text {
        "422" => Ok(422),
        "413" => Ok(413),
        _ => Err("413 or 422".to_owned()),
    }
}
