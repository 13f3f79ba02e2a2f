//! A model version that serves: everything that its requests need, in one place.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;

use crate::{
    config::{model::ModelConfig, raw},
    ensemble::Ensemble,
    lifecycle::scratch_dir::ScratchDir,
    load::content_hash::ContentHash,
};
use inference::{error::Error, signature::Signature};
use schedule::{Scheduler, sequence::SequenceScheduler};
use telemetry::metrics::ModelMetrics;

/// One loaded version of a model. Whoever holds it may use it, also after it has been replaced.
pub struct ServedModel {
    /// What clients see.
    pub signature: Arc<Signature>,
    /// What people call it: its name, unless that is a key.
    pub shown_name: Arc<str>,
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
    /// What sets its answers apart from those of any other model, also of the same name and version.
    pub content_hash: ContentHash,
    /// When it was last asked for.
    pub(crate) used: LastUsed,
    /// Memory that it takes, as far as it was measured; 0 where there is no budget for it.
    pub(crate) bytes: u64,
    /// Files that are only this model's, and go with it. Last, since instances may read them.
    pub(crate) files: Option<Arc<ScratchDir>>,
}

/// When a model was last asked for, in milliseconds since the server began to count; only where models are
/// unloaded for want of use.
#[derive(Debug, Default)]
pub(crate) struct LastUsed(AtomicU64);

impl LastUsed {
    /// It is asked for now. Writes at most once in a millisecond.
    pub(crate) fn now(&self, milliseconds: u64) {
        if self.0.load(Relaxed) != milliseconds {
            self.0.store(milliseconds, Relaxed);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What answers a model's requests.
pub enum Engine {
    /// Instances of an engine, behind a queue.
    Instances(Arc<Scheduler>),
    /// Instances of an engine, on which sequences of requests have their seats.
    Sequences(SequenceScheduler),
    /// Other models.
    Ensemble(Box<Ensemble>),
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
            Engine::Sequences(scheduler) => scheduler.admit(),
            Engine::Ensemble(ensemble) => ensemble.admit(),
        }
    }

    /// Most batches that run at once.
    pub fn instances(&self) -> usize {
        match &self.engine {
            Engine::Instances(scheduler) => scheduler.instances(),
            Engine::Sequences(scheduler) => scheduler.instances(),
            // Its members have instances; what bounds it is not known here.
            Engine::Ensemble(_) => 1,
        }
    }

    /// Do both answer with the same instances?
    pub(crate) fn shares_engine(&self, other: &ServedModel) -> bool {
        match (&self.engine, &other.engine) {
            (Engine::Instances(one), Engine::Instances(another)) => Arc::ptr_eq(one, another),
            // Only instances behind a queue are ever handed on.
            _ => false,
        }
    }

    /// Does nobody but whoever asks hold the model, or what it was before its instances were changed in place?
    /// Requests that began then still go to the same engine.
    pub(crate) fn is_free(model: &Arc<ServedModel>) -> bool {
        let shared = match &model.engine {
            Engine::Instances(scheduler) => Arc::strong_count(scheduler),
            Engine::Sequences(_) | Engine::Ensemble(_) => 1,
        };
        Arc::strong_count(model) == 1 && shared == 1
    }

    /// Are there sequences that wait for their next request, which would not find them elsewhere?
    pub(crate) fn has_open_sequences(&self) -> bool {
        match &self.engine {
            Engine::Sequences(scheduler) => scheduler.has_open(),
            Engine::Instances(_) | Engine::Ensemble(_) => false,
        }
    }

    /// From now on nothing waits for company.
    pub(crate) fn hurry(&self) {
        match &self.engine {
            Engine::Instances(scheduler) => scheduler.hurry(),
            Engine::Sequences(scheduler) => scheduler.hurry(),
            Engine::Ensemble(_) => {}
        }
    }

    /// Takes no more requests. What waits is still run.
    pub(crate) fn close(&self) {
        match &self.engine {
            Engine::Instances(scheduler) => scheduler.close(),
            Engine::Sequences(scheduler) => scheduler.close(),
            Engine::Ensemble(_) => {}
        }
    }

    /// Drops the instances, after [`ServedModel::wait_closed`].
    pub(crate) fn release(&self) {
        match &self.engine {
            Engine::Instances(scheduler) => scheduler.release(),
            Engine::Sequences(scheduler) => scheduler.release(),
            Engine::Ensemble(_) => {}
        }
    }

    /// Waits until nothing runs any more, after [`ServedModel::close`]. Blocking.
    ///
    /// Returns the number of threads that were still running after `patience`.
    pub(crate) fn wait_closed(&self, patience: Duration) -> usize {
        match &self.engine {
            Engine::Instances(scheduler) => scheduler.wait_closed(patience),
            Engine::Sequences(scheduler) => scheduler.wait_closed(patience),
            Engine::Ensemble(_) => 0,
        }
    }
}
