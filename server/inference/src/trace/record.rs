//! One trace while its request is under way: what happened when, and to what.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use backend::NamedTensor;

use super::config::TraceLevels;
use super::{outlet::Outlet, request_log};
use crate::{error::Error, timings::Timings};

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Over HTTP.
    Http,
    /// Over gRPC.
    Grpc,
    /// From inside the server.
    Inside,
}

/// What happens to a request, in the order of a request that is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Its head has come.
    ReceiveStart,
    /// Its body has.
    ReceiveEnd,
    /// It is decoded, and accepted.
    RequestStart,
    /// It waits for an instance.
    QueueStart,
    /// An instance takes it, with others or alone.
    ComputeStart,
    /// The engine begins.
    ComputeInputEnd,
    /// The engine is done.
    ComputeOutputStart,
    /// Its outputs are cut out of those of its batch.
    ComputeEnd,
    /// Its response is made.
    ResponseComplete,
    /// The model is done with it.
    RequestEnd,
    /// The encoded answer goes to its connection.
    SendStart,
    /// All of it has gone.
    SendEnd,
}

impl Moment {
    /// Triton's name.
    pub(super) fn name(self, transport: Transport) -> &'static str {
        let of_front = |http, grpc| if transport == Transport::Grpc { grpc } else { http };
        match self {
            Moment::ReceiveStart => of_front("HTTP_RECV_START", "GRPC_WAITREAD_START"),
            Moment::ReceiveEnd => of_front("HTTP_RECV_END", "GRPC_WAITREAD_END"),
            Moment::RequestStart => "REQUEST_START",
            Moment::QueueStart => "QUEUE_START",
            Moment::ComputeStart => "COMPUTE_START",
            Moment::ComputeInputEnd => "COMPUTE_INPUT_END",
            Moment::ComputeOutputStart => "COMPUTE_OUTPUT_START",
            Moment::ComputeEnd => "COMPUTE_END",
            Moment::ResponseComplete => "INFER_RESPONSE_COMPLETE",
            Moment::RequestEnd => "REQUEST_END",
            Moment::SendStart => of_front("HTTP_SEND_START", "GRPC_SEND_START"),
            Moment::SendEnd => of_front("HTTP_SEND_END", "GRPC_SEND_END"),
        }
    }
}

/// Which tensors those are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// As the client gave them.
    QueueInput,
    /// As the engine gets them.
    BackendInput,
    /// As the engine gave them.
    BackendOutput,
}

/// What was decided when the request came.
#[derive(Debug, Clone)]
pub(super) struct Sampled {
    /// The number of the trace.
    pub(super) id: u64,
    /// The number of the trace of which this one is a part.
    pub(super) parent_id: Option<u64>,
    pub(super) levels: TraceLevels,
    /// Traces in one file.
    pub(super) log_frequency: u64,
    /// Names of spans, where there are to be some.
    pub(super) spans: Option<Spans>,
}

/// Names by which spans refer to each other.
#[derive(Debug, Clone)]
pub(super) struct Spans {
    pub(super) trace: [u8; 16],
    /// That of the client, or of the model of which this one is a part.
    pub(super) parent: Option<[u8; 8]>,
    /// That of the request; `None` for one from inside.
    pub(super) root: Option<[u8; 8]>,
    pub(super) model: [u8; 8],
}

/// What happened to one request.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) transport: Transport,
    pub(super) model: Arc<str>,
    pub(super) version: u64,
    pub(super) request_id: Option<Arc<str>>,
    /// Almost in order.
    pub(super) stamps: Vec<(Moment, Instant)>,
    pub(super) tensors: Vec<(Activity, NamedTensor)>,
    pub(super) rows: Option<usize>,
    /// Rows of the whole batch.
    pub(super) batch_rows: Option<usize>,
    /// As the front's protocol has it.
    pub(super) status: Option<u16>,
    pub(super) error: Option<String>,
}

impl Record {
    pub(super) fn new(transport: Transport, model: Arc<str>, version: u64) -> Record {
        Record {
            transport,
            model,
            version,
            request_id: None,
            // As many as there are moments.
            stamps: Vec::with_capacity(12),
            tensors: Vec::new(),
            rows: None,
            batch_rows: None,
            status: None,
            error: None,
        }
    }

    /// When something happened, if it did.
    pub(super) fn at(&self, moment: Moment) -> Option<Instant> {
        self.stamps.iter().find(|it| it.0 == moment).map(|it| it.1)
    }

    /// From one moment to another, if both have been.
    pub(super) fn between(&self, from: Moment, to: Moment) -> Option<Duration> {
        Some(self.at(to)?.saturating_duration_since(self.at(from)?))
    }
}

