//! What one client may take: bytes, connections, time. Beyond it there is an answer in words where one can
//! still be read, and a closed connection else.

use std::{
    fs,
    io::Read,
    time::{Duration, Instant},
};

use crate::support::{
    Client, Page, Process, Repository, Server, control::EXPLICIT, first_of, infer, post_head, row,
    wait_for,
};

fn start(flags: &[&str]) -> Server {
    Server::start(&Repository::identity("m", &[]), flags)
}

/// What the server says to that head.
fn head_refused(server: &Server, head: &str, status: u16) -> String {
    let mut client = server.client();
    client.send(head).unwrap();
    let reply = client.reply();
    assert_eq!(reply.header("content-type"), Some("application/json"));
    // Nothing is known of the request, so that it has no id.
    let error = reply.expect(status).json()["error"].as_str().unwrap().to_owned();
    assert!(client.is_closed());
    error
}

#[test]
fn a_head_that_cannot_be_read_is_answered_in_words() {
    let server = start(&[]);
    let head = |fields: usize| {
        let fields: String = (0..fields).map(|it| format!("x-{it}: 1\r\n")).collect();
        format!("GET /v2/health/live HTTP/1.1\r\nhost: x\r\n{fields}\r\n")
    };
    let mut client = server.client();
    client.send(head(99)).unwrap();
    client.reply().expect(200);
    for fields in [100, 150, 5000] {
        let error = head_refused(&server, &head(fields), 431);
        assert!(error.contains("expected 100 header fields at most"), "{error}");
    }
    let large = format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(1 << 20));
    assert!(head_refused(&server, &large, 431).contains("too large"));
    let error = head_refused(&server, "GET /v2 HTTP/1.1\r\nno colon\r\n\r\n", 400);
    assert!(error.contains("a name and a value in each field"), "{error}");
}

/// A request that is `length` bytes long.
fn padded(length: usize) -> String {
    let body = row(1);
    " ".repeat(length - body.len()) + &body
}

fn wait_bytes_in_flight(server: &Server, expected: usize) {
    wait_for(&format!("{expected} bytes in flight"), || {
        let bytes = Page::read(server.http()).value("muster_bytes_in_flight");
        (bytes == expected as f64).then_some(())
    });
}

#[test]
fn a_body_up_to_the_limit_is_taken_and_one_byte_more_is_refused() {
    let server = start(&["--http-max-input-size=20000"]);
    assert_eq!(first_of(&server.post(&infer("m"), padded(20_000))), 1.0);
    let refused = server.post(&infer("m"), padded(20_001));
    assert!(refused.error(413).contains("20001 bytes"), "{}", refused.text());
}

#[test]
fn a_chunked_body_over_the_limit_is_refused() {
    let server = start(&["--http-max-input-size=20000"]);
    let mut client = server.client();
    client.send(chunked_head()).unwrap();
    for _ in 0..5 {
        client.send(format!("1388\r\n{}\r\n", " ".repeat(5000))).unwrap();
    }
    assert!(client.reply().error(413).contains("exceeds the maximum allowed value of 20000 bytes"));
    wait_bytes_in_flight(&server, 0);
}

fn chunked_head() -> String {
    format!("POST {} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n", infer("m"))
}

#[test]
fn a_client_that_sends_before_it_reads_still_sees_why_it_was_refused() {
    let server = start(&[]);
    let mut client = server.client();
    // More than sockets hold; the answer is sent before it has been read.
    let refused = client.post(&infer("unknown"), &[], padded(1_000_000));
    assert!(refused.error(404).contains("unknown"), "{}", refused.text());
    // And the connection is still good.
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(2))), 2.0);
}

#[test]
fn a_declared_length_is_refused_before_any_of_it_is_sent() {
    let server = start(&["--http-max-input-size=20000"]);
    let mut client = server.client();
    client.send(post_head(&infer("m"), &[], 1 << 62)).unwrap();
    client.reply().error(413);
    wait_bytes_in_flight(&server, 0);
}

