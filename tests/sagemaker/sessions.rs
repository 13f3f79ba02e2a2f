//! Stateful sessions on `/invocations`: opening, state, sticking to a model, ending.

use crate::support::{Client, Reply, Repository, Server, Start, wait_for};

const HEADER: &str = "x-amzn-sagemaker-session-id";
const OPENED: &str = "x-amzn-sagemaker-new-session-id";
const CLOSED: &str = "x-amzn-sagemaker-closed-session-id";

const NEW: &str = r#"{"requestType":"NEW_SESSION"}"#;
const CLOSE: &str = r#"{"requestType": "CLOSE"}"#;

/// A model that adds up what a sequence sends and says which controls it saw; with these lines in its sequence
/// batching, one sequence at a time.
fn adding(batching: &str) -> Repository {
    let config = format!(
        r#"max_batch_size: 1 instance_group {{ count: 1 kind: KIND_CPU }}
        sequence_batching {{ {batching}
            control_input [
              {{ name: "START" control {{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }} }},
              {{ name: "READY" control {{ kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] }} }},
              {{ name: "END" control {{ kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] }} }},
              {{ name: "CORRID" control {{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }} }} ]
            state {{ input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: [ -1 ] }} }}"#
    );
    Repository::new().copy("m", "tests/fixtures/batching/accumulate").file("m/config.pbtxt", config)
}

fn start(repository: &Repository, flags: &[&str]) -> Server {
    Server::start(repository, &[&["--sessions=true"], flags].concat())
}

/// A request of a session.
fn send(server: &Server, session: &str, body: impl AsRef<[u8]>) -> Reply {
    Client::connect(server.sagemaker()).post("/invocations", &[(HEADER, session)], body)
}

/// Opens a session; its id.
#[track_caller]
fn open(server: &Server) -> String {
    let reply = send(server, "NEW_SESSION", NEW).expect(200);
    assert_eq!(reply.body, b"");
    let said = reply.header(OPENED).unwrap();
    assert_eq!(reply.header(HEADER), Some(said), "both dialects");
    let (id, end) = said.split_once("; Expires=").unwrap();
    assert!(id.bytes().all(|it| it.is_ascii_alphanumeric()), "{id}");
    let form: String = end.chars().map(|it| if it.is_ascii_digit() { '0' } else { it }).collect();
    assert_eq!(form, "0000-00-00T00:00:00Z", "{end}");
    id.to_owned()
}

/// What a KServe v2 request of one number says.
fn number(value: i32, parameters: &str) -> String {
    format!(
        r#"{{{parameters}"inputs":[{{"name":"INPUT","shape":[1,1],"datatype":"INT32","data":[{value}]}}]}}"#
    )
}

/// The sum so far, and the first three controls that the model saw: start, ready, end.
#[track_caller]
fn answer(reply: &Reply) -> (i64, [i64; 3]) {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let json = reply.json();
    let data = |name| {
        let mut outputs = json["outputs"].as_array().unwrap().iter();
        outputs.find(|it| it["name"] == name).unwrap()["data"].clone()
    };
    let seen = data("SEEN");
    (data("OUTPUT")[0].as_i64().unwrap(), [0, 1, 2].map(|it| seen[it].as_i64().unwrap()))
}

#[track_caller]
fn add(server: &Server, session: &str, value: i32) -> (i64, [i64; 3]) {
    answer(&send(server, session, number(value, "")))
}

#[test]
fn a_session_is_a_sequence_from_its_first_request_to_its_close() {
    let server = start(&adding(""), &[]);
    let id = open(&server);
    assert_eq!(add(&server, &id, 1), (1, [1, 1, 0]));
    assert_eq!(add(&server, &id, 2), (3, [0, 1, 0]));
    let closed = send(&server, &id, CLOSE).expect(200);
    assert_eq!(closed.header(CLOSED), Some(&*id));
    let late = send(&server, &id, number(1, "")).error(400);
    assert!(late.contains(&id) && late.contains("--session-ttl"), "{late}");
    send(&server, &id, CLOSE).error(400);
}

