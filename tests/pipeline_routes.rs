//! The addresses of other servers of texts: what they answer, which model does, and what a refusal looks like to each
//! kind of client.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    pipelines::repository,
    support::{Client, Reply, Server},
};

fn post(server: &Server, path: &str, body: &Value) -> Reply {
    server.post(path, body.to_string())
}

fn numbers(list: &Value) -> Vec<f32> {
    list.as_array().unwrap().iter().map(|it| it.as_f64().unwrap() as f32).collect()
}

/// What `/invocations` says of these texts.
fn vectors(server: &Server, model: &str, texts: &Value) -> Vec<Vec<f32>> {
    let headers = [("content-type", "application/json"), ("x-amzn-sagemaker-target-model", model)];
    let body = json!({"inputs": texts}).to_string();
    let reply = Client::connect(server.sagemaker()).post("/invocations", &headers, body);
    reply.expect(200).json().as_array().unwrap().iter().map(numbers).collect()
}

#[test]
fn embeddings_are_numbers_or_base64_of_the_same_vectors() {
    let server = Server::start(&repository(&["st-6"]), &[]);
    let texts = json!(["I am super happy right now.", "How many rows does a batch hold?"]);
    let expected = vectors(&server, "st-6", &texts);
    let reply = post(&server, "/v1/embeddings", &json!({"input": texts, "model": "st-6"}));
    let reply = reply.expect(200);
    assert_eq!(reply.header("x-compute-type"), Some("cpu"));
    assert_eq!(reply.header("x-compute-characters"), Some("59"));
    assert!(reply.header("x-compute-time").is_some() && reply.header("x-total-time").is_some());
    let tokens: u64 = reply.header("x-compute-tokens").unwrap().parse().unwrap();
    let body = reply.json();
    assert_eq!(body["object"], "list");
    assert_eq!(body["model"], "st-6");
    assert_eq!(body["usage"], json!({"prompt_tokens": tokens, "total_tokens": tokens}));
    for (at, vector) in expected.iter().enumerate() {
        assert_eq!(body["data"][at]["index"], at);
        assert_eq!(&numbers(&body["data"][at]["embedding"]), vector);
    }
    let asked = json!({"input": texts, "model": "st-6", "encoding_format": "base64"});
    let body = post(&server, "/embeddings", &asked).expect(200).json();
    for (at, vector) in expected.iter().enumerate() {
        let bytes = STANDARD.decode(body["data"][at]["embedding"].as_str().unwrap()).unwrap();
        let (floats, _) = bytes.as_chunks();
        let given: Vec<f32> = floats.iter().map(|it| f32::from_le_bytes(*it)).collect();
        assert_eq!(&given, vector);
    }
    let reply = post(&server, "/embed", &json!({"inputs": texts})).expect(200).json();
    assert_eq!(reply.as_array().unwrap().iter().map(numbers).collect::<Vec<_>>(), expected);
    // One text is answered by a list, too.
    let reply = post(&server, "/embed", &json!({"inputs": texts[0]})).expect(200).json();
    assert_eq!(numbers(&reply[0]), expected[0]);
}

