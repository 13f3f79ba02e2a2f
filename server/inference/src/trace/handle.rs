//! The trace of one request, as the parts of the server add to it on the way.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use backend::NamedTensor;

use super::{
    outlet::Outlet,
    record::{Activity, Finished, Moment, Record, Sampled},
    request_log,
};
use crate::{error::Error, timings::Timings};

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

    /// That signature of its model is run.
    pub fn signed(&self, signature: &Arc<str>) {
        self.lock().signature = Some(signature.clone());
    }

    /// It has that name in the head of its reply.
    pub fn named(&self, name: &str) {
        self.lock().x_request_id = Some(name.into());
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

    /// Of texts: from then until now they have become rows of the graph.
    pub fn prepared(&self, from: Instant) {
        let now = Instant::now();
        self.lock().stamps.extend([(Moment::PrepareStart, from), (Moment::PrepareEnd, now)]);
    }

    /// Of texts: from then until now what is kept of the rows has become the answer.
    pub fn finished(&self, from: Instant) {
        let now = Instant::now();
        self.lock().stamps.extend([(Moment::FinishStart, from), (Moment::FinishEnd, now)]);
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
        record.turn = timings.turn;
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

    /// There is no result. `id` is the client's name for the request, where it has one.
    pub fn failed(&self, id: Option<&Arc<str>>, error: &Error) {
        let mut record = self.lock();
        if record.request_id.is_none() {
            record.request_id = id.cloned();
        }
        record.error.get_or_insert_with(|| error.to_string());
    }

    /// The front answers with this status: of HTTP or gRPC.
    pub fn answered(&self, status: u16) {
        self.lock().status = Some(status);
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
