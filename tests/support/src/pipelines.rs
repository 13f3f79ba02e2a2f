//! Folders of Hugging Face's libraries as models: `tests/fixtures/pipelines/make.py` makes them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Repository, root};

/// A number may differ so much from the reference's, which computes with other kernels.
pub const CLOSE: f64 = 1e-5;

/// Where the fixtures are.
pub fn fixtures() -> PathBuf {
    root("tests/fixtures/pipelines")
}

/// A model for each of these fixtures.
pub fn repository(names: &[&str]) -> Repository {
    add_folders(Repository::new(), names)
}

/// The same, beside other models.
pub fn add_folders(repository: Repository, names: &[&str]) -> Repository {
    names.iter().fold(repository, |repository, name| {
        let folder = fixtures().join(name);
        let overlay = fs::read_to_string(folder.join("overlay.json")).ok();
        let overlay: Option<Value> = overlay.map(|it| serde_json::from_str(&it).unwrap());
        let repository = match &overlay {
            Some(overlay) => {
                let base = fixtures().join(overlay["base"].as_str().unwrap()).join("folder");
                copy(repository, name, &base)
            }
            None => repository,
        };
        let repository = copy(repository, name, &folder.join("folder"));
        let removed = overlay.as_ref().and_then(|it| it["removed"].as_array());
        for file in removed.into_iter().flatten() {
            let path = repository.path().join(name).join(file.as_str().unwrap());
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        repository
    })
}

/// Copies all files of a folder over those of a model.
pub fn copy(repository: Repository, model: &str, from: &Path) -> Repository {
    let mut files = Vec::new();
    let mut folders = vec![from.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.into_iter().fold(repository, |repository, file| {
        let name = file.strip_prefix(from).unwrap().display().to_string();
        repository.file(&format!("{model}/{name}"), fs::read(&file).unwrap())
    })
}

/// Is it what the reference said? Numbers may differ by rounding.
pub fn agrees(given: &Value, expected: &Value) -> bool {
    match (given, expected) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= CLOSE.max(1e-4 * other.abs())
        }
        (Value::Array(one), Value::Array(other)) => {
            let [one, other] = [one, other].map(|it| it.iter().filter(|it| !is_left_over(it)));
            one.clone().count() == other.clone().count()
                && one.zip(other).all(|(one, other)| agrees(one, other))
        }
        _ if given["labels"].is_array() => agrees(&by_label(given), &by_label(expected)),
        _ if is_left_over(given) && is_left_over(expected) => true,
        (Value::Object(one), Value::Object(other)) => {
            one.keys().eq(other.keys()) && one.iter().all(|(key, it)| agrees(it, &other[key]))
        }
        (one, other) => one == other,
    }
}

/// Labels of a zero-shot classification and their scores: the order of equal ones is the sort's.
fn by_label(reply: &Value) -> Value {
    let labels = reply["labels"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let scores: Vec<Value> = reply["scores"].as_array().unwrap().clone();
    assert!(scores.is_sorted_by(|one, other| one.as_f64() >= other.as_f64()), "{reply}");
    let mut pairs: Vec<(&str, Value)> = labels.zip(scores).collect();
    pairs.sort_by_key(|it| it.0);
    serde_json::json!([reply["sequence"], pairs])
}

/// Answers of score 0 are those that are left when there is no other; which of them, and how many, the reference's sort
/// leaves open.
fn is_left_over(answer: &Value) -> bool {
    answer["answer"].is_string() && answer["score"].as_f64() == Some(0.0)
}

/// The graph of a fixture as a model, with the other files of its folder beside it.
fn with_graph(repository: Repository, model: &str, fixture: &str) -> Repository {
    let folder = format!("tests/fixtures/pipelines/{fixture}/folder");
    let files = ["tokenizer.json", "tokenizer_config.json", "config.json"];
    let repository = files.iter().fold(repository, |repository, file| {
        repository.copy(&format!("{model}/{file}"), &format!("{folder}/{file}"))
    });
    repository
        .copy(&format!("{model}/1/model.onnx"), &format!("{folder}/model.onnx"))
        .file(&format!("{model}/config.pbtxt"), "backend: \"onnxruntime\"")
}

/// The configuration of a step with these parameters.
pub fn step(parameters: &[(&str, &str)]) -> String {
    let parameter = |(key, value): &(&str, &str)| {
        format!("parameters {{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}\n")
    };
    let parameters: String = parameters.iter().map(parameter).collect();
    format!("backend: \"steps\"\nmax_batch_size: 64\n{parameters}")
}

/// An ensemble as an operator writes it: tokens, graph, labels. Two of its models have no version directory.
pub fn sentiment(file: &str) -> Repository {
    let tokens = step(&[("step", "tokenize"), ("file", file)]);
    let labels = step(&[("step", "classify"), ("labels", "graph/config.json")]);
    with_graph(repository(&["sst2"]), "graph", "sst2")
        .file("tokens/config.pbtxt", tokens)
        .file("labels/config.pbtxt", labels)
        .model(
            "sentiment",
            r#"platform: "ensemble"  max_batch_size: 64
               input  { name: "text" data_type: TYPE_STRING dims: [ 1 ] }
               output [ { name: "label" data_type: TYPE_STRING dims: [ -1 ] },
                        { name: "score" data_type: TYPE_FP32 dims: [ -1 ] } ]
               ensemble_scheduling { step [
                 { model_name: "tokens"
                   input_map { key: "text" value: "text" }
                   output_map { key: "input_ids" value: "ids" }
                   output_map { key: "attention_mask" value: "mask" } },
                 { model_name: "graph"
                   input_map { key: "input_ids" value: "ids" }
                   input_map { key: "attention_mask" value: "mask" }
                   output_map { key: "logits" value: "logits" } },
                 { model_name: "labels"
                   input_map { key: "logits" value: "logits" }
                   output_map { key: "label" value: "label" }
                   output_map { key: "score" value: "score" } } ] }"#,
        )
}
