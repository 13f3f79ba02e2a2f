//! Conversations over WebSocket at `/invocations-bidirectional-stream`: a message is a request, and its answer is one.

use std::io::{Read, Write};

use serde_json::Value;

use crate::support::{
    Client, Page, Repository, Server, Start, infer, row, rows, wait_for, wait_queued,
    websocket::{BINARY, CLOSE, KEY, PATH, PING, PONG, Socket, TEXT, frame, upgrade},
};

fn server(flags: &[&str]) -> Server {
    Server::start(&Repository::identity("m", &[]), flags)
}

const ROW: &str = "[[1, 2, 3, 4]]";
const SAME_ROW: &str = "[[1.0,2.0,3.0,4.0]]";

#[test]
fn a_text_is_answered_by_a_text_and_bytes_by_bytes() {
    let server = server(&[]);
    let mut socket = Socket::to(&server);
    assert_eq!(socket.ask(ROW), SAME_ROW);
    // No type is said: the content tells.
    assert_eq!(socket.ask("1,2,3,4\n5,6,7,8\n"), "1.0,2.0,3.0,4.0\n5.0,6.0,7.0,8.0\n");
    assert!(socket.ask(&row(9)).contains(r#""data":[9.0,0.0,0.0,0.0]"#));
    socket.send(BINARY, ROW);
    assert_eq!(socket.read(), (BINARY, SAME_ROW.as_bytes().to_vec()));
    let page = Page::read(server.http());
    assert_eq!((page.answers("sagemaker", 101), page.answers("sagemaker", 200)), (1.0, 4.0));
}

#[test]
fn announced_messages_keep_nobody_out() {
    let server = server(&["--max-inflight-bytes=8MiB"]);
    let announced =
        [&[BINARY, 0xff][..], &(7u64 << 20).to_be_bytes(), &[0; 4], &[b' '; 1000]].concat();
    let slow = [0; 6].map(|_| {
        let mut socket = Socket::to(&server);
        socket.0.write_all(&announced).unwrap();
        socket
    });
    wait_for("the messages to begin", || {
        let bytes = Page::read(server.http()).value("muster_bytes_in_flight");
        (bytes == f64::from(6 * (64 << 10))).then_some(())
    });
    let row = " ".repeat(4 << 20) + ROW;
    assert_eq!(Socket::to(&server).ask(&row), SAME_ROW);
    drop(slow);
}

#[test]
fn a_message_in_parts_is_one_request() {
    let server = server(&[]);
    let mut socket = Socket::to(&server);
    socket.send(0x01, "[[1, ");
    socket.send(PING, "between");
    socket.send(0x00, "2, 3,");
    assert_eq!(socket.read(), (PONG, b"between".to_vec()));
    socket.send(0x80, " 4]]");
    assert_eq!(socket.text(), SAME_ROW);
}

#[test]
fn query_and_headers_say_what_the_messages_are() {
    let repository = Repository::identity("m", &[]).with_identity("other name", &[]);
    let server = Server::start(&repository, &["--sagemaker-default-model=m"]);
    let path = format!("{PATH}?accept=text%2Fcsv&platform=anything&target-model=other%20name");
    let mut socket = Socket::connect(server.sagemaker(), &path, &[("accept-encoding", "gzip")]);
    assert_eq!(socket.ask(ROW), "1.0,2.0,3.0,4.0\n");
    let page = Page::read(server.http());
    assert_eq!(page.of("other name", "nv_inference_request_success"), 1.0);

    let typed = format!("{PATH}?content-type=application/x-image");
    let mut socket = Socket::connect(server.sagemaker(), &typed, &[]);
    socket.send(TEXT, ROW);
    assert!(socket.error().contains("application/x-image"));

    let headers = [("content-type", "text/csv"), ("accept", "application/json")];
    let mut socket = Socket::connect(server.sagemaker(), PATH, &headers);
    assert_eq!(socket.ask("1,2,3,4\n"), r#"{"predictions":[[1.0,2.0,3.0,4.0]]}"#);
}

#[test]
fn a_bad_request_is_answered_and_the_conversation_goes_on() {
    let server = server(&[]);
    let mut socket = Socket::to(&server);
    for (bad, word) in [("{", "expected"), ("[[1, 2]]", "INPUT0"), ("", "empty")] {
        socket.send(TEXT, bad);
        let error = socket.error();
        assert!(error.contains(word), "{bad}: {error}");
        assert_eq!(socket.ask(ROW), SAME_ROW);
    }
    socket.send(BINARY, [0, 1, 2]);
    assert!(socket.error().contains("content type"));
    assert_eq!(socket.ask(ROW), SAME_ROW);
}

#[test]
fn several_requests_are_under_way_and_answers_come_in_their_order() {
    // The first run waits for eight requests: so many of one connection are worked on.
    let config = "backend: \"identity\" max_batch_size: 8 dynamic_batching { }
         instance_group { count: 1 kind: KIND_CPU }
         input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
         output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";
    let repository = Repository::new().model("m", config);
    let server = Server::start(&repository, &["--scheduler-hold=8"]);
    let mut socket = Socket::to(&server);
    // All in one write, with some that are refused at once among them.
    let message =
        |it: usize| if it == 3 { "[[1]]".to_owned() } else { format!("[[{it}, 0, 0, 0]]") };
    let all: Vec<u8> = (0..20).flat_map(|it| frame(TEXT, message(it).as_bytes())).collect();
    socket.0.write_all(&all).unwrap();
    wait_queued(server.http(), "m", 7);
    // One more of somebody else.
    let mut other = Socket::to(&server);
    other.send(TEXT, ROW);
    for it in 0..20 {
        if it == 3 {
            assert!(socket.error().contains("INPUT0"));
        } else {
            assert_eq!(socket.text(), format!("[[{it}.0,0.0,0.0,0.0]]"));
        }
    }
    assert_eq!(other.text(), SAME_ROW);
}

#[test]
fn what_waits_for_its_turn_has_not_come_too_slowly() {
    let repository = Repository::identity("m", &[("execute_delay_ms", "700")]);
    let server = Server::start(&repository, &["--body-grace-secs=0.5", "--idle-timeout-secs=0.5"]);
    let mut socket = Socket::to(&server);
    // More than are worked on, and one that waits: the rest is not even looked at for longer than a message may take.
    let all: Vec<u8> = (0..12).flat_map(|_| frame(TEXT, ROW.as_bytes())).collect();
    socket.0.write_all(&all).unwrap();
    for _ in 0..12 {
        assert_eq!(socket.text(), SAME_ROW);
    }
    assert_eq!(socket.closed().0, 1000);
}

#[test]
fn a_stop_answers_what_waits_for_its_turn_too() {
    let mut server = server(&["--scheduler-hold=30"]);
    let mut socket = Socket::to(&server);
    let all: Vec<u8> = (0..9).flat_map(|_| frame(TEXT, ROW.as_bytes())).collect();
    socket.0.write_all(&all).unwrap();
    wait_queued(server.http(), "m", 8);
    server.begin_stop();
    for _ in 0..9 {
        assert_eq!(socket.text(), SAME_ROW);
    }
    assert_eq!(socket.closed().0, 1001);
}

#[test]
fn a_client_that_leaves_withdraws_what_it_asked() {
    let server = server(&["--scheduler-hold=5"]);
    let mut socket = Socket::to(&server);
    socket.send(TEXT, ROW);
    wait_queued(server.http(), "m", 1);
    drop(socket);
    wait_queued(server.http(), "m", 0);
    wait_for("the connection to be counted out", || {
        (Page::read(server.http()).failures("m", "CANCELED") == 1.0).then_some(())
    });
    let mut polite = Socket::to(&server);
    polite.send(TEXT, ROW);
    wait_queued(server.http(), "m", 1);
    polite.send(CLOSE, [3, 0xe8]);
    assert_eq!(polite.closed().0, 1000);
    wait_queued(server.http(), "m", 0);
}

#[test]
fn what_is_too_large_or_no_websocket_ends_it_with_a_reason() {
    let server = server(&["--http-max-input-size=100"]);
    let mut socket = Socket::to(&server);
    assert_eq!(socket.ask(ROW), SAME_ROW);
    socket.send(TEXT, "x".repeat(101));
    let (code, reason) = socket.closed();
    assert_eq!(code, 1009);
    assert!(reason.contains("100 bytes") && reason.contains("--http-max-input-size"), "{reason}");

    for (first, payload, expect) in
        [(0x80, &b"x"[..], 1002), (0xc1, b"x", 1002), (0x83, b"x", 1002), (TEXT, &[0xff], 1007)]
    {
        let mut socket = Socket::to(&server);
        socket.send(first, payload);
        assert_eq!(socket.closed().0, expect, "{first:x}");
    }
    let mut unmasked = Socket::to(&server);
    unmasked.0.write_all(&[TEXT, 2, b'[', b']']).unwrap();
    assert_eq!(unmasked.closed().0, 1002);
}

#[test]
fn what_was_asked_before_a_message_that_is_too_large_is_answered_first() {
    let server = server(&["--http-max-input-size=100", "--scheduler-hold=2"]);
    let mut socket = Socket::to(&server);
    socket.send(TEXT, ROW);
    socket.send(TEXT, "x".repeat(101));
    wait_queued(server.http(), "m", 1);
    assert_eq!(Socket::to(&server).ask(ROW), SAME_ROW);
    assert_eq!(socket.text(), SAME_ROW);
    assert_eq!(socket.closed().0, 1009);
}

#[test]
fn a_message_for_which_there_is_no_memory_is_refused_and_the_next_one_is_not() {
    let server = server(&[
        "--http-max-input-size=10000",
        "--max-inflight-bytes=10000",
        "--scheduler-hold=2",
    ]);
    let mut holder = Socket::to(&server);
    // Takes most of what there is until it is answered.
    holder.send(TEXT, format!("{}{ROW}", " ".repeat(9000)));
    wait_queued(server.http(), "m", 1);
    let mut socket = Socket::to(&server);
    socket.send(TEXT, format!("{}{ROW}", " ".repeat(5000)));
    assert!(socket.error().contains("--max-inflight-bytes"));
    assert_eq!(socket.ask(ROW), SAME_ROW);
    assert_eq!(holder.text(), SAME_ROW);
}

#[test]
fn a_stop_answers_what_is_asked_and_says_goodbye() {
    // What waits for company runs when the server stops, and not before.
    let mut server = server(&["--scheduler-hold=2"]);
    let (mut idle, mut busy) = (Socket::to(&server), Socket::to(&server));
    busy.send(TEXT, ROW);
    wait_queued(server.http(), "m", 1);
    server.begin_stop();
    let (code, reason) = idle.closed();
    assert_eq!((code, reason.contains("shutting down")), (1001, true), "{reason}");
    assert_eq!(busy.text(), SAME_ROW);
    assert_eq!(busy.closed().0, 1001);
    server.wait().unwrap();
}

#[test]
fn an_idle_conversation_ends_and_one_that_is_asked_or_waits_does_not() {
    let repository = Repository::identity("m", &[("execute_delay_ms", "1500")]);
    let server = Server::start(&repository, &["--idle-timeout-secs=1"]);
    let mut socket = Socket::to(&server);
    // Longer than it may be idle.
    assert_eq!(socket.ask(ROW), SAME_ROW);
    let (code, reason) = socket.closed();
    assert_eq!((code, reason.contains("--idle-timeout-secs")), (1000, true), "{reason}");
}

#[test]
fn a_message_that_does_not_come_to_its_end_is_given_up() {
    let server = server(&["--body-grace-secs=1"]);
    let mut socket = Socket::to(&server);
    let whole = frame(TEXT, ROW.as_bytes());
    socket.0.write_all(&whole[..whole.len() - 1]).unwrap();
    assert_eq!(socket.closed().0, 1008);
}

#[test]
fn whoever_takes_no_answers_keeps_nobody_else_from_theirs() {
    let server = server(&["--http-thread-count=1"]);
    let mut socket = Socket::to(&server);
    socket.0.set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let large = frame(BINARY, rows(1, 8).as_bytes());
    // Until nothing more is taken: the server does not read on while its answers wait.
    while socket.0.write_all(&large).is_ok() {}
    for _ in 0..20 {
        assert_eq!(Socket::to(&server).ask(ROW), SAME_ROW);
        server.post(&infer("m"), row(1)).expect(200);
    }
}

#[test]
fn what_an_answer_holds_does_not_wait_for_whoever_takes_the_one_before_it() {
    const NUMBERS: usize = 250_000;
    let port = |what: &str, name: &str| {
        format!("{what} {{ name: \"{name}\" data_type: TYPE_FP32 dims: [ {NUMBERS} ] }}\n")
    };
    // On a thread of its own, so that whoever is in the step is there for a while.
    let slow = "parameters { key: \"execute_delay_ms\" value: { string_value: \"5\" } }";
    let member = format!(
        "backend: \"identity\" {}{}{slow}",
        port("input", "INPUT0"),
        port("output", "OUTPUT0")
    );
    let ensemble = format!(
        "platform: \"ensemble\" {}{}ensemble_scheduling {{ max_inflight_requests: 1 step {{
           model_name: \"m\" model_version: -1 input_map {{ key: \"INPUT0\" value: \"x\" }}
           output_map {{ key: \"OUTPUT0\" value: \"y\" }} }} }}",
        port("input", "x"),
        port("output", "y")
    );
    let repository = Repository::new().model("m", &member).model("e", &ensemble);
    let server = Server::start(&repository, &["--sagemaker-default-model=e"]);
    let mut body = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({NUMBERS},), }}");
    body.extend(format!("{head:<117}\n").bytes());
    body.resize(body.len() + 4 * NUMBERS, 0);
    let headers = [("content-type", "application/x-npy"), ("accept", "application/x-npy")];
    let mut socket = Socket::connect(server.sagemaker(), PATH, &headers);
    socket.0.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let large = frame(BINARY, &body);
    // Until nothing more is taken, with answers behind the one that is not.
    while socket.0.write_all(&large).is_ok() {}
    for _ in 0..5 {
        Client::connect(server.sagemaker()).post("/invocations", &headers, &body).expect(200);
    }
}

#[test]
fn garbage_harms_nobody() {
    let server = server(&[]);
    // A generator of Knuth's: the same bytes each time.
    let mut state = 1u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    for round in 0..60 {
        let mut socket = Socket::to(&server);
        let mut bytes: Vec<u8> = (0..round * 7 + 1).map(|_| byte()).collect();
        // Every other time the first frame is one that could be good.
        if round % 2 == 0 {
            bytes.splice(0..0, frame(TEXT, ROW.as_bytes()));
        }
        let _ = socket.0.write_all(&bytes);
        let _ = socket.0.shutdown(std::net::Shutdown::Write);
        // To its end, however that looks.
        let _ = socket.0.read_to_end(&mut Vec::new());
    }
    assert_eq!(Socket::to(&server).ask(ROW), SAME_ROW);
}

#[test]
fn what_is_no_good_request_for_a_conversation_is_told_so() {
    let server = server(&[]);
    let get = |headers: &[(&str, &str)]| {
        Client::connect(server.sagemaker()).request("GET", PATH, headers, None)
    };
    let plain = get(&[]).expect(426);
    assert_eq!(plain.header("upgrade"), Some("websocket"));
    assert_eq!(plain.header("sec-websocket-version"), Some("13"));
    assert!(plain.json()["error"].as_str().unwrap().contains("WebSocket"), "{}", plain.text());
    let with = |version, key| {
        get(&[
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", version),
            ("sec-websocket-key", key),
        ])
    };
    let old = with("8", KEY).expect(426);
    assert!(old.json()["error"].as_str().unwrap().contains("given '8'"), "{}", old.text());
    for key in ["", "short", "not base64 at all!!", "YQ=="] {
        assert!(with("13", key).error(400).contains("sec-websocket-key"));
    }
    let other = get(&[("connection", "upgrade"), ("upgrade", "h2c")]).expect(426);
    assert_eq!(other.header("upgrade"), Some("websocket"));
    Client::connect(server.sagemaker()).post(PATH, &[], "").error(405);
    // Beside it everything is as it was.
    assert_eq!(Socket::to(&server).ask(ROW), SAME_ROW);
}

#[test]
fn an_operator_may_have_none() {
    let server = server(&["--allow-websocket=false"]);
    let mut client = Client::connect(server.sagemaker());
    client.send(upgrade(PATH, &[])).unwrap();
    assert!(client.reply().error(404).contains("--allow-websocket"));
}

#[test]
fn only_who_may_ask_has_a_conversation() {
    let files = Repository::new().file("tokens", "inference inference-token-0123456789\n");
    let repository = Repository::identity("m", &[]);
    let server = Start::new(&repository)
        .flags(&[&format!("--auth-tokens-file={}", files.at("tokens"))])
        .run();
    let mut client = Client::connect(server.sagemaker());
    client.send(upgrade(PATH, &[])).unwrap();
    client.reply().error(401);
    let token = [("authorization", "Bearer inference-token-0123456789")];
    assert_eq!(Socket::connect(server.sagemaker(), PATH, &token).ask(ROW), SAME_ROW);
}

#[test]
fn a_token_that_is_taken_back_counts_no_more_in_a_conversation_that_has_begun() {
    let tokens = "inference inference-token-0123456789\n";
    let files = Repository::new().file("tokens", tokens);
    let server = Start::new(&Repository::identity("m", &[]))
        .flags(&[&format!("--auth-tokens-file={}", files.at("tokens"))])
        .run();
    let token = [("authorization", "Bearer inference-token-0123456789")];
    let mut socket = Socket::connect(server.sagemaker(), PATH, &token);
    assert_eq!(socket.ask(ROW), SAME_ROW);
    let files = files.file("tokens", "inference another-token-0123456789\n");
    let refused =
        wait_for("the token to be gone", || Some(socket.ask(ROW)).filter(|it| it != SAME_ROW));
    assert!(refused.contains("token") && refused.contains("request_id"), "{refused}");
    let _files = files.file("tokens", tokens);
    wait_for("the token to be back", || (socket.ask(ROW) == SAME_ROW).then_some(()));
}

#[test]
fn a_page_of_somebody_else_has_no_conversation() {
    let server = server(&[]);
    for own in ["http://localhost", "https://LOCALHOST"] {
        let mut socket = Socket::connect(server.sagemaker(), PATH, &[("origin", own)]);
        assert_eq!(socket.ask(ROW), SAME_ROW);
    }
    let foreign =
        ["http://elsewhere", "http://localhost:8080", "http://localhost.elsewhere", "null", ""];
    for origin in foreign {
        let mut client = Client::connect(server.sagemaker());
        client.send(upgrade(PATH, &[("origin", origin)])).unwrap();
        let error = client.reply().error(403);
        assert!(
            error.contains(&format!("given '{origin}'")) && error.contains("'localhost'"),
            "{error}"
        );
    }
    let two = [("origin", "http://localhost"), ("origin", "http://elsewhere")];
    let mut client = Client::connect(server.sagemaker());
    client.send(upgrade(PATH, &two)).unwrap();
    client.reply().error(403);
}

#[test]
fn conversations_count_among_the_connections_until_they_end() {
    let server = server(&["--max-connections=2"]);
    let (mut one, _other) = (Socket::to(&server), Socket::to(&server));
    assert_eq!(one.ask(ROW), SAME_ROW);
    let refused = Client::connect(server.sagemaker()).try_reply().unwrap().unwrap();
    assert!(refused.expect(503).text().contains("connections"));
    drop(one);
    wait_for("room for another one", || {
        let mut client = Client::try_connect(server.sagemaker()).ok()?;
        let reply = client.try_request("GET", "/ping", &[], None).ok()??;
        (reply.status == 200).then_some(())
    });
}

#[test]
fn a_session_may_be_had_over_a_conversation() {
    let config = r#"max_batch_size: 1 sequence_batching {
        control_input [
          { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
          { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } },
          { name: "END" control { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } },
          { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } ]
        state { input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: [ -1 ] } }"#;
    let repository = Repository::new()
        .copy("m", "tests/fixtures/batching/accumulate")
        .file("m/config.pbtxt", config);
    let server = Server::start(&repository, &["--sessions"]);
    let header = "x-amzn-sagemaker-session-id";
    let opened = Client::connect(server.sagemaker()).post(
        "/invocations",
        &[(header, "NEW_SESSION")],
        r#"{"requestType":"NEW_SESSION"}"#,
    );
    let id = opened.expect(200).header(header).unwrap().split(';').next().unwrap().to_owned();
    let mut socket = Socket::connect(server.sagemaker(), PATH, &[(header, &id)]);
    let body = |it: u32| {
        format!(
            r#"{{"inputs":[{{"name":"INPUT","shape":[1,1],"datatype":"INT32","data":[{it}]}}]}}"#
        )
    };
    // Sent without waiting for answers, and worked on one after another all the same.
    (1..=10).for_each(|it| socket.send(TEXT, body(it)));
    for sum in [1, 3, 6, 10, 15, 21, 28, 36, 45, 55] {
        let json: Value = serde_json::from_str(&socket.text()).unwrap();
        let outputs = json["outputs"].as_array().unwrap_or_else(|| panic!("{json}"));
        let output = outputs.iter().find(|it| it["name"] == "OUTPUT").unwrap();
        assert_eq!(output["data"][0], sum);
    }
}
