//! Pipelines in the form of Hugging Face's hub, at the addresses at which its client asks.

use serde_json::{Value, json};

use crate::support::{Server, pipelines::repository};

#[track_caller]
fn post(server: &Server, path: &str, body: &Value) -> Value {
    server.post(path, body.to_string()).expect(200).json()
}

#[test]
fn classes_are_a_list_of_lists_wherever_they_are_asked_for() {
    let server = Server::start(&repository(&["sst2"]), &[]);
    let body = json!({"inputs": "so happy", "parameters": {}});
    let expected = post(&server, "/", &body);
    let classes = expected[0].as_array().unwrap();
    assert_eq!(classes.len(), 2);
    assert!(classes[0]["score"].as_f64() >= classes[1]["score"].as_f64());
    for path in [
        "/pipeline",
        "/v2/models/sst2",
        "/v2/models/sst2/pipeline",
        "/v2/models/sst2/pipeline/text-classification",
        "/pipeline/text-classification/sst2",
        "/pipeline/sentiment-analysis",
    ] {
        assert_eq!(post(&server, path, &body), expected, "{path}");
    }
    let best = json!({"inputs": "so happy", "parameters": {"top_k": 1}});
    assert_eq!(post(&server, "/", &best), json!([[classes[0]]]));
}

#[test]
fn every_task_has_the_form_that_the_client_reads() {
    let models = ["st-6", "ner", "question-answering", "fill-mask", "zero-shot", "rerank"];
    let server = Server::start(&repository(&models), &[]);
    let ask = |model: &str, body: Value| post(&server, &format!("/v2/models/{model}"), &body);
    let vectors =
        ask("st-6", json!({"inputs": "model rows", "normalize": false, "truncate": true}));
    assert_eq!(vectors[0].as_array().unwrap().len(), 32);
    let square = |vectors: &Value| {
        let numbers = vectors[0].as_array().unwrap().iter();
        numbers.map(|it| it.as_f64().unwrap().powi(2)).sum::<f64>()
    };
    assert!((square(&vectors) - 1.0).abs() > 1e-3, "what stands beside the inputs is heeded");
    assert!((square(&ask("st-6", json!({"inputs": "model rows"}))) - 1.0).abs() < 1e-5);
    let features = "/v2/models/st-6/pipeline/feature-extraction";
    let body = json!({"inputs": "model rows", "normalize": false});
    assert_eq!(post(&server, features, &body), vectors);
    let body = json!({"inputs": {"source_sentence": "model", "sentences": ["rows", "model"]}});
    let similar = ask("st-6", body);
    assert!((similar[1].as_f64().unwrap() - 1.0).abs() < 1e-5, "{similar}");
    let parameters = json!({"candidate_labels": ["model", "rows", "batch"]});
    let labels = ask("zero-shot", json!({"inputs": "a batch", "parameters": parameters}));
    let labels = labels.as_array().unwrap();
    assert!(labels.len() == 3 && labels.iter().all(|it| it["label"].is_string()), "{labels:?}");
    let inputs = json!({"question": "Where does Ada live?", "context": "Ada lives in London."});
    let answer = ask("question-answering", json!({"inputs": inputs}));
    assert!(answer["answer"].is_string(), "{answer}");
    let filled = ask("fill-mask", json!({"inputs": "the [MASK] of a model"}));
    assert!(filled[0]["token_str"].is_string(), "{filled}");
    let parameters = json!({"aggregation_strategy": "simple"});
    let entities = ask("ner", json!({"inputs": "Ada lives in London.", "parameters": parameters}));
    assert!(entities.is_array(), "{entities}");
    let ranked = ask("rerank", json!({"query": "Where?", "texts": ["a", "b"]}));
    assert!(ranked[0]["score"].is_number(), "{ranked}");
}

#[test]
fn a_task_that_is_not_there_is_refused() {
    let server = Server::start(&repository(&["sst2", "ner"]), &[]);
    let body = json!({"inputs": "a"}).to_string();
    let other = server.post("/v2/models/sst2/pipeline/fill-mask", &body).error(400);
    assert!(other.contains("does not do fill-mask; it does text-classification"), "{other}");
    let unknown = server.post("/pipeline/fill-maks", &body).error(404);
    assert_eq!(unknown, "there is no task 'fill-maks'; did you mean 'fill-mask'?");
    let several = server.post("/", &body).error(404);
    assert!(several.contains("ner") && several.contains("sst2"), "{several}");
}
