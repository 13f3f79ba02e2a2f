//! What clients of servers of texts ask.

use std::sync::Arc;

pub use embeddings::{Embeddings as Texts, settings};

/// Their addresses.
pub fn texts(settings: settings::TextSettings) -> Texts {
    Texts { settings: Arc::new(settings) }
}
