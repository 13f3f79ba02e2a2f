//! Rankings, scores and classes as clients of Cohere, Jina, vLLM, infinity and Text Embeddings Inference ask for them.

use std::fs;

use serde_json::{Value, json};

use crate::support::{
    Server,
    pipelines::{agrees, repository},
    root,
};

fn start(models: &[&str]) -> Server {
    Server::start(&repository(models), &[])
}

#[track_caller]
fn post(server: &Server, path: &str, body: &Value) -> Value {
    server.post(path, body.to_string()).expect(200).json()
}

#[track_caller]
fn refused(server: &Server, path: &str, body: &Value, status: u16) -> Value {
    server.post(path, body.to_string()).expect(status).json()
}

/// Places of documents and their scores, in the order of the reply.
fn ranking(results: &Value) -> Vec<(u64, f64)> {
    let score = |it: &Value| {
        it["relevance_score"].as_f64().or(it["score"].as_f64()).unwrap_or_else(|| panic!("{it}"))
    };
    let list = results.as_array().unwrap().iter();
    list.map(|it| (it["index"].as_u64().unwrap(), score(it))).collect()
}

#[test]
fn rankings_are_those_of_the_cross_encoder_at_every_address() {
    for model in ["rerank", "rerank-identity", "rerank-legacy", "rerank-silent"] {
        let server = start(&[model]);
        let path = root("tests/fixtures/pipelines").join(model).join("expected.jsonl");
        let cases = fs::read_to_string(path).unwrap();
        let cases = cases.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
        let mut asked = 0;
        for case in cases.filter(|it| it["route"] == "/rerank") {
            let (request, expected) = (&case["request"], &case["reply"]);
            let given = post(&server, "/rerank", request);
            assert!(agrees(&given, expected), "{model}\ngiven {given}\nexpected {expected}");
            if request["raw_scores"].is_null() && request["return_text"].is_null() {
                let body = json!({"query": request["query"], "documents": request["texts"]});
                for path in ["/rerank", "/v1/rerank", "/v2/rerank"] {
                    let results = post(&server, path, &body)["results"].clone();
                    assert_eq!(ranking(&results), ranking(&given), "{path}");
                }
            }
            asked += 1;
        }
        assert_eq!(asked, 3, "{model}");
    }
}

