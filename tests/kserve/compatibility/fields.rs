//! What single fields of a model's configuration do: those that no other file is about, and those that do nothing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    table,
    tables::{IGNORED, NOT_APPLICABLE, REFUSED},
};
use crate::support::{
    Form, Process, Repository, Server, Tensor, ask, first_of, infer, infer_body, row, wait_queued,
};

const INPUT: &str = "input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";
const OUTPUT: &str = "output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";

/// A model of the engine `identity` with these fields; its input and output are added where they are not among
/// them.
fn config(fields: &str) -> String {
    let given = |it: &str| fields.contains(&format!("{it} {{ name: "));
    let input = if given("input") { "" } else { INPUT };
    let output = if given("output") { "" } else { OUTPUT };
    format!("backend: \"identity\" max_batch_size: 8 {input} {output} {fields}")
}

fn start(fields: &str, flags: &[&str]) -> (Repository, Server) {
    let repository = Repository::new().model("m", &config(fields));
    let flags = [&["--strict-readiness=false"][..], flags].concat();
    let repository = repository.model("other", &config(""));
    let server = Server::start(&repository, &flags);
    (repository, server)
}

/// Why a model is not served; empty where it is.
pub(super) fn reason(index: &Value, model: &str) -> String {
    let models = index.as_array().unwrap();
    let entry = models.iter().find(|it| it["name"] == model).unwrap();
    entry["reason"].as_str().unwrap_or_default().to_owned()
}

fn index_of(server: &Server) -> Value {
    server.post("/v2/repository/index", "").expect(200).json()
}

