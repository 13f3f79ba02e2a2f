//! Peers that do not behave, byte by byte: the server lives, and others are served.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use frontend::grpc::proto::ModelInferRequest;
use prost::Message;

use crate::support::{
    Page, Repository, Server,
    grpc::{Client, firsts, identity, input},
    http2::{
        DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INFER, PING, RST_STREAM, WINDOW_UPDATE,
        call, connect, frame, greet_at, head, kinds, open_and_reset, ping_and_set, rest, until,
    },
    wait_for,
};

pub(super) fn start(flags: &[&str]) -> Server {
    Server::start(&Repository::identity("m", &[]), flags)
}

pub(super) fn grpc(server: &Server) -> SocketAddr {
    server.address("grpc").unwrap()
}

pub(super) fn greet(server: &Server) -> TcpStream {
    greet_at(grpc(server))
}

#[track_caller]
pub(super) fn check_alive(server: &Server) {
    let mut client = Client::new(server);
    assert_eq!(firsts(&client.infer(identity("m", &[2.0])).unwrap()), [2.0]);
    server.get("/v2/health/live").expect(200);
}

#[test]
fn a_peer_that_says_nothing_or_speaks_another_protocol_is_let_go() {
    let server = start(&["--header-timeout-secs=0.1"]);
    let since = Instant::now();
    rest(&mut connect(grpc(&server)));
    assert!(since.elapsed() < Duration::from_secs(5));
    for words in [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], b"\x16\x03\x01\x02\x00\x01\x00"] {
        let mut stream = connect(grpc(&server));
        stream.write_all(words).unwrap();
        rest(&mut stream);
    }
    // A greeting is enough to stay: clients keep connections for later.
    let mut idle = greet(&server);
    idle.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut read = [0; 4096];
    while let Ok(length) = idle.read(&mut read) {
        assert_ne!(length, 0, "it was closed");
    }
    check_alive(&server);
}

#[test]
fn a_connection_that_makes_no_call_is_asked_to_end_and_gives_its_place_back() {
    let server = start(&["--idle-timeout-secs=0.3", "--max-connections=2"]);
    // A client whose connection ends so makes another one when it has a call.
    let mut client = Client::new(&server);
    assert_eq!(firsts(&client.infer(identity("m", &[2.0])).unwrap()), [2.0]);
    let mut idle = greet(&server);
    assert!(kinds(&rest(&mut idle)).contains(&GOAWAY));
    assert_eq!(firsts(&client.infer(identity("m", &[3.0])).unwrap()), [3.0]);
    check_alive(&server);
}

#[test]
fn calls_that_are_opened_and_reset_at_once_end_the_connection() {
    let server = start(&[]);
    open_and_reset(grpc(&server));
    check_alive(&server);
}

#[test]
fn a_call_that_breaks_off_within_its_message_is_refused_and_frees_its_memory() {
    let server = start(&[]);
    let mut stream = greet(&server);
    // A message of 1000 bytes is announced, and three come.
    stream.write_all(&frame(HEADERS, END_HEADERS, 1, &head(INFER))).unwrap();
    stream.write_all(&frame(DATA, END_STREAM, 1, &[0, 0, 0, 0x03, 0xe8, 1, 2, 3])).unwrap();
    // One that is neither plain nor compressed.
    stream.write_all(&frame(HEADERS, END_HEADERS, 3, &head(INFER))).unwrap();
    stream.write_all(&frame(DATA, END_STREAM, 3, &[9, 0, 0, 0, 0])).unwrap();
    // One that is compressed, nobody knows how.
    stream.write_all(&frame(HEADERS, END_HEADERS, 5, &head(INFER))).unwrap();
    stream.write_all(&frame(DATA, END_STREAM, 5, &[1, 0, 0, 0, 0])).unwrap();
    // And none at all.
    stream.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 7, &head(INFER))).unwrap();
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    while kinds(&read).iter().filter(|it| **it == HEADERS).count() < 4 {
        let length = stream.read(&mut buffer).unwrap();
        assert_ne!(length, 0, "{:?}", kinds(&read));
        read.extend_from_slice(&buffer[..length]);
    }
    let page = server.get("/metrics").text().to_owned();
    assert!(page.contains("muster_grpc_requests_total{code=\"INVALID_ARGUMENT\"} 3"), "{page}");
    assert!(page.contains("muster_grpc_requests_total{code=\"UNIMPLEMENTED\"} 1"), "{page}");
    assert!(page.contains("muster_bytes_in_flight 0"), "{page}");
    check_alive(&server);
}