#[test]
fn cohere_and_jina_have_their_forms() {
    let server = start(&["rerank", "sst2"]);
    let body = json!({"model": "rerank", "query": "Where does Ada live?", "top_n": 1,
        "documents": ["A batch has rows.", {"text": "Ada lives in London."}], "return_documents": true});
    let first = post(&server, "/v1/rerank", &body);
    assert_eq!((&first["object"], &first["model"]), (&json!("rerank"), &json!("rerank")));
    let results = first["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    let text = results[0]["document"]["text"].as_str().unwrap();
    let documents = ["A batch has rows.", "Ada lives in London."];
    assert_eq!(text, documents[results[0]["index"].as_u64().unwrap() as usize]);
    let tokens = first["usage"]["total_tokens"].as_u64().unwrap();
    assert!(tokens > 20, "{first}");
    let second = post(&server, "/v2/rerank", &body);
    let meta = json!({"api_version": {"version": "2"}, "billed_units": {"search_units": 1}});
    assert_eq!(second["meta"], meta);
    assert!(second["id"].as_str().unwrap().len() == 36 && second["usage"].is_null(), "{second}");
    assert!(second["results"][0]["document"].is_null());
    // Of a long document the first tokens are read.
    let long = json!({"query": "Where?", "max_tokens_per_doc": 3,
        "documents": ["Ada lives in London.", "Ada lives in Rome, as they say.", "Ada lives"]});
    let ranked = ranking(&post(&server, "/v2/rerank", &long)["results"]);
    assert_eq!((ranked[0].1, ranked[0].0, ranked[1].0), (ranked[1].1, 0, 1), "{ranked:?}");
}

#[test]
fn an_embedder_ranks_by_cosine_and_says_so_unless_there_is_a_ranker() {
    let body = json!({"query": "a film", "documents": ["b c d", "a film"]});
    let server = start(&["st-6"]);
    let reply = post(&server, "/v2/rerank", &body);
    assert_eq!(reply["results"][0]["index"], 1);
    assert!((reply["results"][0]["relevance_score"].as_f64().unwrap() - 1.0).abs() < 1e-5);
    let warning = reply["meta"]["warnings"][0].as_str().unwrap();
    assert!(warning.contains("cosine"), "{warning}");
    let server = start(&["st-6", "rerank"]);
    let reply = post(&server, "/v1/rerank", &body);
    assert_eq!(reply["model"], "rerank");
    assert!(reply["meta"]["warnings"].is_null());
}

#[test]
fn a_long_list_is_compared_by_vectors_as_its_texts_are_by_themselves() {
    let server = start(&["st-6"]);
    // So many and so long that several threads prepare them.
    let words = ["happy", "sad", "night", "house", "river"];
    let text = |at: usize| format!("{} {at} ", words[at % words.len()]).repeat(12);
    let texts: Vec<String> = (0..48).map(text).collect();
    let compare = |texts: &[String]| {
        let inputs = json!({"source_sentence": "a happy house", "sentences": texts});
        post(&server, "/similarity", &json!({"inputs": inputs}))
    };
    let apart: Vec<Value> =
        texts.iter().map(|it| compare(std::slice::from_ref(it))[0].clone()).collect();
    assert_eq!(compare(&texts), json!(apart));
    let body = json!({"query": "a happy house", "texts": texts});
    let ranked = ranking(&post(&server, "/rerank", &body));
    assert_eq!(ranked.len(), texts.len());
    for (index, score) in ranked {
        assert_eq!(Some(score), apart[index as usize].as_f64(), "text {index}");
    }
}

#[test]
fn pairs_have_scores_in_the_order_of_the_request() {
    let server = start(&["rerank"]);
    let documents = json!(["A batch has rows.", "Ada lives in London."]);
    let body = json!({"query": "Where does Ada live?", "documents": documents});
    let ranked = ranking(&post(&server, "/v1/rerank", &body)["results"]);
    let body = json!({"text_1": "Where does Ada live?", "text_2": documents, "model": "rerank"});
    let scores = ranking(&post(&server, "/v1/score", &body)["data"]);
    assert_eq!(scores.iter().map(|it| it.0).collect::<Vec<_>>(), [0, 1]);
    assert!(scores.iter().all(|it| ranked.contains(it)), "{scores:?} {ranked:?}");
    let body = json!({"text_1": ["Where does Ada live?", "Where?"], "text_2": documents});
    let pairs = ranking(&post(&server, "/score", &body)["data"]);
    assert_eq!((pairs.len(), pairs[0].1), (2, scores[0].1));
}

#[test]
fn classes_of_texts_are_lists() {
    let server = start(&["sst2"]);
    let body = json!({"input": ["so happy", "so sad"], "model": "sst2"});
    let reply = post(&server, "/v1/classify", &body);
    assert_eq!((&reply["object"], &reply["model"]), (&json!("classify"), &json!("sst2")));
    let data = reply["data"].as_array().unwrap();
    assert_eq!(data.len(), 2);
    for classes in data {
        let scores: Vec<f64> =
            classes.as_array().unwrap().iter().map(|it| it["score"].as_f64().unwrap()).collect();
        assert!((scores.iter().sum::<f64>() - 1.0).abs() < 1e-5 && scores[0] >= scores[1]);
    }
    assert_eq!(reply["usage"]["prompt_tokens"], reply["usage"]["total_tokens"]);
    let raw = json!({"input": "so happy", "raw_scores": true});
    let raw = post(&server, "/classify", &raw)["data"][0].clone();
    assert_eq!(raw[0]["label"], data[0][0]["label"]);
    assert_ne!(raw[0]["score"], data[0][0]["score"]);
}

#[test]
fn refusals_have_the_form_of_the_server_that_was_asked() {
    let server = start(&["rerank", "sst2"]);
    let no_documents = json!({"query": "a", "model": "rerank"});
    for path in ["/v1/rerank", "/v2/rerank"] {
        let error = refused(&server, path, &no_documents, 400);
        assert_eq!(error["message"], "expected the key 'documents', found none");
        assert_eq!(error["message"], error["detail"]);
        let other = json!({"query": "a", "documents": ["b"], "model": "sst2"});
        let message = refused(&server, path, &other, 404)["message"].clone();
        assert!(message.as_str().unwrap().contains("does not do rerank"), "{message}");
    }
    let error = refused(&server, "/rerank", &json!({"query": "a", "texts": []}), 400);
    assert_eq!(error["error_type"], "Empty");
    let error = refused(&server, "/score", &json!({"text_1": "a"}), 400);
    assert_eq!(error["error"]["param"], "text_2");
}
