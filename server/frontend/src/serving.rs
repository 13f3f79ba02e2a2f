//! What serves, whatever the protocol: the models and what is done with them, budgets, counters, the way to the
//! end. Every front has a clone of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    drain::Drain,
    exchange::{failure::RequestIds, offload::ControlThreads},
    memory::SharedMemory,
};
use inference::{error::Error, limits::Budget, trace::Tracing};
use models::{Control, ModelManager, ServedModel, infer::Inference};
use telemetry::{logging::LogControl, metrics::Metrics};

/// The version in the server's metadata: that of Triton whose contract it keeps, by which clients choose what to use,
/// and behind it muster's own.
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

/// Everything that answering takes. Each I/O thread has a clone of its own.
#[derive(Clone)]
pub struct Serving {
    /// The models, to look them up.
    pub models: Arc<ModelManager>,
    /// The models, to load and unload them.
    pub control: Arc<Control>,
    /// Where `control` is asked for what takes long.
    pub control_threads: ControlThreads,
    /// Names for requests whose clients gave none.
    pub request_ids: Arc<RequestIds>,
    /// How a request is run on a model.
    pub inference: Inference,
    /// Memory that clients share with the server.
    pub memory: Arc<SharedMemory>,
    /// Which requests are traced.
    pub tracing: Arc<Tracing>,
    /// The log's settings.
    pub log: LogControl,
    /// Counters.
    pub metrics: Metrics,
    /// How far the stop is.
    pub drain: Drain,
    /// Connections that may be open.
    pub connections: Arc<Budget>,
    /// Bytes of bodies and replies that may be in memory.
    pub bytes: Arc<Budget>,
    /// The rest.
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

    /// The model that a request is for, loaded for the purpose where models are loaded on demand; only then is
    /// the `deadline` asked for.
    ///
    /// # Errors
    /// Those of `deadline` and of [`models::OnDemand::model`].
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

    /// When the answer to a request that has just arrived stops being of use: the shorter of what the server
    /// allows and what the client `asked` for.
    pub fn deadline(&self, asked: Option<Duration>) -> Option<Instant> {
        let timeout = self.settings.request_timeout.into_iter().chain(asked).min();
        timeout.and_then(|it| Instant::now().checked_add(it))
    }
}
