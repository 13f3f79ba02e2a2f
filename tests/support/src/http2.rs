//! HTTP/2 byte by byte, and peers that do not behave.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use frontend::grpc::proto::ModelInferRequest;
use prost::Message;

use super::{PATIENCE, Page, grpc::identity, wait_for};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The kind of a frame: a part of a message.
pub const DATA: u8 = 0;
/// The head of a call.
pub const HEADERS: u8 = 1;
/// The end of one call.
pub const RST_STREAM: u8 = 3;
/// What one side tells the other of itself.
pub const SETTINGS: u8 = 4;
/// A call that the server makes up.
pub const PUSH_PROMISE: u8 = 5;
/// A question whether anybody is there.
pub const PING: u8 = 6;
/// The end of the connection.
pub const GOAWAY: u8 = 7;
/// Room for more.
pub const WINDOW_UPDATE: u8 = 8;
/// More of a head.
pub const CONTINUATION: u8 = 9;
/// A flag: nothing follows in this call.
pub const END_STREAM: u8 = 1;
/// A flag: the head is complete.
pub const END_HEADERS: u8 = 4;
/// The path of an inference.
pub const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

/// A frame of HTTP/2.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The head of a call, no word of it compressed.
pub fn head(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let text = |it: &str| [&[u8::try_from(it.len()).unwrap()], it.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [&[0], &*text(name), &*text(value)].concat()).collect()
}

/// A connection on which nothing has been said.
pub fn connect(grpc: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(grpc).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A connection that has said which protocol it speaks.
pub fn greet_at(grpc: SocketAddr) -> TcpStream {
    let mut stream = connect(grpc);
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
    stream
}

/// Everything until the server closes; fails if it does not.
#[track_caller]
pub fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    match stream.read_to_end(&mut read) {
        Ok(_) => read,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => read,
        Err(error) => panic!("{error}"),
    }
}

/// The kinds of the frames in what was read.
pub fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = bytes {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        kinds.push(*kind);
        bytes = rest.get(length..).unwrap_or_default();
    }
    kinds
}

/// What the server sends, up to a frame of one of these kinds.
#[track_caller]
pub fn until(stream: &mut TcpStream, wanted: &[u8]) -> Vec<u8> {
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    while !kinds(&read).iter().any(|it| wanted.contains(it)) {
        let length = stream.read(&mut buffer).unwrap();
        assert_ne!(length, 0, "{:?}", kinds(&read));
        read.extend_from_slice(&buffer[..length]);
    }
    read
}

/// A call to infer with this message.
pub fn call(stream: u32, message: &ModelInferRequest) -> Vec<u8> {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let data = [&[0][..], &length, &message].concat();
    let head = frame(HEADERS, END_HEADERS, stream, &head(INFER));
    [head, frame(DATA, END_STREAM, stream, &data)].concat()
}

/// Opens calls and resets each at once, until the server has had enough of it.
#[track_caller]
pub fn open_and_reset(grpc: SocketAddr) {
    let mut stream = greet_at(grpc);
    let mut flood = Vec::new();
    for call in 0..20_000u32 {
        let number = 2 * call + 1;
        flood.extend(frame(HEADERS, END_HEADERS, number, &head(INFER)));
        flood.extend(frame(RST_STREAM, 0, number, &8u32.to_be_bytes()));
    }
    // The server may have closed before all is sent.
    let _ = stream.write_all(&flood);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let read = rest(&mut stream);
    assert!(kinds(&read).contains(&GOAWAY), "{:?}", kinds(&read));
}

/// Sends pings and settings, and reads no answer.
pub fn ping_and_set(grpc: SocketAddr) {
    let mut stream = greet_at(grpc);
    let flood = [frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 0, 0, &[])].concat().repeat(10_000);
    // Nobody reads the answers: at some point the server may close, or stop to read.
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let _ = stream.write_all(&flood);
}

/// A setting, as the frame has it.
pub fn setting(number: u16, value: u32) -> Vec<u8> {
    [&number.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// Sends headers that do not end, until the server closes.
pub fn endless_headers(grpc: SocketAddr) {
    for piece in [&[][..], &[0, 1, b'x', 1, b'y'].repeat(200)] {
        let mut stream = greet_at(grpc);
        let mut flood = frame(HEADERS, 0, 1, &head(INFER));
        for _ in 0..5000 {
            flood.extend(frame(CONTINUATION, 0, 1, piece));
        }
        stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        // The server may have closed before all is sent.
        let _ = stream.write_all(&flood);
        rest(&mut stream);
    }
}

/// Waits until the server holds no byte of a request or a reply.
#[track_caller]
pub fn wait_nothing_held(http: SocketAddr) {
    wait_for("nothing to be held", || {
        let page = Page::read(http);
        (page.value("muster_bytes_in_flight") == 0.0).then_some(())
    });
}

/// Makes calls of that model whose replies have no window, until the server gives them up.
#[track_caller]
pub fn calls_without_window(grpc: SocketAddr, model: &str) {
    let mut stream = greet_at(grpc);
    stream.write_all(&frame(SETTINGS, 0, 0, &setting(4, 0))).unwrap();
    for number in 0..50 {
        stream.write_all(&call(2 * number + 1, &identity(model, &[1.0]))).unwrap();
    }
    // Their heads come, and nothing else, until each is reset or the connection is closed.
    let read = rest(&mut stream);
    assert!(kinds(&read).contains(&HEADERS) && !kinds(&read).contains(&DATA), "{:?}", kinds(&read));
}
