//! What clients, models and the machine do wrong: the process lives, its health does not suffer, and the error
//! says what was wrong.
//!
//! Elsewhere: bodies that are too large, slow or framed wrongly, connections, and slow readers in `limits`;
//! clients that leave in `cancellation`; culprits of batches in `batching`; models that do not load and taken
//! ports in `lifecycle`; signals in `drain`; load in `overload`; the metrics page in `metrics`.
//!
//! Here: malformed JSON and binary tensors, shapes and lengths that overflow, strange names and paths, engines
//! that give back nonsense, requests in numbers, file descriptors and threads that run out.

use std::{fmt::Write, thread, time::Duration};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::support::{
    Client, IN_PROCESS, Page, Process, Repository, Server, ask, first_of, infer, post_head, row,
    rows, wait_for, wait_queued,
};

fn start() -> Server {
    Server::start(&Repository::identity("m", &[]), &[])
}

/// The request is refused with this status and a text that holds `part`; the connection and the server serve
/// on.
#[track_caller]
fn check(client: &mut Client, body: impl AsRef<[u8]>, status: u16, part: &str) {
    let reply = client.post(&infer("m"), &[], body);
    let text = reply.error(status);
    assert!(text.contains(part), "no '{part}' in: {text}");
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(8))), 8.0);
}