/// (field, a configuration that has it, what the warning calls it).
#[rustfmt::skip]
const WITHOUT_EFFECT: &[(&str, &str, &str)] = &[
    ("ModelInstanceGroup.profile", r#"instance_group { profile: "1" }"#, "profile"),
    ("ModelInstanceGroup.host_policy", r#"instance_group { host_policy: "p" }"#, "host_policy"),
    ("ModelOptimizationPolicy.cuda", "optimization { cuda { } }", "optimization.cuda"),
    ("ModelOptimizationPolicy.input_pinned_memory", "optimization { input_pinned_memory { enable: false } }", "optimization.input_pinned_memory"),
    ("ModelOptimizationPolicy.output_pinned_memory", "optimization { output_pinned_memory { enable: false } }", "optimization.output_pinned_memory"),
    ("PinnedMemoryBuffer.enable", "optimization { input_pinned_memory { enable: false } }", "optimization.input_pinned_memory"),
    ("ModelOptimizationPolicy.gather_kernel_buffer_threshold", "optimization { gather_kernel_buffer_threshold: 1 }", "optimization.gather_kernel_buffer_threshold"),
    ("ModelOptimizationPolicy.eager_batching", "optimization { eager_batching: true }", "optimization.eager_batching"),
    ("ExecutionAccelerators.cpu_execution_accelerator", r#"optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino" } } }"#, "cpu_execution_accelerator"),
    ("Cuda.graphs", "optimization { cuda { graphs: true } }", "optimization.cuda"),
    ("Cuda.busy_wait_events", "optimization { cuda { busy_wait_events: true } }", "optimization.cuda"),
    ("Cuda.output_copy_stream", "optimization { cuda { output_copy_stream: true } }", "optimization.cuda"),
    ("Cuda.graph_spec", r#"optimization { cuda { graph_spec { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } graph_lower_bound { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } } } } }"#, "optimization.cuda"),
    ("GraphSpec.batch_size", r#"optimization { cuda { graph_spec { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } graph_lower_bound { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } } } } }"#, "optimization.cuda"),
    ("GraphSpec.input", r#"optimization { cuda { graph_spec { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } graph_lower_bound { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } } } } }"#, "optimization.cuda"),
    ("GraphSpec.graph_lower_bound", r#"optimization { cuda { graph_spec { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } graph_lower_bound { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } } } } }"#, "optimization.cuda"),
    ("Shape.dim", r#"optimization { cuda { graph_spec { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } graph_lower_bound { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } } } } }"#, "optimization.cuda"),
    ("LowerBound.batch_size", r#"optimization { cuda { graph_spec { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } graph_lower_bound { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } } } } }"#, "optimization.cuda"),
    ("LowerBound.input", r#"optimization { cuda { graph_spec { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } graph_lower_bound { batch_size: 1 input { key: "INPUT0" value { dim: 4 } } } } } }"#, "optimization.cuda"),
    ("Step.model_namespace", r#"platform: "ensemble" max_batch_size: 8 input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ensemble_scheduling { step { model_name: "m" model_namespace: "n" input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } } }"#, "model_namespace"),
    ("State.use_same_buffer_for_input_output", r#"sequence_batching { direct { } state { input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: [ 1 ] use_same_buffer_for_input_output: true } }"#, "use_same_buffer_for_input_output"),
    ("State.use_growable_memory", r#"sequence_batching { direct { } state { input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: [ 1 ] use_growable_memory: true } }"#, "use_growable_memory"),
];

/// (field, a configuration that has it, what the error calls it).
#[rustfmt::skip]
const WITHOUT_A_WAY: &[(&str, &str, &str)] = &[
    ("ModelInstanceGroup.secondary_devices", "instance_group { secondary_devices { kind: KIND_NVDLA device_id: 1 } }", "secondary_devices"),
    ("SecondaryDevice.kind", "instance_group { secondary_devices { kind: KIND_NVDLA device_id: 1 } }", "secondary_devices"),
    ("SecondaryDevice.device_id", "instance_group { secondary_devices { kind: KIND_NVDLA device_id: 1 } }", "secondary_devices"),
    ("ModelInput.is_shape_tensor", r#"input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] is_shape_tensor: true }"#, "is_shape_tensor"),
    ("ModelOutput.is_shape_tensor", r#"output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] is_shape_tensor: true }"#, "is_shape_tensor"),
    ("ModelInput.is_non_linear_format_io", r#"input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] is_non_linear_format_io: true }"#, "is_non_linear_format_io"),
    ("ModelOutput.is_non_linear_format_io", r#"output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] is_non_linear_format_io: true }"#, "is_non_linear_format_io"),
];

/// The rows of the document that have one of these states are those of the table, and no others.
#[track_caller]
fn check_listed(states: &[&str], cases: &[(&str, &str, &str)]) {
    let rows = table("Model configuration").into_iter().filter(|it| states.contains(&it.state));
    let listed: BTreeSet<String> = rows.map(|it| it.item).collect();
    assert_eq!(listed, cases.iter().map(|it| it.0.to_owned()).collect());
}

#[test]
fn fields_without_effect_are_taken_and_told() {
    check_listed(&[IGNORED], WITHOUT_EFFECT);
    let models = WITHOUT_EFFECT.iter().enumerate();
    let repository = models.fold(Repository::identity("m", &[]), |it, (i, (_, fields, _))| {
        let text = match fields.starts_with("platform") {
            true => (*fields).to_owned(),
            false => config(fields),
        };
        it.model(&format!("model{i}"), &text)
    });
    let mut process = Process::start(&repository, &["--strict-readiness=false"], &[]);
    process.wait_ready();
    let index = process.client().post("/v2/repository/index", &[], "").expect(200).json();
    for (i, (field, _, told)) in WITHOUT_EFFECT.iter().enumerate() {
        let model = format!("model{i}");
        assert_eq!(reason(&index, &model), "", "{field}");
        let of_it = |it: &&String| {
            it.contains(&format!("model={model} ")) || it.ends_with(&format!("model={model}"))
        };
        let log = process.log();
        let lines: Vec<&String> = log.iter().filter(of_it).collect();
        let says = |it: &&&String| it.contains(told) && it.contains("ignored");
        assert!(lines.iter().any(|it| says(&it)), "{field}: no '{told}' in {lines:#?}");
    }
}

#[test]
fn fields_that_cannot_be_are_refused_by_name() {
    check_listed(&[NOT_APPLICABLE, REFUSED], WITHOUT_A_WAY);
    let models = WITHOUT_A_WAY.iter().enumerate();
    let repository = models.fold(Repository::identity("m", &[]), |it, (i, (_, fields, _))| {
        it.model(&format!("model{i}"), &config(fields))
    });
    let index = index_of(&Server::start(&repository, &["--strict-readiness=false"]));
    for (i, (field, _, told)) in WITHOUT_A_WAY.iter().enumerate() {
        let reason = reason(&index, &format!("model{i}"));
        assert!(reason.contains(told), "{field}: no '{told}' in: {reason}");
    }
}

#[test]
fn each_level_of_priority_has_its_own_queue_policy() {
    let fields = "dynamic_batching { priority_levels: 2 default_priority_level: 1
        priority_queue_policy { key: 2 value { max_queue_size: 1 } } }";
    let (_repository, server) = start(fields, &["--scheduler-hold=3"]);
    let low = row(1).replacen('{', "{\"parameters\":{\"priority\":2},", 1);
    let mut waiting = vec![ask(server.http(), "m", &low)];
    wait_queued(server.http(), "m", 1);
    // The second level is full, and the first has no limit.
    let text = server.post(&infer("m"), &low).error(503);
    assert!(text.contains("max_queue_size 1"), "{text}");
    for queued in 2..=3 {
        waiting.push(ask(server.http(), "m", row(1)));
        if queued < 3 {
            wait_queued(server.http(), "m", queued);
        }
    }
    for client in &mut waiting {
        assert_eq!(first_of(&client.reply()), 1.0);
    }
}

/// A warm-up of that many rows, with that data, as often as that.
fn warm_up(batch_size: usize, data: &str, count: usize) -> String {
    format!(
        "model_warmup {{ name: \"morning\" batch_size: {batch_size} count: {count}
           inputs {{ key: \"INPUT0\" value: {{ data_type: TYPE_FP32 dims: [ 4 ] {data} }} }} }}"
    )
}

#[test]
fn warm_ups_run_before_a_model_is_ready_with_the_data_that_they_name() {
    // The engine fails where a row begins with 66, as that of the file does, after so many runs.
    let marked: Vec<u8> = [66f32, 0.0, 0.0, 0.0].iter().flat_map(|it| it.to_le_bytes()).collect();
    let parameter = |key: &str, value: &str| {
        format!(" parameters {{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}")
    };
    let fails_after = |runs: &str| {
        let fault = parameter("fault", "fail") + &parameter("fault_marker", "66");
        format!(
            "{fault} {} instance_group {{ count: 1 kind: KIND_CPU }} ",
            parameter("fault_after", runs)
        )
    };
    let file = "input_data_file: \"marked\"";
    for (model, fields, ready) in [
        ("zeros", fails_after("0") + &warm_up(2, "zero_data: true", 1), true),
        ("random", fails_after("0") + &warm_up(2, "random_data: true", 1), true),
        ("file", fails_after("0") + &warm_up(2, file, 1), false),
        ("skipped", fails_after("0") + &warm_up(0, file, 1), true),
        ("once", fails_after("20") + &warm_up(1, file, 1), true),
        ("often", fails_after("20") + &warm_up(1, file, 30), false),
        ("too_many_rows", warm_up(9, "zero_data: true", 1), false),
    ] {
        let repository = Repository::identity("other", &[])
            .model(model, &config(&fields))
            .file(&format!("{model}/warmup/marked"), &marked);
        let server = Server::start(&repository, &["--strict-readiness=false"]);
        let reason = reason(&index_of(&server), model);
        assert_eq!(reason.is_empty(), ready, "{model}: {reason}");
        assert!(ready || reason.contains("morning"), "{model}: {reason}");
    }
}

#[test]
fn a_model_may_have_a_file_of_another_name() {
    let model = "tests/fixtures/models/type_fp32/1/model.onnx";
    let fields = "backend: \"onnxruntime\" default_model_filename: \"network.onnx\"";
    let repository =
        Repository::new().copy("m/1/network.onnx", model).file("m/config.pbtxt", fields);
    let server = Server::start(&repository, &[]);
    server.get("/v2/models/m/ready").expect(200);
}

#[test]
fn a_reshape_is_what_the_engine_sees() {
    let shapes = |server: &Server| {
        let input = [Tensor::fp32("INPUT0", &[1, 4], &[1.0, 2.0, 3.0, 4.0])];
        let (body, _) = infer_body(&input, Form::Json, "");
        server.post(&infer("m"), body).expect(200).json()["outputs"][0]["shape"].clone()
    };
    // What goes in as four numbers reaches the engine, which gives it back, as two by two.
    let input = format!("{} reshape {{ shape: [ 2, 2 ] }} }}", INPUT.trim_end_matches('}'));
    let plain = OUTPUT.replace("[ 4 ]", "[ 2, 2 ]");
    let (_repository, server) = start(&format!("{input} {plain}"), &[]);
    assert_eq!(shapes(&server), json!([1, 2, 2]));
    let output = format!("{} reshape {{ shape: [ 2, 2 ] }} }}", OUTPUT.trim_end_matches('}'));
    let (_repository, server) = start(&format!("{input} {output}"), &[]);
    assert_eq!(shapes(&server), json!([1, 4]));
}

#[test]
fn a_format_is_checked_and_shown() {
    let image = |dims| {
        format!(
            "input {{ name: \"INPUT0\" data_type: TYPE_FP32 format: FORMAT_NHWC dims: {dims} }}"
        )
    };
    let (_repository, server) = start(&image("[ 2, 2, 1 ]"), &[]);
    let config = server.get("/v2/models/m/config").expect(200).json();
    assert_eq!(config["input"][0]["format"], "FORMAT_NHWC");
    let (_repository, server) = start(&image("[ 4 ]"), &[]);
    assert!(reason(&index_of(&server), "m").contains("FORMAT_NHWC needs 3 dims"));
}
