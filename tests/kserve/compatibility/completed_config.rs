//! Triton's suite `L0_model_config`: what a configuration leaves out, or says against the graph, under the names that
//! the suite's cases have.

use serde_json::json;

use super::fields::reason;
use crate::support::{Repository, Server};

#[test]
fn what_a_graph_contradicts_is_refused() {
    let port =
        |what: &str, name: &str, fields: &str| format!("{what} {{ name: \"{name}\" {fields} }} ");
    let (four, fp32) = ("data_type: TYPE_FP32 dims: [ 4 ]", "max_batch_size: 8 ");
    let inputs = |b: &str| port("input", "a", four) + &port("input", "b", b);
    let output = |fields: &str| port("output", "sum", fields);
    let cases = [
        ("bad_input_dims", inputs("data_type: TYPE_FP32 dims: [ 4, 1 ]"), "'b'"),
        ("bad_input_type", inputs("data_type: TYPE_FP16 dims: [ 4 ]"), "'b'"),
        ("bad_output_dims", output("data_type: TYPE_FP32 dims: [ 1, 4 ]"), "'sum'"),
        ("bad_output_type", output("data_type: TYPE_INT8 dims: [ 4 ]"), "'sum'"),
        ("too_many_inputs", inputs(four) + &port("input", "c", four), "'c'"),
        ("unknown_input", port("input", "a", four) + &port("input", "unknown", four), "'unknown'"),
        ("unknown_output", port("output", "unknown", four), "'unknown'"),
    ];
    let repository =
        cases.iter().fold(Repository::identity("good", &[]), |it, (name, fields, _)| {
            it.fixture(name, "two_outputs")
                .file(&format!("{name}/config.pbtxt"), format!("{fp32}{fields}"))
        });
    let repository = repository
        .fixture("bad_max_batch_size", "fixed_batch")
        .file("bad_max_batch_size/config.pbtxt", "max_batch_size: 8");
    let server = Server::start(&repository, &["--strict-readiness=false"]);
    let index = server.post("/v2/repository/index", "").expect(200).json();
    for (name, _, part) in cases {
        let reason = reason(&index, name);
        assert!(reason.contains(part), "{name}: no {part} in '{reason}'");
    }
    let reason = reason(&index, "bad_max_batch_size");
    assert!(reason.contains("max_batch_size"), "{reason}");
}

#[test]
fn what_a_configuration_leaves_out_is_completed_from_the_graph() {
    let cases = [
        ("empty_config", "two_outputs", "", true),
        ("no_name_platform", "two_outputs", "max_batch_size: 8", true),
        ("max_batch_size_set", "two_outputs", "max_batch_size: 8", true),
        (
            "incomplete_input",
            "two_outputs",
            "input [ { name: \"a\" data_type: TYPE_FP32 }, { name: \"b\" dims: [ 4 ] } ]",
            true,
        ),
        (
            "incomplete_output",
            "two_outputs",
            "output [ { name: \"sum\" data_type: TYPE_FP32 }, { name: \"difference\" dims: [ 4 ] } ]",
            true,
        ),
        (
            "cpu_instance",
            "two_outputs",
            "max_batch_size: 4 instance_group { count: 2 kind: KIND_CPU }",
            true,
        ),
        (
            "hint_for_no_batch",
            "two_outputs",
            "input [ { name: \"a\" data_type: TYPE_FP32 dims: [ -1, 4 ] }, { name: \"b\" data_type: TYPE_FP32 dims: [ -1, 4 ] } ]",
            false,
        ),
        ("no_config_no_batch", "fixed_batch", "", false),
    ];
    let repository = cases.iter().fold(Repository::of(&[]), |it, (name, fixture, fields, _)| {
        let it = it.fixture(name, fixture);
        match *fields {
            "" => it.file(&format!("{name}/config.pbtxt"), ""),
            fields => it.file(&format!("{name}/config.pbtxt"), fields),
        }
    });
    let server = Server::start(&repository.fixture("no_config", "two_outputs"), &[]);
    for (name, fixture, fields, batches) in
        cases.into_iter().chain([("no_config", "two_outputs", "", true)])
    {
        let config = server.get(&format!("/v2/models/{name}/config")).expect(200).json();
        assert_eq!(config["name"], name);
        assert_eq!(config["platform"], "onnxruntime_onnx", "{name}");
        assert_eq!(config["backend"], "onnxruntime", "{name}");
        assert_eq!(config["default_model_filename"], "model.onnx", "{name}");
        assert_eq!(config["version_policy"], json!({"latest": {"num_versions": 1}}), "{name}");
        let given = fields.split("max_batch_size: ").nth(1).and_then(|it| it.split(' ').next());
        let rows = config["max_batch_size"].as_i64().unwrap();
        assert_eq!(rows > 0, batches, "{name}: {rows}");
        assert!(given.is_none_or(|it| it == rows.to_string()), "{name}: {rows}");
        let dims = match (fixture, batches) {
            ("fixed_batch", _) => json!([2, 3]),
            (_, true) => json!([4]),
            (_, false) => json!([-1, 4]),
        };
        for port in [&config["input"], &config["output"]] {
            for port in port.as_array().unwrap() {
                assert_eq!(
                    (&port["data_type"], &port["dims"]),
                    (&json!("TYPE_FP32"), &dims),
                    "{name}: {port}"
                );
            }
        }
        let groups = config["instance_group"].as_array().unwrap();
        assert_eq!(groups[0]["kind"], "KIND_CPU", "{name}");
        assert!(name != "cpu_instance" || groups[0]["count"] == 2, "{groups:?}");
    }
}
