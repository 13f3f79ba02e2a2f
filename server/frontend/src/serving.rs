//! The state that all fronts share: the models and the operations on them, budgets, counters, the stage of the stop.
//! Every front has a clone of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    drain::Drain,
    exchange::{failure_lines::FailureLines, offload::ControlThreads, request_id::RequestIds},
    memory::SharedMemory,
    net::footprint::Footprint,
};
use ::serving::{Control, ModelManager, ServedModel, infer::Inference};
use inference::{error::Error, ledger::Ledger, limits::Budget, trace::Tracing};
use telemetry::{logging::LogControl, metrics::Metrics};

/// The version in the server's metadata. It begins with the version of Triton whose contract the server keeps,
/// because clients choose features by it. Muster's own version follows.
pub const VERSION: &str = concat!("2.70.0+muster.", env!("CARGO_PKG_VERSION"));

/// Settings that hold for every protocol.
#[derive(Debug, Clone)]
pub struct ServingSettings {
    /// The server's name in its metadata.
    pub server_name: Arc<str>,
    /// Longest time from a request's head to its answer; `None` for any time.
    pub request_timeout: Option<Duration>,
    /// Is the server ready only when every model is?
    pub strict_readiness: bool,
}

/// Everything that answering a request needs. Each I/O thread has a clone of its own.
#[derive(Clone)]
pub struct Serving {
    /// The table of models, for lookups.
    pub models: Arc<ModelManager>,
    /// The control of models, to load and unload them.
    pub control: Arc<dyn Control>,
    /// The threads for operations of `control` that take long.
    pub control_threads: ControlThreads,
    /// Makes names for requests without a client's name.
    pub request_ids: Arc<RequestIds>,
    /// Which requests that fail have a line in the log.
    pub failure_lines: Arc<FailureLines>,
    /// Runs requests on models.
    pub inference: Inference,
    /// Shared memory that clients have registered.
    pub memory: Arc<SharedMemory>,
    /// Which requests are traced.
    pub tracing: Arc<Tracing>,
    /// The log's settings.
    pub log: LogControl,
    /// Counters.
    pub metrics: Metrics,
    /// The stage of the stop.
    pub drain: Drain,
    /// Limits the bytes of bodies and replies in memory.
    pub bytes: Arc<Budget>,
    /// The memory of connections.
    pub footprint: Arc<Footprint>,
    /// All that clients can cause to be in memory, by its accounts. Those of the two above are among them.
    pub ledger: Ledger,
    /// The settings.
    pub settings: ServingSettings,
}

impl Serving {
    /// Why the server is not ready for inference; `None` when it is.
    pub fn not_ready(&self) -> Option<&'static str> {
        if !self.drain.is_serving() {
            Some("the server is shutting down")
        } else if !self.models.is_started() {
            Some("models are still loading")
        } else if self.settings.strict_readiness && !self.models.all_ready() {
            Some("a model failed to load (see the repository index)")
        } else {
            None
        }
    }

    /// The model that a request is for. Where models are loaded on demand, it is loaded for this; only then is
    /// `deadline` called.
    ///
    /// # Errors
    /// Those of `deadline` and of [`serving::OnDemand::model`].
    pub async fn model(
        &self,
        name: &str,
        version: Option<u64>,
        deadline: impl FnOnce() -> Result<Option<Instant>, Error>,
    ) -> Result<Arc<ServedModel>, Error> {
        match self.control.on_demand() {
            Some(on_demand) => on_demand.model(name, version, deadline()?).await,
            None => self.models.get(name, version),
        }
    }

    /// When the answer to a request that has just arrived becomes useless: after the shorter of the server's limit
    /// and the time that the client `requested`.
    pub fn deadline(&self, requested: Option<Duration>) -> Option<Instant> {
        let timeout = self.settings.request_timeout.into_iter().chain(requested).min();
        timeout.and_then(|it| Instant::now().checked_add(it))
    }
}
