//! A local SageMaker runtime: the addresses that clients of AWS call, event streams, asynchronous invocations. The
//! clients themselves are in `clients.rs`.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::support::{Client, Page, Reply, Repository, Server, Start, s3::S3, wait_for};

const ON: &str = "--aws-facade";

/// A row of `Repository::identity`, and what comes back.
const ROW: &str = "{\"instances\":[[1,2,3,4]]}";
const REPLY: &str = "{\"predictions\":[[1.0,2.0,3.0,4.0]]}";

const ATTRIBUTES: &str = "x-amzn-sagemaker-custom-attributes";
const INPUT: &str = "x-amzn-sagemaker-inputlocation";

fn post(
    server: &Server,
    endpoint: &str,
    operation: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    server.client().post(&format!("/endpoints/{endpoint}/{operation}"), headers, body)
}

/// An invocation with JSON.
fn invoke(server: &Server, endpoint: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let headers = [&[("content-type", "application/json")][..], headers].concat();
    post(server, endpoint, "invocations", &headers, body)
}

/// The text of an exception of that name and status.
#[track_caller]
fn exception(reply: &Reply, status: u16, name: &str) -> String {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert_eq!(reply.header("x-amzn-errortype"), Some(name), "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("x-amzn-requestid").map(str::len), Some(36));
    reply.json()["Message"].as_str().unwrap_or_else(|| panic!("{}", reply.text())).to_owned()
}

/// The text of the model's own failure, which had that status.
#[track_caller]
fn model_error(reply: &Reply, original: u16) -> String {
    let message = exception(reply, 424, "ModelError");
    let body = reply.json();
    assert_eq!(body["OriginalStatusCode"], original, "{body}");
    let text = body["OriginalMessage"].as_str().unwrap().to_owned();
    assert!(message.contains(&text) && message.contains(&original.to_string()), "{body}");
    assert!(body["LogStreamArn"].as_str().unwrap().starts_with("arn:aws:logs:"), "{body}");
    text
}

#[test]
fn without_the_setting_none_of_its_addresses_is_there() {
    let server = Server::start(&Repository::identity("m", &[]), &[]);
    for operation in ["invocations", "invocations-response-stream", "async-invocations"] {
        let path = format!("/endpoints/m/{operation}");
        server.post(&path, ROW).error(404);
        server.get(&path).error(404);
    }
}

#[test]
fn a_success_is_what_invocations_answers_with_the_platforms_headers() {
    let server = Server::start(&Repository::identity("m", &[]), &[ON]);
    let plain = server.client().post("/invocations", &[], ROW).expect(200);
    for port in [server.http(), server.sagemaker()] {
        let headers = [(ATTRIBUTES, "trace=7"), ("x-amzn-sagemaker-inference-id", "i-1")];
        let reply = Client::connect(port).post("/endpoints/m/invocations", &headers, ROW);
        assert_eq!(reply.expect(200).text(), REPLY);
    }
    let reply = invoke(&server, "m", &[(ATTRIBUTES, "trace=7")], ROW);
    assert_eq!(reply.text(), plain.text());
    assert_eq!(reply.header("content-type"), plain.header("content-type"));
    assert_eq!(reply.header("x-amzn-invoked-production-variant"), Some("AllTraffic"));
    assert_eq!(reply.header(ATTRIBUTES), Some("trace=7"));
    let id = reply.header("x-amzn-requestid").unwrap().to_owned();
    assert_eq!(id.len(), 36, "{id}");
    let reply = invoke(&server, "m", &[("x-amzn-sagemaker-target-variant", "blue")], ROW);
    assert_eq!(reply.header("x-amzn-invoked-production-variant"), Some("blue"));
    assert_ne!(reply.header("x-amzn-requestid"), Some(&*id));
}

#[test]
fn an_endpoint_is_the_model_of_its_name_else_the_one_that_invocations_asks() {
    let one = Repository::identity("m", &[]);
    let server = Server::start(&one, &[ON]);
    for name in ["m", "another", "with%20space", "%6d"] {
        assert_eq!(invoke(&server, name, &[], ROW).expect(200).text(), REPLY, "{name}");
    }
    let two = Repository::identity("m n", &[]).fixture("strings", "type_string");
    let server = Server::start(&two, &[ON]);
    assert_eq!(invoke(&server, "m%20n", &[], ROW).expect(200).text(), REPLY);
    let target = ("x-amzn-sagemaker-target-model", "m n");
    assert_eq!(invoke(&server, "another", &[target], ROW).expect(200).text(), REPLY);
    let text = exception(&invoke(&server, "another", &[], ROW), 400, "ValidationError");
    assert!(text.contains("'another'") && text.contains("m n, strings"), "{text}");
    let server = Server::start(&two, &[ON, "--sagemaker-default-model=m n"]);
    assert_eq!(invoke(&server, "another", &[], ROW).expect(200).text(), REPLY);
}

#[test]
fn a_failure_of_the_model_is_a_model_error_around_what_invocations_answers() {
    let server = Server::start(&Repository::identity("m", &[]), &[ON]);
    for (body, content_type, status) in
        [("{\"instances\":", "application/json", 400), ("x", "image/png", 415)]
    {
        let headers = [("content-type", content_type), ("x-amzn-sagemaker-inference-id", "i-1")];
        let plain = server.client().post("/invocations", &headers, body).expect(status);
        let reply = post(&server, "m", "invocations", &headers, body);
        assert_eq!(model_error(&reply, status), plain.text());
        // So it is where a stream was asked for, and has not begun.
        let reply = post(&server, "m", "invocations-response-stream", &headers, body);
        assert_eq!(model_error(&reply, status), plain.text());
    }
    let server = Server::start(&Repository::identity("m", &[]), &[ON, "--http-max-input-size=10"]);
    assert!(
        model_error(&invoke(&server, "m", &[], ROW), 413)
            .contains("maximum allowed value of 10 bytes")
    );
    let broken = Repository::identity("m", &[("load_fault", "fail")]).with_identity("n", &[]);
    let server = Server::start(&broken, &[ON]);
    assert!(model_error(&invoke(&server, "m", &[], ROW), 503).contains("load_fault"));
}

#[test]
fn a_model_that_is_still_loading_is_not_ready() {
    let gate = Repository::new();
    let repository = Repository::identity("m", &[("creation_gate", &gate.at("open"))]);
    let server = Start::new(&repository).flags(&[ON]).launch();
    let reply = invoke(&server, "m", &[], ROW);
    exception(&reply, 429, "ModelNotReadyException");
    assert!(reply.header("retry-after").is_some());
    exception(&invoke(&server, "another", &[], ROW), 429, "ModelNotReadyException");
    let _open = gate.file("open", "");
    assert!(server.wait_loaded());
    invoke(&server, "m", &[], ROW).expect(200);
}

#[test]
fn what_the_platform_itself_refuses_has_its_own_exceptions() {
    let tokens = Repository::new().file("tokens", "inference infer-infer-infer-infer\n");
    let server = Server::start(&Repository::identity("m", &[]), &[ON]);
    let long = "x".repeat(65);
    for (name, value) in [
        ("x-amzn-sagemaker-inference-id", &*long),
        ("x-amzn-sagemaker-target-variant", &*long),
        (ATTRIBUTES, &*"x".repeat(1025)),
        (ATTRIBUTES, "caf\u{e9}"),
        ("x-request-timeout-ms", "soon"),
    ] {
        let reply = invoke(&server, "m", &[(name, value)], ROW);
        if name != "x-request-timeout-ms" {
            assert!(exception(&reply, 400, "ValidationError").contains(name), "{name}");
        } else {
            assert!(model_error(&reply, 400).contains(name), "{name}");
        }
    }
    exception(&invoke(&server, "%zz", &[], ROW), 400, "ValidationError");
    let reply = server.get("/endpoints/m/invocations");
    assert_eq!(reply.header("allow"), Some("POST"));
    exception(&reply, 405, "UnknownOperationException");
    exception(&post(&server, "m", "no-such", &[], ROW), 404, "UnknownOperationException");
    let asynchronous = post(&server, "m", "async-invocations", &[], ROW);
    assert!(exception(&asynchronous, 400, "ValidationError").contains("--async-spool"));

    let flag = format!("--auth-tokens-file={}", tokens.at("tokens"));
    let server = Server::start(&Repository::identity("m", &[]), &[ON, &flag]);
    for operation in ["invocations", "invocations-response-stream", "async-invocations"] {
        let signed = [("authorization", "AWS4-HMAC-SHA256 Credential=x/y")];
        let reply = post(&server, "m", operation, &signed, ROW);
        exception(&reply, 401, "AccessDeniedException");
        assert!(reply.header("www-authenticate").is_some());
    }
    invoke(&server, "m", &[("x-api-key", "infer-infer-infer-infer")], ROW).expect(200);
}

#[test]
fn no_room_in_memory_is_the_platforms_failure() {
    let flags = [ON, "--max-inflight-bytes=1000", "--http-max-input-size=1000"];
    let server = Server::start(&Repository::identity("m", &[]), &flags);
    let mut other = server.client();
    // Takes 900 bytes from the moment that its head has come.
    other.send("POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n{").unwrap();
    let body = format!("{ROW}{}", " ".repeat(200));
    wait_for("the budget to be spent", || {
        let used = Page::read(server.http()).value("muster_bytes_in_flight");
        (used == 900.0).then_some(())
    });
    let reply = invoke(&server, "m", &[], &body);
    exception(&reply, 503, "ServiceUnavailable");
    assert!(reply.header("retry-after").is_some());
}

/// Header values and payload of each frame of an event stream; fails where a length is wrong.
fn frames(mut bytes: &[u8]) -> Vec<(Vec<String>, Vec<u8>)> {
    let number = |it: &[u8]| u32::from_be_bytes(it[..4].try_into().unwrap()) as usize;
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (total, headers) = (number(bytes), number(&bytes[4..]));
        let (mut head, payload) = bytes[12..total - 4].split_at(headers);
        let mut values = Vec::new();
        while !head.is_empty() {
            let name = 1 + usize::from(head[0]);
            assert_eq!(head[name], 7, "the type of a header's value");
            let end = name + 3 + usize::from(u16::from_be_bytes([head[name + 1], head[name + 2]]));
            values.push(String::from_utf8(head[name + 3..end].to_vec()).unwrap());
            head = &head[end..];
        }
        frames.push((values, payload.to_vec()));
        bytes = &bytes[total..];
    }
    frames
}

