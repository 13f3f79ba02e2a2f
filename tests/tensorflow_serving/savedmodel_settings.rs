//! What operators say of the graph of a SavedModel and of its precision, parameters that have no effect, and the time
//! that clients give a run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    Client, Form, Repository, Tensor, root,
    savedmodels::{FIXTURES, post, serve_those},
    skip,
};

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(root(&format!("{FIXTURES}/{name}/1/saved_model.pb"))).unwrap()
}

/// A field of bytes as protobuf writes it.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut rest = bytes.len();
    while 0x7f < rest {
        field.push(rest as u8 & 0x7f | 0x80);
        rest >>= 7;
    }
    field.push(rest as u8);
    [&field, bytes].concat()
}

/// The only graph of that fixture's file, without the field around it.
fn graph(name: &str) -> Vec<u8> {
    let file = fixture(name);
    // Field 1 is the version of the schema, one byte; field 2 is the graph, to the end.
    assert_eq!(file[..3], [0x08, 1, 0x12], "{name}");
    let length = file[3..].iter().take_while(|it| **it & 0x80 != 0).count() + 1;
    file[3 + length..].to_vec()
}

/// The graph of `half_plus_two` for serving, and that of `several` with the tags `serve` and `gpu`.
fn two_graphs() -> Repository {
    // Field 4 of the information, which is field 1 of the graph, are its tags.
    let gpu = field(1, &field(4, b"gpu"));
    let other = [graph("several"), gpu].concat();
    let file = [fixture("half_plus_two"), field(2, &other)].concat();
    Repository::new()
        .copy("two", &format!("{FIXTURES}/half_plus_two"))
        .file("two/1/saved_model.pb", file)
}

fn of_half(client: &mut Client) -> Value {
    post(client, "/v1/models/two:predict", &json!({"instances": [[1.0]]}))
}

fn of_several(client: &mut Client) -> Value {
    post(client, "/v1/models/two:predict", &json!({"instances": [[1.5, 2.0]]}))
}

#[test]
fn tags_choose_the_graph_that_is_served() {
    let Some((mut process, _repository)) = serve_those(two_graphs(), &[]) else { return };
    assert_eq!(of_half(&mut process.client()), json!({"predictions": [[2.5]]}));
    let flags = ["--tensorflow-tags=serve"];
    let (mut process, _repository) = serve_those(two_graphs(), &flags).unwrap();
    assert_eq!(of_half(&mut process.client()), json!({"predictions": [[2.5]]}));
    let flags = ["--tensorflow-tags=gpu,serve"];
    let (mut process, _repository) = serve_those(two_graphs(), &flags).unwrap();
    assert_eq!(of_several(&mut process.client()), json!({"predictions": [[3.0, 4.0]]}));
    let flags = ["--tensorflow-tags=gpu", "--strict-readiness=false"];
    let own = "parameters { key: \"TF_GRAPH_TAG\" value: { string_value: \"serve\" } }";
    let repository = two_graphs()
        .copy("own", &format!("{FIXTURES}/half_plus_two"))
        .file("own/config.pbtxt", own);
    let (mut process, _repository) = serve_those(repository, &flags).unwrap();
    let mut client = process.client();
    let error = client.get("/v2/models/two/ready").error(503);
    for part in ["tags [gpu] and no others", "--tensorflow-tags", "[serve], [serve, gpu]"] {
        assert!(error.contains(part), "{error}");
    }
    // What the model says goes before the flag.
    client.get("/v2/models/own/ready").expect(200);
}

/// What the model `keras` makes of its rows.
fn rows_of_keras(client: &mut Client) -> Vec<f64> {
    let text = std::fs::read_to_string(root(&format!("{FIXTURES}/keras.json"))).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let rows: Vec<Vec<f32>> = serde_json::from_value(expected["rows"].clone()).unwrap();
    let row = Tensor::fp32("x", &[rows.len(), 8], &rows.concat());
    client.infer("keras", &[row], Form::Binary, "").expect(200).output().numbers()
}

