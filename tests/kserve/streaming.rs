//! Replies that are streams, and large ones: their framing, and clients that take their time or leave.

use std::{
    io::Read,
    thread,
    time::{Duration, Instant},
};

use crate::support::{Client, Page, Repository, Server, infer, post_head, row, wait_for};

/// A model that takes as many rows as one likes.
fn wide(parameters: &str) -> Repository {
    let config = format!(
        "backend: \"identity\" max_batch_size: 1000000
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }} {parameters}"
    );
    Repository::new().model("m", &config)
}

/// So many rows of zeros as a NumPy array: a reply as large costs hardly any time.
fn npy(rows: usize) -> Vec<u8> {
    let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 4), }}");
    let head = format!("{head:117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.as_bytes());
    bytes.resize(bytes.len() + rows * 16, 0);
    bytes
}

/// Rows of which a reply is larger than what the system takes off the server's hands.
const MANY: usize = 1_000_000;

/// Sends so many rows and reads nothing.
fn send(server: &Server, rows: usize) -> Client {
    let body = npy(rows);
    let mut client = Client::connect(server.sagemaker());
    let headers = [("content-type", "application/x-npy")];
    client.send(post_head("/invocations", &headers, body.len())).unwrap();
    client.send(&body).unwrap();
    client
}

fn invoke(server: &Server, headers: &[(&str, &str)], body: &str) -> crate::support::Reply {
    Client::connect(server.sagemaker()).post("/invocations", headers, body).expect(200)
}

#[test]
fn events_are_chunked_and_what_has_a_length_says_it() {
    let server = Server::start(&Repository::identity("m", &[]), &[]);
    let mut client = server.client();
    let body = r#"{"INPUT0":[1,2,3,4]}"#;
    let events = client.post("/v2/models/m/generate_stream", &[], body).expect(200);
    assert_eq!(events.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(events.header("transfer-encoding"), Some("chunked"));
    assert_eq!(events.header("content-length"), None);
    let event = events.text();
    assert!(event.starts_with("data: {") && event.ends_with("}\n\n"), "{event}");
    // The connection goes on behind it.
    let object = client.post("/v2/models/m/generate", &[], body).expect(200);
    assert_eq!(object.header("transfer-encoding"), None);
    assert_eq!(object.header("content-length"), Some(&*object.body.len().to_string()));
}

#[test]
fn lines_of_json_are_what_clients_of_streams_read() {
    let server = Server::start(&wide(""), &[]);
    for accept in ["application/jsonlines", "application/x-ndjson"] {
        let headers = [("content-type", "text/csv"), ("accept", accept)];
        let reply = invoke(&server, &headers, "1,2,3,4\n5,6,7,8\n0,0,0,0\n");
        assert_eq!(reply.header("content-type"), Some(accept));
        let lines = reply.text();
        assert!(lines.ends_with('\n'), "{lines}");
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        assert_eq!(lines.len(), 3);
    }
}

#[test]
fn a_large_reply_comes_whole_however_slowly_it_is_taken() {
    // A reader may be as slow as it likes as long as it reads: no part of it waits for so long.
    let server = Server::start(&wide(""), &["--idle-timeout-secs=1"]);
    let client = send(&server, MANY);
    let (started, mut taken, mut chunk) = (Instant::now(), 0, vec![0; 256 << 10]);
    let expected = MANY * 16;
    while taken < expected {
        let read = client.stream().read(&mut chunk).unwrap();
        assert_ne!(read, 0, "closed after {taken} bytes");
        taken += read;
        // Longer in all than a connection may be idle. Nothing else depends on the length of these pauses.
        if started.elapsed() < Duration::from_millis(2500) {
            thread::sleep(Duration::from_millis(100));
        }
    }
    assert!(started.elapsed() > Duration::from_secs(2));
}

#[test]
fn nothing_cuts_a_reply_that_takes_long_to_begin() {
    let slow = "parameters { key: \"execute_delay_ms\" value: { string_value: \"2500\" } }";
    let flags = ["--idle-timeout-secs=1", "--header-timeout-secs=1", "--body-grace-secs=1"];
    let server = Server::start(&wide(slow), &flags);
    assert_eq!(invoke(&server, &[], "1,2,3,4\n").text(), "1.0,2.0,3.0,4.0\n");
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_reply_gives_its_memory_back() {
    let server = Server::start(&wide(""), &["--max-inflight-bytes=64MiB"]);
    // More than the budget has room for, were it not given back.
    for _ in 0..12 {
        let client = send(&server, MANY);
        client.stream().read_exact(&mut [0; 1000]).unwrap();
        drop(client);
        wait_for("the memory of the reply", || {
            (Page::read(server.http()).value("muster_bytes_in_flight") == 0.0).then_some(())
        });
    }
    server.post(&infer("m"), row(1)).expect(200);
}

#[test]
fn whoever_takes_nothing_of_a_reply_keeps_nobody_else_from_theirs() {
    let server = Server::start(&wide(""), &["--http-thread-count=1"]);
    let client = send(&server, MANY);
    client.stream().read_exact(&mut [0; 1]).unwrap();
    for _ in 0..50 {
        server.post(&infer("m"), row(1)).expect(200);
    }
}