#[test]
fn a_streamed_reply_is_framed_and_has_its_own_type_beside_that_of_the_frames() {
    let server = Server::start(&Repository::identity("m", &[]), &[ON]);
    let stream = |headers: &[(&str, &str)], body: &str| {
        let headers = [&[("content-type", "application/json")][..], headers].concat();
        post(&server, "m", "invocations-response-stream", &headers, body).expect(200)
    };
    let reply = stream(&[("accept-encoding", "gzip"), (ATTRIBUTES, "trace=7")], ROW);
    assert_eq!(reply.header("content-type"), Some("application/vnd.amazon.eventstream"));
    assert_eq!(reply.header("x-amzn-sagemaker-content-type"), Some("application/json"));
    assert_eq!(reply.header("x-amzn-invoked-production-variant"), Some("AllTraffic"));
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
    assert_eq!(reply.header("content-encoding"), None);
    assert_eq!(reply.header(ATTRIBUTES), Some("trace=7"));
    let [(headers, payload)] = &frames(&reply.body)[..] else { panic!("one frame") };
    assert_eq!(*headers, ["event", "PayloadPart", "application/octet-stream"]);
    assert_eq!(payload, REPLY.as_bytes());
    // The type that is wanted has a header of its own, too.
    let reply = stream(&[("x-amzn-sagemaker-accept", "text/csv"), ("accept", "*/*")], ROW);
    assert_eq!(reply.header("x-amzn-sagemaker-content-type"), Some("text/csv"));
    assert_eq!(frames(&reply.body)[0].1, b"1.0,2.0,3.0,4.0\n");
}

