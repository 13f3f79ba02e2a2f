//! What every reply carries beside its own fields: the name of its request, and where the time went.

use crate::support::{Client, Process, Reply, Repository, Server, infer, row, wait_for};

/// The parts of the header `Server-Timing`, with milliseconds.
fn timing(reply: &Reply) -> Vec<(String, f64)> {
    let text = reply.header("server-timing").expect("a reply says where its time went");
    let part = |it: &str| {
        let (name, milliseconds) = it.trim().split_once(";dur=").unwrap();
        (name.to_owned(), milliseconds.parse().unwrap())
    };
    text.split(',').map(part).collect()
}

fn names(reply: &Reply) -> Vec<String> {
    timing(reply).into_iter().map(|it| it.0).collect()
}

fn is_made(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

#[track_caller]
fn check(reply: &Reply, status: u16) {
    assert_eq!(reply.status, status, "{}", reply.text());
    let id = reply.header("x-request-id").expect("a reply names its request");
    assert!(is_made(id), "{id}");
    assert_eq!(names(reply), ["total"]);
}

#[test]
fn replies_of_all_protocols_and_of_none_carry_them() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &["--http-max-input-size=1024"]);
    let mut client = server.client();
    for (method, path, status) in [
        ("GET", "/v2/health/ready", 200),
        ("HEAD", "/v2/models/m", 200),
        ("GET", "/v1/models/m", 200),
        ("GET", "/metrics", 200),
        ("GET", "/nothing/here", 404),
        ("GET", "/v2/models/none", 404),
        ("PUT", "/v2/models/m/infer", 405),
        ("OPTIONS", "/v2/models/m/infer", 204),
        ("OPTIONS", "/nothing/here", 404),
        ("POST", "/v1/embeddings", 400),
    ] {
        check(&client.request(method, path, &[], None), status);
    }
    check(&Client::connect(server.sagemaker()).get("/ping"), 200);
    check(&client.post(&infer("m"), &[], "x".repeat(2000)), 413);
    // Heads that are not read, and a connection that speaks HTTP/1.0.
    for (head, status) in [
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nwrong line\r\n\r\n", 400),
        ("GET /v2 HTTP/1.0\r\n\r\n", 200),
    ] {
        let mut client = server.client();
        client.send(head).unwrap();
        check(&client.reply(), status);
    }
}

#[test]
fn the_times_of_a_run_are_parts_of_the_whole() {
    let parameters: &[(&str, &str)] = &[("execute_delay_ms", "20")];
    let repository = Repository::identity("m", parameters);
    let server = Server::start(&repository, &[]);
    let reply = server.post(&infer("m"), row(1)).expect(200);
    let times = timing(&reply);
    assert_eq!(names(&reply), ["queue", "compute", "total"]);
    let [queue, compute, total] = [0, 1, 2].map(|at: usize| times[at].1);
    assert!(20.0 <= compute && queue + compute <= total, "{times:?}");
    let server = Server::start(&repository, &["--server-timing=false"]);
    let reply = server.post(&infer("m"), row(1)).expect(200);
    assert_eq!(reply.header("server-timing"), None);
    assert!(reply.header("x-request-id").is_some_and(is_made));
}

#[test]
fn a_request_has_one_name_in_its_reply_and_in_the_log() {
    let repository = Repository::identity("m", &[]);
    let mut server = Process::start(&repository, &["--log-requests"], &[]);
    server.wait_ready();
    let mut client = server.client();
    let line = |parts: &[&str]| {
        wait_for(&format!("a line with {parts:?}"), || {
            let has = |line: &String| parts.iter().all(|it| line.contains(it));
            server.log().iter().any(has).then_some(())
        })
    };
    let id = |reply: &Reply| reply.header("x-request-id").unwrap().to_owned();
    let reply = client.post(&infer("m"), &[("x-request-id", "mine-1")], row(1)).expect(200);
    assert_eq!(id(&reply), "mine-1");
    line(&["status=200", "request_id=mine-1"]);
    let reply = client.post(&infer("m"), &[], row(1)).expect(200);
    line(&["status=200", &format!("request_id={}", id(&reply))]);
    // Of SageMaker's header, where there is no other.
    let headers = [("x-amzn-sagemaker-inference-id", "aws-2")];
    assert_eq!(id(&client.post(&infer("m"), &headers, row(1))), "aws-2");
    // A name that no line should have.
    for wrong in ["a b", &"x".repeat(129)] {
        let reply = client.post(&infer("m"), &[("x-request-id", wrong)], row(1)).expect(200);
        assert!(is_made(&id(&reply)), "{}", id(&reply));
    }
    // A failure, whose client names it in the body, too.
    let reply =
        client.post(&infer("m"), &[("x-request-id", "mine-3")], r#"{"id":"seven","inputs":[]}"#);
    assert_eq!(
        (id(&reply).as_str(), reply.json()["request_id"].as_str()),
        ("mine-3", Some("seven"))
    );
    line(&["request rejected", "request_id=seven", "x_request_id=mine-3"]);
    let reply = client.post(&infer("m"), &[], r#"{"inputs":[]}"#);
    assert_eq!(reply.json()["request_id"].as_str(), Some(&*id(&reply)));
    line(&["request rejected", &format!("request_id={}", id(&reply))]);
}