#[test]
fn bodies_share_a_budget_and_give_it_back() {
    let server = start(&["--max-inflight-bytes=100000"]);
    let mut first = server.client();
    let body = padded(80_000);
    let (most, rest) = body.split_at(70_000);
    first.send(post_head(&infer("m"), &[], body.len()) + most).unwrap();
    wait_bytes_in_flight(&server, 80_000);
    let refused = server.post(&infer("m"), &body);
    assert!(refused.error(503).contains("80000 of the 100000 bytes"), "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    // What is small still fits.
    assert_eq!(first_of(&server.post(&infer("m"), row(3))), 3.0);
    first.send(rest).unwrap();
    assert_eq!(first_of(&first.reply()), 1.0);
    wait_bytes_in_flight(&server, 0);
    assert_eq!(first_of(&server.post(&infer("m"), &body)), 1.0);
}

#[test]
fn slow_clients_that_announce_large_bodies_keep_nobody_out() {
    let server = start(&["--max-inflight-bytes=8MiB"]);
    let slow: Vec<Client> = (0..6)
        .map(|_| {
            let mut client = server.client();
            client.send(post_head(&infer("m"), &[], 7 << 20) + &" ".repeat(1000)).unwrap();
            client
        })
        .collect();
    // A piece of 64 KiB each.
    wait_bytes_in_flight(&server, 6 * (64 << 10));
    assert_eq!(first_of(&server.post(&infer("m"), padded(4 << 20))), 1.0);
    drop(slow);
    wait_bytes_in_flight(&server, 0);
}

#[test]
fn of_large_bodies_that_do_not_fit_together_one_is_taken() {
    let server = start(&["--max-inflight-bytes=20MiB"]);
    let body = padded(12 << 20);
    let statuses = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| server.client().post(&infer("m"), &[], &body).status))
            .collect();
        clients.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(statuses.contains(&200), "{statuses:?}");
    assert!(statuses.iter().all(|it| [200, 503].contains(it)), "{statuses:?}");
    wait_bytes_in_flight(&server, 0);
}

#[test]
fn a_connection_over_the_cap_is_told_so_and_closed() {
    let server = start(&["--max-connections=2"]);
    let (mut one, mut two) = (server.client(), server.client());
    let body = row(1);
    for client in [&mut one, &mut two] {
        client.send(post_head(&infer("m"), &[], body.len())).unwrap();
    }
    // Their requests are in flight, so neither is closed for another one.
    let metrics = server.address("metrics").unwrap();
    wait_for("both to be in flight", || {
        let bytes = Page::read(metrics).value("muster_bytes_in_flight");
        (bytes == (2 * body.len()) as f64).then_some(())
    });
    let mut three = server.client();
    let refused = three.reply();
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("2 connections are open"), "{}", refused.text());
    for name in ["retry-after", "x-request-id", "server-timing"] {
        assert!(refused.header(name).is_some(), "{name}");
    }
    assert!(three.is_closed());
    drop(one);
    wait_for("a place to be free", || {
        let mut next = server.client();
        // A refusal may come first, and then what was sent is not read.
        let _ = next.send("GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n");
        next.try_reply().ok().flatten().filter(|it| it.status == 200)
    });
    two.send(body).unwrap();
    assert_eq!(first_of(&two.reply()), 1.0);
}

#[test]
fn idle_connections_close_no_port() {
    // However long it takes to open them.
    let server = start(&["--max-connections=8", "--body-grace-secs=600"]);
    let grpc = server.address("grpc").unwrap();
    let mut busy = server.client();
    let body = row(7);
    busy.send(post_head(&infer("m"), &[], body.len())).unwrap();
    wait_bytes_in_flight(&server, body.len());
    // Four times as many as there are places, some that never say a word, and some with half a head.
    let mut idle: Vec<Client> = Vec::new();
    for at in 0..32 {
        let address = if at % 4 == 0 { grpc } else { server.http() };
        let mut client = Client::connect(address);
        match at % 4 {
            1 => drop(client.get("/v2/health/live").expect(200)),
            2 => client.send("GET / HT").unwrap(),
            _ => {}
        }
        idle.push(client);
        server.get("/v2/health/live").expect(200);
    }
    // Those that were idle for longest were closed.
    for client in idle.drain(..16) {
        // The greeting of HTTP/2 may have come.
        let closed = client.stream().read_to_end(&mut Vec::new());
        assert!(closed.is_ok_and(|it| it < 100));
    }
    // And this one was not.
    busy.send(body).unwrap();
    assert_eq!(first_of(&busy.reply()), 7.0);
}

