//! A build without any feature: what it serves all the same, and how it refuses what it lacks.

use std::fs;

use frontend::grpc::proto::ModelInferRequest;

use crate::support::{
    Client, Form, Page, Process, Repository, Tensor, grpc as client, grpc::input, root,
};

/// Every feature of the manifest.
const FEATURES: [&str; 11] = [
    "browser",
    "embeddings",
    "isolation",
    "pipelines",
    "python",
    "pytorch",
    "sources",
    "stores",
    "tensorflow",
    "tensorflow_serving",
    "trees",
];

/// Ends with that text among its lines.
#[track_caller]
fn check_refused(process: Process, part: &str) {
    let finished = process.wait();
    let log = finished.log.join("\n");
    assert!(matches!(finished.status.code(), Some(1 | 2)), "{log}");
    assert!(log.contains(part), "there is no '{part}' in {log}");
}

#[test]
fn a_model_of_onnx_answers_by_every_protocol() {
    let repository = Repository::of(&["mlp"]);
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    let row = Tensor::fp32("input", &[1, 30], &[0.5; 30]);
    let reply = server.client().infer("mlp", std::slice::from_ref(&row), Form::Binary, "");
    let expected = reply.expect(200).output();

    let mut messages = client::Client::connect(server.address("grpc"));
    let answer = messages.infer(ModelInferRequest {
        model_name: "mlp".to_owned(),
        inputs: vec![input("input", "FP32", &[1, 30])],
        raw_input_contents: vec![row.raw.clone().into()],
        ..Default::default()
    });
    assert_eq!(answer.unwrap().raw_output_contents, [expected.raw.clone()]);

    let mut platform = Client::connect(server.address("sagemaker"));
    platform.get("/ping").expect(200);
    let csv = ["0.5"; 30].join(",");
    let reply = platform.post("/invocations", &[("content-type", "text/csv")], csv).expect(200);
    let numbers: Vec<f64> = reply.text().trim().split(',').map(|it| it.parse().unwrap()).collect();
    let close = |(one, other): (&f64, f64)| (one - other).abs() < 1e-5;
    assert!(numbers.iter().zip(expected.numbers()).all(close), "{numbers:?}");

    let page = Page::read(server.address("metrics"));
    assert_eq!(page.of("mlp", "nv_inference_request_success"), 3.0);
}

#[test]
fn a_model_of_what_was_left_out_is_refused_by_the_name_of_the_feature() {
    let forest = root("tests/fixtures/forests/estimators/early-3.2.0.ubj");
    let step = "backend: \"steps\" parameters { key: \"step\" value: { string_value: \"pool\" } }";
    let place = "backend: \"identity\"\nmax_batch_size: 8\n\
                 input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }\n\
                 output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }\n\
                 parameters { key: \"ISOLATION\" value: { string_value: \"process\" } }\n";
    let models = [
        ("process", "isolation"),
        ("saved", "tensorflow"),
        ("script", "pytorch"),
        ("step", "pipelines"),
        ("texts", "pipelines"),
        ("picture", "pipelines"),
        ("trees", "trees"),
    ];
    let repository = Repository::identity("served", &[])
        .model("process", place)
        .copy("saved", "tests/fixtures/savedmodels/half_plus_two")
        .copy("script/1/model.pt", "tests/fixtures/torchscript/mlp/1/model.pt")
        .model("step", step)
        .copy("texts", "tests/fixtures/pipelines/sst2/folder")
        .copy("picture/1/model.onnx", "tests/fixtures/pipelines/yolo/yolo.onnx")
        .file("trees/1/model.ubj", fs::read(forest).unwrap());
    let mut server = Process::start(&repository, &["--strict-readiness=false"], &[]);
    server.wait_ready();
    let mut client = server.client();
    client.get("/v2/models/served/ready").expect(200);
    for (model, feature) in models {
        let error = client.get(&format!("/v2/models/{model}/ready")).error(503);
        let part = format!("build muster with --features {feature}");
        assert!(error.contains("this build has no ") && error.contains(&part), "{model}: {error}");
    }
}

#[test]
fn the_graph_of_a_folder_is_served_with_tensors_where_pipelines_are_off() {
    let repository = Repository::new().copy("texts", "tests/fixtures/pipelines/sst2/folder");
    let mut server = Process::start(&repository, &["--pipelines=off"], &[]);
    server.wait_ready();
    let described = server.client().get("/v2/models/texts").expect(200).json();
    assert_eq!(described["inputs"][0]["datatype"], "INT64", "{described}");
}

#[test]
fn a_setting_of_what_was_left_out_ends_the_start_with_the_name_of_the_feature() {
    let repository = Repository::identity("m", &[]);
    for (flag, feature) in [
        ("--auto-truncate=true", "embeddings"),
        ("--isolation=all", "isolation"),
        ("--max-client-batch-size=9", "pipelines"),
        ("--pytorch-plugin=/x.so", "pytorch"),
        ("--hub-offline=true", "sources"),
        ("--store-anonymous=true", "stores"),
        ("--tensorflow-tags=serve", "tensorflow"),
        ("--allow-tfs-grpc=true", "tensorflow_serving"),
    ] {
        let name = flag.trim_start_matches("--").split('=').next().unwrap();
        let process = Process::start(&repository, &[flag], &[]);
        check_refused(process, &format!("build muster with --features {feature}"));
        let variable = format!("MUSTER_{}", name.to_ascii_uppercase().replace('-', "_"));
        let value = flag.split_once('=').unwrap().1;
        let process = Process::start(&repository, &[], &[(&variable, value)]);
        check_refused(process, &format!("build muster with --features {feature}"));
    }
}

#[test]
fn a_model_by_name_ends_the_start_with_the_name_of_the_feature() {
    for command in ["serve", "pull"] {
        let process = Process::command(&[command, "owner/name"], &[]);
        check_refused(process, "build muster with --features sources");
    }
}

#[test]
fn a_repository_in_a_store_ends_the_start_with_the_name_of_the_feature() {
    let process = Process::command(&["--model-repository=s3://bucket/models"], &[]);
    check_refused(process, "build muster with --features stores");
}

#[test]
fn a_folder_is_not_explained_without_pipelines() {
    let folder = root("tests/fixtures/pipelines/sst2/folder").display().to_string();
    let process = Process::command(&["explain", &folder], &[]);
    check_refused(process, "build muster with --features pipelines");
}

#[test]
fn an_address_of_a_protocol_that_was_left_out_is_nobodys() {
    let repository = Repository::identity("m", &[]);
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    let mut client = server.client();
    for path in ["/v1/models/m:predict", "/v1/embeddings", "/embed"] {
        let error = client.post(path, &[], "{}").error(404);
        assert_eq!(error, format!("there is nothing at '{path}'"));
    }
}

#[test]
fn the_version_and_the_settings_say_what_was_left_out() {
    let version = Process::command(&["--version"], &[]).wait();
    assert!(version.last().ends_with(&format!(", built without {}", FEATURES.join(", "))));
    let settings = Process::command(&["env"], &[]).wait().log;
    let at = settings.iter().position(|it| it == "Left out of this build:").unwrap();
    let listed: Vec<&str> = settings[at + 1..].iter().map(|it| it.trim()).collect();
    assert_eq!(listed[..FEATURES.len()], FEATURES);
}
