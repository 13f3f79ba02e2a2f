//! Sends spans to a collector of OpenTelemetry, as protobuf over HTTP/1.1 (OTLP/HTTP). Without TLS: the collector is
//! meant to be beside the server.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use prost::Message;

use super::config::Collector;
use super::{
    otlp::{
        ExportTraceServiceRequest, InstrumentationScope, KeyValue, Resource, ResourceSpans,
        ScopeSpans, Span,
    },
    outlet::Sink,
    record::Finished,
    spans::{Now, spans},
};

/// Longest time that one delivery may take, from the connection to the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same at the end of the process, which does not wait for a collector.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Wait after a first failure; it doubles with every further one.
const SHORTEST_RETREAT: Duration = Duration::from_secs(1);
const LONGEST_RETREAT: Duration = Duration::from_secs(30);

/// Bytes of an answer that are read.
const LONGEST_ANSWER: u64 = 4096;

/// Spans on their way to a collector.
pub(super) struct Exporter {
    collector: Collector,
    /// No more than the collector's `max_queue`; what comes then is dropped and counted.
    waiting: VecDeque<Span>,
    /// Since when the oldest has waited.
    since: Option<Instant>,
    /// After a failure: not before then, and how long the next wait will be.
    retreat: Option<(Instant, Duration)>,
    lost: u64,
    names: RandomState,
    named: u64,
}

/// Why a delivery failed.
enum DeliveryError {
    /// It may go better later.
    Later(String),
    /// It will not.
    Never(String),
}

impl Exporter {
    pub(super) fn new(collector: Collector) -> Exporter {
        Exporter {
            collector,
            waiting: VecDeque::new(),
            since: None,
            retreat: None,
            lost: 0,
            names: RandomState::new(),
            named: 0,
        }
    }

    /// Delivers one batch, within that time.
    fn deliver(&mut self, now: Instant, patience: Duration) {
        let spans = self.waiting.len().min(self.collector.max_batch);
        let batch: Vec<Span> = self.waiting.iter().take(spans).cloned().collect();
        match post(&self.collector, &self.encode(batch), patience) {
            Ok(()) => {
                if self.retreat.take().is_some() {
                    tracing::info!(url = self.collector.url, "traces reach their collector again");
                }
                self.waiting.drain(..spans);
            }
            Err(DeliveryError::Never(reason)) => {
                tracing::warn!(url = self.collector.url, spans, "traces were refused: {reason}");
                self.waiting.drain(..spans);
                self.lost += 1;
            }
            Err(DeliveryError::Later(reason)) => {
                let wait = match self.retreat {
                    Some((_, wait)) => (wait * 2).min(LONGEST_RETREAT),
                    None => {
                        let url = &self.collector.url;
                        tracing::warn!(url, "traces do not reach their collector: {reason}");
                        SHORTEST_RETREAT
                    }
                };
                self.retreat = Some((now + wait, wait));
            }
        }
        self.since = if self.waiting.is_empty() { None } else { Some(now) };
    }

    fn encode(&self, spans: Vec<Span>) -> Vec<u8> {
        let resource = self.collector.resource.iter();
        let attributes = resource.map(|(key, value)| KeyValue::text(key, value)).collect();
        let scope = InstrumentationScope {
            name: "muster".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        let resource = Some(Resource { attributes });
        let resource_spans = vec![ResourceSpans { resource, scope_spans }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    /// When the next batch is to be delivered.
    fn due(&self) -> Option<Instant> {
        let full = self.collector.max_batch <= self.waiting.len();
        let due =
            self.since.map(|it| if full { it } else { it + self.collector.schedule_delay })?;
        Some(self.retreat.map_or(due, |(until, _)| due.max(until)))
    }
}

impl Sink for Exporter {
    fn take(&mut self, trace: Finished) {
        let (names, named) = (&self.names, &mut self.named);
        let name = || {
            *named += 1;
            names.hash_one(*named).max(1).to_be_bytes()
        };
        let spans = spans(&trace, &Now::new(), name);
        if self.collector.max_queue < self.waiting.len() + spans.len() {
            self.lost += 1;
            return;
        }
        self.waiting.extend(spans);
        self.since.get_or_insert_with(Instant::now);
    }

    fn work(&mut self, now: Instant) -> Option<Duration> {
        let mut now = now;
        while self.due().is_some_and(|it| it <= now) {
            self.deliver(now, PATIENCE);
            now = Instant::now();
        }
        self.due().map(|it| it.saturating_duration_since(now))
    }

    fn flush(&mut self) {
        self.retreat = None;
        while !self.waiting.is_empty() && self.retreat.is_none() {
            self.deliver(Instant::now(), LAST_PATIENCE);
        }
    }

    fn lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

/// Posts one message on a connection of its own.
fn post(collector: &Collector, message: &[u8], patience: Duration) -> Result<(), DeliveryError> {
    let until = Instant::now() + patience;
    let answer =
        exchange(collector, message, until).map_err(|it| DeliveryError::Later(it.to_string()))?;
    let text = String::from_utf8_lossy(&answer);
    let status = text.strip_prefix("HTTP/1.").and_then(|it| it.get(2..5)?.parse::<u16>().ok());
    match status {
        Some(200..=299) => Ok(()),
        // As the protocol lists them.
        Some(status @ (429 | 502 | 503 | 504)) => {
            Err(DeliveryError::Later(format!("status {status}")))
        }
        Some(status) => Err(DeliveryError::Never(format!("status {status}"))),
        None => Err(DeliveryError::Later("the answer is not HTTP/1".to_owned())),
    }
}

fn exchange(collector: &Collector, message: &[u8], until: Instant) -> io::Result<Vec<u8>> {
    let Collector { host, port, path, .. } = collector;
    let mut stream = connect(host, *port, until)?;
    let authority = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let mut head = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}:{port}\r\nContent-Type: application/x-protobuf\r\n\
         Content-Length: {}\r\nConnection: close\r\n",
        message.len()
    );
    for (name, value) in &collector.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.set_write_timeout(Some(left(until)?))?;
    stream.write_all(&[head.as_bytes(), message].concat())?;
    let mut answer = Vec::new();
    let mut reading = (&stream).take(LONGEST_ANSWER);
    let mut chunk = [0; 1024];
    // The head is enough.
    while !answer.windows(4).any(|it| it == b"\r\n\r\n") {
        stream.set_read_timeout(Some(left(until)?))?;
        match reading.read(&mut chunk)? {
            0 => break,
            length => answer.extend_from_slice(&chunk[..length]),
        }
    }
    Ok(answer)
}

/// To the first address of the host that takes the connection: a name may have several.
fn connect(host: &str, port: u16, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(until)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Never zero, which sockets take for no limit.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
        false => Ok(left),
    }
}
