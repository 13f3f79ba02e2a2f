//! From a trace to spans: the request, the model in it, its time in the queue, its execution in three parts, and what
//! is around the run of a text model.

use std::time::{Duration, Instant, SystemTime};

use super::{
    otlp::{Event, FAILED, INTERNAL, KeyValue, SERVER, Span, Status},
    record::{Finished, Moment, Record, Spans, Transport},
};

/// Most spans of one trace.
pub(super) const MOST_SPANS: usize = 9;

/// Longest text of a client's or of an error in a span, in bytes.
const LONGEST_TEXT: usize = 1024;

/// The moment that a conversion is made, by both clocks.
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) system: SystemTime,
}

impl Now {
    pub(super) fn new() -> Now {
        Now { instant: Instant::now(), system: SystemTime::now() }
    }

    /// Nanoseconds since 1970.
    fn unix(&self, at: Instant) -> u64 {
        let ago = self.instant.saturating_duration_since(at);
        let now = self.system.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        now.saturating_sub(ago).as_nanos() as u64
    }
}

/// What a span is made of, beside its trace.
struct Part<'a> {
    name: &'a str,
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    from: Moment,
    to: Moment,
    events: &'a [Moment],
}

/// The spans of a trace, parents first. `name` makes names for spans to which nothing else refers.
pub(super) fn spans(trace: &Finished, now: &Now, mut name: impl FnMut() -> [u8; 8]) -> Vec<Span> {
    let Finished { sampled, record } = trace;
    let Some(names) = &sampled.spans else { return Vec::new() };
    let (Some(first), Some(last)) = (record.stamps.first(), record.stamps.last()) else {
        return Vec::new();
    };
    let maker = Maker { record, names, now };
    let attributes = || {
        let mut attributes = vec![
            KeyValue::text("triton.model_name", cut(&record.model)),
            KeyValue::int("triton.model_version", record.version),
            KeyValue::int("triton.trace_id", sampled.id),
            KeyValue::int("triton.trace_parent_id", sampled.parent_id.unwrap_or(0)),
        ];
        let id = record.name();
        attributes.extend(id.map(|it| KeyValue::text("triton.request_id", cut(it))));
        let signature = record.signature.as_ref();
        attributes.extend(signature.map(|it| KeyValue::text("muster.signature_name", cut(it))));
        attributes
    };
    let failed = record.error.as_ref().map(|it| Status { message: cut(it), code: FAILED });
    let mut spans = Vec::with_capacity(MOST_SPANS);
    if let Some(root) = names.root {
        use Moment::{ReceiveEnd, ReceiveStart, SendEnd, SendStart};
        let events = &[ReceiveStart, ReceiveEnd, SendStart, SendEnd];
        let (from, to) = (first.0, last.0);
        let part = Part { name: "InferRequest", id: root, parent: names.parent, from, to, events };
        if let Some(mut span) = maker.span(part) {
            span.kind = SERVER;
            span.attributes = attributes();
            let key = match record.transport {
                Transport::Grpc => "rpc.grpc.status_code",
                Transport::Http | Transport::Inside => "http.response.status_code",
            };
            let status = record.status.map(|it| KeyValue::int(key, it.into()));
            span.attributes.extend(status);
            span.status.clone_from(&failed);
            spans.push(span);
        }
    }
    use Moment::{
        ComputeEnd, ComputeInputEnd, ComputeOutputStart, ComputeStart, FinishEnd, FinishStart,
        PrepareEnd, PrepareStart, QueueStart, RequestEnd, RequestStart, ResponseComplete,
    };
    let (id, parent) = (names.model, names.root.or(names.parent));
    let events = &[RequestStart, QueueStart, ResponseComplete, RequestEnd];
    // A request whose client has left has no end of its own.
    let to = if record.at(RequestEnd).is_some() { RequestEnd } else { last.0 };
    let part = Part { name: &cut(&record.model), id, parent, from: RequestStart, to, events };
    let Some(mut span) = maker.span(part) else { return spans };
    span.attributes = attributes();
    span.attributes.extend(record.rows.map(|it| KeyValue::int("muster.rows", it as u64)));
    let batch_rows = record.batch_rows.map(|it| KeyValue::int("muster.batch_rows", it as u64));
    span.attributes.extend(batch_rows);
    span.status = failed;
    spans.push(span);
    let model = Some(names.model);
    let compute = name();
    let events = &[ComputeStart, ComputeInputEnd, ComputeOutputStart, ComputeEnd];
    let parts = [
        ("prepare", name(), model, PrepareStart, PrepareEnd, &[][..]),
        ("queue", name(), model, QueueStart, ComputeStart, &[]),
        ("compute", compute, model, ComputeStart, ComputeEnd, events),
        ("compute_input", name(), Some(compute), ComputeStart, ComputeInputEnd, &[]),
        ("compute_infer", name(), Some(compute), ComputeInputEnd, ComputeOutputStart, &[]),
        ("compute_output", name(), Some(compute), ComputeOutputStart, ComputeEnd, &[]),
        ("finish", name(), model, FinishStart, FinishEnd, &[]),
    ];
    spans.extend(parts.into_iter().filter_map(|(name, id, parent, from, to, events)| {
        let mut span = maker.span(Part { name, id, parent, from, to, events })?;
        if let Some(turn) = record.turn.filter(|_| id == compute) {
            let overhead = u64::try_from(turn.overhead.as_micros()).unwrap_or(u64::MAX);
            span.attributes = vec![
                KeyValue::int("muster.worker_pid", turn.pid.into()),
                KeyValue::int("muster.overhead_us", overhead),
            ];
        }
        Some(span)
    }));
    spans
}

struct Maker<'a> {
    record: &'a Record,
    names: &'a Spans,
    now: &'a Now,
}

impl Maker<'_> {
    /// `None` where one of its ends has not been.
    fn span(&self, part: Part<'_>) -> Option<Span> {
        let at = |moment| self.record.at(moment).map(|it| self.now.unix(it));
        let events = part.events.iter().filter_map(|it| {
            let name = it.name(self.record.transport).to_owned();
            Some(Event { time_unix_nano: at(*it)?, name })
        });
        let start_time_unix_nano = at(part.from)?;
        Some(Span {
            trace_id: self.names.trace.to_vec(),
            span_id: part.id.to_vec(),
            parent_span_id: part.parent.map_or_else(Vec::new, |it| it.to_vec()),
            name: part.name.to_owned(),
            kind: INTERNAL,
            start_time_unix_nano,
            end_time_unix_nano: at(part.to)?.max(start_time_unix_nano),
            attributes: Vec::new(),
            events: events.collect(),
            status: None,
        })
    }
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST_TEXT)].to_owned()
}