#[test]
fn a_reply_that_is_larger_than_a_frame_comes_in_several() {
    let config = "backend: \"identity\" input { name: \"X\" data_type: TYPE_UINT8 dims: [ -1 ] }
        output { name: \"Y\" data_type: TYPE_UINT8 dims: [ -1 ] }";
    let server = Server::start(&Repository::new().model("m", config), &[ON]);
    let length = (24 << 20) + 5;
    let head = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({length},), }}");
    let head = format!("{head:<117}\n");
    let mut body = b"\x93NUMPY\x01\x00".to_vec();
    body.extend((head.len() as u16).to_le_bytes());
    body.extend(head.as_bytes());
    body.extend((0..length).map(|it| it as u8));
    let headers = [("content-type", "application/x-npy")];
    let path = "/endpoints/m/invocations-response-stream";
    let reply = server.client().post(path, &headers, &body).expect(200);
    let frames = frames(&reply.body);
    assert!(1 < frames.len() && frames.iter().all(|it| it.1.len() <= 24 << 20));
    let payload: Vec<u8> = frames.into_iter().flat_map(|it| it.1).collect();
    assert!(payload.ends_with(&body[body.len() - length..]));
}

/// A server with a spool.
struct Spool {
    server: Server,
    dir: Repository,
}

impl Spool {
    fn start(repository: &Repository, flags: &[&str]) -> Spool {
        let dir = Repository::new();
        let spool = format!("--async-spool={}", dir.at(""));
        let server = Server::start(repository, &[&[ON, &*spool], flags].concat());
        Spool { server, dir }
    }