#[test]
fn thousands_of_idle_connections_close_no_port() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // The server is a process of its own, so that each side has the limit for itself.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let most = limit.maximum.unwrap_or(u64::MAX).min(16_500) as usize - 500;
    let repository = Repository::identity("m", &[]);
    // However long it takes to open them.
    let flags = ["--header-timeout-secs=600", "--idle-timeout-secs=600"];
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    let http = server.address("http");
    let mut idle: Vec<Client> = Vec::with_capacity(most);
    for at in 0..most {
        let mut client = Client::connect(http);
        if at % 8 == 0 {
            client.get("/v2/health/live").expect(200);
        }
        idle.push(client);
    }
    let mut client = server.client();
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(7))), 7.0);
    assert_eq!(Page::read(server.address("metrics")).failures("m", "REJECTED"), 0.0);
    // All of them are still open.
    for client in idle.iter_mut().step_by(most / 16) {
        client.get("/v2/health/live").expect(200);
    }
    drop(idle);
    wait_for("connections to be closed", || {
        let open = fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
        (open < 200).then_some(())
    });
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(8))), 8.0);
}

#[test]
fn requests_in_flight_that_take_all_places_leave_health_metrics_and_administration_open() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &["--max-connections=4", EXPLICIT, "--load-model=m"]);
    let body = row(7);
    let mut busy: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for client in &mut busy {
        client.send(post_head(&infer("m"), &[], body.len())).unwrap();
    }
    let metrics = server.address("metrics").unwrap();
    wait_for("all to be in flight", || {
        let bytes = Page::read(metrics).value("muster_bytes_in_flight");
        (bytes == (4 * body.len()) as f64).then_some(())
    });
    assert_eq!(server.client().reply().status, 503);
    assert_eq!(server.post(&infer("m"), &body).status, 503);
    Client::connect(metrics).get("/v2/health/ready").expect(200);
    // Those that say nothing are in the way of none that asks for health.
    let _silent: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for path in ["/v2/health/live", "/v2/health/ready", "/ping"] {
        let healthy = server.get(path).expect(200);
        assert_eq!(healthy.header("connection"), Some("close"));
    }
    Client::connect(server.sagemaker()).get("/ping").expect(200);
    for path in ["index", "models/m/load", "models/none/unload"] {
        let answered = server.post(&format!("/v2/repository/{path}"), "").expect(200);
        assert_eq!(answered.header("connection"), Some("close"));
    }
    assert_eq!(server.post(&infer("m"), &body).status, 503);
    busy.remove(0).send(&body).unwrap();
}

#[test]
fn who_may_not_administer_has_no_place_where_all_are_taken() {
    let tokens = "inference inference-token-1\nadmin admin-token-2222\n";
    let repository = Repository::identity("m", &[]).file(".tokens", tokens);
    let file = format!("--auth-tokens-file={}", repository.at(".tokens"));
    let flags = ["--max-connections=1", "--auth-open=health,metrics", EXPLICIT, "--load-model=m"];
    let server = Server::start(&repository, &[&flags[..], &[&file]].concat());
    let body = row(7);
    let token = |it: &'static str| [("x-api-key", it)];
    let mut busy = server.client();
    busy.send(post_head(&infer("m"), &token("inference-token-1"), body.len())).unwrap();
    let metrics = server.address("metrics").unwrap();
    wait_for("it to be in flight", || {
        let bytes = Page::read(metrics).value("muster_bytes_in_flight");
        (bytes == body.len() as f64).then_some(())
    });
    let load = |token: &[(&str, &str)]| {
        server.client().post("/v2/repository/models/m/load", token, "").status
    };
    assert_eq!(load(&[]), 503);
    assert_eq!(load(&token("inference-token-1")), 503);
    assert_eq!(load(&token("admin-token-2222")), 200);
    busy.send(&body).unwrap();
}

#[test]
fn headers_that_come_byte_by_byte_are_not_waited_for() {
    let server = start(&["--header-timeout-secs=0.5"]);
    let mut client = server.client();
    let began = Instant::now();
    // One byte at a time is no excuse.
    let closed = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        client.send("G").is_err()
    });
    assert!(closed, "{:?}", began.elapsed());
    assert!(Duration::from_millis(500) <= began.elapsed(), "{:?}", began.elapsed());
    server.get("/v2/health/live").expect(200);
}