#[test]
fn operators_calculate_in_bfloat16_where_they_are_told_to() {
    let features = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !features.contains("avx512f") {
        return skip("bfloat16: this processor has no AVX-512, which oneDNN needs for it");
    }
    let keras = |config: &str| {
        Repository::new()
            .copy("keras", &format!("{FIXTURES}/keras"))
            .file("keras/config.pbtxt", config)
    };
    let numbers = |config: &str, flags: &[&str]| {
        let (mut process, _repository) = serve_those(keras(config), flags)?;
        Some((rows_of_keras(&mut process.client()), process))
    };
    let own = |text: &str| {
        format!(
            "parameters {{ key: \"TF_MIXED_PRECISION\" value: {{ string_value: \"{text}\" }} }}"
        )
    };
    let flag = "--tensorflow-mixed-precision=bfloat16";
    let Some((single, _)) = numbers("", &[]) else { return };
    let (by_flag, _) = numbers("", &[flag]).unwrap();
    let (by_model, _) = numbers(&own("bfloat16"), &[]).unwrap();
    let (not_by_model, _) = numbers(&own("off"), &[flag]).unwrap();
    let furthest = |it: &[f64]| {
        let pairs = single.iter().zip(it);
        pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
    };
    for half in [&by_flag, &by_model] {
        let furthest = furthest(half);
        assert!(1e-5 < furthest && furthest < 0.05, "{furthest}");
    }
    assert!(furthest(&not_by_model) < 1e-6);
    // Without oneDNN there is none of it, which is said.
    let (without, mut process) = numbers("", &[flag, "--tensorflow-onednn=off"]).unwrap();
    assert!(furthest(&without) < 1e-6);
    let line = process.wait_for_line("calculates in single precision");
    assert!(line.contains("WARN") && line.contains("--tensorflow-onednn=on"), "{line}");
}

#[test]
fn parameters_of_tensorflow_without_effect_have_a_warning_each_and_first_operations_are_refused() {
    let half = format!("{FIXTURES}/half_plus_two");
    let parameter = |key: &str, value: &str| {
        format!("parameters {{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}\n")
    };
    let config = [("TF_XLA", "on"), ("TF_USE_PER_SESSION_THREADS", "false"), ("team", "a")];
    let config = config.map(|(key, value)| parameter(key, value)).concat();
    let repository = Repository::new()
        .copy("half", &half)
        .file("half/config.pbtxt", config)
        .copy("first", &half)
        .file("first/config.pbtxt", parameter("TF_INIT_OPS_FILE", "init.json"));
    let flags = ["--strict-readiness=false"];
    let Some((mut process, _repository)) = serve_those(repository, &flags) else { return };
    let line = process.wait_for_line("'TF_XLA' has no effect");
    assert!(line.contains("WARN") && line.contains("TF_MIXED_PRECISION"), "{line}");
    let line = process.wait_for_line("TF_USE_PER_SESSION_THREADS has no effect");
    assert!(line.contains("WARN"), "{line}");
    assert!(!process.log().iter().any(|it| it.contains("'team'")));
    process.client().get("/v2/models/half/ready").expect(200);
    let error = process.client().get("/v2/models/first/ready").error(503);
    assert!(error.contains("TF_INIT_OPS_FILE") && error.contains("init.json"), "{error}");
}

#[test]
fn a_run_ends_when_its_client_waits_no_longer_and_its_instance_serves_the_next_request() {
    let repository = Repository::new()
        .copy("rounds", &format!("{FIXTURES}/rounds"))
        .file("rounds/config.pbtxt", "instance_group { count: 1 }");
    let Some((mut process, _repository)) = serve_those(repository, &[]) else { return };
    let mut client = process.client();
    let path = "/v1/models/rounds:predict";
    let began = Instant::now();
    for _ in 0..3 {
        // So many rounds take hours.
        let headers = [("X-Request-Timeout-Ms", "20")];
        client.post(path, &headers, json!({"inputs": 1_000_000}).to_string()).error(504);
        let reply = post(&mut client, path, &json!({"inputs": 1}));
        assert_eq!(reply["outputs"]["rounds"], 1);
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}