    fn invoke(&self, headers: &[(&str, &str)], body: &str) -> Reply {
        post(&self.server, "m", "async-invocations", headers, body)
    }

    /// The file that an address of S3 means.
    fn file(&self, location: &str) -> PathBuf {
        self.dir.path().join(location.strip_prefix("s3://").expect("an address of S3"))
    }

    /// The note on what became of an invocation, once there is one.
    #[track_caller]
    fn note(&self, accepted: &Reply) -> Value {
        note(&self.dir, &output(accepted))
    }
}

/// Where an invocation's reply will be.
#[track_caller]
fn output(accepted: &Reply) -> String {
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    accepted.header("x-amzn-sagemaker-outputlocation").unwrap().to_owned()
}

#[track_caller]
fn note(dir: &Repository, output: &str) -> Value {
    let path = dir.path().join(format!("{}.json", output.strip_prefix("s3://").unwrap()));
    let text = wait_for("a note", || fs::read(&path).ok());
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn an_asynchronous_invocation_is_answered_at_once_and_leaves_its_reply_and_a_note() {
    let spool = Spool::start(&Repository::identity("m", &[]), &[]);
    fs::create_dir_all(spool.dir.at("data/in")).unwrap();
    fs::write(spool.dir.at("data/in/row.json"), ROW).unwrap();
    let headers = [
        (INPUT, "s3://data/in/row.json"),
        ("x-amzn-sagemaker-content-type", "application/json"),
        ("x-amzn-sagemaker-accept", "text/csv"),
        ("x-amzn-sagemaker-inference-id", "my-id"),
    ];
    let accepted = spool.invoke(&headers, "").expect(202);
    assert_eq!(accepted.json()["InferenceId"], "my-id");
    assert_eq!(accepted.header("x-amzn-requestid").map(str::len), Some(36));
    let note = spool.note(&accepted);
    let output = output(&accepted);
    assert!(output.starts_with("s3://muster/async/") && output.ends_with(".out"), "{output}");
    let expected = serde_json::json!({
        "invocationStatus": "Completed",
        "inferenceId": "my-id",
        "requestParameters": {
            "contentType": "application/json", "endpointName": "m", "inputLocation": "s3://data/in/row.json"
        },
        "responseParameters": { "contentType": "text/csv", "outputLocation": output },
    });
    assert_eq!(note, expected);
    assert_eq!(fs::read_to_string(spool.file(&output)).unwrap(), "1.0,2.0,3.0,4.0\n");
    let failure = accepted.header("x-amzn-sagemaker-failurelocation").unwrap();
    assert!(!spool.file(failure).exists());

    // With a small body of its own, and under a name of the client's.
    let headers = [
        ("x-amzn-sagemaker-content-type", "application/json"),
        ("x-amzn-sagemaker-s3outputpathextension", "team/a"),
        ("x-amzn-sagemaker-filename", "row.json"),
    ];
    let accepted = spool.invoke(&headers, ROW).expect(202);
    assert_eq!(accepted.json()["InferenceId"].as_str().map(str::len), Some(36));
    let location = accepted.header("x-amzn-sagemaker-outputlocation");
    assert_eq!(location, Some("s3://muster/async/team/a/row.json"));
    let note = spool.note(&accepted);
    assert_eq!(note["invocationStatus"], "Completed");
    assert!(note["requestParameters"].get("inputLocation").is_none(), "{note}");
    assert_eq!(fs::read_to_string(spool.file(location.unwrap())).unwrap(), REPLY);
}

#[test]
fn a_result_never_replaces_one_of_the_same_name() {
    let spool = Spool::start(&Repository::identity("m", &[]), &[]);
    let name = ("x-amzn-sagemaker-filename", "row.json");
    let json = ("x-amzn-sagemaker-content-type", "application/json");
    let first = spool.invoke(&[name, json], ROW);
    let (before, output) = (spool.note(&first), output(&first));
    let second = spool.invoke(&[name, ("x-amzn-sagemaker-content-type", "text/csv")], "5,6,7,8\n");
    assert_eq!(self::output(&second), output);
    let dir = spool.file(&output).parent().unwrap().to_owned();
    let notes = || {
        let mut names = fs::read_dir(&dir).unwrap().map(|it| it.unwrap().path());
        names.find(|it| it.to_str().unwrap().contains(".json.json."))
    };
    let path = wait_for("a second note", notes);
    let note: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(note["inferenceId"], second.json()["InferenceId"]);
    let beside = note["responseParameters"]["outputLocation"].as_str().unwrap();
    assert!(beside.starts_with(&format!("{output}.")), "{beside}");
    assert!(fs::read_to_string(spool.file(beside)).unwrap().contains('5'));
    assert_eq!(fs::read_to_string(spool.file(&output)).unwrap(), REPLY);
    assert_eq!(spool.note(&first), before);
}

#[test]
fn inputs_come_only_from_where_the_settings_say() {
    let invoke = |flags: &[&str], input: &str| {
        let server = Server::start(&Repository::identity("m", &[]), &[&[ON], flags].concat());
        post(&server, "m", "async-invocations", &[(INPUT, input)], "")
    };
    // Nobody listens there: what is taken fails later.
    let output = "--async-output=s3://http://127.0.0.1:1/out/results";
    let inputs = ["--async-input=s3://data/in", "--async-input=s3://more"];
    let with_inputs = [output, inputs[0], inputs[1], "--exit-timeout-secs=1"];
    let by_default = [output, "--exit-timeout-secs=1"];
    for (flags, input) in [
        (&by_default[..], "s3://other/k"),
        (&with_inputs, "s3://out/k"),
        (&with_inputs, "s3://data/inner/k"),
        (&with_inputs, "https://s3.eu-west-1.amazonaws.com/data/k"),
    ] {
        let text = exception(&invoke(flags, input), 400, "ValidationError");
        assert!(text.contains("--async-input") && text.contains(input), "{text}");
    }
    for (flags, input) in [
        (&by_default[..], "s3://out/k"),
        (&with_inputs, "s3://data/in/k"),
        (&with_inputs, "https://s3.eu-west-1.amazonaws.com/more/k"),
    ] {
        invoke(flags, input).expect(202);
    }
}

#[test]
fn a_store_that_says_nothing_does_not_hold_up_the_stop() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let output = format!("--async-output=s3://{}/out", silent.local_addr().unwrap());
    let flags = [ON, &output, "--async-concurrency=1", "--exit-timeout-secs=5"];
    let server = Start::new(&Repository::identity("m", &[]))
        .flags(&flags)
        .variable("AWS_ACCESS_KEY_ID", "x")
        .variable("AWS_SECRET_ACCESS_KEY", "y")
        .run();
    for _ in 0..4 {
        post(&server, "m", "async-invocations", &[], ROW).expect(202);
    }
    // The first result is on its way, and will be.
    drop(silent.accept().map(std::mem::forget));
    server.stop().expect("a stop in time");
}

