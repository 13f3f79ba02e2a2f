//! What a configuration says beside inputs, outputs and queues: alternatives, checks of files, files by name,
//! priorities, buckets.

use std::{fs, path::Path, slice::from_ref};

use serde_json::json;

use crate::support::{Form, Process, Repository, Server, Start, Tensor, onnx_file::Graph};

const OTHER: &str = "max_batch_size: 3\n";

/// Why models are not there: the index of a server that has another one that is.
#[track_caller]
fn problem(repository: &Repository) -> String {
    let server = Server::start(repository, &[]);
    server.post("/v2/repository/index", "{}").text()
}

fn rows(server: &Server, model: &str) -> i64 {
    let config = server.get(&format!("/v2/models/{model}/config")).json();
    config["max_batch_size"].as_i64().unwrap()
}

#[test]
fn a_named_alternative_goes_before_the_configuration_where_a_model_has_it() {
    let repository = Repository::of(&["type_fp32", "type_int8", "type_int16"])
        .file("type_fp32/configs/small.pbtxt", OTHER)
        .file("type_fp32/config.pbtxt", "max_batch_size: 5\n")
        .file("type_int8/configs/small.pbtxt", OTHER)
        .file("type_int16/config.pbtxt", "max_batch_size: 5\n");
    let server = Server::start(&repository, &["--model-config-name=small"]);
    let found = ["type_fp32", "type_int8", "type_int16"].map(|it| rows(&server, it));
    assert_eq!(found, [3, 3, 5]);
    assert_eq!(rows(&Server::start(&repository, &[]), "type_fp32"), 5);
    let error = Start::new(&repository).flags(&["--model-config-name=../x"]).config();
    assert!(error.unwrap_err().contains("--model-config-name"));
}

