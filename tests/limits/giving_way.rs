//! Where there is no room for more, the slowest gives way: small requests are answered all the while, and large ones
//! soon.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use socket2::SockRef;

use crate::support::{
    Client, PATIENCE, Repository, Server, Start, first_of,
    grpc::{Client as GrpcClient, identity},
    http2::{END_HEADERS, HEADERS, frame, head},
    infer, post_head, row, wait_for,
};

const MIB: usize = 1 << 20;

/// One-dimensional floats of any number.
const FLOATS: &str = "backend: \"identity\" max_batch_size: 0
    input { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }
    output { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }";

fn repository() -> Repository {
    Repository::identity("m", &[]).model("floats", FLOATS)
}

/// A small request on a connection of its own.
#[track_caller]
fn small(server: &Server) {
    assert_eq!(first_of(&server.post(&infer("m"), row(7)).expect(200)), 7.0);
}

/// Asks with a body of so many bytes and more until it is answered.
#[track_caller]
fn wait_for_large(server: &Server, bytes: usize) {
    let body = format!("{}{}", " ".repeat(bytes), row(8));
    wait_for("a large request to be answered", || {
        let mut client = Client::try_connect(server.http()).ok()?;
        let head = [("content-type", "application/json")];
        let reply = client.try_request("POST", &infer("m"), &head, Some(body.as_bytes()));
        small(server);
        (reply.ok()??.status == 200).then_some(())
    });
}

#[test]
fn bodies_that_stop_give_way_to_others_and_small_requests_do_not_wait_for_that() {
    let server = Server::start(&repository(), &["--max-inflight-bytes=8MiB"]);
    let mut slow: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for client in &mut slow {
        client.send(post_head(&infer("m"), &[], MIB)).unwrap();
        client.send(" ".repeat(MIB - 1)).unwrap();
    }
    for _ in 0..20 {
        small(&server);
    }
    wait_for_large(&server, 2 * MIB);
    let refused = wait_for("a slow body to be refused", || {
        slow.iter_mut().find_map(|it| {
            it.stream().set_nonblocking(true).unwrap();
            let has_answer = it.stream().peek(&mut [0]).is_ok();
            it.stream().set_nonblocking(false).unwrap();
            has_answer.then(|| it.reply())
        })
    });
    assert!(refused.error(503).contains("it gave way to others"), "{}", refused.text());
}

#[test]
fn replies_that_nobody_reads_give_way_to_others() {
    let server = Server::start(&repository(), &["--max-inflight-bytes=96MiB"]);
    let floats = 6 * MIB;
    let json = format!(
        r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[{floats}],"parameters":{{"binary_data_size":{}}}}}],"parameters":{{"binary_data_output":true}}}}"#,
        4 * floats
    );
    let length = json.len().to_string();
    let path = infer("floats");
    let head =
        post_head(&path, &[("inference-header-content-length", &length)], json.len() + 4 * floats);
    let body = [head.as_bytes(), json.as_bytes(), &vec![0; 4 * floats]].concat();
    let unread: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = TcpStream::connect(server.http()).unwrap();
            SockRef::from(&stream).set_recv_buffer_size(4096).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(&body).unwrap();
            // The reply has begun.
            stream.read_exact(&mut [0; 12]).unwrap();
            stream
        })
        .collect();
    wait_for_large(&server, 60 * MIB);
    drop(unread);
}

/// Opens calls that say nothing on a connection of their own; an error where the server ends that meanwhile.
fn open_calls(grpc: SocketAddr, calls: u32) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(grpc)?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
    stream.write_all(&frame(4, 0, 0, &[]))?;
    let block = head("/inference.GRPCInferenceService/ModelStreamInfer");
    let all: Vec<u8> =
        (0..calls).flat_map(|it| frame(HEADERS, END_HEADERS, 2 * it + 1, &block)).collect();
    stream.write_all(&all)?;
    Ok(stream)
}

/// What the server has said on a connection since the last look, and whether the connection is open still.
fn heard(mut stream: &TcpStream) -> (Vec<u8>, bool) {
    // Everything that is said at once comes well within that time.
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut bytes = Vec::<u8>::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return (bytes, false),
            Ok(length) => bytes.extend(&part[..length]),
            Err(error) => {
                let is_quiet = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
                return (bytes, is_quiet.contains(&error.kind()));
            }
        }
    }
}

/// Is there an RST_STREAM with REFUSED_STREAM among those frames?
fn refuses(bytes: &[u8]) -> bool {
    let reset = [0, 0, 4, 3, 0];
    bytes.windows(13).any(|it| it[..5] == reset && it[9..] == [0, 0, 0, 7])
}

#[test]
fn calls_that_say_nothing_take_no_more_than_connections_have_and_give_way_to_others() {
    let repository = repository();
    let mut start = Start::new(&repository);
    // Connections have 16 MiB of that: room for some 600 calls.
    start.machine.memory = Some(256 << 20);
    let server = start.run();
    let grpc = server.address("grpc").unwrap();
    let silent: Vec<TcpStream> = (0..20).filter_map(|_| open_calls(grpc, 100).ok()).collect();
    // Refused calls are told at once.
    wait_for("calls to be refused", || silent.iter().any(|it| refuses(&heard(it).0)).then_some(()));
    // A connection has room for a first call, and HTTP goes on.
    let answer = GrpcClient::new(&server).infer(identity("m", &[3.0])).unwrap();
    assert_eq!(answer.model_name, "m");
    small(&server);
    // Calls that have been silent for long end, so that others can be made.
    wait_for("many calls to be taken", || {
        let calls = open_calls(grpc, 10).ok()?;
        let (said, is_open) = heard(&calls);
        (is_open && !refuses(&said)).then_some(())
    });
}
