//! The observers of invocations: lines of metrics, and data capture. They start before the first request and end
//! after the last.

use std::time::{Duration, Instant};

use super::AppError;
use crate::config::ServerConfig;
use frontend::serving::Serving;
use machine::Machine;
use sagemaker::emf::{Emf, Recorder, Sources};
use telemetry::capture::Capture;

/// The observers that the operator has switched on.
pub(super) struct Observers {
    /// Counts invocations.
    pub(super) recorder: Option<Recorder>,
    /// Captures the data of invocations.
    pub(super) capture: Option<Capture>,
    emf: Option<Emf>,
    started: Instant,
}

impl Observers {
    /// Starts the observers.
    ///
    /// # Errors
    /// When the folder for captured data cannot be made, or the system refuses a thread.
    pub(super) fn start(
        config: &ServerConfig,
        serving: &Serving,
        machine: &Machine,
    ) -> Result<Observers, AppError> {
        let capture = config.capture.as_ref().map(|it| {
            let place = it.dir.display();
            Capture::start(it)
                .map_err(|error| AppError::File(format!("--data-capture-dir '{place}': {error}")))
        });
        let capture = capture.transpose()?;
        let recorder = config.emf.as_ref().map(|_| Recorder::default());
        let emf = config.emf.clone().zip(recorder.clone()).map(|(config, recorder)| {
            let (metrics, models) = (serving.metrics.clone(), serving.models.clone());
            Emf::start(config, Sources { recorder, metrics, models, memory: machine.memory })
        });
        Ok(Observers { recorder, capture, emf: emf.transpose()?, started: Instant::now() })
    }

    /// Records that the server is ready from now on.
    pub(super) fn ready(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.ready(self.started.elapsed());
        }
    }

    /// Has the observers write their data, and waits for that at most for `patience`. Blocking.
    pub(super) fn finish(self, patience: Duration) {
        let until = Instant::now() + patience;
        if let Some(emf) = self.emf {
            emf.finish(patience);
        }
        if let Some(capture) = self.capture {
            capture.finish(until.saturating_duration_since(Instant::now()));
        }
    }
}
