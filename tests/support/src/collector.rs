//! A collector of OpenTelemetry for tests: an HTTP server that keeps the spans that are posted to it. It reads protobuf
//! by field numbers alone, so that it shares nothing with what writes it.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use super::{PATIENCE, wait_for};

/// A collector. It serves as long as the process lives.
pub struct Collector {
    address: SocketAddr,
    /// Guards what has come.
    received: Arc<Mutex<Received>>,
}

#[derive(Default)]
struct Received {
    spans: Vec<Span>,
    resource: BTreeMap<String, String>,
    /// Head lines of the requests.
    requests: Vec<String>,
}

/// One span.
#[derive(Debug, Clone, Default)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace: Vec<u8>,
    /// Its own.
    pub id: Vec<u8>,
    /// Empty for none.
    pub parent: Vec<u8>,
    /// What was done.
    pub name: String,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// The same.
    pub end: u64,
    /// Numbers as text.
    pub attributes: BTreeMap<String, String>,
    /// Their names.
    pub events: Vec<String>,
    /// Its message, if it ended with one.
    pub error: Option<String>,
}

impl Collector {
    /// One that takes everything.
    pub fn start() -> Collector {
        Collector::answering(&[])
    }

    /// One that answers its first requests so, and forgets what they brought.
    pub fn answering(refusals: &[&str]) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Received>>::default();
        let kept = received.clone();
        let mut refusals: Vec<String> = refusals.iter().rev().map(|it| (*it).to_owned()).collect();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let refusal = refusals.pop();
                // A client that leaves early is its own business.
                let _ = serve(stream.unwrap(), refusal, &kept);
            }
        });
        Collector { address, received }
    }

    /// Where spans are posted.
    pub fn url(&self) -> String {
        format!("http://{}/v1/traces", self.address)
    }

    /// The spans, once there are so many.
    #[track_caller]
    pub fn wait_spans(&self, count: usize) -> Vec<Span> {
        wait_for(&format!("{count} spans to arrive"), || {
            let spans = self.received.lock().unwrap().spans.clone();
            (count <= spans.len()).then_some(spans)
        })
    }

    /// Attributes of the server.
    pub fn resource(&self) -> BTreeMap<String, String> {
        self.received.lock().unwrap().resource.clone()
    }

    /// The heads of all requests.
    pub fn requests(&self) -> Vec<String> {
        self.received.lock().unwrap().requests.clone()
    }
}

fn serve(
    mut stream: TcpStream,
    refusal: Option<String>,
    received: &Mutex<Received>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = Vec::new();
    let (head, length) = loop {
        if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            bytes.drain(..end + 4);
            break (head, length);
        }
        receive(&mut stream, &mut bytes)?;
    };
    while bytes.len() < length {
        receive(&mut stream, &mut bytes)?;
    }
    {
        let mut received = received.lock().unwrap();
        received.requests.push(head);
        if refusal.is_none() {
            read_export(&bytes, &mut received);
        }
    }
    let status = refusal.unwrap_or_else(|| "200 OK".to_owned());
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes())
}

fn receive(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    let mut chunk = [0; 4096];
    match stream.read(&mut chunk)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        length => {
            bytes.extend_from_slice(&chunk[..length]);
            Ok(())
        }
    }
}

/// The value of a field.
#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Field::Bytes(bytes) => bytes,
            Field::Number(number) => panic!("the number {number}, where bytes were expected"),
        }
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    fn number(self) -> u64 {
        match self {
            Field::Number(number) => number,
            Field::Bytes(_) => panic!("bytes, where a number was expected"),
        }
    }
}

/// The fields of a message by number, in the order in which they come.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for place in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().expect("a whole number");
            *bytes = rest;
            number |= u64::from(first & 0x7f) << place;
            if first & 0x80 == 0 {
                break;
            }
        }
        number
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_first_chunk::<8>().unwrap();
                bytes = rest;
                Field::Number(u64::from_le_bytes(*number))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value)
            }
            other => panic!("the wire type {other}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

/// The messages in a field that may come several times.
fn inside(bytes: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(bytes).into_iter().filter(move |it| it.0 == number).map(|it| it.1.bytes())
}

/// `ExportTraceServiceRequest`, by the numbers of opentelemetry-proto 1.
fn read_export(bytes: &[u8], received: &mut Received) {
    for resource_spans in inside(bytes, 1) {
        for resource in inside(resource_spans, 1) {
            received.resource = inside(resource, 1).map(attribute).collect();
        }
        for scope_spans in inside(resource_spans, 2) {
            received.spans.extend(inside(scope_spans, 2).map(span));
        }
    }
}

fn span(bytes: &[u8]) -> Span {
    let mut span = Span::default();
    for (number, field) in fields(bytes) {
        match number {
            1 => span.trace = field.bytes().to_vec(),
            2 => span.id = field.bytes().to_vec(),
            4 => span.parent = field.bytes().to_vec(),
            5 => span.name = field.text(),
            7 => span.start = field.number(),
            8 => span.end = field.number(),
            9 => span.attributes.extend([attribute(field.bytes())]),
            11 => span.events.extend(inside(field.bytes(), 2).map(text)),
            15 => span.error = inside(field.bytes(), 2).map(text).next(),
            _ => {}
        }
    }
    span
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A key, and its value as text.
fn attribute(bytes: &[u8]) -> (String, String) {
    let mut attribute = (String::new(), String::new());
    for (number, field) in fields(bytes) {
        match number {
            1 => attribute.0 = field.text(),
            2 => match fields(field.bytes()).first() {
                Some((1, value)) => attribute.1 = value.text(),
                Some((3, value)) => attribute.1 = value.number().to_string(),
                _ => panic!("a value that is neither text nor number"),
            },
            _ => {}
        }
    }
    attribute
}
