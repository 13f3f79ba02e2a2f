//! `muster explain`: what it says of a folder, and that the ensemble that it writes answers as the folder does.

use std::{path::PathBuf, sync::Arc};

use backend::Backend;
use loading::explain::{explain, report, write};
use onnxruntime::OnnxRuntime;
use serde_json::{Value, json};
use serving::pipeline::pipeline_settings::PipelineSettings;

use crate::{
    image_pipelines::{as_of_timm, graphs},
    support::{
        Repository, Server,
        pipelines::{fixtures, repository},
    },
};

fn engines() -> Vec<Arc<dyn Backend>> {
    vec![Arc::new(OnnxRuntime::default())]
}

/// The ensembles of these fixtures, written out as a repository, and the folders themselves.
pub fn both(names: &[&str]) -> (Repository, Repository) {
    with_ensembles(repository(names))
}

/// These folders, and their ensembles.
fn with_ensembles(folders: Repository) -> (Repository, Repository) {
    let ensembles = Repository::new();
    let settings = PipelineSettings::default();
    let explained = explain(folders.path(), &engines(), &settings).unwrap();
    write(&explained, ensembles.path()).unwrap();
    (folders, ensembles)
}

/// Two servers, of the folders and of the ensembles of the same names.
struct Pair {
    folders: Server,
    ensembles: Server,
    _repositories: (Repository, Repository),
}

impl Pair {
    fn start(names: &[&str]) -> Pair {
        Pair::of(both(names))
    }

    fn of(repositories: (Repository, Repository)) -> Pair {
        let folders = Server::start(&repositories.0, &[]);
        let ensembles = Server::start(&repositories.1, &[]);
        Pair { folders, ensembles, _repositories: repositories }
    }

    /// The bytes of both replies are the same.
    fn check(&self, model: &str, inputs: &[Value], outputs: &[&str]) -> Option<String> {
        let outputs: Vec<Value> = outputs.iter().map(|it| json!({"name": it})).collect();
        let body = json!({"id": "1", "inputs": inputs, "outputs": outputs}).to_string();
        let path = format!("/v2/models/{model}/infer");
        let expected = self.folders.post(&path, &body).expect(200).text();
        let given = self.ensembles.post(&path, &body).text();
        (given != expected).then(|| format!("{model}: {body}\ngiven {given}\nexpected {expected}"))
    }

    /// The same of a file.
    fn check_file(
        &self,
        model: &str,
        (input, file): (&str, &[u8]),
        outputs: &[&str],
    ) -> Option<String> {
        let element = [&(file.len() as u32).to_le_bytes()[..], file].concat();
        let outputs: Vec<Value> = outputs.iter().map(|it| json!({"name": it})).collect();
        let head = json!({
            "id": "1",
            "inputs": [{
                "name": input, "datatype": "BYTES", "shape": [1, 1],
                "parameters": {"binary_data_size": element.len()},
            }],
            "outputs": outputs,
        });
        let head = head.to_string();
        let length = head.len().to_string();
        let headers = [("inference-header-content-length", length.as_str())];
        let body = [head.as_bytes(), &element].concat();
        let path = format!("/v2/models/{model}/infer");
        let ask = |server: &Server| server.client().post(&path, &headers, body.clone());
        let (expected, given) =
            (ask(&self.folders).expect(200).text(), ask(&self.ensembles).text());
        (given != expected).then(|| format!("{model}\ngiven {given}\nexpected {expected}"))
    }
}

fn input(name: &str, shape: &[usize], data: &[&str]) -> Value {
    json!({"name": name, "datatype": "BYTES", "shape": shape, "data": data})
}

/// Do two numbers differ by rounding alone? Rows of unequal length are padded in the one and not in the other.
fn close(one: &Value, other: &Value) -> bool {
    (one.as_f64().unwrap() - other.as_f64().unwrap()).abs() < 1e-5
}

