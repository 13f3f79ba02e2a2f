//! What clients of servers of texts ask.

pub use embeddings::{Embeddings as Texts, settings};

use std::sync::Arc;

use crate::config::ServerConfig;

/// Their addresses.
pub fn texts(config: &ServerConfig) -> Texts {
    Texts { settings: Arc::new(config.texts.clone()) }
}
