//! Folders as `save_pretrained` leaves them, with weights and no graph.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::{
    image_pipelines::replay,
    support::{
        Client, Repository, Server, Start,
        pipelines::{agrees, copy, fixtures},
        program, root, scratch,
    },
};

const FOLDER: &str = "tests/fixtures/weights/classifier";
const MODERN: &str = "tests/fixtures/weights/modern-classifier";

/// The texts that the library's pipeline was asked about, and its replies.
fn expected(folder: &str) -> (Value, Value) {
    let text = fs::read_to_string(root(folder).join("replies.json")).unwrap();
    let mut expected: Value = serde_json::from_str(&text).unwrap();
    (expected["texts"].take(), expected["replies"].take())
}

fn check(server: &Server, model: &str) {
    check_folder(server, model, FOLDER);
}

/// Does the model answer as the library does with that folder?
fn check_folder(server: &Server, model: &str, folder: &str) {
    let (texts, replies) = expected(folder);
    let body = json!({"inputs": texts, "parameters": {"top_k": null}}).to_string();
    let headers = [("content-type", "application/json"), ("x-amzn-sagemaker-target-model", model)];
    let mut client = Client::connect(server.sagemaker());
    let given = client.post("/invocations", &headers, body).expect(200).json();
    assert!(agrees(&given, &replies), "{given}\n{replies}");
}

#[test]
fn a_folder_with_weights_alone_answers_as_the_library_does_wherever_it_lies() {
    let repository = copy(Repository::new(), "flat", &root(FOLDER));
    let repository = copy(repository, "versions/1", &root(FOLDER));
    let server = Server::start(&repository, &[]);
    check(&server, "flat");
    check(&server, "versions");
}

#[test]
fn texts_share_runs_of_a_model_whose_positions_turn_and_whose_layers_see_a_window() {
    let repository = copy(Repository::new(), "modern", &root(MODERN));
    check_folder(&Server::start(&repository, &[]), "modern", MODERN);
}

#[test]
fn labels_are_compared_with_images_by_two_towers_of_weights_alone() {
    for (name, weights) in [("clip", "towers"), ("siglip", "siglip-towers")] {
        let folder = fixtures().join(name).join("folder");
        let beside =
            ["config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"];
        let repository = beside.into_iter().fold(Repository::new(), |it, file| {
            it.file(&format!("{name}/{file}"), fs::read(folder.join(file)).unwrap())
        });
        let weights = root("tests/fixtures/weights").join(weights).join("model.safetensors");
        let repository =
            repository.file(&format!("{name}/model.safetensors"), fs::read(weights).unwrap());
        let server = Server::start(&repository, &[]);
        assert!(12 <= replay(&mut server.client(), name));
    }
}

/// The labels of what is said to the folder's texts, the best first, and the metadata of the model.
fn labels(server: &Server, model: &str) -> (Vec<Vec<Value>>, Value) {
    let (texts, _) = expected(FOLDER);
    let body = json!({"inputs": texts, "parameters": {"top_k": null}}).to_string();
    let headers = [("content-type", "application/json"), ("x-amzn-sagemaker-target-model", model)];
    let mut client = Client::connect(server.sagemaker());
    let given = client.post("/invocations", &headers, body).expect(200).json();
    let of_text =
        |it: &Value| it.as_array().unwrap().iter().map(|it| it["label"].clone()).collect();
    let metadata = server.get(&format!("/v2/models/{model}")).expect(200).json();
    (given.as_array().unwrap().iter().map(of_text).collect(), metadata)
}