#[test]
fn token_ids_are_those_of_the_model() {
    let server = Server::start(&repository(&["st-6"]), &[]);
    let text = post(&server, "/v1/embeddings", &json!({"input": "super happy", "model": "x"}));
    let ids = json!([[2, 37, 94, 3]]);
    let given = post(&server, "/v1/embeddings", &json!({"input": ids, "model": "x"})).expect(200);
    assert_eq!(given.json()["usage"]["prompt_tokens"], 4);
    let _ = text.expect(200);
    let beyond = post(&server, "/v1/embeddings", &json!({"input": [9_999_999], "model": "x"}));
    let error = beyond.expect(400).json()["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("9999999"), "{message}");
    assert!(message.contains("check_embedding_ctx_length=False"), "{message}");
    assert_eq!(error["param"], "input");
}

#[test]
fn the_model_is_that_of_the_path_of_the_body_of_a_header_or_the_only_one() {
    let server = Server::start(&repository(&["st-6", "pool-cls", "sst2"]), &[]);
    let text = json!(["I am super happy right now."]);
    let [six, cls] = ["st-6", "pool-cls"].map(|it| vectors(&server, it, &text).remove(0));
    assert_ne!(six, cls);
    let embedding = |path: &str, headers: &[(&str, &str)], model: Value| {
        let body = json!({"input": text, "model": model}).to_string();
        let reply = server.client().post(path, headers, body).expect(200).json();
        (reply["model"].as_str().unwrap().to_owned(), numbers(&reply["data"][0]["embedding"]))
    };
    let header = [("x-amzn-sagemaker-target-model", "pool-cls")];
    let six = ("st-6".to_owned(), six);
    let cls = ("pool-cls".to_owned(), cls);
    assert_eq!(embedding("/v1/embeddings", &[], json!("st-6")), six);
    assert_eq!(embedding("/v1/embeddings", &header, json!("st-6")), six);
    assert_eq!(embedding("/v1/embeddings", &header, json!(null)), cls);
    for versioned in ["pool-cls/1", "pool-cls@1"] {
        assert_eq!(embedding("/v1/embeddings", &[], json!(versioned)), cls);
    }
    assert_eq!(embedding("/v2/models/pool-cls/v1/embeddings", &[], json!("st-6")), cls);
    assert_eq!(embedding("/v2/models/st-6/versions/1/embeddings", &[], json!("x")), six);
    // Several, and no name that fits.
    for model in [json!("text-embedding-3-small"), json!(null)] {
        let body = json!({"input": "a", "model": model});
        let error = post(&server, "/v1/embeddings", &body).expect(404).json()["error"].clone();
        assert_eq!(error["code"], "model_not_found");
        let message = error["message"].as_str().unwrap();
        assert!(message.ends_with("are pool-cls, st-6"), "{message}");
    }
    let other = json!({"input": "a", "model": "st-6/7"});
    assert_eq!(post(&server, "/v1/embeddings", &other).status, 404);
    // One that is able: whatever it is called.
    let server = Server::start(&repository(&["st-6", "sst2"]), &[]);
    let body = json!({"input": "a", "model": "text-embedding-3-small"});
    assert_eq!(post(&server, "/v1/embeddings", &body).expect(200).json()["model"], "st-6");
    let unable = json!({"input": "a", "model": "sst2"});
    let error = post(&server, "/v1/embeddings", &unable).expect(404).json()["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("'sst2' does not do sentence-embedding"), "{message}");
}

#[test]
fn models_are_listed_with_what_they_do() {
    let repository = repository(&["st-6", "sst2"]).copy("digits", "model_repository/digits");
    let server = Server::start(&repository, &[]);
    let list = server.get("/v1/models").expect(200).json();
    assert_eq!(list["object"], "list");
    let data = list["data"].as_array().unwrap();
    let ids: Vec<&str> = data.iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["sst2", "st-6"]);
    assert_eq!(data[0]["tasks"], json!(["text-classification"]));
    assert!(data[0]["created"].as_u64().unwrap() > 1_600_000_000);
    assert_eq!(data[0]["owned_by"], "muster");
    let one = server.get("/v2/models/st-6/v1/models").expect(200).json();
    assert_eq!(one["data"].as_array().unwrap().len(), 1);
    // The address of one model stays TensorFlow Serving's.
    let status = server.get("/v1/models/st-6").expect(200).json();
    assert_eq!(status["model_version_status"][0]["state"], "AVAILABLE");
}

#[test]
fn a_compressed_body_names_its_model_too() {
    use std::io::Write;
    let server = Server::start(&repository(&["st-6", "pool-cls"]), &[]);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let body = json!({"input": "a".repeat(300_000), "model": "pool-cls"}).to_string();
    encoder.write_all(body.as_bytes()).unwrap();
    let headers = [("content-encoding", "gzip")];
    let reply = server.client().post("/v1/embeddings", &headers, encoder.finish().unwrap());
    assert_eq!(reply.expect(200).json()["model"], "pool-cls");
}
