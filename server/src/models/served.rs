//! A model version that serves: everything that its requests need, in one place.

use std::sync::Arc;

use bytes::Bytes;

use super::config::ModelConfig;
use crate::{metrics::ModelMetrics, schedule::Scheduler, signature::Signature};

/// One loaded version of a model. Whoever holds it may use it, also after it has been replaced.
pub struct ServedModel {
    /// What clients see.
    pub signature: Arc<Signature>,
    /// The completed configuration.
    pub config: ModelConfig,
    /// The same as JSON, as clients ask for it.
    pub config_json: Bytes,
    /// Where its requests go.
    pub scheduler: Scheduler,
    /// Its counters.
    pub metrics: ModelMetrics,
}

impl ServedModel {
    /// The `platform` that metadata show: the configured one, else the engine's name.
    pub fn platform(&self) -> &str {
        if self.config.platform.is_empty() { &self.config.backend } else { &self.config.platform }
    }
}