#[test]
fn requests_that_are_wrong_are_refused_with_the_place_of_the_fault() {
    let server = start();
    let mut client = server.client();
    let mut wrong = |from: &str, to: &str, part: &str| {
        let good = rows(1, 1);
        assert!(good.contains(from), "{from}");
        check(&mut client, good.replace(from, to), 400, part);
    };
    wrong("INPUT0", "INPUT1", "did you mean 'INPUT0'");
    wrong("FP32", "FP33", "inputs[0].datatype");
    wrong("FP32", "FP64", "data-type is 'FP64', but model 'm' expects 'FP32'");
    wrong("[1,4]", "[1,5]", "INPUT0");
    wrong("[1,4]", "[4]", "INPUT0");
    wrong("[1,4]", "[1,-4]", "inputs[0].shape[1]");
    wrong("[1,4]", "[1,4,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "INPUT0");
    wrong(
        "[1,4]",
        "[4294967296,4294967296]",
        "causes total element count to exceed maximum size of",
    );
    wrong("[1,4]", "[9223372036854775807,9223372036854775807]", "INPUT0");
    wrong("[1,4]", "[99999999999999999999999,4]", "inputs[0].shape[0]");
    wrong("[1,4]", "[9,4]", "INPUT0");
    wrong("1,0,0,0", "1,0,0", "INPUT0");
    wrong("1,0,0,0", "1,0,0,0,0", "has 4 elements, data has 5");
    wrong("1,0,0,0", "1,0,0,\"x\"", "inputs[0].data[3]");
    wrong("1,0,0,0", "1,0,0,1e400", "inputs[0].data[3]");
    wrong("1,0,0,0", "1,0,0,01", "inputs[0].data[3]");
    wrong("\"inputs\"", "\"input\"", "input");
}

#[test]
fn what_is_not_json_is_refused() {
    let server = start();
    let mut client = server.client();
    let wrong: [&[u8]; 9] = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{\"inputs\":[]} x",
        b"\xff\xfe{}",
        b"{\"inputs\":\"\\ud800\"}",
        b"\0",
        b"{\"inputs\":[{}]}",
    ];
    for body in wrong {
        check(&mut client, body, 400, "");
    }
}

#[test]
fn a_million_open_brackets_cost_no_stack() {
    let server = start();
    let mut client = server.client();
    check(&mut client, "[".repeat(1_000_000), 400, "");
    check(&mut client, "{\"a\":".repeat(200_000), 400, "");
    let deep = format!("{{\"parameters\":{}", "[".repeat(1_000_000));
    check(&mut client, deep, 400, "");
    let data = row(1).replace("1,0,0,0", &"[".repeat(1_000_000));
    check(&mut client, data, 400, "");
}

#[test]
fn a_number_may_be_as_long_as_it_likes() {
    let server = start();
    let long = format!("1.{}", "0".repeat(100_000));
    let reply = server.post(&infer("m"), row(1).replace("1,0,0,0", &format!("{long},0,0,0")));
    assert_eq!(first_of(&reply), 1.0);
}

#[test]
fn lengths_of_binary_tensors_that_do_not_fit_are_refused() {
    let server = start();
    let mut client = server.client();
    let json = |size: &str| {
        format!(
            "{{\"inputs\":[{{\"name\":\"INPUT0\",\"shape\":[1,4],\"datatype\":\"FP32\",\
             \"parameters\":{{\"binary_data_size\":{size}}}}}]}}"
        )
    };
    let mut post = |size: &str, header: &str, binary: usize| {
        let mut body = json(size).into_bytes();
        body.resize(body.len() + binary, 0);
        let headers = [("inference-header-content-length", header)];
        client.post(&infer("m"), &headers, body)
    };
    let length = json("16").len().to_string();
    assert_eq!(first_of(&post("16", &length, 16)), 0.0);
    // Too few, too many, and sizes that are none.
    post("16", &length, 15).error(400);
    post("16", &length, 17).error(400);
    post("12", &length, 12).error(400);
    for size in ["-1", "18446744073709551616", "4611686018427387904", "\"16\"", "1.5", "null"] {
        post(size, &json(size).len().to_string(), 16).error(400);
    }
    // A length of the header that is none.
    for header in
        ["0", "-1", "+1", "1000000", "18446744073709551616", "2147483648", "x", "", "1e2", "0x10"]
    {
        post("16", header, 16).error(400);
    }
    post("16", &length, 16).expect(200);
}

#[test]
fn strings_with_wrong_lengths_are_refused() {
    let config = "backend: \"identity\" max_batch_size: 8
        input { name: \"INPUT0\" data_type: TYPE_STRING dims: [ 1 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_STRING dims: [ 1 ] }";
    let server = Server::start(&Repository::new().model("m", config), &[]);
    let mut client = server.client();
    let mut post = |rows: usize, binary: &[u8]| {
        let size = binary.len();
        let json = format!(
            "{{\"inputs\":[{{\"name\":\"INPUT0\",\"shape\":[{rows},1],\"datatype\":\"BYTES\",\
             \"parameters\":{{\"binary_data_size\":{size}}}}}]}}"
        );
        let header = json.len().to_string();
        let body = [json.as_bytes(), binary].concat();
        client.post(&infer("m"), &[("inference-header-content-length", &header)], body)
    };
    post(1, b"\x02\0\0\0ab").expect(200);
    post(1, b"\0\0\0\0").expect(200);
    post(1, b"\x03\0\0\0ab").error(400);
    post(1, b"\xff\xff\xff\xff").error(400);
    post(1, b"\x02\0\0").error(400);
    post(1, b"\x01\0\0\0ab").error(400);
    post(2, b"\x02\0\0\0ab").error(400);
    post(1, b"").error(400);
}

#[test]
fn names_and_paths_reach_nothing_but_models() {
    let server = start();
    let long = "x".repeat(60_000);
    let paths = [
        "/v2/models/..%2f..%2fetc%2fpasswd/ready",
        "/v2/models/%2e%2e/ready",
        "/v2/models/../../etc/passwd",
        "/v2/models/m%00/ready",
        "/v2/models/%252e%252e/ready",
        "/v2/models/m/versions/..%2f1/ready",
        "/v2/models/m/versions/00000000000000000000000000000002/ready",
        "/v2/models//ready",
        "/v2/models/m/../../../infer",
        "//v2//models//m",
        "/%",
    ];
    let long = format!("/v2/models/{long}/ready");
    for path in paths.into_iter().chain([long.as_str()]) {
        let reply = server.get(path);
        assert!([400, 404].contains(&reply.status), "{path}: {} {}", reply.status, reply.text());
        reply.error(reply.status);
        assert!(!reply.text().contains("root:"), "{path}");
    }
    assert_eq!(first_of(&server.post(&infer("m"), row(1))), 1.0);
}

#[test]
fn bytes_that_are_no_request_close_the_connection_and_nothing_else() {
    let server = start();
    let nonsense: [&[u8]; 5] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS greeting",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
    ];
    for bytes in nonsense {
        let mut client = server.client();
        client.send(bytes).unwrap();
        // An answer in words or none; then the end.
        if let Ok(Some(reply)) = client.try_reply() {
            assert!((400..506).contains(&reply.status), "{}", reply.status);
        }
        assert!(client.is_closed());
    }
    assert_eq!(first_of(&server.post(&infer("m"), row(1))), 1.0);
}

#[track_caller]
fn check_engine(fault: &str, status: u16, part: &str) {
    let parameters = [("fault", fault), ("fault_marker", "13")];
    let repository = Repository::identity("m", &parameters).with_identity("other", &[]);
    let server = Server::start(&repository, &[]);
    check(&mut server.client(), row(13), status, part);
    assert_eq!(first_of(&server.post(&infer("other"), row(1))), 1.0);
    server.get("/v2/health/ready").expect(200);
}

#[test]
fn an_engine_that_gives_back_too_few_rows_is_an_error_of_the_server() {
    check_engine("wrong_rows", 500, "rows");
}

#[test]
fn an_engine_that_gives_back_too_few_outputs_is_an_error_of_the_server() {
    check_engine("missing_output", 500, "did not return output 'OUTPUT0'");
}

#[cfg(feature = "isolation")]
#[test]
fn an_engine_that_gives_back_another_type_is_an_error_of_the_server_also_in_a_process_of_its_own() {
    let part = "returned output 'OUTPUT0' as INT32, where the configuration of the model says FP32";
    check_engine("wrong_type", 500, part);
    let repository = Repository::identity("m", &[("fault", "wrong_type"), ("fault_marker", "13")]);
    let mut server = crate::support::workers::process(&repository, &[]);
    let mut client = server.client();
    check(&mut client, row(13), 500, part);
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(1))), 1.0);
}

