//! `muster check`: which models of a repository would be served, and why the others would not.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Repository, Server, program, root};

/// The exit code, what is printed, and what is said of failures.
fn check(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(program()).arg("check").args(args).output().unwrap();
    let text = |it| String::from_utf8(it).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// The samples in Python are left out, whatever Python this machine has.
const NO_PYTHON: &str = "--python=/nowhere/python3";

/// The line about a model.
#[track_caller]
fn line<'a>(text: &'a str, model: &str) -> &'a str {
    let found = text.lines().find(|it| it.split(' ').next() == Some(model));
    found.unwrap_or_else(|| panic!("no line for {model}:\n{text}"))
}

/// What other servers serve, and this one does not.
fn of_other_servers() -> Repository {
    let ports = "input { name: 'x' data_type: TYPE_FP32 dims: 4 } output { name: 'x' data_type: TYPE_FP32 dims: 4 }";
    let config = |first: &str| format!("{first} {ports}");
    Repository::identity("copy", &[])
        .model("plan", &config("platform: 'tensorrt_plan'"))
        .model("llm", &config("backend: 'tensorrtllm'"))
        .model("vllm", &config("backend: 'vllm'"))
        .model("dali", &config("backend: 'dali'"))
        .model("code", &config("backend: 'mlflow'"))
}

/// An ensemble of one member.
fn ensemble_of(member: &str) -> String {
    format!(
        "platform: 'ensemble' max_batch_size: 8
         input {{ name: 'x' data_type: TYPE_FP32 dims: 4 }} output {{ name: 'y' data_type: TYPE_FP32 dims: 4 }}
         ensemble_scheduling {{ step {{ model_name: '{member}' model_version: -1
             input_map {{ key: 'x' value: 'x' }} output_map {{ key: 'x' value: 'y' }} }} }}"
    )
}

#[test]
fn all_that_is_served_is_said_so_with_exit_code_0() {
    let (code, text, _) = check(&[&root("model_repository").display().to_string(), NO_PYTHON]);
    assert_eq!(code, 0, "{text}");
    let fraud = line(&text, "fraud");
    assert!(fraud.contains("onnxruntime_onnx  version 1: would be served"), "{fraud}");
    assert!(line(&text, "sentiment").ends_with("as pipeline"), "{text}");
    assert!(text.contains("5 models: 5 would be served, 0 would not"), "{text}");
    let left = "note: left out, as OPTIONAL allows: models 'payment', 'payment_row': ";
    assert!(text.contains(left), "{text}");
}

#[test]
fn with_load_it_is_said_what_each_is_served_as() {
    let path = root("model_repository").display().to_string();
    let (code, text, _) = check(&[&path, "--load", NO_PYTHON]);
    assert_eq!(code, 0, "{text}");
    assert!(line(&text, "fraud").ends_with("version 1: served as tensors"), "{text}");
    assert!(line(&text, "sentiment").contains("served as text-classification"), "{text}");
    assert!(text.contains("5 models: 5 served, 0 not served"), "{text}");
}

#[test]
fn what_only_other_servers_serve_is_named_with_what_to_do() {
    let repository = of_other_servers();
    let (code, text, _) = check(&[&repository.at("")]);
    assert_eq!(code, 1, "{text}");
    for (model, part) in [
        ("plan", "serve the ONNX file that the plan was built from"),
        ("llm", "no models that write a text token by token"),
        ("vllm", "no models that write a text token by token"),
        ("dali", "as a pipeline"),
        ("code", "the MLmodel of MLflow's folder tells how it is served"),
    ] {
        let line = line(&text, model);
        assert!(line.contains("NOT served: ") && line.contains(part), "{line}");
    }
    assert!(line(&text, "copy").ends_with("version 1: would be served"), "{text}");
    assert!(text.contains("6 models: 1 would be served, 5 would not"), "{text}");
}

