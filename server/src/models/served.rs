//! A model version that serves: everything that its requests need, in one place.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{config::ModelConfig, raw};
use crate::{error::Error, metrics::ModelMetrics, schedule::Scheduler, signature::Signature};

/// One loaded version of a model. Whoever holds it may use it, also after it has been replaced.
pub struct ServedModel {
    /// What clients see.
    pub signature: Arc<Signature>,
    /// The completed configuration.
    pub config: ModelConfig,
    /// The same as JSON, as clients ask for it.
    pub config_json: Bytes,
    /// The same as a message.
    pub config_message: raw::ModelConfig,
    /// Where its requests go.
    pub engine: Engine,
    /// Its counters.
    pub metrics: ModelMetrics,
}

/// What answers a model's requests.
pub enum Engine {
    /// Instances of an engine, behind a queue.
    Instances(Scheduler),
}

impl ServedModel {
    /// The `platform` that metadata show: the configured one, else the engine's name.
    pub fn platform(&self) -> &str {
        if self.config.platform.is_empty() { &self.config.backend } else { &self.config.platform }
    }

    /// Would a request that came now be refused? Cheap enough to ask before its body is read.
    ///
    /// # Errors
    /// [`Error::Overloaded`] or [`Error::ShuttingDown`].
    pub fn admit(&self) -> Result<(), Error> {
        match &self.engine {
            Engine::Instances(scheduler) => scheduler.admit(),
        }
    }

    /// Most batches that run at once.
    pub fn instances(&self) -> usize {
        match &self.engine {
            Engine::Instances(scheduler) => scheduler.instances(),
        }
    }

    /// From now on nothing waits for company.
    pub(super) fn hurry(&self) {
        match &self.engine {
            Engine::Instances(scheduler) => scheduler.hurry(),
        }
    }

    /// Takes no more requests. What waits is still run.
    pub(super) fn close(&self) {
        match &self.engine {
            Engine::Instances(scheduler) => scheduler.close(),
        }
    }

    /// Waits until nothing runs any more, after [`ServedModel::close`]. Blocking.
    ///
    /// Returns the number of threads that were still running after `patience`.
    pub(super) fn wait_closed(&self, patience: Duration) -> usize {
        match &self.engine {
            Engine::Instances(scheduler) => scheduler.wait_closed(patience),
        }
    }
}