/// A trace that is over.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) sampled: Sampled,
    pub(super) record: Record,
}

/// The trace of one request. It goes out when it is dropped.
pub struct Trace {
    /// `None` where there is only a line of the log to be written.
    sampled: Option<Sampled>,
    logged: bool,
    outlet: Option<Outlet>,
    /// Guards what has happened so far; held for a note at a time.
    record: Mutex<Record>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("sampled", &self.sampled).finish_non_exhaustive()
    }
}

impl Trace {
    pub(super) fn new(
        record: Record,
        sampled: Option<Sampled>,
        outlet: Option<Outlet>,
        logged: bool,
    ) -> Trace {
        Trace { sampled, logged, outlet, record: Mutex::new(record) }
    }

    pub(super) fn sampled(&self) -> Option<&Sampled> {
        self.sampled.as_ref()
    }

    /// It happens now.
    pub fn stamp(&self, moment: Moment) {
        self.stamp_at(moment, Instant::now());
    }

    /// It happened then.
    pub fn stamp_at(&self, moment: Moment, at: Instant) {
        self.lock().stamps.push((moment, at));
    }

    /// The model has accepted the request then; `id` is the client's name for it.
    pub fn accepted(&self, at: Instant, id: Option<&Arc<str>>, inputs: &[NamedTensor]) {
        let mut record = self.lock();
        record.stamps.push((Moment::RequestStart, at));
        record.request_id = id.cloned();
        self.keep(&mut record, Activity::QueueInput, inputs);
    }

    /// It goes to its engine now, with these inputs.
    pub fn queued(&self, inputs: &[NamedTensor]) {
        let mut record = self.lock();
        record.stamps.push((Moment::QueueStart, Instant::now()));
        self.keep(&mut record, Activity::BackendInput, inputs);
    }

    /// It has been run with so many rows of its own, and these are its outputs.
    pub fn ran(&self, rows: usize, timings: &Timings, outputs: &[NamedTensor]) {
        let mut record = self.lock();
        let input_end = timings.started + timings.input;
        let output_start = input_end + timings.infer;
        record.stamps.extend([
            (Moment::ComputeStart, timings.started),
            (Moment::ComputeInputEnd, input_end),
            (Moment::ComputeOutputStart, output_start),
            (Moment::ComputeEnd, output_start + timings.output),
        ]);
        record.rows = Some(rows);
        record.batch_rows = Some(timings.batch_rows);
        self.keep(&mut record, Activity::BackendOutput, outputs);
    }

    /// The model is done with it: answered, or not.
    pub fn ended(&self, error: Option<&Error>) {
        let (mut record, now) = (self.lock(), Instant::now());
        if error.is_none() {
            record.stamps.push((Moment::ResponseComplete, now));
        }
        record.stamps.push((Moment::RequestEnd, now));
        record.error = error.map(ToString::to_string);
    }

    /// The front answers with this status: of HTTP or gRPC. `id` is the client's name for the request, where it has one.
    pub fn answered(&self, status: u16, id: Option<&Arc<str>>, error: Option<&Error>) {
        let mut record = self.lock();
        record.status = Some(status);
        if record.request_id.is_none() {
            record.request_id = id.cloned();
        }
        if record.error.is_none() {
            record.error = error.map(ToString::to_string);
        }
    }

    /// The answer begins to leave; it has left when what this returns is dropped.
    pub fn sending(self: Arc<Trace>) -> Sending {
        self.stamp(Moment::SendStart);
        Sending(self)
    }

    /// Tensors are kept, not copied: they lie in memory until the trace is written.
    fn keep(&self, record: &mut Record, activity: Activity, tensors: &[NamedTensor]) {
        if self.sampled.as_ref().is_some_and(|it| it.levels.tensors && it.spans.is_none()) {
            record.tensors.extend(tensors.iter().map(|it| (activity, it.clone())));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        // Nothing that panics runs under this lock.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let record = self.record.get_mut().unwrap_or_else(PoisonError::into_inner);
        record.stamps.sort_by_key(|it| (it.1, it.0));
        if self.logged {
            request_log::write(record);
        }
        if let (Some(outlet), Some(sampled)) = (&self.outlet, self.sampled.take()) {
            let next = Record::new(record.transport, record.model.clone(), record.version);
            outlet.put(Finished { sampled, record: mem::replace(record, next) });
        }
    }
}

/// An answer that is being written. Dropped when it has been, or when its client has gone.
#[derive(Debug)]
pub struct Sending(Arc<Trace>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.stamp(Moment::SendEnd);
    }
}

/// It happens now to a request that may be traced.
pub fn stamp(trace: Option<&Arc<Trace>>, moment: Moment) {
    if let Some(trace) = trace {
        trace.stamp(moment);
    }
}