#[test]
fn a_body_that_is_too_slow_is_answered_with_408() {
    let server = start(&["--body-grace-secs=0.5", "--body-min-rate=1MiB"]);
    let mut client = server.client();
    let began = Instant::now();
    client.send(post_head(&infer("m"), &[], 1000)).unwrap();
    client.send([b' '; 10]).unwrap();
    assert!(client.reply().error(408).contains("did not arrive"));
    assert!(Duration::from_millis(500) <= began.elapsed());
    wait_bytes_in_flight(&server, 0);
}

#[test]
fn an_idle_connection_is_closed_but_not_one_whose_request_runs() {
    let repository = Repository::identity("m", &[("execute_delay_ms", "1200")]);
    let server = Server::start(&repository, &["--idle-timeout-secs=0.5"]);
    let mut idle = server.client();
    idle.get("/v2/health/live").expect(200);
    let mut busy = server.client();
    assert_eq!(first_of(&busy.post(&infer("m"), &[], row(1))), 1.0);
    assert!(idle.is_closed());
    // Nor a connection on which nothing was ever asked.
    assert!(server.client().is_closed());
}

#[test]
fn a_reply_that_nobody_reads_is_given_up_and_its_memory_is_free() {
    const ELEMENTS: usize = 16 << 20;
    let config = "backend: \"identity\"
        input { name: \"INPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }";
    let repository = Repository::new().model("m", config);
    let server = Server::start(&repository, &["--idle-timeout-secs=0.5"]);
    let json = format!(
        r#"{{"inputs":[{{"name":"INPUT0","shape":[{ELEMENTS}],"datatype":"UINT8","parameters":{{"binary_data_size":{ELEMENTS}}}}}],"parameters":{{"binary_data_output":true}}}}"#
    );
    let length = json.len().to_string();
    let mut client = server.client();
    let head = post_head(
        &infer("m"),
        &[("inference-header-content-length", &length)],
        json.len() + ELEMENTS,
    );
    client.send(head + &json).unwrap();
    client.send(vec![7; ELEMENTS]).unwrap();
    // The reply begins, and is not read.
    assert_eq!(client.stream().peek(&mut [0; 12]).unwrap(), 12);
    assert!(Page::read(server.http()).value("muster_bytes_in_flight") >= ELEMENTS as f64);
    wait_bytes_in_flight(&server, 0);
}

#[test]
fn heads_that_are_too_large_are_refused_and_closed() {
    let server = start(&[]);
    let many: String = (0..200).map(|it| format!("h{it}: x\r\n")).collect();
    let huge = format!("big: {}\r\n", "x".repeat(1 << 20));
    for headers in [many, huge] {
        let mut client = server.client();
        // The server may close before it has read it all.
        let _ = client.send(format!("GET /v2 HTTP/1.1\r\nhost: x\r\n{headers}\r\n"));
        assert_eq!(client.reply().status, 431);
        assert!(client.is_closed());
    }
    let mut client = server.client();
    let _ = client.send(format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(70_000)));
    assert_eq!(client.reply().status, 414);
}

#[test]
fn a_client_that_asks_first_is_told_to_go_on_or_not_to_send() {
    let server = start(&["--http-max-input-size=20000"]);
    let expect = [("expect", "100-continue")];
    let mut client = server.client();
    let body = row(4);
    client.send(post_head(&infer("m"), &expect, body.len())).unwrap();
    let mut interim = [0; 21];
    wait_for("100 Continue", || {
        (client.stream().peek(&mut interim).unwrap() == interim.len()).then_some(())
    });
    assert_eq!(&interim, b"HTTP/1.1 100 Continue");
    client.send(body).unwrap();
    assert_eq!(first_of(&client.reply()), 4.0);

    for (path, length, status) in [(infer("m"), 20_001, 413), (infer("unknown"), 10, 404)] {
        let mut client = server.client();
        client.send(post_head(&path, &expect, length)).unwrap();
        let mut start = [0; 12];
        wait_for("a reply", || {
            (client.stream().peek(&mut start).unwrap() == start.len()).then_some(())
        });
        assert_eq!(String::from_utf8_lossy(&start), format!("HTTP/1.1 {status}"));
    }
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let server = start(&[]);
    for lengths in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "content-length: -1\r\n",
        "content-length: 0x10\r\n",
        "content-length: 99999999999999999999\r\n",
        "transfer-encoding: gzip\r\n",
    ] {
        let mut client = server.client();
        let path = infer("m");
        client.send(format!("POST {path} HTTP/1.1\r\nhost: x\r\n{lengths}\r\nhello")).unwrap();
        assert_eq!(client.reply().status, 400, "{lengths}");
        assert!(client.is_closed(), "{lengths}");
    }
}

