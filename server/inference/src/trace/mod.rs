//! Traces of requests: which are made, and where they go.
//!
//! A front asks [`Tracing::begin`] for each inference request. Mostly there is nothing to do, which is one read of a
//! flag; else the request carries a [`Trace`] that is stamped along its path and goes out when its last clone is
//! dropped: to a file as Triton writes it, to a collector of OpenTelemetry, as a line of the log. That happens on a
//! thread of its own behind a bounded queue, so that no request waits for a disk or a peer.

mod collector;
mod config;
mod file;
mod handle;
mod otlp;
mod outlet;
mod parent;
mod record;
mod request_log;
mod sampler;
mod settings;
mod spans;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;

use crate::error::Error;
use collector::Exporter;
pub use config::{Collector, TraceConfig, TraceLevels, TraceMode};
use file::TraceFiles;
pub use handle::{Sending, Trace, stamp};
use outlet::Outlet;
use parent::Parent;
pub use record::{Moment, Transport};
use record::{Record, Sampled, Spans};
use sampler::Samplers;
pub use settings::TraceSettings;
use settings::TraceState;

/// Why there are no traces.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("--trace-config triton,file='{path}': cannot open it for writing: {source}")]
    File {
        /// The path as given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for traces: {0}")]
    Thread(io::Error),
}

/// Decides which requests are traced, and writes the traces.
#[derive(Debug)]
pub struct Tracing {
    /// Is there anything to do for any request? All that a request reads where there is not.
    active: AtomicBool,
    /// Does each request get its line in the log?
    logs_requests: bool,
    /// The samplers of all models; swapped as a whole when a setting changes.
    samplers: ArcSwap<Samplers>,
    /// Guards the settings while they are read or changed by clients.
    settings: Mutex<TraceState>,
    /// Are spans made, which heed the `traceparent` of a request?
    makes_spans: bool,
    outlet: Option<Outlet>,
    /// Numbers traces, from 1.
    count: AtomicU64,
    /// Names given so far.
    named: AtomicU64,
    /// Names traces and spans: keyed at random, so that no other process makes the same names.
    names: RandomState,
}

impl Default for Tracing {
    /// Nothing is traced, and nothing can be.
    fn default() -> Tracing {
        let mode = TraceMode::Triton { file: None, log_frequency: 0 };
        let config = TraceConfig { levels: TraceLevels::default(), rate: 1000, count: None, mode };
        Tracing::with_outlet(&config, false, None)
    }
}

impl Tracing {
    /// Traces as the configuration says; `logs_requests`: each request gets a line in the log, too.
    ///
    /// # Errors
    /// When the file cannot be opened, or the system refuses a thread.
    pub fn start(config: &TraceConfig, logs_requests: bool) -> Result<Tracing, TraceError> {
        let outlet = match &config.mode {
            TraceMode::Triton { file: None, .. } => None,
            TraceMode::Triton { file: Some(path), log_frequency } => {
                let files = TraceFiles::new(path.clone());
                if config.levels.are_on() {
                    files.check(*log_frequency).map_err(|source| TraceError::File {
                        path: path.display().to_string(),
                        source,
                    })?;
                }
                Some(Outlet::start(Box::new(files), outlet::MOST_TRACES))
            }
            TraceMode::OpenTelemetry(collector) => {
                // A queue for those that have not become spans yet; each becomes several.
                let most = (collector.max_queue / spans::MOST_SPANS).max(1);
                Some(Outlet::start(Box::new(Exporter::new(collector.clone())), most))
            }
        };
        let outlet = outlet.transpose().map_err(TraceError::Thread)?;
        Ok(Tracing::with_outlet(config, logs_requests, outlet))
    }

    fn with_outlet(config: &TraceConfig, logs_requests: bool, outlet: Option<Outlet>) -> Tracing {
        let settings = TraceState::new(config);
        let samplers = Samplers::new(&settings);
        Tracing {
            active: (logs_requests || samplers.are_on()).into(),
            logs_requests,
            samplers: ArcSwap::from_pointee(samplers),
            settings: Mutex::new(settings),
            makes_spans: matches!(config.mode, TraceMode::OpenTelemetry(_)),
            outlet,
            count: AtomicU64::new(0),
            named: AtomicU64::new(0),
            names: RandomState::new(),
        }
    }