#[test]
fn closing_frees_the_seat_for_the_next_session() {
    // One seat, which nobody loses by being idle.
    let server = start(&adding("max_sequence_idle_microseconds: 3600000000"), &[]);
    let first = open(&server);
    assert_eq!(add(&server, &first, 1).0, 1);
    let second = open(&server);
    let mut waiting = Client::connect(server.sagemaker());
    let body = number(5, "");
    let length = body.len();
    let head = crate::support::post_head("/invocations", &[(HEADER, &second)], length);
    waiting.send(head + &body).unwrap();
    assert_eq!(add(&server, &first, 1).0, 2);
    send(&server, &first, CLOSE).expect(200);
    assert_eq!(answer(&waiting.reply()), (5, [1, 1, 0]));
}

#[test]
fn sessions_do_not_mix_and_each_tells_the_model_another_number() {
    let repository = adding("max_sequence_idle_microseconds: 3600000000");
    let config = std::fs::read_to_string(repository.path().join("m/config.pbtxt")).unwrap();
    let repository =
        repository.file("m/config.pbtxt", config.replace("max_batch_size: 1", "max_batch_size: 4"));
    let server = start(&repository, &[]);
    let (one, other) = (open(&server), open(&server));
    let correlation = |session: &str| {
        let reply = send(&server, session, number(1, "")).expect(200).json();
        let outputs = reply["outputs"].as_array().unwrap().clone();
        let seen = outputs.iter().find(|it| it["name"] == "SEEN").unwrap()["data"].clone();
        seen[3].as_i64().unwrap()
    };
    assert_ne!(correlation(&one), correlation(&other));
    assert_eq!(correlation(&one), correlation(&one));
    assert_eq!(add(&server, &one, 10).0, 13);
    assert_eq!(add(&server, &other, 100).0, 101);
}

#[test]
fn the_last_request_with_data_may_say_that_it_is_the_last() {
    let server = start(&adding(""), &[]);
    let id = open(&server);
    assert_eq!(add(&server, &id, 1).0, 1);
    let end = r#""parameters":{"sequence_id":1,"sequence_end":true},"#;
    assert_eq!(answer(&send(&server, &id, number(2, end))), (3, [0, 1, 1]));
    let after = send(&server, &id, number(1, "")).error(400);
    assert!(after.contains("must specify the START flag"), "{after}");
    send(&server, &id, CLOSE).expect(200);
}

#[test]
fn a_first_request_that_is_refused_is_not_the_first() {
    let server = start(&adding(""), &[]);
    let id = open(&server);
    send(
        &server,
        &id,
        r#"{"inputs":[{"name":"WRONG","shape":[1,1],"datatype":"INT32","data":[1]}]}"#,
    )
    .error(400);
    assert_eq!(add(&server, &id, 4), (4, [1, 1, 0]));
}

#[test]
fn a_model_without_sequences_has_sessions_that_only_stick() {
    let repository = Repository::identity("plain", &[]).with_identity("other", &[]);
    let server = start(&repository, &["--sagemaker-default-model=plain"]);
    let id = open(&server);
    for _ in 0..2 {
        let reply = send(&server, &id, "[[1, 2, 3, 4]]").expect(200);
        assert_eq!(reply.text(), "[[1.0,2.0,3.0,4.0]]");
    }
    let headers = [(HEADER, &*id), ("x-amzn-sagemaker-target-model", "other")];
    let elsewhere =
        Client::connect(server.sagemaker()).post("/invocations", &headers, "[[1, 2, 3, 4]]");
    let error = elsewhere.error(400);
    assert!(error.contains("model 'plain'") && error.contains("'other'"), "{error}");
    send(&server, &id, CLOSE).expect(200);
}

#[test]
fn a_model_with_texts_for_ids_is_told_that_of_the_session() {
    let config = r#"max_batch_size: 2 sequence_batching { control_input
        { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } } }"#;
    let repository = Repository::new()
        .copy("m", "tests/fixtures/batching/text_id")
        .file("m/config.pbtxt", config);
    let server = start(&repository, &[]);
    let id = open(&server);
    let text = send(&server, &id, number(1, "")).expect(200).text();
    assert!(text.contains(&id), "{text}");
}

