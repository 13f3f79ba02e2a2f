//! Resources that instances of several models share.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::support::{
    Client, Page, Repository, Server, Start, ask,
    control::{EXPLICIT, load},
    first_of, infer, row, wait_queued,
};

/// Models `a` and `b` of single rows, whose only instance needs this; a row that begins with 66 hangs.
fn two(resources: &str, more: &str) -> Repository {
    let config = format!(
        "backend: \"identity\" max_batch_size: 1
         instance_group {{ count: 1 kind: KIND_CPU rate_limiter {{ {resources} }} }}
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         parameters {{ key: \"fault\" value: {{ string_value: \"hang\" }} }}
         parameters {{ key: \"fault_marker\" value: {{ string_value: \"66\" }} }} {more}"
    );
    Repository::new().model("a", &config).model("b", &config)
}

const ONE: &str = "resources { name: \"R\" global: true count: 1 }";
/// A run takes this long.
const SLOW: &str = "parameters { key: \"latency_beta_us\" value: { string_value: \"200000\" } }";
const ON: &str = "--rate-limit=execution_count";

/// Lets a run of model `a` hang until the clients are dropped.
fn hang(server: &Server) -> [Client; 2] {
    let hanging = ask(server.http(), "a", row(66));
    let behind = ask(server.http(), "a", row(66));
    // There is one instance: whichever came second waits for as long as the other runs.
    wait_queued(server.http(), "a", 1);
    [hanging, behind]
}

#[test]
fn instances_of_two_models_do_not_run_at_once_where_there_is_enough_for_one() {
    let server = Server::start(&two(ONE, SLOW), &[ON]);
    let started = Instant::now();
    let mut both = [ask(server.http(), "a", row(1)), ask(server.http(), "b", row(2))];
    assert_eq!(both.each_mut().map(|it| first_of(&it.reply())), [1.0, 2.0]);
    assert!(Duration::from_millis(400) <= started.elapsed(), "{:?}", started.elapsed());
}

#[test]
fn instances_that_come_while_the_model_serves_wait_as_well() {
    let repository = two(ONE, SLOW);
    let server = Server::start(&repository, &[ON, EXPLICIT, "--load-model=a"]);
    let path = repository.path().join("a/config.pbtxt");
    let config = fs::read_to_string(&path).unwrap().replace("count: 1 kind", "count: 2 kind");
    fs::write(path, config).unwrap();
    load(&server, "a", "").expect(200);
    let shown = server.get("/v2/models/a/config").json();
    assert_eq!(shown["instance_group"][0]["count"], 2, "{shown}");
    let started = Instant::now();
    let mut both = [ask(server.http(), "a", row(1)), ask(server.http(), "a", row(2))];
    assert_eq!(both.each_mut().map(|it| first_of(&it.reply())), [1.0, 2.0]);
    assert!(Duration::from_millis(400) <= started.elapsed(), "{:?}", started.elapsed());
}

/// Does `b` answer while a run of `a` hangs?
#[track_caller]
fn check_both_run(resources: &str, flags: &[&str]) {
    let server = Server::start(&two(resources, ""), flags);
    let hanging = hang(&server);
    assert_eq!(first_of(&server.post(&infer("b"), row(2))), 2.0);
    drop(hanging);
}

#[test]
fn without_the_flag_or_with_enough_of_it_nobody_waits() {
    check_both_run(ONE, &[]);
    check_both_run(ONE, &["--rate-limit=off", "--rate-limit-resource=R:1"]);
    check_both_run(ONE, &[ON, "--rate-limit-resource=r:2"]);
    check_both_run("priority: 3", &[ON]);
}

#[test]
fn a_request_that_leaves_while_its_instance_waits_is_not_run() {
    let server = Server::start(&two(ONE, ""), &[ON]);
    let hanging = hang(&server);
    let leaving = ask(server.http(), "b", row(2));
    wait_queued(server.http(), "b", 1);
    drop(leaving);
    wait_queued(server.http(), "b", 0);
    drop(hanging);
    assert_eq!(first_of(&server.post(&infer("b"), row(4))), 4.0);
    assert_eq!(Page::read(server.http()).of("b", "nv_inference_exec_count"), 1.0);
}

#[test]
fn an_instance_that_needs_more_than_there_is_does_not_load() {
    let repository = two("resources { name: \"R\" count: 3 }", "");
    let start = Start::new(&repository).flags(&[ON, "--rate-limit-resource=R:2"]);
    let error = start.try_run().err().expect("nothing loads").to_string();
    let text = "instance_group[0]: rate_limiter: resource 'R': an instance needs 3, --rate-limit-resource gives 2";
    assert!(error.contains(text), "{error}");
}

#[test]
fn a_resource_that_is_global_and_per_device_does_not_load() {
    let config = "backend: \"identity\"
         instance_group [
           { count: 1 kind: KIND_CPU rate_limiter { resources { name: \"R\" count: 1 } } },
           { count: 1 kind: KIND_CPU rate_limiter { resources { name: \"R\" count: 1 global: true } } } ]
         input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
         output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";
    let repository = Repository::new().model("a", config);
    let error = Start::new(&repository).flags(&[ON]).try_run().err().unwrap().to_string();
    assert!(error.contains("expected one or the other"), "{error}");
}

#[test]
fn sequences_wait_for_their_resources_too() {
    let config = format!(
        "max_batch_size: 2 instance_group {{ count: 1 kind: KIND_CPU rate_limiter {{ {ONE} }} }}
         sequence_batching {{ state {{ input_name: \"PAST\" output_name: \"NOW\" data_type: TYPE_INT32 dims: [ -1 ] }} }}"
    );
    let repository =
        two(ONE, "").copy("m", "tests/fixtures/batching/history").file("m/config.pbtxt", config);
    let server = Server::start(&repository, &[ON]);
    let hanging = hang(&server);
    let body = r#"{"parameters":{"sequence_id":1,"sequence_start":true},
        "inputs":[{"name":"INPUT","shape":[1,1],"datatype":"INT32","data":[5]}]}"#;
    let leaving = ask(server.http(), "m", body);
    wait_queued(server.http(), "m", 1);
    drop(leaving);
    wait_queued(server.http(), "m", 0);
    assert_eq!(Page::read(server.http()).of("m", "nv_inference_exec_count"), 0.0);
    let mut waiting = ask(server.http(), "m", body);
    wait_queued(server.http(), "m", 1);
    drop(hanging);
    assert_eq!(waiting.reply().json()["outputs"][0]["data"][1], 5);
    assert_eq!(Page::read(server.http()).of("m", "nv_inference_exec_count"), 1.0);
}

#[test]
fn what_is_no_resource_is_a_refused_start() {
    let refused = |flags: &[&str]| Start::new(&two(ONE, "")).flags(flags).config().unwrap_err();
    let error = refused(&["--rate-limit=count"]);
    assert!(error.contains("off or execution_count"), "{error}");
    let error = refused(&[ON, "--rate-limit-resource=R"]);
    assert!(error.contains("name:count"), "{error}");
}