#[test]
fn files_are_compared_with_their_checksums_before_a_model_is_loaded() {
    let agents = |parameters: &str| {
        format!("model_repository_agents {{ agents {{ name: \"checksum\" {parameters} }} }}\n")
    };
    let check = |file: &str, md5: &str| {
        agents(&format!("parameters {{ key: \"MD5:{file}\" value: \"{md5}\" }}"))
    };
    // Of a file with this text, by `printf labels | md5sum`.
    let right = "42cecfeff00cc916fef4f64e7b921079";
    let repository = Repository::of(&["type_fp32"])
        .fixture("good", "type_fp32")
        .file("good/labels.txt", "labels")
        .fixture("wrong", "type_fp32")
        .file("wrong/labels.txt", "Labels")
        .file("wrong/config.pbtxt", check("labels.txt", right))
        .fixture("absent", "type_fp32")
        .file("absent/config.pbtxt", check("none.txt", right))
        .fixture("outside", "type_fp32")
        .file("outside/config.pbtxt", check("../good/labels.txt", right))
        .fixture("sha", "type_fp32")
        .file("sha/config.pbtxt", agents("parameters { key: \"SHA1:x\" value: \"1\" }"))
        .fixture("unknown", "type_fp32")
        .file("unknown/config.pbtxt", "model_repository_agents { agents { name: \"checksums\" } }")
        .file("good/config.pbtxt", check("labels.txt", right));
    let told = problem(&repository);
    assert!(
        told.contains(&format!("expected {right}")) && told.contains("wrong/labels.txt"),
        "{told}"
    );
    assert!(!told.contains("good/labels.txt has"), "{told}");
    for part in [
        "cannot read ",
        "absent/none.txt",
        "leads out of the model's folder",
        "'SHA1:x' is not known; expected MD5:",
        "agent 'checksums' is not known; expected checksum; did you mean 'checksum'?",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_batching_plugin_is_refused_wherever_it_lies() {
    let repository = Repository::of(&["type_fp32", "type_int8", "type_int16"])
        .file("type_fp32/batchstrategy.so", "")
        .file("type_int8/1/batchstrategy.so", "");
    let told = problem(&repository);
    assert!(told.contains("type_fp32/batchstrategy.so' is not supported"), "{told}");
    assert!(told.contains("type_int8/1/batchstrategy.so' is not supported"), "{told}");
}

#[test]
fn a_model_may_be_a_directory_with_its_weights_beside_it() {
    let repository = Repository::new()
        .copy("m/1/model.onnx", "backends/onnxruntime/tests/models/external")
        .copy("other/1/net", "backends/onnxruntime/tests/models/external")
        .file("other/config.pbtxt", "backend: \"onnxruntime\" default_model_filename: \"net\"");
    let server = Server::start(&repository, &[]);
    for model in ["m", "other"] {
        assert_eq!(server.get(&format!("/v2/models/{model}/ready")).status, 200);
    }
}

#[test]
fn a_size_of_zero_that_the_models_file_has_is_served() {
    let repository = Repository::new();
    let folder = repository.path().join("m/1");
    fs::create_dir_all(&folder).unwrap();
    let mut graph = Graph::new(1);
    graph.node("Relu", &["x"], "y", &[]);
    graph.write(&folder.join("model.onnx"), &[0, 3], &[0, 3]).unwrap();
    let server = Server::start(&repository, &[]);
    let metadata = server.get("/v2/models/m").expect(200).json();
    assert_eq!(metadata["inputs"][0]["shape"], json!([-1, 0, 3]), "{metadata}");
    let none = Tensor::fp32("x", &[2, 0, 3], &[]);
    for form in [Form::Json, Form::Binary] {
        let reply = server.client().infer("m", from_ref(&none), form, "").expect(200);
        let output = reply.output();
        assert_eq!((&output.shape[..], output.raw.len()), (&[2, 0, 3][..], 0));
    }
    let one = Tensor::fp32("x", &[2, 1, 3], &[0.5; 6]);
    let error = server.client().infer("m", from_ref(&one), Form::Json, "").error(400);
    assert!(error.contains("'x'"), "{error}");
}

/// An engine that takes none.
const WITH_OPERATORS: &str = "backend: \"identity\"\nmodel_operations { op_library_filename: \"x.so\" }\n\
    input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }\n\
    output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }\n";

#[test]
fn a_missing_library_of_operators_is_named_and_one_of_the_model_is_found_in_its_directory() {
    let config = |name: &str| {
        format!(
            "model_operations {{ op_library_filename: \"{name}\" }}\nbackend: \"onnxruntime\"\n"
        )
    };
    let repository = Repository::of(&["type_int8"])
        .fixture("absent", "type_fp32")
        .file("absent/config.pbtxt", config("/nowhere/libops.so"))
        .fixture("own", "type_fp32")
        .file("own/ops/libops.so", "no library")
        .file("own/config.pbtxt", config("ops/libops.so"))
        .model("identity", WITH_OPERATORS);
    let told = problem(&repository);
    assert!(told.contains("operators /nowhere/libops.so cannot be used"), "{told}");
    assert!(told.contains("own/ops/libops.so cannot be used"), "{told}");
    assert!(told.contains("'identity' takes no operators from libraries"), "{told}");
}

#[test]
fn files_by_what_a_gpu_can_compute_are_told_of_where_there_is_none() {
    let repository = Repository::of(&["type_fp32"]).file(
        "type_fp32/config.pbtxt",
        "backend: \"onnxruntime\"\ncc_model_filenames { key: \"8.0\" value: \"fast.onnx\" }\n",
    );
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    let ignored = "cc_model_filenames is ignored, as no instance runs on a GPU";
    server.wait_for_line(ignored);
    assert_eq!(server.log().iter().filter(|it| it.contains(ignored)).count(), 1);
}

#[test]
fn buckets_of_the_first_response_are_those_of_the_model() {
    let family = "nv_inference_first_response_histogram_ms";
    let metrics = format!(
        "model_metrics {{ metric_control {{ metric_identifier {{ family: \"{family}\" }} \
         histogram_options {{ buckets: [ 0.5, 7, 70.5 ] }} }} }}\nbackend: \"onnxruntime\"\n"
    );
    let repository = Repository::of(&["type_fp32"]).file("type_fp32/config.pbtxt", metrics);
    let server = Server::start(&repository, &[]);
    let config = server.get("/v2/models/type_fp32/config").text();
    assert!(config.contains("70.5"), "{config}");
}

/// Niceness of the threads of that process whose names begin so.
fn niceness(process: u32, name: &str) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of_task = |task: &Path| -> Option<i32> {
        let stat = fs::read_to_string(task.join("stat")).ok()?;
        let (head, rest) = stat.rsplit_once(") ")?;
        // Behind the name come the fields from the third on; niceness is the nineteenth.
        head.split_once('(')?.1.starts_with(name).then_some(())?;
        rest.split(' ').nth(16)?.parse().ok()
    };
    tasks.filter_map(|it| of_task(&it.unwrap().path())).collect()
}

#[test]
fn a_models_priority_is_the_niceness_of_its_threads() {
    let config = |name: &str, priority: &str| {
        format!(
            "name: \"{name}\"\nbackend: \"identity\"\nmax_batch_size: 8\n\
             input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}\n\
             output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}\n\
             optimization {{ {priority} }}\n"
        )
    };
    let repository = Repository::new()
        .model("first", &config("first", "priority: PRIORITY_MAX"))
        .model("usual", &config("usual", ""))
        .model("last", &config("last", "priority: PRIORITY_MIN"));
    let mut server = Process::start(&repository, &["--caller-runs=off"], &[]);
    server.wait_ready();
    let body = r#"{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}"#;
    for model in ["first", "usual", "last"] {
        let path = format!("/v2/models/{model}/infer");
        assert_eq!(server.client().post(&path, &[], body.as_bytes()).status, 200);
    }
    let own = niceness(server.id(), "muster")[0];
    let above = |name| niceness(server.id(), name).iter().map(|it| it - own).collect::<Vec<_>>();
    let lowest = 19 - own;
    assert_eq!(above("first#"), [0]);
    assert_eq!(above("usual#"), [3.min(lowest)]);
    assert_eq!(above("last#"), [6.min(lowest)]);
}

#[test]
fn an_engine_that_is_none_is_refused_with_all_that_there_are() {
    let repository = Repository::new()
        .copy("m/1/model.onnx", "model_repository/fraud/1/model.onnx")
        .file("m/config.pbtxt", "backend: \"nonsense\"");
    let error = Start::new(&repository).try_run().err().unwrap().to_string();
    let expected = "backend 'nonsense' is not among this server's: onnxruntime, pytorch, tensorflow, fil, python, \
                    identity, steps";
    assert!(error.contains(expected), "{error}");
}