#[test]
fn a_flag_a_file_and_a_parameter_ask_for_8_bits_and_labels_are_the_same_then() {
    let parameter = r#"parameters { key: "precision" value { string_value: "int8" } }"#;
    let repository = copy(Repository::new(), "plain", &root(FOLDER));
    let repository = copy(repository, "file", &root(FOLDER))
        .file("file/muster.json", r#"{"precision": "int8"}"#);
    let repository =
        copy(repository, "parameter/1", &root(FOLDER)).file("parameter/config.pbtxt", parameter);
    let server = Server::start(&repository, &[]);
    let (expected, _) = labels(&server, "plain");
    let (of_flag, _) = labels(&Server::start(&repository, &["--pipeline-precision=int8"]), "plain");
    assert_eq!(of_flag, expected);
    for model in ["file", "parameter"] {
        let (found, metadata) = labels(&server, model);
        assert_eq!(found, expected, "{model}");
        assert_ne!(metadata["parameters"]["row_independent"], false, "{metadata}");
    }
    let explain = |model: &str| {
        let explained =
            Command::new(program()).arg("explain").arg(repository.path().join(model)).output();
        String::from_utf8(explained.unwrap().stdout).unwrap()
    };
    assert!(explain("file").contains("; precision int8"), "{}", explain("file"));
    assert!(explain("parameter").contains("; precision int8"), "{}", explain("parameter"));
    assert!(!explain("plain").contains("precision"), "{}", explain("plain"));
}

#[test]
fn a_file_that_asks_for_8_bits_of_a_graph_or_for_no_precision_is_refused() {
    let error = |folder: &str, text: &str| {
        let repository = copy(Repository::new(), "m", &root(folder)).file("m/muster.json", text);
        Start::new(&repository).try_run().err().unwrap().to_string()
    };
    let of_graph = error("tests/fixtures/pipelines/sst2/folder", r#"{"precision": "int8"}"#);
    assert!(of_graph.contains("precision int8 is for graphs that are made of"), "{of_graph}");
    let unknown = error(FOLDER, r#"{"precision": "int4"}"#);
    assert!(unknown.contains("precision: 'int4' is none of fp32, int8"), "{unknown}");
}

#[test]
fn a_folder_with_weights_alone_is_served_in_a_process_of_its_own() {
    let repository = copy(Repository::new(), "classifier", &root(FOLDER));
    check(&Server::start(&repository, &["--isolation=all"]), "classifier");
}

#[test]
fn a_graph_goes_before_weights_and_weights_of_no_known_model_are_no_model() {
    let repository = copy(Repository::new(), "both", &root("tests/fixtures/pipelines/sst2/folder"));
    let weights = fs::read(root(FOLDER).join("model.safetensors")).unwrap();
    let repository = repository.file("both/model.safetensors", &weights);
    let repository = copy(repository, "unknown", &root(FOLDER));
    let config = fs::read_to_string(root(FOLDER).join("config.json")).unwrap();
    let config = config.replace("\"model_type\": \"bert\"", "\"model_type\": \"gpt2\"");
    let repository = repository.file("unknown/config.json", config);
    let server = Server::start(&repository, &["--exit-on-error=false"]);
    let index = server.post("/v2/repository/index", "").expect(200).json();
    let models = index.as_array().unwrap();
    let state = |name| models.iter().find(|it| it["name"] == name).map(|it| it["state"].clone());
    assert_eq!(state("both"), Some(json!("READY")));
    assert_ne!(state("unknown"), Some(json!("READY")), "{index}");
}

#[test]
fn the_graph_that_is_made_can_be_written_and_served_alone() {
    let folder = scratch().join(format!("graph-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("model.onnx");
    let explained = Command::new(program())
        .arg("explain")
        .arg(root(FOLDER))
        .arg("--write-onnx")
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.status.success(), "{text}{}", String::from_utf8_lossy(&explained.stderr));
    assert!(text.contains("weights  model.safetensors: the graph is made for them"), "{text}");
    let mut repository = Repository::new().file("whole/model.onnx", fs::read(&file).unwrap());
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        let content = fs::read(root(FOLDER).join(name)).unwrap();
        repository = repository.file(&format!("whole/{name}"), content);
    }
    fs::remove_dir_all(folder).unwrap();
    check(&Server::start(&repository, &[]), "whole");
}

#[test]
fn weights_that_are_not_the_model_of_their_configuration_are_refused_by_the_name_of_the_tensor() {
    let config = fs::read_to_string(root(FOLDER).join("config.json")).unwrap();
    let config = config.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
    let repository = copy(Repository::new(), "m", &root(FOLDER)).file("m/config.json", config);
    let error = Start::new(&repository).try_run().err().unwrap().to_string();
    assert!(error.contains("no tensor 'bert.encoder.layer.2."), "{error}");
}

#[test]
fn more_tokens_than_a_model_has_positions_are_refused_with_the_key_of_its_configuration() {
    let folder = root("tests/fixtures/weights/electra-ForTokenClassification");
    let config = "backend: \"onnxruntime\" default_model_filename: \"model.safetensors\"";
    let repository = copy(Repository::new().model("tokens", config), "tokens/1", &folder);
    let server = Server::start(&repository, &[]);
    let ask = |tokens: usize| {
        let input = |name: &str| json!({"name": name, "datatype": "INT64", "shape": [1, tokens], "data": vec![1; tokens]});
        let names = ["input_ids", "attention_mask", "token_type_ids"];
        let body = json!({"inputs": names.map(input)}).to_string();
        server.client().post("/v2/models/tokens/infer", &[], body)
    };
    ask(24).expect(200);
    let error = ask(25).error(400);
    assert!(error.contains("max_position_embeddings of config.json is 24"), "{error}");
}
