//! Frames that HTTP/2 forbids: the connection or the call ends as the protocol says, and others are served.

use std::{io::Write, net::TcpStream};

use super::peers::{check_alive, greet, grpc, start};
use crate::support::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INFER, PING, PUSH_PROMISE,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, calls_without_window, endless_headers, frame, head, kinds,
    rest, setting, until, wait_nothing_held,
};

const ACK: u8 = 1;
const PADDED: u8 = 8;

/// Is a ping on this connection answered?
fn answers(stream: &mut TcpStream) -> bool {
    stream.write_all(&frame(PING, 0, 0, b"12345678")).is_ok() && {
        let read = until(stream, &[PING]);
        read.windows(8).any(|it| it == b"12345678")
    }
}

#[test]
fn settings_and_pings_are_acknowledged() {
    let server = start(&[]);
    let mut stream = greet(&server);
    let acknowledged = frame(SETTINGS, ACK, 0, &[]);
    stream.write_all(&frame(PING, 0, 0, b"12345678")).unwrap();
    let read = until(&mut stream, &[PING]);
    assert!(read.windows(9).any(|it| it == acknowledged), "{:?}", kinds(&read));
    let pong = frame(PING, ACK, 0, b"12345678");
    assert!(read.windows(pong.len()).any(|it| it == pong), "{:?}", kinds(&read));
}

#[test]
fn frames_that_break_the_connections_rules_end_it() {
    let server = start(&[]);
    let whole = END_HEADERS | END_STREAM;
    let open = || frame(HEADERS, END_HEADERS, 1, &head(INFER));
    let window = |stream, by: u32| frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
    let cases: [(&str, Vec<u8>); 24] = [
        ("data on no stream", frame(DATA, 0, 0, b"x")),
        ("data on an idle stream", frame(DATA, 0, 1, b"x")),
        ("more padding than data", [open(), frame(DATA, PADDED, 1, &[9, 0, 0])].concat()),
        ("headers on no stream", frame(HEADERS, whole, 0, &head(INFER))),
        ("a stream of the server's", frame(HEADERS, whole, 2, &head(INFER))),
        ("headers that are no HPACK", frame(HEADERS, whole, 1, &[0x80])),
        ("an index that is not there", frame(HEADERS, whole, 1, &[0xff, 0xff, 0x03])),
        ("headers cut by a ping", [frame(HEADERS, 0, 1, &[]), frame(PING, 0, 0, &[0; 8])].concat()),
        ("a continuation of nothing", frame(CONTINUATION, END_HEADERS, 1, &head(INFER))),
        (
            "a continuation of another stream",
            [frame(HEADERS, 0, 1, &[]), frame(CONTINUATION, END_HEADERS, 3, &[])].concat(),
        ),
        ("a reset of no stream", frame(RST_STREAM, 0, 0, &8u32.to_be_bytes())),
        ("a reset of an idle stream", frame(RST_STREAM, 0, 1, &8u32.to_be_bytes())),
        ("a reset of three bytes", [open(), frame(RST_STREAM, 0, 1, &[0; 3])].concat()),
        ("settings on a stream", frame(SETTINGS, 0, 1, &[])),
        ("settings of five bytes", frame(SETTINGS, 0, 0, &[0; 5])),
        ("an acknowledgement with settings", frame(SETTINGS, ACK, 0, &setting(3, 1))),
        ("push that is neither on nor off", frame(SETTINGS, 0, 0, &setting(2, 2))),
        ("a window that is too large", frame(SETTINGS, 0, 0, &setting(4, 1 << 31))),
        ("frames that are too small", frame(SETTINGS, 0, 0, &setting(5, 1))),
        ("a ping of seven bytes", frame(PING, 0, 0, &[0; 7])),
        ("a ping on a stream", frame(PING, 0, 1, &[0; 8])),
        ("a push by a client", frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])),
        ("a window that overflows", [window(0, 0x7fff_ffff), window(0, 0x7fff_ffff)].concat()),
        ("a frame beyond the limit", [&[0x20, 0, 1, DATA, 0, 0, 0, 0, 1][..], &[0; 64]].concat()),
    ];
    for (name, bytes) in cases {
        let mut stream = greet(&server);
        stream.write_all(&bytes).unwrap();
        let read = rest(&mut stream);
        assert!(kinds(&read).contains(&GOAWAY), "{name}: {:?}", kinds(&read));
    }
    check_alive(&server);
}

#[test]
fn frames_that_break_a_calls_rules_end_that_call() {
    let server = start(&[]);
    let field = |name: &str, value: &str| {
        let text = |it: &str| [&[u8::try_from(it.len()).unwrap()], it.as_bytes()].concat();
        [&[0], &*text(name), &*text(value)].concat()
    };
    let with = |more: Vec<u8>| [head(INFER), more].concat();
    let window = 0u32.to_be_bytes();
    let open = |block: &[u8]| frame(HEADERS, END_HEADERS, 1, block);
    let cases = [
        ("a name in capitals", open(&with(field("X", "y")))),
        ("a pseudo header after others", open(&with(field(":authority", "y")))),
        ("an unknown pseudo header", open(&[field(":x", "y"), head(INFER)].concat())),
        ("a header of the connection", open(&with(field("connection", "keep-alive")))),
        ("no path", open(&[field(":method", "POST"), field(":scheme", "http")].concat())),
        (
            "another length than it says",
            [open(&with(field("content-length", "9"))), frame(DATA, END_STREAM, 1, b"x")].concat(),
        ),
        ("a window of nothing", [open(&head(INFER)), frame(WINDOW_UPDATE, 0, 1, &window)].concat()),
    ];
    for (name, bytes) in cases {
        let mut stream = greet(&server);
        stream.write_all(&bytes).unwrap();
        let read = until(&mut stream, &[RST_STREAM, GOAWAY]);
        // The protocol lets a server end the connection for it, too.
        assert!(kinds(&read).contains(&GOAWAY) || answers(&mut stream), "{name}");
    }
    check_alive(&server);
}

#[test]
fn headers_that_do_not_end_end_the_connection() {
    let server = start(&[]);
    endless_headers(grpc(&server));
    check_alive(&server);
}

#[test]
fn calls_whose_replies_have_no_window_are_given_up() {
    let server = start(&["--idle-timeout-secs=0.3"]);
    calls_without_window(grpc(&server), "m");
    wait_nothing_held(server.http());
    check_alive(&server);
}