#[test]
fn other_sizes_of_an_output_than_the_configured_ones_pass_as_in_triton() {
    let config = "backend: \"identity\" max_batch_size: 8
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 2 ] }";
    let server = Server::start(&Repository::new().model("m", config), &[]);
    let reply = server.post(&infer("m"), row(1)).expect(200).json();
    assert_eq!(reply["outputs"][0]["shape"], serde_json::json!([1, 4]));
}

#[test]
fn an_engine_that_is_out_of_memory_says_so() {
    check_engine("out_of_memory", 507, "memory");
}

#[test]
fn an_engine_that_refuses_its_input_is_an_error_of_the_client() {
    check_engine("invalid", 400, "refuse");
}

#[test]
fn an_engine_that_panics_is_replaced() {
    check_engine("panic", 500, "panicked");
}

#[test]
fn numbers_that_are_none_pass_through() {
    let server = start();
    let body = row(1).replace("1,0,0,0", "NaN,Infinity,-Infinity,-0.0");
    let reply = server.post(&infer("m"), body).expect(200);
    assert!(reply.text().contains("[NaN,Infinity,-Infinity,-0"), "{}", reply.text());
}

#[test]
fn a_failing_model_starves_no_other() {
    let hangs = [("fault", "hang"), ("fault_marker", "66")];
    let repository = Repository::identity("bad", &hangs).with_identity("good", &[]);
    let server = Server::start(&repository, &["--max-queue-wait-ms=0"]);
    let stuck: Vec<Client> = (0..20).map(|_| ask(server.http(), "bad", row(66))).collect();
    wait_for("most of them to wait", || {
        (Page::read(server.http()).of("bad", "muster_queue_depth") >= 10.0).then_some(())
    });
    for number in 0..50 {
        assert_eq!(first_of(&server.post(&infer("good"), row(number))), f64::from(number));
    }
    drop(stuck);
    wait_queued(server.http(), "bad", 0);
}

