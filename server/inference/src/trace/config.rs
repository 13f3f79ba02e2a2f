//! Which requests are traced, and where the traces go, as the operator says it.

use std::{path::PathBuf, time::Duration};

/// Tracing, as the server starts with it. Clients may change levels, rate and count, never where traces go.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceConfig {
    /// `level=`: what is traced.
    pub levels: TraceLevels,
    /// `rate=`: one request in so many; 0 for those alone whose client asks for it.
    pub rate: u64,
    /// `count=`: traces to be made; `None` for any number.
    pub count: Option<u64>,
    /// `mode=`: where they go.
    pub mode: TraceMode,
}

/// What is traced of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceLevels {
    /// When what happened.
    pub timestamps: bool,
    /// The tensors.
    pub tensors: bool,
}

impl TraceLevels {
    /// Is anything traced?
    pub fn are_on(self) -> bool {
        self.timestamps || self.tensors
    }
}

/// Where traces go.
#[derive(Debug, Clone, PartialEq)]
pub enum TraceMode {
    /// Into a file of JSON.
    Triton {
        /// `file=`; `None` where there is none, and so are no traces.
        file: Option<PathBuf>,
        /// `log-frequency=`: traces in one of the files `<file>.0`, `<file>.1`; 0 for all in `<file>`.
        log_frequency: u64,
    },
    /// To a collector of OpenTelemetry.
    OpenTelemetry(Collector),
}

/// A collector, and how spans are sent to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Collector {
    /// As it was given.
    pub url: String,
    /// A name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Begins with a slash.
    pub path: String,
    /// `OTEL_EXPORTER_OTLP_HEADERS`: sent along, names and values.
    pub headers: Vec<(String, String)>,
    /// `resource=`: what the spans say of this server.
    pub resource: Vec<(String, String)>,
    /// `bsp_max_queue_size=`: spans that wait to be sent; above that they are dropped.
    pub max_queue: usize,
    /// `bsp_schedule_delay=`: longest that one waits.
    pub schedule_delay: Duration,
    /// `bsp_max_export_batch_size=`: spans that are sent at once.
    pub max_batch: usize,
}