#[test]
fn the_reason_is_that_of_the_server() {
    let repository = ["bad_config", "corrupt", "empty", "missing", "truncated", "wrong_dims"]
        .iter()
        .fold(Repository::identity("copy", &[]), |it, name| {
            it.copy(name, &format!("tests/fixtures/broken/{name}"))
        })
        .file(
            "lfs/1/model.onnx",
            "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n",
        )
        .model("of_nobody", &ensemble_of("nobody"))
        .model("of_lfs", &ensemble_of("lfs"))
        .model("of_itself", &ensemble_of("of_of_itself"))
        .model("of_of_itself", &ensemble_of("of_itself"));
    let server = Server::start(&repository, &[]);
    let index = server.client().post("/v2/repository/index", &[], "").expect(200).json();
    let reasons = |args: &[&str]| {
        let path = repository.at("");
        let (code, text, _) = check(&[&[path.as_str(), "--json"], args].concat());
        assert_eq!(code, 1, "{text}");
        let all: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(all["served"], false);
        all["models"].as_array().unwrap().clone()
    };
    let loaded = reasons(&["--load"]);
    for model in &loaded {
        let name = &model["name"];
        let entry = index.as_array().unwrap().iter().find(|it| it["name"] == *name).unwrap();
        assert_eq!(model["served"], entry["state"] == "READY", "{model} {entry}");
        let Some(said) = entry["reason"].as_str() else { continue };
        assert!(model["reason"].as_str().unwrap().contains(said), "{model}\n{entry}");
    }
    // Without a load ONNX Runtime is not asked.
    for model in reasons(&[]) {
        let entry = loaded.iter().find(|it| it["name"] == model["name"]).unwrap();
        match model["name"].as_str().unwrap() {
            "wrong_dims" => assert_eq!(model["served"], true, "{model}"),
            "corrupt" => {
                let reason = model["reason"].as_str().unwrap();
                assert!(reason.contains("model.onnx: it is no ONNX model"), "{model}");
            }
            _ => assert_eq!(model["reason"], entry["reason"], "{model}\n{entry}"),
        }
    }
}

#[test]
fn the_configuration_of_a_pipeline_is_read_without_a_load() {
    let repository = Repository::new()
        .copy("sentiment", "model_repository/sentiment")
        .file("sentiment/config.json", r#"{"architectures": ["#);
    let (code, text, _) = check(&[&repository.at("")]);
    let line = line(&text, "sentiment");
    assert_eq!(code, 1, "{line}");
    assert!(line.contains("NOT served: ") && line.contains("config.json"), "{line}");
}

#[test]
fn what_prepares_the_inputs_of_a_pipeline_is_looked_for_without_a_load() {
    let repository = Repository::new()
        .copy("sentiment", "model_repository/sentiment")
        .copy("shapes", "model_repository/shapes")
        .file("shapes/preprocessor_config.json", r#"{"image_processor_type": "Other"}"#);
    std::fs::remove_file(repository.at("sentiment/tokenizer.json")).unwrap();
    let (code, text, _) = check(&[&repository.at("")]);
    assert_eq!(code, 1, "{text}");
    for (model, part) in
        [("sentiment", "tokenizer.json: it is missing"), ("shapes", "preprocessor_config.json")]
    {
        let line = line(&text, model);
        assert!(line.contains("NOT served: ") && line.contains(part), "{line}");
    }
}

#[test]
fn names_that_a_graph_has_not_are_found_without_a_load() {
    let port = |name| format!("{name} {{ name: 'wrong' data_type: TYPE_FP32 dims: 30 }}");
    let repository = Repository::new()
        .copy("some", "model_repository/fraud/1")
        .file("some/config.pbtxt", port("input"))
        .copy("all", "model_repository/fraud/1")
        .file("all/config.pbtxt", port("input") + &port("output"));
    for model in ["some", "all"] {
        std::fs::create_dir(repository.at(&format!("{model}/1"))).unwrap();
        let of = |file: &str| repository.at(&format!("{model}/{file}"));
        std::fs::rename(of("model.onnx"), of("1/model.onnx")).unwrap();
    }
    let (code, text, _) = check(&[&repository.at("")]);
    assert_eq!(code, 1, "{text}");
    let inputs = "input 'wrong' is not in the model, whose inputs are 'input'";
    let outputs = "output 'wrong' is not in the model, whose outputs are ";
    assert!(line(&text, "some").contains(inputs), "{text}");
    assert!(line(&text, "all").contains(inputs) && line(&text, "all").contains(outputs), "{text}");
}

#[test]
fn one_file_is_checked_by_itself_and_nothing_is_no_model() {
    let file = root("model_repository/fraud/1/model.onnx").display().to_string();
    let (code, text, _) = check(&[&file]);
    assert_eq!(
        (code, text.lines().next()),
        (0, Some("model  onnxruntime_onnx  version 1: would be served"))
    );
    let (code, text, error) = check(&[&Repository::new().at("")]);
    assert_eq!((code, &*text), (1, ""));
    assert!(error.contains("no models found in"), "{error}");
}

#[test]
fn a_command_line_that_is_wrong_is_exit_code_2() {
    let file = root("model_repository").display().to_string();
    for (args, part) in [
        (vec![&*file, "--loud"], "unknown option --loud"),
        (vec!["/nowhere/at/all"], "does not exist"),
        (vec![&*file, "--http-port=x"], "--http-port"),
    ] {
        let (code, text, error) = check(&args);
        assert_eq!((code, &*text), (2, ""), "{error}");
        assert!(error.contains(part), "{error}");
    }
}