#[test]
fn an_asynchronous_invocation_that_fails_leaves_the_failure_and_a_note() {
    let spool = Spool::start(&Repository::identity("m", &[]), &["--async-output=s3://out"]);
    let secret = Repository::new().file("secret", ROW);
    std::os::unix::fs::symlink(secret.at("secret"), spool.dir.at("link")).unwrap();
    fs::create_dir(spool.dir.at("data")).unwrap();
    std::os::unix::fs::symlink(secret.at("secret"), spool.dir.at("data/link")).unwrap();
    let json = ("x-amzn-sagemaker-content-type", "application/json");
    for (headers, body, reason, content) in [
        (vec![json], "{\"instances\":", "client error (400)", "request_id"),
        (vec![(INPUT, "s3://data/none")], "", "cannot read s3://data/none", "cannot read"),
        (vec![(INPUT, "s3://data/link")], "", "outside of the spool", "outside"),
    ] {
        let accepted = spool.invoke(&headers, body);
        let note = spool.note(&accepted);
        assert_eq!(note["invocationStatus"], "Failed", "{note}");
        assert!(note["failureReason"].as_str().unwrap().contains(reason), "{note}");
        let failure = accepted.header("x-amzn-sagemaker-failurelocation").unwrap();
        assert!(failure.starts_with("s3://out/") && failure.ends_with("-error.out"), "{failure}");
        assert_eq!(note["responseParameters"]["outputLocation"], failure);
        let written = fs::read_to_string(spool.file(failure)).unwrap();
        assert!(written.contains("\"error\"") && written.contains(content), "{written}");
        assert!(!spool.file(&output(&accepted)).exists());
    }
}