#[test]
fn every_request_of_many_gets_its_own_rows_and_its_own_name() {
    let config = "backend: \"identity\" max_batch_size: 64 dynamic_batching { }
        instance_group { count: 2 kind: KIND_CPU }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        parameters { key: \"execute_delay_ms\" value: { string_value: \"1\" } }";
    let server = Server::start(&Repository::new().model("m", config), &[]);
    thread::scope(|scope| {
        for worker in 0..12 {
            let mut client = server.client();
            scope.spawn(move || {
                for round in 0..100 {
                    let (number, count) = (worker * 1000 + round, 1 + round as usize % 3);
                    let name = format!("request-{number}");
                    let named =
                        rows(number, count).replacen('{', &format!("{{\"id\":\"{name}\","), 1);
                    let reply = client.post(&infer("m"), &[], named).expect(200);
                    let json = reply.json();
                    assert_eq!(json["id"], name);
                    let data = json["outputs"][0]["data"].as_array().unwrap();
                    assert_eq!(data.len(), 4 * count);
                    for row in data.chunks(4) {
                        assert_eq!(row[0].as_f64(), Some(f64::from(number)));
                    }
                }
            });
        }
    });
    // They did share batches; else there was nothing to mix up.
    let page = Page::read(server.http());
    assert!(page.of("m", "nv_inference_exec_count") < page.of("m", "nv_inference_request_success"));
}

#[test]
fn requests_may_be_sent_ahead_and_are_answered_in_order() {
    let server = start();
    let mut client = server.client();
    let mut all = String::new();
    for number in 0..50 {
        let body = row(number);
        let _ = write!(all, "{}{body}", post_head(&infer("m"), &[], body.len()));
    }
    client.send(all).unwrap();
    for number in 0..50 {
        assert_eq!(first_of(&client.reply()), f64::from(number));
    }
}

#[test]
fn replies_that_nobody_reads_hold_up_the_requests_behind_them() {
    const REQUESTS: usize = 20_000;
    let server = start();
    let mut client = server.client();
    // Each reply is many times as large as its request.
    client.stream().set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let _ = client.send("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(REQUESTS));
    let answered = || Page::read(server.http()).answers("other", 200);
    let mut last = answered();
    // The server goes on until the sockets are full, and no further.
    wait_for("the server to wait for its client", || {
        thread::sleep(Duration::from_millis(100));
        let now = answered();
        // One of them is this look itself.
        let stands = now <= last + 1.0;
        last = now;
        stands.then_some(())
    });
    assert!(last < REQUESTS as f64 / 2.0, "{last} replies for a client that reads none");
}

#[test]
fn when_file_descriptors_run_out_the_server_waits_and_serves_on() {
    let repository = Repository::identity("m", &[]);
    let mut server = Process::start(&repository, &["--max-connections=100000"], &[]);
    server.wait_ready();
    let address = server.address("http");
    let mut served = Client::connect(address);
    served.get("/v2/health/live").expect(200);
    let process = Pid::from_raw(server.id() as i32).unwrap();
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
    let maximum = getrlimit(Resource::Nofile).maximum;
    let few = Rlimit { current: Some(open as u64 + 5), maximum };
    prlimit(Some(process), Resource::Nofile, few).unwrap();
    let crowd: Vec<Client> = (0..50).map(|_| Client::connect(address)).collect();
    server.wait_for_line("cannot accept a connection");
    // Connections that are idle make room for those that come.
    let mut next = Client::connect(address);
    assert_eq!(first_of(&next.post(&infer("m"), &[], row(1))), 1.0);
    drop((served, next, crowd));
    let mut late = Client::connect(address);
    assert_eq!(first_of(&late.post(&infer("m"), &[], row(2))), 2.0);
}

#[test]
fn when_no_thread_can_be_started_for_a_model_its_requests_are_refused_and_later_ones_answered() {
    let models = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let repository =
        models.iter().fold(Repository::new(), |all, model| all.with_identity(model, &[]));
    let flags = [IN_PROCESS, "--caller-runs=off", "--model-load-thread-count=1"];
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    let mut client = server.client();
    client.get("/v2/health/live").expect(200);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let taken = status.lines().find_map(|it| it.strip_prefix("VmSize:")).unwrap();
    let kib: u64 = taken.trim().trim_end_matches(" kB").parse().unwrap();
    // Room for all but the stack of such a thread. One or two of these may be left of threads that have ended.
    let little = Rlimit { current: Some((kib << 10) + (48 << 20)), maximum: None };
    let process = Pid::from_raw(server.id() as i32).unwrap();
    prlimit(Some(process), Resource::As, little).unwrap();
    let mut refused = 0;
    for model in models {
        let reply = client.post(&infer(model), &[], row(1));
        if reply.status == 200 {
            continue;
        }
        assert!(reply.header("retry-after").is_some());
        let error = reply.error(503);
        assert!(error.contains("no thread can be started to run the model on"), "{error}");
        refused += 1;
    }
    assert!(3 < refused, "{refused} of {}", models.len());
    prlimit(Some(process), Resource::As, Rlimit { current: None, maximum: None }).unwrap();
    for model in models {
        assert_eq!(first_of(&client.post(&infer(model), &[], row(2))), 2.0);
    }
}

#[test]
fn the_least_integer_divided_by_minus_one_is_itself_and_ends_nothing() {
    let models = "backends/onnxruntime/tests/models";
    let repository =
        Repository::new().copy("quotient/1/model.onnx", &format!("{models}/quotient.onnx"));
    let mut server = Process::start(&repository, &[IN_PROCESS], &[]);
    server.wait_ready();
    let mut client = server.client();
    let body = |a: [i64; 2], b: [i64; 2]| {
        format!(
            r#"{{"inputs":[{{"name":"a","datatype":"INT64","shape":[1,2],"data":{a:?}}},
                {{"name":"b","datatype":"INT64","shape":[1,2],"data":{b:?}}}]}}"#
        )
    };
    let reply = client.post(&infer("quotient"), &[], body([i64::MIN, 7], [-1, -2])).expect(200);
    let data = |at: usize| reply.json()["outputs"][at]["data"].to_string();
    // 7 by -2 leaves a rest of the sign of the divisor, as ONNX has it.
    assert_eq!((data(0), data(1)), (format!("[{},-3]", i64::MIN), "[0,-1]".to_owned()));
    let told = client.post(&infer("quotient"), &[], body([7, 7], [2, 0])).error(500);
    assert!(told.contains("by zero"), "{told}");
    client.post(&infer("quotient"), &[], body([9, 9], [3, 3])).expect(200);
    server.signal("TERM");
    assert!(server.wait().status.success());
}