#[test]
fn a_message_that_comes_too_slowly_is_given_up() {
    let server = start(&["--body-grace-secs=0.2"]);
    let mut stream = greet(&server);
    stream.write_all(&frame(HEADERS, END_HEADERS, 1, &head(INFER))).unwrap();
    stream.write_all(&frame(DATA, 0, 1, &[0, 0, 1, 0, 0, 7])).unwrap();
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    while !kinds(&read).contains(&HEADERS) {
        let length = stream.read(&mut buffer).unwrap();
        assert_ne!(length, 0, "{:?}", kinds(&read));
        read.extend_from_slice(&buffer[..length]);
    }
    let page = server.get("/metrics").text().to_owned();
    assert!(page.contains("muster_grpc_requests_total{code=\"DEADLINE_EXCEEDED\"} 1"), "{page}");
}

#[test]
fn the_timeout_of_a_call_is_kept_by_the_server_not_only_by_its_client() {
    let repository = Repository::identity("m", &[("execute_delay_ms", "500")]);
    let server = Server::start(&repository, &["--max-queue-wait-ms=0"]);
    let mut stream = greet(&server);
    let mut head = head(INFER);
    head.extend_from_slice(b"\0\x0cgrpc-timeout\x0320m");
    let message = identity("m", &[1.0]).encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [&[0][..], &length, &message].concat();
    stream.write_all(&frame(HEADERS, END_HEADERS, 1, &head)).unwrap();
    stream.write_all(&frame(DATA, END_STREAM, 1, &body)).unwrap();
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    while !kinds(&read).contains(&HEADERS) {
        let length = stream.read(&mut buffer).unwrap();
        assert_ne!(length, 0, "{:?}", kinds(&read));
        read.extend_from_slice(&buffer[..length]);
    }
    let page = server.get("/metrics").text().to_owned();
    assert!(page.contains("muster_grpc_requests_total{code=\"DEADLINE_EXCEEDED\"} 1"), "{page}");
}

#[test]
fn floods_of_pings_and_settings_harm_nobody_else() {
    let server = start(&[]);
    ping_and_set(grpc(&server));
    check_alive(&server);
}

#[test]
fn metadata_beyond_their_limit_are_refused() {
    let server = start(&[]);
    let mut stream = greet(&server);
    let long = [&[0, 1, b'x', 127, 0x81, 0x7e][..], &vec![b'y'; 127 + 16001]].concat();
    let mut block = head(INFER);
    block.extend_from_slice(&long);
    stream.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block[..16000])).unwrap();
    let _ = stream.shutdown(std::net::Shutdown::Write);
    rest(&mut stream);
    check_alive(&server);
}