    /// The trace of a request to a model that begins to arrive now; `None` where it has none, which is what it costs
    /// one read to find out while nothing is traced. `traceparent` is the header of that name, asked for only where it
    /// counts.
    pub fn begin<'a>(
        &self,
        transport: Transport,
        model: &Arc<str>,
        version: u64,
        traceparent: impl FnOnce() -> Option<&'a str>,
    ) -> Option<Arc<Trace>> {
        let now = self.now()?;
        self.begin_at(now, transport, model, version, traceparent)
    }

    /// The time, where anything is traced: for a front that has to read a request before it knows the model.
    pub fn now(&self) -> Option<Instant> {
        self.active.load(Relaxed).then(Instant::now)
    }

    /// As [`Tracing::begin`], of a request that began to arrive `then`.
    pub fn begin_at<'a>(
        &self,
        then: Instant,
        transport: Transport,
        model: &Arc<str>,
        version: u64,
        traceparent: impl FnOnce() -> Option<&'a str>,
    ) -> Option<Arc<Trace>> {
        let parent = if self.makes_spans { traceparent().and_then(Parent::read) } else { None };
        let sampled = self.sample(model, parent);
        if sampled.is_none() && !self.logs_requests {
            return None;
        }
        let record = Record::new(transport, model.clone(), version);
        let outlet = self.outlet.clone().filter(|_| sampled.is_some());
        let trace = Trace::new(record, sampled, outlet, self.logs_requests);
        trace.stamp_at(Moment::ReceiveStart, then);
        Some(Arc::new(trace))
    }

    /// The trace of a request that a traced one makes inside the server, as an ensemble does; `None` for that of a
    /// request that is not sampled.
    pub fn child(&self, parent: &Trace, model: &Arc<str>, version: u64) -> Option<Arc<Trace>> {
        let of = parent.sampled()?;
        let id = self.next_id();
        let spans = of.spans.as_ref().map(|it| Spans {
            trace: it.trace,
            parent: Some(it.model),
            root: None,
            model: self.span_name(),
        });
        let sampled = Sampled { id, parent_id: Some(of.id), spans, ..of.clone() };
        let record = Record::new(Transport::Inside, model.clone(), version);
        Some(Arc::new(Trace::new(record, Some(sampled), self.outlet.clone(), false)))
    }

    fn sample(&self, model: &str, parent: Option<Parent>) -> Option<Sampled> {
        let samplers = self.samplers.load();
        let sampler = samplers.of(model);
        let values = sampler.values();
        let is_sampled = parent.is_some_and(|it| it.sampled);
        if !values.levels.are_on() || !(is_sampled || sampler.takes()) {
            return None;
        }
        let spans = self.makes_spans.then(|| Spans {
            trace: parent.map_or_else(|| self.trace_name(), |it| it.trace),
            parent: parent.map(|it| it.span),
            root: Some(self.span_name()),
            model: self.span_name(),
        });
        Some(Sampled {
            id: self.next_id(),
            parent_id: None,
            levels: values.levels,
            log_frequency: values.log_frequency,
            spans,
        })
    }

    fn next_id(&self) -> u64 {
        self.count.fetch_add(1, Relaxed) + 1
    }

    fn trace_name(&self) -> [u8; 16] {
        let (high, low) = (self.span_name(), self.span_name());
        let mut name = [0; 16];
        name[..8].copy_from_slice(&high);
        name[8..].copy_from_slice(&low);
        name
    }

    /// Any eight bytes but zeros, which would be no name.
    fn span_name(&self) -> [u8; 8] {
        let number = self.names.hash_one(self.named.fetch_add(1, Relaxed));
        number.max(1).to_be_bytes()
    }

    /// The settings of a model, or those of the server.
    pub fn settings(&self, model: Option<&str>) -> TraceSettings {
        self.shown(&self.lock(), model)
    }

    /// Changes the settings that are given, for a model or the server; `None` goes back to the server's or the
    /// command line's. Answers all settings.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an unknown setting or value, [`Error::Unimplemented`] for one that cannot be
    /// changed; nothing is changed then.
    pub fn update(
        &self,
        model: Option<&str>,
        changes: BTreeMap<String, Option<Vec<String>>>,
    ) -> Result<TraceSettings, Error> {
        let mut settings = self.lock();
        let recounts = settings.update(model, changes)?;
        let samplers = self.samplers.load().renewed(&settings, model, recounts);
        self.active.store(self.logs_requests || samplers.are_on(), Relaxed);
        self.samplers.store(Arc::new(samplers));
        Ok(self.shown(&settings, model))
    }

    fn shown(&self, settings: &TraceState, model: Option<&str>) -> TraceSettings {
        let samplers = self.samplers.load();
        let sampler = model.map_or(samplers.global(), |it| samplers.of(it));
        settings.shown(sampler.values(), sampler.left())
    }

    fn lock(&self) -> MutexGuard<'_, TraceState> {
        // A change is made in full before it is stored.
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until what has been traced so far is written or sent, for so long at most. Blocking.
    pub fn finish(&self, patience: Duration) {
        if let Some(outlet) = &self.outlet {
            outlet.flush(patience);
        }
    }
}

#[cfg(test)]
mod tests;
