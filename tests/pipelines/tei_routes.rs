//! In the place of Text Embeddings Inference: what its clients see that others need not.

use serde_json::{Value, json};

use crate::support::{Reply, Server, pipelines::repository};

fn post(server: &Server, path: &str, body: &Value) -> Reply {
    server.post(path, body.to_string())
}

/// The reply at `/` and at `/invocations` is that of `path`.
#[track_caller]
fn check_root(model: &str, path: &str, body: &Value) {
    let server = Server::start(&repository(&[model]), &["--tei-root"]);
    let expected = post(&server, path, body).expect(200).json();
    for root in ["/", "/invocations"] {
        let reply = post(&server, root, body).expect(200);
        assert!(reply.header("x-compute-tokens").is_some(), "{root}");
        assert!(reply.header("x-total-time").is_some(), "{root}");
        assert_eq!(reply.json(), expected, "{root}");
    }
}

#[test]
fn addresses_that_do_not_say_the_task_are_those_of_the_model() {
    check_root("st-6", "/embed", &json!({"inputs": "a text"}));
    check_root("st-6", "/embed", &json!({"inputs": ["a text", "b"], "normalize": false}));
    check_root("sst2", "/predict", &json!({"inputs": "a text"}));
    check_root("sst2", "/predict", &json!({"inputs": [["a text"], ["a", "b"]]}));
    check_root("rerank", "/rerank", &json!({"query": "a", "texts": ["b", "a"]}));
    check_root("splade-max", "/embed_sparse", &json!({"inputs": "a text"}));
}

#[test]
fn errors_there_have_the_form_of_the_task_and_others_keep_the_form_of_the_container() {
    let server = Server::start(&repository(&["st-6"]), &["--tei-root"]);
    for root in ["/", "/invocations"] {
        let error = post(&server, root, &json!({"inputs": []})).expect(400).json();
        assert_eq!(error["error_type"], "Empty", "{root}");
    }
    let server = Server::start(&repository(&["st-6"]), &[]);
    let one = post(&server, "/invocations", &json!({"inputs": "a"})).expect(200).json();
    assert!(one[0].is_number(), "{one}");
}

#[test]
fn bodies_of_one_request_are_any_number() {
    let server = Server::start(&repository(&["st-6"]), &["--max-client-batch-size=2"]);
    for count in [0, 1, 5] {
        let body = json!({"instances": vec![json!({"inputs": "a"}); count]});
        let predictions = post(&server, "/vertex", &body).expect(200).json()["predictions"].clone();
        assert_eq!(predictions.as_array().map(Vec::len), Some(count));
    }
    // The bound of a request is that of each body.
    let body = json!({"instances": [{"inputs": ["a", "b", "c"]}]});
    assert_eq!(post(&server, "/vertex", &body).expect(422).json()["error_type"], "Validation");
}

#[test]
fn a_ranker_also_says_classes_where_several_bodies_are_one() {
    let server = Server::start(&repository(&["rerank"]), &[]);
    let (ranking, text) = (json!({"query": "a", "texts": ["b", "a"]}), json!({"inputs": "a"}));
    let both = post(&server, "/vertex", &json!({"instances": [ranking, text]})).expect(200).json();
    let ranks = post(&server, "/rerank", &ranking).expect(200).json();
    let classes = post(&server, "/predict", &text).expect(200).json();
    assert_eq!(both, json!({"predictions": [ranks, classes]}));
}

#[test]
fn token_ids_and_repeated_queries_count_as_characters() {
    let server = Server::start(&repository(&["st-6", "rerank"]), &[]);
    let characters = |path: &str, body: Value| {
        let reply = post(&server, path, &body).expect(200);
        reply.header("x-compute-characters").unwrap().to_owned()
    };
    assert_eq!(characters("/embed", json!({"inputs": [[2, 37, 3], [2, 94, 37, 3]]})), "7");
    let ranking = json!({"query": "four", "texts": ["a", "bc", "d"]});
    assert_eq!(characters("/rerank", ranking), "16");
    let ranking = json!({"query": "four", "documents": ["a", "bc", "d"]});
    assert_eq!(characters("/v2/rerank", ranking), "8");
}