/// One text, one that is longer, and both.
fn texts(name: &str) -> Vec<Value> {
    let (one, other) =
        ("I am super happy right now.", "The film was good, but Ada went to London.");
    vec![
        input(name, &[1, 1], &[one]),
        input(name, &[1, 1], &[other]),
        input(name, &[2, 1], &[one, one]),
    ]
}

#[test]
fn an_explained_pipeline_answers_alike() {
    let classes = ["sst2", "multi-label", "int32", "regression", "roberta", "exported"];
    let vectors =
        ["st-2", "st-6", "dense", "prompted", "pool-several", "lower-case", "pool-lasttoken"];
    let results = ["ner", "ner-bpe", "splade-sum", "splade-max"];
    let others = ["rerank", "rerank-silent", "fill-mask", "fill-mask-bpe"];
    let pair = Pair::start(&[&classes[..], &vectors, &results, &others].concat());
    let mut different = Vec::new();
    for text in texts("text") {
        let text = std::slice::from_ref(&text);
        let outputs = ["label", "score", "result"];
        classes.iter().for_each(|model| different.extend(pair.check(model, text, &outputs)));
        let outputs = ["embedding", "result"];
        vectors.iter().for_each(|model| different.extend(pair.check(model, text, &outputs)));
        results.iter().for_each(|model| different.extend(pair.check(model, text, &["result"])));
    }
    for (model, masked) in [
        ("fill-mask", "The film was [MASK]."),
        ("fill-mask", "The [MASK] was [MASK]."),
        ("fill-mask-bpe", "The film was <mask>."),
    ] {
        let masked = input("text", &[1, 1], &[masked]);
        different.extend(pair.check(model, &[masked], &["result"]));
    }
    // A pair is a row, of a classifier and of a ranker.
    let texts = ["I am happy.", "I am sad."];
    let (first, second) =
        (input("text", &[2, 1], &texts), input("text_pair", &[2, 1], &["So?", "So?"]));
    for model in ["sst2", "rerank", "rerank-silent"] {
        let inputs = [first.clone(), second.clone()];
        different.extend(pair.check(model, &inputs, &["label", "score", "result"]));
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn an_explained_pipeline_of_images_or_sounds_answers_alike() {
    let names = [
        "vit",
        "vit-nhwc",
        "vit-uint8",
        "detr",
        "rt-detr",
        "yolos",
        "speech",
        "audio-classification",
    ];
    let pair = Pair::start(&names);
    let file = |path: &str| std::fs::read(fixtures().join(path)).unwrap();
    let mut different = Vec::new();
    for picture in ["pictures/64x64.png", "pictures/96x64.png"] {
        for model in ["vit", "vit-nhwc", "vit-uint8"] {
            let outputs = ["label", "score", "result"];
            different.extend(pair.check_file(model, ("image", &file(picture)), &outputs));
        }
        for model in ["detr", "rt-detr", "yolos"] {
            let outputs = ["box", "class", "label", "score", "result"];
            different.extend(pair.check_file(model, ("image", &file(picture)), &outputs));
        }
    }
    let sound = file("audio-classification/1.wav");
    let outputs = ["label", "score", "result"];
    different.extend(pair.check_file("audio-classification", ("audio", &sound), &outputs));
    different.extend(pair.check_file("speech", ("audio", &file("speech/1.wav")), &["text"]));
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn an_explained_folder_of_timms_answers_alike() {
    let folders = repository(&["vit"]);
    as_of_timm(&folders.path().join("vit"));
    let pair = Pair::of(with_ensembles(folders));
    let file = std::fs::read(fixtures().join("pictures/96x64.png")).unwrap();
    let different = pair.check_file("vit", ("image", &file), &["label", "score", "result"]);
    assert!(different.is_none(), "{}", different.unwrap());
}

#[test]
fn texts_of_unequal_length_in_one_request_have_the_answers_of_the_folder_up_to_rounding() {
    let (classes, vectors) = (["sst2", "roberta"], ["st-6", "pool-lasttoken"]);
    let pair = Pair::start(&[classes, vectors].concat());
    let texts = ["Ha!", "The film was good, but Ada went to London and saw another one."];
    let ask = |server: &Server, model: &str, output: &str| {
        let body =
            json!({"inputs": [input("text", &[2, 1], &texts)], "outputs": [{"name": output}]});
        let reply = server.post(&format!("/v2/models/{model}/infer"), body.to_string()).expect(200);
        reply.json()["outputs"][0]["data"].as_array().unwrap().clone()
    };
    for model in classes {
        let [expected, given] = [&pair.folders, &pair.ensembles].map(|it| ask(it, model, "label"));
        assert_eq!((given.len(), &given), (2, &expected), "{model}");
    }
    let scores = classes.map(|it| (it, "score"));
    for (model, output) in scores.into_iter().chain(vectors.map(|it| (it, "embedding"))) {
        let [expected, given] = [&pair.folders, &pair.ensembles].map(|it| ask(it, model, output));
        assert_eq!(given.len(), expected.len(), "{model}");
        assert!(given.iter().zip(&expected).all(|(one, other)| close(one, other)), "{model}");
    }
}

#[test]
fn a_ranking_is_the_scores_of_its_pairs() {
    let names = ["rerank", "rerank-identity"];
    let pair = Pair::start(&names);
    let (query, texts) =
        ("How many rows does a batch hold?", ["A batch holds all.", "Ada lives in London."]);
    for model in names {
        let path = format!("/v2/models/{model}/infer");
        let ranked =
            json!({"inputs": [input("query", &[1, 1], &[query]), input("texts", &[1, 2], &texts)]});
        let ranked = pair.folders.post(&path, ranked.to_string()).expect(200).json();
        let pairs = json!({"inputs": [input("text", &[2, 1], &[query; 2]), input("text_pair", &[2, 1], &texts)]});
        let pairs = pair.ensembles.post(&path, pairs.to_string()).expect(200).json();
        let score = |reply: &Value| {
            let outputs = reply["outputs"].as_array().unwrap().clone();
            outputs.into_iter().find(|it| it["name"] == "score").unwrap()["data"].clone()
        };
        assert_eq!(score(&pairs), score(&ranked), "{model}");
    }
}

#[test]
fn one_text_of_several_rows_is_put_together_alike() {
    let pair = Pair::start(&["question-answering", "zero-shot"]);
    let context = "Ada Lovelace lives in London. ".repeat(40);
    let path = "/v2/models/question-answering/infer";
    let ask = |server: &Server, shape: &[usize]| {
        let inputs = [
            input("question", shape, &["Where does Ada live?"]),
            input("context", shape, &[&context]),
        ];
        let body = json!({"inputs": inputs, "outputs": [{"name": "result"}]}).to_string();
        let reply = server.post(path, body).expect(200).json();
        serde_json::from_str::<Value>(reply["outputs"][0]["data"][0].as_str().unwrap()).unwrap()
    };
    let (expected, given) = (ask(&pair.folders, &[1, 1]), ask(&pair.ensembles, &[1]));
    assert_eq!(given["answer"], expected["answer"]);
    assert!(close(&given["score"], &expected["score"]), "{given} {expected}");
    let path = "/v2/models/zero-shot/infer";
    let text = "The film was good.";
    let labels = ["film", "city", "rows"];
    let body = json!({"inputs": [input("text", &[1, 1], &[text])],
        "parameters": {"candidate_labels": json!(labels).to_string()}});
    let expected = pair.folders.post(path, body.to_string()).expect(200).json();
    let result = expected["outputs"].as_array().unwrap().iter().find(|it| it["name"] == "result");
    let expected: Value =
        serde_json::from_str(result.unwrap()["data"][0].as_str().unwrap()).unwrap();
    let inputs = [input("text", &[1], &[text]), input("candidate_labels", &[3], &labels)];
    let body = json!({"inputs": inputs}).to_string();
    let given = pair.ensembles.post(path, body).expect(200).json();
    assert_eq!(given["outputs"][0]["data"], expected["labels"]);
    let scores = given["outputs"][1]["data"].as_array().unwrap();
    for (given, expected) in scores.iter().zip(expected["scores"].as_array().unwrap()) {
        assert!(close(given, expected), "{given} {expected}");
    }
}

#[test]
fn it_says_what_was_understood_and_what_became_of_each_file() {
    let folder =
        repository(&["sst2"]).file("sst2/pytorch_model.bin", "").file("sst2/notes.txt", "");
    let say =
        |path: PathBuf| report(&explain(&path, &engines(), &PipelineSettings::default()).unwrap());
    let text = say(folder.path().join("sst2"));
    for line in [
        "model 'sst2': text-classification, 2 labels, softmax; tokenizer WordPiece",
        "  read     tokenizer.json",
        "  ignored  pytorch_model.bin: the graph is served",
        "  ignored  notes.txt: nothing reads it",
        "  missing  special_tokens_map.json",
        "# sst2/config.pbtxt\nplatform: \"ensemble\"\n",
        "parameters { key: \"file\" value: { string_value: \"sst2_graph/tokenizer.json\" } }",
        "# sst2_graph/1/model.onnx: model.onnx of the folder",
    ] {
        assert!(text.contains(line), "no '{line}' in\n{text}");
    }
    // What is no such folder, and what is wrong with one.
    let others = repository(&["sst2"]).copy("fraud", "model_repository/fraud");
    std::fs::remove_file(others.path().join("sst2/tokenizer.json")).unwrap();
    let text = say(others.path().to_owned());
    assert!(text.contains("model 'fraud': served as tensors, and not as a pipeline: "), "{text}");
    assert!(text.contains("model 'sst2' is not served: tokenizer.json: it is missing"), "{text}");
    let error = explain(&folder.path().join("none"), &engines(), &PipelineSettings::default());
    assert!(error.is_err());
}

#[test]
fn it_says_which_bounds_of_files_and_of_boxes_are_not_the_usual_ones() {
    let say = |repository: &Repository, model: &str| {
        let path = repository.path().join(model);
        report(&explain(&path, &engines(), &PipelineSettings::default()).unwrap())
    };
    let check = |text: &str, parts: &[&str]| {
        parts.iter().for_each(|it| assert!(text.contains(it), "no '{it}' in\n{text}"));
    };
    let bounds = r#"{"threshold": 0.25, "max_detections": 20, "max_image_pixels": 4096}"#;
    check(
        &say(&repository(&["detr"]).file("detr/muster.json", bounds), "detr"),
        &[
            "threshold 0.25, at most 20 boxes; ",
            ", at most 4096 pixels; graph takes ",
            r#"{ key: "max_pixels" value: { string_value: "4096" } }"#,
            r#"{ key: "confidence" value: { string_value: "0.25" } }"#,
            r#"{ key: "max_detections" value: { string_value: "20" } }"#,
        ],
    );
    let sounds = repository(&["speech"]).file("speech/muster.json", r#"{"max_audio_seconds": 7}"#);
    check(
        &say(&sounds, "speech"),
        &["16000 Hz, at most 7 s; ", r#"{ key: "max_seconds" value: { string_value: "7" } }"#],
    );
    let graph = graphs(&["yolo"]).file("yolo/1/muster.json", r#"{"iou": 0.5}"#);
    check(&say(&graph, "yolo"), &[", iou 0.5; ", "  read     muster.json\n"]);
}

#[test]
fn nothing_is_written_over() {
    let folder = repository(&["sst2"]);
    let explained = explain(folder.path(), &engines(), &PipelineSettings::default()).unwrap();
    let to = Repository::new().file("mine.txt", "");
    let error = write(&explained, to.path()).unwrap_err().to_string();
    assert!(error.ends_with("is not empty"), "{error}");
}