#[test]
fn an_asynchronous_invocation_that_cannot_be_meant_is_refused_by_name() {
    let spool = Spool::start(&Repository::identity("m", &[]).with_identity("n", &[]), &[]);
    let refused = |headers: &[(&str, &str)], body: &str, part: &str| {
        let text = exception(&spool.invoke(headers, body), 400, "ValidationError");
        assert!(text.contains(part), "{text}");
    };
    for location in [
        "/etc/passwd",
        "file:///etc/passwd",
        "s3://../../etc/passwd",
        "s3://data/../../etc/passwd",
        "s3://data",
        "http://169.254.169.254/latest/meta-data",
        "https://127.0.0.1/x",
        "https://evil.org/data.s3.amazonaws.com/x",
    ] {
        refused(&[(INPUT, location)], "", location);
    }
    refused(&[(INPUT, &format!("s3://b/{}", "x".repeat(1020)))], "", "at most 1024");
    refused(&[], "", INPUT);
    refused(&[(INPUT, "s3://b/k")], ROW, "given both");
    refused(&[], &" ".repeat(128_001), "at most 128000 bytes, given 128001");
    for (name, values) in [
        ("x-amzn-sagemaker-requestttlseconds", ["59", "21601", "x"]),
        ("x-amzn-sagemaker-invocationtimeoutseconds", ["0", "3601", "1.5"]),
        ("x-amzn-sagemaker-filename", ["a/b", "..", "a.b.c"]),
        ("x-amzn-sagemaker-s3outputpathextension", ["../up", "s3://x", "a b"]),
    ] {
        values.iter().for_each(|value| refused(&[(name, value)], ROW, name));
    }
    let reply = post(&spool.server, "none", "async-invocations", &[], ROW);
    assert!(exception(&reply, 400, "ValidationError").contains("'none'"));
    // Nothing was written for any of them.
    assert_eq!(fs::read_dir(spool.dir.path()).unwrap().count(), 0);
}

/// A model whose every run takes so long.
fn slow(milliseconds: &str) -> Repository {
    Repository::identity("m", &[("execute_delay_ms", milliseconds)])
}

#[test]
fn an_invocation_that_takes_too_long_is_given_up() {
    let spool = Spool::start(&slow("20000"), &[]);
    let limit = ("x-amzn-sagemaker-invocationtimeoutseconds", "1");
    let note = spool.note(&spool.invoke(&[limit], ROW));
    assert!(note["failureReason"].as_str().unwrap().contains("1 seconds"), "{note}");
}

#[test]
fn a_full_queue_refuses_and_those_in_it_are_done() {
    let flags = ["--async-queue=1", "--async-concurrency=1"];
    let spool = Spool::start(&slow("1000"), &flags);
    let mut accepted = Vec::new();
    let refused = loop {
        let reply = spool.invoke(&[], ROW);
        if reply.status != 202 {
            break reply;
        }
        accepted.push(reply);
        // One runs, one waits.
        assert!(accepted.len() <= 2);
    };
    assert!(exception(&refused, 503, "ServiceUnavailable").contains("--async-queue"));
    assert!(refused.header("retry-after").is_some());
    for reply in &accepted {
        assert_eq!(spool.note(reply)["invocationStatus"], "Completed");
    }
}