#[test]
fn without_sessions_whoever_speaks_of_one_is_told() {
    let server = Server::start(&Repository::identity("plain", &[]), &[]);
    for (session, body) in [("NEW_SESSION", NEW), ("abc", "[[1, 2, 3, 4]]"), ("abc", CLOSE)] {
        let error = send(&server, session, body).error(400);
        assert!(error.contains("--sessions"), "{error}");
    }
}

#[test]
fn what_is_wrong_with_a_session_is_said() {
    let server = start(&Repository::identity("plain", &[]), &[]);
    let row = "[[1, 2, 3, 4]]";
    for (session, body, word) in [
        ("NEW_SESSION", row, "requestType"),
        ("NEW_SESSION", CLOSE, "requestType"),
        ("NEW_SESSION", r#"{"requestType":"NEW_SESSION","more":1}"#, "requestType"),
        ("abc", NEW, "expected NEW_SESSION"),
        ("abc", row, "no open session 'abc'"),
        ("abc", CLOSE, "no open session 'abc'"),
        ("a b", row, "letters and digits"),
        ("-", row, "letters and digits"),
        ("", row, "letters and digits"),
        (&"a".repeat(257), row, "letters and digits"),
    ] {
        let error = send(&server, session, body).error(400);
        assert!(error.contains(word), "{session} {body}: {error}");
    }
}

#[test]
fn a_session_ends_with_its_time_and_so_does_its_sequence() {
    let server = start(&adding(""), &["--session-ttl=3"]);
    let id = open(&server);
    assert_eq!(add(&server, &id, 1).0, 1);
    wait_for("the session to be over", || {
        let reply = send(&server, &id, number(1, ""));
        (reply.status != 200).then(|| reply.error(400)).filter(|it| it.contains("--session-ttl"))
    });
    let next = open(&server);
    assert_eq!(add(&server, &next, 7), (7, [1, 1, 0]));
}

#[test]
fn sessions_are_bounded_and_one_too_many_is_a_failed_opening() {
    let server = start(&Repository::identity("plain", &[]), &["--max-sessions=2"]);
    let (first, _second) = (open(&server), open(&server));
    let error = send(&server, "NEW_SESSION", NEW).error(424);
    assert!(error.contains("--max-sessions"), "{error}");
    send(&server, &first, CLOSE).expect(200);
    open(&server);
}

#[test]
fn an_idle_session_keeps_its_state_for_its_life_unless_its_model_says_otherwise() {
    let idle = |repository: &Repository, flags: &[&str]| {
        let config = Server::start(repository, flags).get("/v2/models/m/config").expect(200).json();
        config["sequence_batching"]["max_sequence_idle_microseconds"].as_u64().unwrap()
    };
    assert_eq!(idle(&adding(""), &[]), 1_000_000);
    assert_eq!(idle(&adding(""), &["--sessions=true"]), 1_200_000_000);
    assert_eq!(idle(&adding(""), &["--sessions=true", "--session-ttl=5"]), 5_000_000);
    let says = adding("max_sequence_idle_microseconds: 77000");
    assert_eq!(idle(&says, &["--sessions=true"]), 77_000);
}

#[test]
fn the_variables_of_other_containers_mean_the_same() {
    let repository = Repository::identity("plain", &[]);
    let start = Start::new(&repository)
        .variable("SAGEMAKER_ENABLE_STATEFUL_SESSIONS", "True")
        .variable("SAGEMAKER_SESSIONS_EXPIRATION", "60")
        .variable("SAGEMAKER_SESSIONS_PATH", "/dev/shm");
    let sessions = start.config().unwrap().sessions.unwrap();
    assert_eq!((sessions.life.as_secs(), sessions.most.get()), (60, 10_000));
    open(&start.run());
    let wrong = start.variable("SAGEMAKER_SESSIONS_EXPIRATION", "soon").config().unwrap_err();
    assert!(wrong.contains("SAGEMAKER_SESSIONS_EXPIRATION"), "{wrong}");
}
