//! Models that answer in any number of parts, on `/invocations` and over a WebSocket.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::support::{
    Client, IN_PROCESS, Repository, Server, post_head, wait_for,
    websocket::{PATH, PING, PONG, Socket, TEXT},
};

/// A decoupled model: `INPUT0` → `OUTPUT0`, four floats, in three parts unless a request says otherwise.
fn config(parameter: &str) -> String {
    format!(
        "backend: 'identity' max_batch_size: 8 model_transaction_policy {{ decoupled: true }}
         input {{ name: 'INPUT0' data_type: TYPE_FP32 dims: [ 4 ] }}
         output {{ name: 'OUTPUT0' data_type: TYPE_FP32 dims: [ 4 ] }}
         parameters {{ key: 'parts' value: {{ string_value: '3' }} }} {parameter}"
    )
}

const FAILS: &str = "parameters { key: 'part_fails' value: { string_value: 'true' } }";

fn server() -> Server {
    let repository = Repository::new().model("m", &config("")).model("faulty", &config(FAILS));
    Server::start(&repository, &[IN_PROCESS, "--sagemaker-default-model=m"])
}

fn kserve(parts: i64) -> String {
    let input =
        json!({ "name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4] });
    json!({ "id": "a", "inputs": [input], "parameters": { "parts": parts } }).to_string()
}

#[track_caller]
fn check_part(text: &str) {
    let part: Value = serde_json::from_str(text).unwrap();
    assert_eq!((&part["id"], &part["model_name"]), (&json!("a"), &json!("m")));
    assert_eq!(part["outputs"][0]["data"], json!([1.0, 2.0, 3.0, 4.0]));
}

#[test]
fn each_response_to_a_body_of_kserve_is_an_event() {
    let server = server();
    let mut client = Client::connect(server.sagemaker());
    for accept in ["*/*", "text/event-stream", "text/event-stream, application/json"] {
        let headers = [("content-type", "application/json"), ("accept", accept)];
        let reply = client.post("/invocations", &headers, kserve(3)).expect(200);
        assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
        assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
        let text = reply.text();
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        assert_eq!(events.len(), 3, "{text}");
        events.iter().for_each(|it| check_part(it.strip_prefix("data: ").unwrap()));
    }
    let reply = client.post("/invocations", &[], kserve(0)).expect(200);
    assert_eq!(reply.text(), "");
    let headers = [("X-Amzn-SageMaker-Target-Model", "faulty")];
    let reply = client.post("/invocations", &headers, kserve(1)).expect(200);
    let text = reply.text();
    let (_, last) = text.trim_end().rsplit_once("\n\ndata: ").unwrap();
    assert!(last.contains("told to fail by 'part_fails'"), "{text}");
    let refused = client.post("/invocations", &headers, kserve(0)).error(500);
    assert!(refused.contains("told to fail by 'part_fails'"), "{refused}");
}

#[test]
fn lines_come_one_behind_the_other_and_what_holds_one_response_is_refused_before_a_run() {
    let server = server();
    let mut client = Client::connect(server.sagemaker());
    let row = r#"{"instances": [[1, 2, 3, 4]]}"#;
    let mut ask = |accept: &str| {
        let headers = [("content-type", "application/json"), ("accept", accept)];
        client.post("/invocations", &headers, row)
    };
    let reply = ask("application/jsonlines").expect(200);
    assert_eq!(reply.header("content-type"), Some("application/jsonlines"));
    assert_eq!(reply.text(), "[1.0,2.0,3.0,4.0]\n".repeat(3));
    assert_eq!(ask("text/csv").expect(200).text(), "1.0,2.0,3.0,4.0\n".repeat(3));
    let event = "data: {\"predictions\":[[1.0,2.0,3.0,4.0]]}\n\n";
    assert_eq!(ask("application/json").expect(200).text(), event.repeat(3));
    let count = || {
        let stats = server.get("/v2/models/m/stats").json();
        stats["model_stats"][0]["execution_count"].clone()
    };
    let before = count();
    let refused = ask("application/x-npy").error(501);
    assert!(refused.contains("any number of parts"), "{refused}");
    assert_eq!(count(), before);
}

#[test]
fn a_websocket_has_a_message_for_each_response() {
    let server = server();
    let mut socket = Socket::to(&server);
    socket.send(TEXT, kserve(3));
    socket.send(TEXT, "[[1, 2]]");
    socket.send(TEXT, kserve(1));
    for _ in 0..3 {
        check_part(&socket.text());
    }
    assert!(socket.error().contains("INPUT0"));
    check_part(&socket.text());

    // Where it is asked for, an empty message tells that there is no other.
    let path = format!("{PATH}?empty-final-response=true");
    let mut socket = Socket::connect(server.sagemaker(), &path, &[]);
    socket.send(TEXT, kserve(2));
    check_part(&socket.text());
    check_part(&socket.text());
    assert_eq!(socket.text(), "");
    socket.send(TEXT, kserve(0));
    assert_eq!(socket.text(), "");

    let path = format!("{PATH}?target-model=faulty");
    let mut socket = Socket::connect(server.sagemaker(), &path, &[]);
    socket.send(TEXT, kserve(1));
    assert!(socket.text().contains("OUTPUT0"));
    assert!(socket.error().contains("told to fail by 'part_fails'"));
    socket.send(TEXT, kserve(0));
    assert!(socket.error().contains("told to fail by 'part_fails'"));
}

#[test]
fn a_conversation_goes_on_while_an_answer_comes_and_ends_it_as_its_client_leaves() {
    let leaves = "parameters { key: 'parts_leave' value: { string_value: 'true' } }";
    let repository = Repository::new().model("m", &config(leaves));
    let server = Server::start(&repository, &[IN_PROCESS]);
    let mut socket = Socket::to(&server);
    socket.send(TEXT, kserve(1 << 40));
    check_part(&socket.text());
    // The client is heard between the parts.
    socket.send(PING, "there?");
    loop {
        match socket.read() {
            (PONG, payload) => break assert_eq!(payload, b"there?"),
            (TEXT, payload) => check_part(std::str::from_utf8(&payload).unwrap()),
            other => panic!("{other:?}"),
        }
    }
    drop(socket);
    wait_for("the request is counted as failed", || {
        let stats = server.get("/v2/models/m/stats").json();
        let failed = &stats["model_stats"][0]["inference_stats"]["fail"]["count"];
        (*failed == json!(1)).then_some(())
    });
}

#[test]
fn an_event_arrives_before_the_last_is_sent() {
    let server = server();
    let mut stream = std::net::TcpStream::connect(server.sagemaker()).unwrap();
    let body = kserve(1 << 40);
    stream.write_all((post_head("/invocations", &[], body.len()) + &body).as_bytes()).unwrap();
    let mut read = Vec::new();
    while String::from_utf8_lossy(&read).matches("data: ").count() < 2 {
        let mut piece = [0; 1024];
        let length = stream.read(&mut piece).unwrap();
        assert!(0 < length, "{}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&piece[..length]);
    }
}

/// A model that gives one answer, in runs of four rows.
fn of_rows(parameters: &str) -> String {
    format!(
        "backend: 'identity' max_batch_size: 4
         input {{ name: 'INPUT0' data_type: TYPE_FP32 dims: [ 1 ] }}
         output {{ name: 'OUTPUT0' data_type: TYPE_FP32 dims: [ 1 ] }} {parameters}"
    )
}

const LINES: [(&str, &str); 2] =
    [("content-type", "application/jsonlines"), ("accept", "application/jsonlines;stream=true")];

#[test]
fn lines_of_a_long_batch_come_as_its_runs_end_in_their_order() {
    let several = of_rows("instance_group { count: 3 kind: KIND_CPU }");
    let repository = Repository::new().model("m", &several);
    let server = Server::start(&repository, &[IN_PROCESS]);
    let mut client = Client::connect(server.sagemaker());
    let body: String = (0..1001).map(|it| format!("[{it}]\n")).collect();
    let reply = client.post("/invocations", &LINES, &body).expect(200);
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
    assert_eq!(reply.header("content-type"), Some("application/jsonlines"));
    let expected: String = (0..1001).map(|it| format!("[{it}.0]\n")).collect();
    assert_eq!(reply.text(), expected);
    let whole = client.post("/invocations", &[LINES[0]], &body).expect(200);
    assert_eq!(whole.text(), expected);
    let stats = server.get("/v2/models/m/stats").json()["model_stats"][0].clone();
    assert_eq!(stats["inference_stats"]["success"]["count"], json!(2));
    assert_eq!(stats["inference_count"], json!(2002));
    // An object for each row, as AWS's algorithms answer.
    let body: String = (0..1001).map(|it| format!("{{\"features\":[{it}]}}\n")).collect();
    let whole = client.post("/invocations", &[LINES[0]], &body).expect(200).text().to_owned();
    let reply = client.post("/invocations", &LINES, &body).expect(200);
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
    assert!(whole.lines().count() == 1001 && reply.text() == whole, "{whole}");
    // What fits one run is one part, and has a length.
    let short = client.post("/invocations", &LINES, "[1]\n[2]\n").expect(200);
    assert_eq!((&*short.text(), short.header("content-length")), ("[1.0]\n[2.0]\n", Some("12")));
    let wrong = client.post("/invocations", &LINES, "[1]\n[2, 3]\n").error(400);
    assert!(wrong.contains("expected"), "{wrong}");
}

#[test]
fn a_run_that_fails_breaks_the_lines_off_behind_those_before_it() {
    let fails = "instance_group { count: 1 kind: KIND_CPU }
         parameters { key: 'fault' value: { string_value: 'fail' } }
         parameters { key: 'fault_marker' value: { string_value: '20' } }";
    let repository = Repository::new().model("m", &of_rows(fails));
    let server = Server::start(&repository, &[IN_PROCESS]);
    let mut stream = std::net::TcpStream::connect(server.sagemaker()).unwrap();
    let body: String = (0..40).map(|it| format!("[{it}]\n")).collect();
    stream.write_all((post_head("/invocations", &LINES, body.len()) + &body).as_bytes()).unwrap();
    let mut read = String::new();
    stream.read_to_string(&mut read).unwrap();
    assert!(read.contains("200 OK") && read.contains("[3.0]"), "{read}");
    assert!(!read.ends_with("0\r\n\r\n") && !read.contains("[39.0]"), "{read}");
}