#[test]
fn a_call_that_takes_nothing_of_its_reply_is_given_up_while_others_of_its_connection_go_on() {
    const ELEMENTS: usize = 512 << 10;
    let config = "backend: \"identity\"
        input { name: \"INPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }";
    let repository = Repository::identity("m", &[]).model("large", config);
    let server = Server::start(&repository, &["--idle-timeout-secs=0.5"]);
    let large = ModelInferRequest {
        model_name: "large".to_owned(),
        inputs: vec![input("INPUT0", "UINT8", &[ELEMENTS as i64])],
        raw_input_contents: vec![vec![7; ELEMENTS].into()],
        ..ModelInferRequest::default()
    };
    let mut stream = greet(&server);
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // The connection has room for all replies, the large one has not.
    stream.write_all(&frame(WINDOW_UPDATE, 0, 0, &(64u32 << 20).to_be_bytes())).unwrap();
    stream.write_all(&call(1, &large)).unwrap();
    let (mut read, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    let mut step = |number: u32| {
        stream.write_all(&call(number, &identity("m", &[2.0]))).unwrap();
        if let Ok(length) = stream.read(&mut buffer) {
            assert_ne!(length, 0, "it was closed: {:?}", kinds(&read));
            read.extend_from_slice(&buffer[..length]);
        }
        let kinds = kinds(&read);
        (kinds.contains(&RST_STREAM), kinds.iter().filter(|it| **it == HEADERS).count())
    };
    let given_up = (1..500).find(|it| step(2 * it + 1).0);
    assert!(given_up.is_some(), "the large call is still there");
    let (_, before) = step(2001);
    assert!((1001..1100).any(|it| before + 2 < step(2 * it + 1).1), "the connection goes on");
    wait_for("its memory to be free", || {
        (Page::read(server.http()).value("muster_bytes_in_flight") == 0.0).then_some(())
    });
}

#[test]
fn calls_that_announce_large_messages_keep_nobody_out() {
    let server = start(&["--max-inflight-bytes=8MiB"]);
    let page = || Page::read(server.http()).value("muster_bytes_in_flight");
    let announced = [&[0], &(7u32 << 20).to_be_bytes()[..], &[0; 1000]].concat();
    // Six calls on one connection.
    let mut slow = greet(&server);
    for stream in [1, 3, 5, 7, 9, 11] {
        slow.write_all(&frame(HEADERS, END_HEADERS, stream, &head(INFER))).unwrap();
        slow.write_all(&frame(DATA, 0, stream, &announced)).unwrap();
    }
    wait_for("the calls to begin", || (page() == f64::from(6 * (64 << 10))).then_some(()));
    let mut large = identity("m", &[2.0]);
    // It is held twice: in the message, and as the name of the request.
    large.id = "x".repeat(3 << 20);
    assert_eq!(firsts(&Client::new(&server).infer(large).unwrap()), [2.0]);
    drop(slow);
    wait_for("their room to be free", || (page() == 0.0).then_some(()));
}

#[test]
fn a_call_without_its_token_is_refused_before_its_message_takes_room() {
    let files = Repository::new();
    let path = files.at("tokens");
    std::fs::write(&path, "inference inference-token-0123456789\n").unwrap();
    let server = start(&[&format!("--auth-tokens-file={path}")]);
    let mut stream = greet(&server);
    let announced = [&[0], &(7u32 << 20).to_be_bytes()[..], &[0; 1000]].concat();
    stream.write_all(&frame(HEADERS, END_HEADERS, 1, &head(INFER))).unwrap();
    stream.write_all(&frame(DATA, 0, 1, &announced)).unwrap();
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    while !kinds(&read).contains(&HEADERS) {
        let length = stream.read(&mut buffer).unwrap();
        assert_ne!(length, 0, "{:?}", kinds(&read));
        read.extend_from_slice(&buffer[..length]);
    }
    let token = [("x-api-key", "inference-token-0123456789")];
    let page = server.client().request("GET", "/metrics", &token, None).expect(200).text();
    assert!(page.contains("muster_grpc_requests_total{code=\"UNAUTHENTICATED\"} 1"), "{page}");
    assert!(page.contains("muster_bytes_in_flight 0"), "{page}");
}

#[test]
fn a_message_that_comes_slowly_holds_up_no_other_call_of_its_connection() {
    let server = start(&[]);
    let mut stream = greet(&server);
    stream.write_all(&frame(HEADERS, END_HEADERS, 1, &head(INFER))).unwrap();
    stream.write_all(&frame(DATA, 0, 1, &[0, 0, 0x40, 0, 0])).unwrap();
    // Each part is read before the next one comes, so that the window of the connection stays narrow. All parts
    // together are twice as long as that.
    for _ in 0..64 {
        let part = [frame(DATA, 0, 1, &[0; 2048]), frame(PING, 0, 0, &[0; 8])].concat();
        stream.write_all(&part).unwrap();
        until(&mut stream, &[PING]);
    }
    let message = identity("m", &[1.0]).encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [&[0][..], &length, &message].concat();
    stream.write_all(&frame(HEADERS, END_HEADERS, 3, &head(INFER))).unwrap();
    stream.write_all(&frame(DATA, END_STREAM, 3, &body)).unwrap();
    until(&mut stream, &[HEADERS]);
}