#[test]
fn both_lengths_at_once_mean_chunks_so_nothing_hides_behind_them() {
    let server = start(&[]);
    let mut client = server.client();
    let body = row(5);
    let head = chunked_head().replace("\r\n\r\n", "\r\ncontent-length: 4\r\n\r\n");
    client.send(format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len())).unwrap();
    assert_eq!(first_of(&client.reply()), 5.0);
    assert!(client.is_closed());
}

#[test]
fn chunks_of_one_byte_are_gathered_like_any_others() {
    const CHUNKS: usize = 500_000;
    let server = start(&[]);
    let mut client = server.client();
    client.send(chunked_head()).unwrap();
    client.send("1\r\n \r\n".repeat(CHUNKS)).unwrap();
    let body = row(6);
    client.send(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())).unwrap();
    assert_eq!(first_of(&client.reply()), 6.0);
    wait_bytes_in_flight(&server, 0);
}

/// Longer than until an idle connection is at rest.
const BEYOND_REST: Duration = Duration::from_millis(1500);

#[test]
fn a_connection_that_was_at_rest_goes_on_where_it_was() {
    let server = start(&[]);
    let mut client = server.client();
    let body = row(3);
    let request = post_head(&infer("m"), &[], body.len()) + &body;
    for pause in [BEYOND_REST, Duration::ZERO, BEYOND_REST] {
        std::thread::sleep(pause);
        client.send(&request).unwrap();
        assert_eq!(first_of(&client.reply()), 3.0);
    }
    // The beginning of a request comes with the one before it, and the rest of it late.
    let (begin, rest) = request.split_at(request.len() / 3);
    client.send(request.clone() + begin).unwrap();
    assert_eq!(first_of(&client.reply()), 3.0);
    std::thread::sleep(BEYOND_REST);
    client.send(rest).unwrap();
    assert_eq!(first_of(&client.reply()), 3.0);
}

#[test]
fn empty_lines_behind_a_body_leave_a_connection_its_idle_time() {
    let server = start(&["--header-timeout-secs=1"]);
    let mut client = server.client();
    let body = row(3);
    let request = post_head(&infer("m"), &[], body.len()) + &body;
    // As old clients send them: with the body, and later.
    for lines in ["\r\n", "\r\n\r\n"] {
        client.send(request.clone() + lines).unwrap();
        assert_eq!(first_of(&client.reply()), 3.0);
        // Beyond the time for a head that would have begun when the rest did.
        std::thread::sleep(BEYOND_REST + Duration::from_millis(2500));
    }
    client.send("\r\n").unwrap();
    std::thread::sleep(BEYOND_REST + Duration::from_millis(2500));
    client.send(&request).unwrap();
    assert_eq!(first_of(&client.reply()), 3.0);
}

#[test]
fn a_connection_whose_request_asked_for_another_protocol_stays_open() {
    let server = start(&[]);
    let mut client = server.client();
    let headers = [
        ("connection", "Upgrade, HTTP2-Settings"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABk"),
    ];
    // As clients begin that would rather have HTTP/2.
    assert_eq!(first_of(&client.post(&infer("m"), &headers, row(4))), 4.0);
    std::thread::sleep(BEYOND_REST);
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(5))), 5.0);
}

#[test]
fn a_refused_body_that_comes_late_is_no_request() {
    let server = start(&[]);
    let mut client = server.client();
    let inner = "GET /v2 HTTP/1.1\r\nhost: x\r\n\r\n";
    client.send(post_head(&infer("unknown"), &[], 10 + inner.len()) + &" ".repeat(10)).unwrap();
    client.reply().error(404);
    std::thread::sleep(BEYOND_REST);
    client.send(inner).unwrap();
    assert_eq!(client.get("/v2/health/live").expect(200).text(), r#"{"live":true}"#);
}