#[test]
fn a_stop_finishes_what_runs_and_notes_what_has_not_begun() {
    let flags = ["--async-concurrency=1"];
    let spool = Spool::start(&slow("1000"), &flags);
    let accepted: Vec<String> = (0..4).map(|_| output(&spool.invoke(&[], ROW))).collect();
    // The first is done, so that the second runs.
    note(&spool.dir, &accepted[0]);
    let Spool { server, dir } = spool;
    wait_for("the second to run", || {
        let depth = server.get("/metrics").text();
        depth.contains("nv_inference_request_success{model=\"m\",version=\"1\"} 1").then_some(())
    });
    server.stop().unwrap();
    let status = |it: &String| note(&dir, it)["invocationStatus"].as_str().unwrap().to_owned();
    let all: Vec<String> = accepted.iter().map(status).collect();
    assert_eq!(all, ["Completed", "Completed", "Failed", "Failed"]);
    let last = note(&dir, &accepted[3]);
    assert!(last["failureReason"].as_str().unwrap().contains("server stopped"), "{last}");
}

#[test]
fn a_stop_that_has_no_more_time_notes_what_was_running() {
    let spool = Spool::start(&slow("60000"), &["--exit-timeout-secs=1"]);
    let accepted = output(&spool.invoke(&[], ROW));
    wait_for("it to run", || {
        let page = spool.server.get("/metrics").text();
        page.contains("nv_inference_pending_request_count").then_some(())
    });
    let Spool { server, dir } = spool;
    // Whether the model's thread has ended by then is another matter.
    let _ = server.stop();
    assert!(note(&dir, &accepted)["failureReason"].as_str().unwrap().contains("server stopped"));
}

#[test]
fn asynchronous_invocations_read_from_s3_and_write_to_it() {
    let Some(mut s3) = S3::start() else { return };
    let row = Repository::new().file("row", ROW);
    s3.put("in/row~1.json", row.at("row"));
    let output = format!("--async-output=s3://http://127.0.0.1:{}/models/out", s3.port);
    let server = Start::new(&Repository::identity("m", &[]))
        .flags(&[ON, &output])
        .variable("AWS_ACCESS_KEY_ID", &s3.key_id)
        .variable("AWS_SECRET_ACCESS_KEY", &s3.secret)
        .run();
    let mut invoke = |input: &str| {
        let headers = [(INPUT, input), ("x-amzn-sagemaker-content-type", "application/json")];
        let accepted = post(&server, "m", "async-invocations", &headers, "").expect(202);
        let location = self::output(&accepted);
        let key = location.strip_prefix("s3://models/out/").unwrap().to_owned();
        let note = wait_for("a note", || s3.get(&format!("out/{key}.json")));
        let note: Value = serde_json::from_str(&note).unwrap();
        (s3.get(&format!("out/{key}")), note)
    };
    let (reply, note) = invoke("s3://models/in/row~1.json");
    assert_eq!(note["invocationStatus"], "Completed", "{note}");
    assert_eq!(reply.as_deref(), Some(REPLY));
    let (_, note) = invoke("https://s3.eu-west-1.amazonaws.com/models/in/none");
    let reason = note["failureReason"].as_str().unwrap();
    assert!(reason.contains("read s3://models/in/none"), "{reason}");
}

#[test]
fn settings_that_do_not_fit_together_are_refused_by_name() {
    let repository = Repository::identity("m", &[]);
    let refused = |flags: &[&str], parts: &[&str]| {
        let text = Start::new(&repository).flags(flags).config().unwrap_err();
        assert!(parts.iter().all(|it| text.contains(it)), "{text}");
    };
    refused(&["--async-output=s3://b"], &["--async-output 's3://b'", "--aws-facade"]);
    refused(&[ON, "--async-spool=/none/at/all"], &["--async-spool", "expected a directory"]);
    refused(&[ON, "--async-output=gs://b/p"], &["--async-output", "s3://bucket/prefix"]);
    refused(&["--async-input=s3://b"], &["--async-input 's3://b'", "--aws-facade"]);
    refused(&[ON, "--async-input=s3://h:1/b"], &["--async-input", "without a host"]);
    refused(&[ON, "--async-queue=0"], &["--async-queue '0'", "from 1"]);
}
