//! Models that cannot be loaded, from `tests/fixtures/broken`: the others serve, and the index, the replies
//! and the log say why.

use std::{fs, process::Command};

use crate::support::{
    Form, IN_PROCESS, Process, Repository, Server, Tensor, first_of, infer, onnx_file, root, row,
    sandbox::with_weights_of_the_system,
};

const BROKEN: [(&str, &[&str]); 6] = [
    ("bad_config", &["max_batchsize", "max_batch_size"]),
    ("corrupt", &["model.onnx"]),
    ("empty", &["model.onnx"]),
    ("missing", &["model.onnx"]),
    ("truncated", &["model.onnx"]),
    ("wrong_dims", &["input", "3", "4"]),
];

fn one_good_model_and_the_broken_ones() -> Repository {
    let copy = |it: Repository, (name, _): &(&str, &[&str])| {
        it.copy(name, &format!("tests/fixtures/broken/{name}"))
    };
    BROKEN.iter().fold(Repository::identity("copy", &[]), copy)
}

#[test]
fn models_that_do_not_load_say_why_and_the_others_serve() {
    let repository = one_good_model_and_the_broken_ones();
    let server = Server::start(&repository, &[]);
    let mut client = server.client();
    let row = Tensor::fp32("INPUT0", &[1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let reply = client.infer("copy", std::slice::from_ref(&row), Form::Binary, "");
    assert_eq!(reply.output().raw, row.raw);
    let index = client.post("/v2/repository/index", &[], "").expect(200).json();
    for (name, parts) in BROKEN {
        let entry = index.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
        assert_eq!(entry["state"], "UNAVAILABLE", "{entry}");
        let reason = entry["reason"].as_str().unwrap();
        parts.iter().for_each(|it| assert!(reason.contains(it), "{name}: {reason}"));
        for path in ["ready", "config", "infer"] {
            let path = format!("/v2/models/{name}/{path}");
            let error = match path.ends_with("infer") {
                true => client.post(&path, &[], "{}").error(503),
                false => client.get(&path).error(503),
            };
            assert!(error.contains(reason), "{path}: {error}");
        }
    }
    // All that was asked for is not there: not ready, by default.
    let ready = client.get("/v2/health/ready").expect(400);
    assert!(ready.text().contains("failed to load"), "{}", ready.text());
    client.get("/ping").expect(200);
}

#[test]
fn weights_beside_a_model_that_are_more_than_memory_are_refused_by_name_and_the_others_serve() {
    let repository = Repository::identity("copy", &[]);
    let folder = repository.path().join("huge/1");
    fs::create_dir_all(&folder).unwrap();
    // A tebibyte, of which nothing is on the disk.
    onnx_file::sparse(&folder.join("model.onnx"), 1 << 19).unwrap();
    for flags in [&[][..], &["--isolation=huge"]] {
        let server = Server::start(&repository, flags);
        let index = server.client().post("/v2/repository/index", &[], "").expect(200).json();
        let entry = index.as_array().unwrap().iter().find(|it| it["name"] == "huge").unwrap();
        let reason = entry["reason"].as_str().unwrap();
        let parts = ["huge/1/model.onnx: its weights in weights.data are 1099511627776 bytes"];
        parts.iter().for_each(|it| assert!(reason.contains(it), "{flags:?}: {reason}"));
        assert_eq!(first_of(&server.client().post(&infer("copy"), &[], row(4))), 4.0);
    }
}

#[test]
fn weights_that_a_model_names_outside_of_its_directory_are_refused_without_a_sandbox_too() {
    let repository = with_weights_of_the_system(Repository::identity("copy", &[]));
    let server = Server::start(&repository, &[IN_PROCESS]);
    let error = server.get("/v2/models/m/ready").error(503);
    assert!(error.contains("external data"), "{error}");
    assert_eq!(first_of(&server.client().post(&infer("copy"), &[], row(4))), 4.0);
}

/// A pipe that nobody writes to, in the place of that file.
fn pipe(repository: &Repository, path: &str) {
    let path = repository.at(path);
    let _ = fs::remove_file(&path);
    fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_pipe_in_the_place_of_any_file_of_a_model_is_a_load_error_that_names_it() {
    let labels = "backend: \"identity\" input { name: \"x\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"x\" data_type: TYPE_FP32 dims: [ 4 ] label_filename: \"labels.txt\" }";
    let folder = "tests/fixtures/pipelines/sst2/folder";
    let repository = Repository::identity("copy", &[])
        .model("labels", labels)
        .copy("task", folder)
        .copy("words", folder)
        .copy("vocabulary", folder);
    let weights = repository.path().join("weights/1");
    fs::create_dir_all(&weights).unwrap();
    onnx_file::sparse(&weights.join("model.onnx"), 16).unwrap();
    let pipes = [
        ("labels", "labels/labels.txt"),
        ("task", "task/config.json"),
        ("words", "words/tokenizer.json"),
        ("vocabulary", "vocabulary/tokenizer_config.json"),
        ("weights", "weights/1/weights.data"),
        ("graph", "graph/1/model.onnx"),
        ("settings", "settings/config.pbtxt"),
        ("code", "code/1/model.py"),
    ];
    pipes.iter().for_each(|it| pipe(&repository, it.1));
    let server = Server::start(&repository, &[]);
    let index = server.client().post("/v2/repository/index", &[], "").expect(200).json();
    for (name, path) in pipes {
        let entry = index.as_array().unwrap().iter().find(|it| it["name"] == name);
        let reason = entry.and_then(|it| it["reason"].as_str()).unwrap_or_default();
        let file = path.rsplit('/').next().unwrap();
        let is_told = reason.contains(file) && reason.contains("this is a pipe");
        assert!(is_told, "{name}: {entry:?}");
    }
    assert_eq!(first_of(&server.client().post(&infer("copy"), &[], row(4))), 4.0);
}

#[test]
fn a_configuration_that_is_too_long_is_refused_and_the_others_serve() {
    let long = "input { name: \"x\" }\n".repeat(150_000);
    let repository = Repository::identity("copy", &[]).model("long", &long);
    let server = Server::start(&repository, &[]);
    let error = server.get("/v2/models/long/ready").error(503);
    assert!(error.contains("long/config.pbtxt: it has more than 2097152 bytes"), "{error}");
    assert_eq!(first_of(&server.client().post(&infer("copy"), &[], row(4))), 4.0);
}

/// x → `member` → `member` → y
fn twice(member: &str) -> String {
    let (input, output) = if member == "copy" { ("INPUT0", "OUTPUT0") } else { ("x", "y") };
    let step = |from: &str, to: &str| {
        format!(
            "step {{ model_name: \"{member}\" model_version: -1 input_map {{ key: \"{input}\" value: \"{from}\" }}
             output_map {{ key: \"{output}\" value: \"{to}\" }} }}"
        )
    };
    let port = |name: &str| format!("{{ name: \"{name}\" data_type: TYPE_FP32 dims: [ 4 ] }}");
    format!(
        "platform: \"ensemble\" max_batch_size: 8 input {} output {} ensemble_scheduling {{ {} {} }}",
        port("x"),
        port("y"),
        step("x", "t"),
        step("t", "y")
    )
}

#[test]
fn ensembles_whose_steps_double_with_each_in_another_load_up_to_a_bound() {
    let mut repository = Repository::identity("copy", &[]);
    for level in 0..40 {
        let member = if level == 0 { "copy".to_owned() } else { format!("e{}", level - 1) };
        repository = repository.model(&format!("e{level}"), &twice(&member));
    }
    let server = Server::start(&repository, &[]);
    let body = row(4).replace("INPUT0", "x");
    assert_eq!(first_of(&server.client().post(&infer("e8"), &[], body)), 4.0);
    let error = server.get("/v2/models/e9/ready").error(503);
    assert!(error.contains("are more than 1024, which is the most for a request"), "{error}");
    server.get("/v2/models/e39/ready").error(503);
}

#[test]
fn the_log_says_which_model_did_not_load_and_why() {
    let repository = one_good_model_and_the_broken_ones();
    let mut process = Process::start(&repository, &["--strict-readiness=false"], &[]);
    process.wait_ready();
    for (name, parts) in BROKEN {
        let line = process.wait_for_line(&format!("model={name} "));
        assert!(line.contains("ERROR"), "{line}");
        parts.iter().for_each(|it| assert!(line.contains(it), "{name}: {line}"));
    }
    process.client().get("/v2/health/ready").expect(200);
}

/// The process ends with 1 and an error that says all of this.
#[track_caller]
fn ends_with(repository: &Repository, flags: &[&str], parts: &[&str]) {
    let ended = Process::start(repository, flags, &[]).wait();
    assert_eq!(ended.status.code(), Some(1), "{:#?}", ended.log);
    let says_all = |line: &String| parts.iter().all(|it| line.contains(it));
    let said = ended.log.iter().any(|it| it.contains("ERROR") && says_all(it));
    assert!(said, "{parts:?}: {:#?}", ended.log);
}

#[test]
fn with_exit_on_error_one_model_that_does_not_load_ends_the_process() {
    let repository = Repository::identity("copy", &[]).copy("empty", "tests/fixtures/broken/empty");
    ends_with(&repository, &["--exit-on-error=true"], &["--exit-on-error", "model 'empty'"]);
}

#[test]
fn with_nothing_to_serve_the_process_ends() {
    let repository = Repository::new().copy("empty", "tests/fixtures/broken/empty");
    ends_with(&repository, &[], &["no model is served: model 'empty'"]);
    ends_with(&Repository::new(), &[], &["no models found in"]);
}

#[test]
fn what_lies_in_the_place_of_a_model_is_named_by_its_content_with_the_line_that_helps() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n";
    let repository = Repository::identity("copy", &[])
        .file("lfs/1/model.onnx", pointer)
        .file("page/1/model.onnx", "<!DOCTYPE html><html></html>")
        .file("hub/1/model.safetensors", "\u{2}\0\0\0\0\0\0\0{\"}");
    let server = Server::start(&repository, &[]);
    let index = server.client().post("/v2/repository/index", &[], "").expect(200).json();
    for (name, parts) in [
        ("lfs", ["1/model.onnx: this is a Git LFS pointer", "git lfs pull"]),
        ("page", ["1/model.onnx: this is an HTML page", "download the file itself"]),
        ("hub", ["holds model.safetensors", "optimum-cli export onnx"]),
    ] {
        let entry = index.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
        let reason = entry["reason"].as_str().unwrap();
        parts.iter().for_each(|it| assert!(reason.contains(it), "{name}: {reason}"));
    }
    let repository = Repository::new().file("llama.gguf", "GGUF\u{3}\0\0\0");
    ends_with(&repository, &[], &["no models found in", "llama.gguf: this is a GGUF file"]);
    // Weights need what lies beside them, and are a model with it.
    let folder = "tests/fixtures/weights/electra-ForTokenClassification";
    let weights = fs::read(root(folder).join("model.safetensors")).unwrap();
    let repository = Repository::new().file("model.safetensors", weights);
    ends_with(&repository, &[], &["put beside it the files of its folder", "config.json"]);
    let config = fs::read(root(folder).join("config.json")).unwrap();
    let repository = repository.file("config.json", config);
    let serve = format!("serve it by itself with 'muster serve {}'", repository.path().display());
    ends_with(&repository, &[], &["model.safetensors: this is", &serve]);
}

#[test]
fn what_is_ignored_of_a_configuration_is_told_also_where_the_model_does_not_load_in_the_end() {
    let config = "backend: \"identity\" optimization { eager_batching: true }
        parameters { key: \"load_fault\" value { string_value: \"instance\" } }
        input { name: \"x\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"x\" data_type: TYPE_FP32 dims: [ 4 ] }";
    let repository = Repository::identity("copy", &[]).model("faulty", config);
    let mut process = Process::start(&repository, &["--strict-readiness=false"], &[]);
    process.wait_ready();
    let warning = process.wait_for_line("optimization.eager_batching is ignored");
    assert!(warning.contains("model=faulty"), "{warning}");
    assert!(process.wait_for_line("cannot load the model").contains("told to fail"));
}

#[test]
fn a_request_for_a_model_that_did_not_load_leaves_a_line_in_the_log() {
    let repository =
        Repository::identity("copy", &[]).with_identity("bad", &[("load_fault", "fail")]);
    let mut process = Process::start(&repository, &["--strict-readiness=false"], &[]);
    process.wait_ready();
    process.client().post("/v2/models/bad/infer", &[], "{}").error(503);
    let line = process.wait_for_line("request rejected");
    assert!(line.contains("/v2/models/bad/infer") && line.contains("told to fail"), "{line}");
}
