//! Triton's suite `L0_model_config`: the configurations that it expects to be refused, under the names that its cases
//! have. Ensembles and what is completed from a graph are in files of their own.

use serde_json::Value;

use super::fields::reason;
use crate::support::{Repository, Server};

/// What the suite calls the case, the configuration, and what the index says of it.
type Case = (String, String, &'static str);

const ONE: &str = "data_type: TYPE_FP32 dims: [ 1 ]";

/// A configuration of the engine `identity` with these fields; its ports and its batch size are added where they are
/// missing.
fn of_identity(fields: &str) -> String {
    let added = [
        ("input {", format!("input {{ name: \"input\" {ONE} }}")),
        ("output {", format!("output {{ name: \"output\" {ONE} }}")),
        ("max_batch_size:", "max_batch_size: 8".to_owned()),
    ];
    let added =
        added.iter().filter(|(field, _)| !format!(" {fields}").contains(&format!(" {field}")));
    let added: Vec<&str> = added.map(|it| it.1.as_str()).collect();
    format!("backend: \"identity\" {} {fields}", added.join(" "))
}

/// A server with these models and a good one, after it has tried all of them.
pub(super) fn index_with(models: &[(String, String)]) -> (Server, Value) {
    let repository = models
        .iter()
        .fold(Repository::identity("good", &[]), |it, (name, config)| it.model(name, config));
    let server = Server::start(&repository, &["--strict-readiness=false"]);
    let index = server.post("/v2/repository/index", "").expect(200).json();
    (server, index)
}

#[track_caller]
fn check_refused(cases: &[Case]) {
    let models: Vec<(String, String)> =
        cases.iter().map(|(name, config, _)| (name.clone(), config.clone())).collect();
    let (_server, index) = index_with(&models);
    let wrong: Vec<String> = cases
        .iter()
        .map(|(name, _, part)| (name, part, reason(&index, name)))
        .filter(|(_, part, reason)| reason.is_empty() || !reason.contains(**part))
        .map(|(name, part, reason)| format!("{name}: no '{part}' in '{reason}'"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn batch_inputs_and_outputs_have_sources_and_targets_that_are_there() {
    let kinds = [
        "BATCH_ELEMENT_COUNT",
        "BATCH_ACCUMULATED_ELEMENT_COUNT",
        "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
        "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
    ];
    let input = |kind: &str, sources: &str| {
        let field = format!("target_name: \"b\" data_type: TYPE_INT32 {sources}");
        of_identity(&format!("batch_input {{ kind: {kind} {field} }}"))
    };
    let output = |target: &str, sources: &str| {
        let kind = "kind: BATCH_SCATTER_WITH_INPUT_SHAPE";
        format!("batch_output {{ {kind} target_name: \"{target}\" {sources} }}")
    };
    let (one, two) = ("source_input: \"input\"", "source_input: [ \"input\", \"input\" ]");
    let unknown = "source_input: \"unknown\"";
    let mut cases: Vec<Case> = Vec::new();
    for (i, kind) in kinds.into_iter().enumerate() {
        cases.push((format!("batch_input_less_source{i}"), input(kind, ""), "source_input"));
        cases.push((format!("batch_input_many_source{i}"), input(kind, two), "source_input"));
    }
    cases.push(("batch_input_unknown_source".into(), input(kinds[0], unknown), "'unknown'"));
    for (name, fields, part) in [
        ("batch_output_less_source", output("output", ""), "source_input"),
        ("batch_output_many_source", output("output", two), "source_input"),
        ("batch_output_unknown_source", output("output", unknown), "'unknown'"),
        ("batch_output_unknown_target", output("unknown", one), "'unknown'"),
        (
            "batch_output_duplicated_target",
            [output("output", one), output("output", one)].concat(),
            "'output'",
        ),
    ] {
        cases.push((name.into(), of_identity(&fields), part));
    }
    check_refused(&cases);
}

#[test]
fn controls_of_sequences_are_given_once_and_with_values() {
    let control = |kind: &str| {
        format!("control {{ kind: CONTROL_SEQUENCE_{kind} int32_false_true: [ 0, 1 ] }}")
    };
    let inputs = |controls: &[(&str, String)]| {
        let inputs =
            controls.iter().map(|(name, it)| format!("control_input {{ name: \"{name}\" {it} }} "));
        of_identity(&format!("sequence_batching {{ {} }}", inputs.collect::<String>()))
    };
    let twice = |kind: &str| inputs(&[("A", control(kind)), ("B", control(kind))]);
    let both = control("START") + &control("READY");
    let none = "control { kind: CONTROL_SEQUENCE_READY }".to_owned();
    check_refused(&[
        ("control_kind_start_multiple".into(), twice("START"), "CONTROL_SEQUENCE_START"),
        ("control_kind_ready_multiple".into(), twice("READY"), "CONTROL_SEQUENCE_READY"),
        ("control_kind_end_multiple".into(), twice("END"), "CONTROL_SEQUENCE_END"),
        ("control_tensor_multiple".into(), inputs(&[("A", both)]), "'A'"),
        ("control_tensor_no_value".into(), inputs(&[("A", none)]), "false_true"),
    ]);
}

#[test]
fn priorities_and_order_exclude_each_other_and_lie_within_their_range() {
    let levels = "priority_levels: 3 default_priority_level: 1";
    let delay = "{ timeout_action: DELAY default_timeout_microseconds: 1000 }";
    let policy = |level: u8| {
        format!("{levels} priority_queue_policy {{ key: {level} value {{ max_queue_size: 1 }} }}")
    };
    let ordered = |fields: &str| format!("preserve_ordering: true {fields}");
    let cases = [
        (
            "default_priority_level0",
            "priority_levels: 3".to_owned(),
            "default_priority_level is 0; expected 1 to",
        ),
        (
            "default_priority_level1",
            "priority_levels: 3 default_priority_level: 4".to_owned(),
            "which is 3",
        ),
        ("priority_level0", policy(0), "has the key 0; expected 1 to"),
        ("priority_level1", policy(4), "has the key 4; expected 1 to"),
        ("preserve_ordering0", ordered(levels), "preserve_ordering excludes priorities"),
        (
            "preserve_ordering1",
            ordered(&format!("default_queue_policy {delay}")),
            "timeout_action DELAY",
        ),
        (
            "preserve_ordering2",
            ordered(&format!(
                "priority_levels: 1 default_priority_level: 1 priority_queue_policy {{ key: 1 value {delay} }}"
            )),
            "timeout_action DELAY",
        ),
    ];
    let of = |(name, fields, part): (&str, String, _)| {
        (name.into(), of_identity(&format!("dynamic_batching {{ {fields} }}")), part)
    };
    check_refused(&cases.map(of));
}

/// Of each reshape, what the suite calls it where requests are batched and where they are not, for inputs and for
/// outputs.
#[test]
fn a_reshape_keeps_the_number_of_elements_and_what_is_open() {
    let reshapes = [
        ("elementcount", "2", "1", "must have equally many"),
        ("elementcount_of_two", "3, 2", "5", "must have equally many"),
        ("variable_closed", "-1", "1", "must have equally many"),
        ("variable_between", "2, -1", "1, -1, 2", "must have equally many"),
        ("variable_twice", "-1, 2, -1", "-1, 2", "must have equally many"),
        ("zerodims", "2, 2", "0", "must have equally many"),
    ];
    let reshaped = |port: &str, dims: &str, shape: &str| {
        let shape = format!("reshape {{ shape: [ {shape} ] }}");
        format!("{port} {{ name: \"{port}\" data_type: TYPE_FP32 dims: [ {dims} ] {shape} }}")
    };
    let mut cases: Vec<Case> = Vec::new();
    for port in ["input", "output"] {
        for (name, dims, shape, part) in reshapes {
            let field = reshaped(port, dims, shape);
            cases.push((format!("reshape_{name}_{port}"), of_identity(&field), part));
            let alone = of_identity(&format!("max_batch_size: 0 {field}"));
            cases.push((format!("reshape_nobatch_{name}_{port}"), alone, part));
        }
        let empty = format!("max_batch_size: 0 {}", reshaped(port, "1", ""));
        cases.push((
            format!("reshape_nobatch_empty_{port}"),
            of_identity(&empty),
            "an empty shape",
        ));
    }
    check_refused(&cases);
}

#[test]
fn what_else_cannot_be_is_refused_by_its_name() {
    let step = "step { model_name: \"good\" model_version: -1 input_map { key: \"INPUT0\" value: \"input\" }
        output_map { key: \"OUTPUT0\" value: \"output\" } }";
    let cases = [
        (
            "ensemble_scheduling_set",
            format!("ensemble_scheduling {{ {step} }}"),
            "ensemble_scheduling",
        ),
        ("invalid_cpu", "instance_group { kind: KIND_CPU gpus: [ 0 ] }".to_owned(), "gpus"),
        ("invalid_gpu", "instance_group { kind: KIND_GPU gpus: [ 100 ] }".to_owned(), "GPU"),
        ("negative_gpu", "instance_group { kind: KIND_GPU gpus: [ -1 ] }".to_owned(), "GPU"),
        ("negative_max_batch_size", "max_batch_size: -1".to_owned(), "max_batch_size"),
        ("missing_datatype", "input { name: \"input\" dims: [ 1 ] }".to_owned(), "data_type"),
    ];
    let mut cases: Vec<Case> =
        cases.map(|(name, fields, part)| (name.into(), of_identity(&fields), part)).into();
    let unknown = |field: &str| of_identity("").replace("backend: \"identity\"", field);
    cases.push((
        "invalid_platform".into(),
        unknown("platform: \"something_unknown\""),
        "something_unknown",
    ));
    cases.push(("unknown_backend.unknown".into(), unknown("backend: \"unknown\""), "unknown"));
    check_refused(&cases);
    // The file that the configuration names is not there, and a folder without a version.
    let ports = format!("input {{ name: \"input\" {ONE} }} output {{ name: \"output\" {ONE} }}");
    let repository = Repository::identity("good", &[])
        .fixture("bad_modelfile_name", "type_fp32")
        .file("bad_modelfile_name/config.pbtxt", "default_model_filename: \"not_a_real_file\"")
        .file(
            "no_version/config.pbtxt",
            format!("backend: \"identity\" max_batch_size: 8 {ports}"),
        );
    let server = Server::start(&repository, &["--strict-readiness=false"]);
    let index = server.post("/v2/repository/index", "").expect(200).json();
    assert!(reason(&index, "bad_modelfile_name").contains("not_a_real_file"), "{index}");
    assert!(reason(&index, "no_version").contains("version"), "{index}");
}

#[test]
fn sizes_of_zero_are_refused_by_their_place() {
    let zero = |port: &str| {
        of_identity(&format!("{port} {{ name: \"{port}\" data_type: TYPE_FP32 dims: [ 0 ] }}"))
    };
    check_refused(&["input", "output"].map(|port| {
        (format!("zerodims_{port}"), zero(port), "dims[0] is 0; expected at least 1, or -1")
    }));
}

/// Triton refuses this in its strict mode only, and documents that a folder names its model.
#[test]
fn a_folder_names_its_model() {
    let (server, _) = index_with(&[("no_name".to_owned(), of_identity(""))]);
    server.get("/v2/models/no_name/ready").expect(200);
}
