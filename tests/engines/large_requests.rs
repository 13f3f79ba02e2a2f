//! Requests of more rows than a run has: run in parts, answered as one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    Client, Page, Reply, Repository, Server, ask, ask_with, infer, row, wait_for, wait_queued,
};

/// A request whose rows begin with 0, 1, 2 ..
fn numbered(rows: usize) -> String {
    let data: Vec<f32> =
        (0..rows * 4).map(|it| if it % 4 == 0 { (it / 4) as f32 } else { 0.5 }).collect();
    json!({"inputs": [{"name": "INPUT0", "shape": [rows, 4], "datatype": "FP32", "data": data}]})
        .to_string()
}

/// The first numbers of the rows of an answer.
#[track_caller]
fn firsts(reply: &Reply) -> Vec<f64> {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let data = reply.json()["outputs"][0]["data"].clone();
    let data: Vec<f64> = data.as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    data.iter().step_by(4).copied().collect()
}

fn counted(rows: usize) -> Vec<f64> {
    (0..rows).map(|it| it as f64).collect()
}

/// A model `m` of the engine `identity` in runs of at most four rows.
fn model(config: &str, parameters: &[(&str, &str)]) -> Repository {
    let parameters = parameters.iter().map(|(key, value)| {
        format!("parameters {{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}\n")
    });
    let text = format!(
        "backend: \"identity\" max_batch_size: 4
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }} {config} {}",
        parameters.collect::<String>()
    );
    Repository::new().model("m", &text)
}

const MERGED: &str = "dynamic_batching { } instance_group { count: 2 kind: KIND_CPU }";

#[test]
fn a_request_of_many_rows_is_run_in_parts_and_counted_once() {
    let server = Server::start(&model(MERGED, &[]), &[]);
    for rows in [5, 8, 1001] {
        assert_eq!(firsts(&server.post(&infer("m"), numbered(rows))), counted(rows));
    }
    let page = Page::read(server.http());
    assert_eq!(page.of("m", "nv_inference_request_success"), 3.0);
    assert_eq!(page.of("m", "nv_inference_count"), 1014.0);
    assert_eq!(page.of("m", "nv_inference_exec_count"), 2.0 + 2.0 + 251.0);
    assert_eq!(page.batches_up_to("m", 4), 255.0);
}

#[test]
fn parts_run_side_by_side_where_there_are_instances() {
    // The first part never ends; the second one does beside it.
    let hangs = [("fault", "hang"), ("fault_marker", "0")];
    let server = Server::start(&model(MERGED, &hangs), &["--eager-instances=true"]);
    let leaving = ask(server.http(), "m", numbered(8));
    wait_for("the second part to have run", || {
        (Page::read(server.http()).of("m", "nv_inference_exec_count") == 1.0).then_some(())
    });
    drop(leaving);
}

#[test]
fn a_part_that_fails_fails_the_request_and_only_that() {
    let server = Server::start(&model(MERGED, &[("fault", "fail"), ("fault_marker", "13")]), &[]);
    server.post(&infer("m"), numbered(40)).error(500);
    wait_queued(server.http(), "m", 0);
    let page = Page::read(server.http());
    assert_eq!((page.failures("m", "BACKEND"), page.failures("m", "CANCELED")), (1.0, 0.0));
    assert_eq!(page.of("m", "nv_inference_request_success"), 0.0);
    assert_eq!(firsts(&server.post(&infer("m"), numbered(12))), counted(12));
}

#[test]
fn a_client_that_leaves_takes_all_parts_with_it_and_is_counted_once() {
    let server = Server::start(&model(MERGED, &[]), &["--scheduler-hold=9"]);
    let leaving = ask(server.http(), "m", numbered(400));
    // As many as there are instances, and one more.
    wait_queued(server.http(), "m", 3);
    drop(leaving);
    wait_queued(server.http(), "m", 0);
    wait_for("the request to be counted", || {
        (Page::read(server.http()).failures("m", "CANCELED") == 1.0).then_some(())
    });
}

#[test]
fn a_deadline_bounds_all_parts_together() {
    let server = Server::start(&model("", &[("execute_delay_ms", "100")]), &[]);
    let headers = [("x-request-timeout-ms", "250")];
    let late = ask_with(server.http(), "m", &headers, numbered(80)).reply();
    assert!(late.error(504).contains("deadline"), "{}", late.text());
    wait_queued(server.http(), "m", 0);
}

#[test]
fn in_order_of_arrival_a_request_of_many_rows_is_one() {
    let config = "dynamic_batching { preserve_ordering: true }
        instance_group { count: 2 kind: KIND_CPU }";
    let server =
        Server::start(&model(config, &[("execute_delay_ms", "50")]), &["--scheduler-hold=4"]);
    let mut large = ask(server.http(), "m", numbered(40));
    wait_queued(server.http(), "m", 3);
    let started = Instant::now();
    let mut small = ask(server.http(), "m", row(7));
    assert_eq!(small.reply().status, 200);
    // Ten runs on two instances come before its answer.
    assert!(Duration::from_millis(200) < started.elapsed(), "{:?}", started.elapsed());
    assert_eq!(firsts(&large.reply()), counted(40));
}

#[test]
fn a_table_of_any_length_is_answered_line_by_line() {
    let server = Server::start(&model(MERGED, &[]), &[]);
    let mut client = Client::connect(server.sagemaker());
    let csv: String = (0..500).map(|it| format!("{it},0,0,0\n")).collect();
    let reply = client.post("/invocations", &[("content-type", "text/csv")], csv).expect(200);
    let text = reply.text();
    let numbers: Vec<&str> = text.lines().map(|it| it.split([',', '.']).next().unwrap()).collect();
    let expected: Vec<String> = (0..500).map(|it| it.to_string()).collect();
    assert_eq!(numbers, expected);
    let told = client.get("/execution-parameters").expect(200).json();
    assert_eq!(told["BatchStrategy"], "MULTI_RECORD");
}

#[test]
fn a_batch_size_that_is_written_bounds_requests_where_that_is_asked_for() {
    let server = Server::start(&model(MERGED, &[]), &["--strict-max-batch-size=true"]);
    let refused = server.post(&infer("m"), numbered(5)).error(400);
    assert!(refused.contains("inference request batch-size must be <= 4 for 'm'"), "{refused}");
    assert_eq!(firsts(&server.post(&infer("m"), numbered(4))), counted(4));
    let mut client = Client::connect(server.sagemaker());
    let told = client.get("/execution-parameters").expect(200).json();
    assert_eq!(told["BatchStrategy"], "SINGLE_RECORD");
}

#[test]
fn rows_that_depend_on_each_other_are_not_cut_apart() {
    let written = "max_batch_size: 4";
    let repository = Repository::new()
        .copy("less_mean", "tests/fixtures/mixing/less_mean")
        .file("less_mean/config.pbtxt", written);
    let server = Server::start(&repository, &[]);
    let body = |rows: usize| {
        let data = vec![1.0; rows * 4];
        json!({"inputs": [{"name": "INPUT", "shape": [rows, 4], "datatype": "FP32", "data": data}]})
            .to_string()
    };
    let refused = server.post(&infer("less_mean"), body(5)).error(400);
    assert!(refused.contains("must be <= 4"), "{refused}");
    let answer: Value = server.post(&infer("less_mean"), body(4)).expect(200).json();
    assert_eq!(answer["outputs"][0]["shape"], json!([4, 4]));
}
