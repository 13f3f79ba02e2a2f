//! The addresses of other servers of texts: what they answer, which model does, and what a refusal looks like to each
//! kind of client.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::{
    Client, Page, Reply, Server, Start, pipelines::repository, post_head, wait_for, wait_queued,
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
    for time in ["compute", "total", "tokenization", "queue", "inference"] {
        let time: u64 = reply.header(&format!("x-{time}-time")).unwrap().parse().unwrap();
        assert!(time < 60_000, "{time}");
    }
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
fn a_model_that_does_not_serve_is_not_answered_by_another() {
    let flags = ["--model-control-mode=explicit", "--load-model=st-6", "--load-model=pool-cls"];
    let server = Server::start(&repository(&["st-6", "pool-cls"]), &flags);
    server.post("/v2/repository/models/pool-cls/unload", "").expect(200);
    let ask = |model: &str| post(&server, "/v1/embeddings", &json!({"input": "a", "model": model}));
    ask("text-embedding-3-small").expect(200);
    ask("st-6").expect(200);
    for model in ["pool-cls", "st-6/7", "st-6/99999999999999999999", "st-6/"] {
        assert_eq!(ask(model).expect(404).json()["error"]["code"], "model_not_found", "{model}");
    }
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

#[test]
fn classes_are_all_of_them_and_a_batch_is_a_list() {
    let server = Server::start(&repository(&["sst2", "st-6"]), &[]);
    let text = "I am super happy right now.";
    let one = post(&server, "/predict", &json!({"inputs": text})).expect(200);
    assert!(one.header("x-compute-tokens").is_some());
    let one = one.json();
    let scores: Vec<f64> =
        one.as_array().unwrap().iter().map(|it| it["score"].as_f64().unwrap()).collect();
    assert_eq!(scores.len(), 2);
    assert!(scores[0] > scores[1] && (scores[0] + scores[1] - 1.0).abs() < 1e-5, "{scores:?}");
    let batch = post(&server, "/predict", &json!({"inputs": [[text], [text, "It is."]]}));
    let batch = batch.expect(200).json();
    assert_eq!(batch[0], one);
    assert_ne!(batch[1], one);
    let raw = post(&server, "/predict", &json!({"inputs": text, "raw_scores": true}));
    let raw = raw.expect(200).json();
    assert_eq!(raw[0]["label"], one[0]["label"]);
    assert_ne!(raw[0]["score"], one[0]["score"]);
    // Texts that are too long are cut there unless the request says otherwise.
    let long = "super happy ".repeat(500);
    post(&server, "/predict", &json!({"inputs": long})).expect(200);
    let refused = post(&server, "/predict", &json!({"inputs": long, "truncate": false}));
    assert_eq!(refused.expect(422).json()["error_type"], "Validation");
}

#[test]
fn vectors_of_tokens_sparse_vectors_and_cosines_have_their_addresses() {
    let server = Server::start(&repository(&["st-6", "splade-max"]), &[]);
    let texts = json!(["I am super happy right now.", "happy"]);
    let tokens = post(&server, "/v2/models/st-6/tokenize", &json!({"inputs": texts}));
    let tokens = tokens.expect(200).json();
    let all = post(&server, "/embed_all", &json!({"inputs": texts})).expect(200).json();
    for at in 0..2 {
        let vectors = all[at].as_array().unwrap();
        assert_eq!(vectors.len(), tokens[at].as_array().unwrap().len());
        assert_eq!(numbers(&vectors[0]).len(), 32);
    }
    let sparse = post(&server, "/embed_sparse", &json!({"inputs": texts})).expect(200).json();
    assert_eq!(sparse.as_array().unwrap().len(), 2);
    assert!(sparse[0][0]["value"].as_f64().unwrap() > 0.0 && sparse[0][0]["index"].is_u64());
    let inputs = json!({"source_sentence": texts[0], "sentences": [texts[0], texts[1]]});
    let cosines = post(&server, "/similarity", &json!({"inputs": inputs})).expect(200).json();
    let cosines = numbers(&cosines);
    assert!((cosines[0] - 1.0).abs() < 1e-5 && cosines[1] < 0.999, "{cosines:?}");
}

#[test]
fn tokens_have_their_places_and_become_text_again() {
    let server = Server::start(&repository(&["st-6"]), &[]);
    let text = "naïve café";
    let tokens = post(&server, "/tokenize", &json!({"inputs": text})).expect(200).json();
    let tokens = tokens[0].as_array().unwrap().clone();
    let (first, last) = (&tokens[0], &tokens[tokens.len() - 1]);
    assert_eq!((&first["special"], &first["start"]), (&json!(true), &Value::Null));
    assert_eq!(last["special"], true);
    let second = &tokens[1];
    assert_eq!((second["start"].as_u64(), second["special"].as_bool()), (Some(0), Some(false)));
    let stop = tokens[tokens.len() - 2]["stop"].as_u64().unwrap();
    assert_eq!(stop, text.len() as u64);
    let bare = json!({"inputs": [text], "add_special_tokens": false});
    let bare = post(&server, "/tokenize", &bare).expect(200).json();
    assert_eq!(bare[0].as_array().unwrap().len(), tokens.len() - 2);
    let ids: Vec<&Value> = tokens.iter().map(|it| &it["id"]).collect();
    let plain = post(&server, "/decode", &json!({"ids": ids})).expect(200).json();
    let special = json!({"ids": [ids], "skip_special_tokens": false});
    let special = post(&server, "/decode", &special).expect(200).json();
    assert!(special[0].as_str().unwrap().len() > plain[0].as_str().unwrap().len());
    let empty = post(&server, "/tokenize", &json!({"inputs": []})).expect(400).json();
    assert_eq!(empty["error_type"], "Empty");
    let unknown = post(&server, "/decode", &json!({"ids": [9_999_999]})).expect(422).json();
    assert!(unknown["error"].as_str().unwrap().contains("9999999"), "{unknown}");
}

#[test]
fn several_bodies_in_one_are_answered_in_their_order() {
    let server = Server::start(&repository(&["st-6", "sst2"]), &[]);
    let texts: Vec<String> = (0..20).map(|it| format!("{it} rows")).collect();
    let bodies: Vec<Value> = texts.iter().map(|it| json!({"inputs": it})).collect();
    let reply = post(&server, "/v2/models/st-6/vertex", &json!({"instances": bodies})).expect(200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let predictions = reply.json()["predictions"].clone();
    let expected = vectors(&server, "st-6", &json!(texts));
    for (at, vector) in expected.iter().enumerate() {
        assert_eq!(&numbers(&predictions[at][0]), vector);
    }
    let reply = post(&server, "/vertex", &json!({"instances": [{"inputs": "a"}], "model": "sst2"}));
    assert!(reply.expect(200).json()["predictions"][0][0]["label"].is_string());
    let ranked = json!({"instances": [{"query": "a", "texts": ["b", "a"]}]});
    let ranking = Server::start(&repository(&["rerank"]), &[]);
    let ranked = post(&ranking, "/vertex", &ranked).expect(200).json();
    assert_eq!(ranked["predictions"][0].as_array().unwrap().len(), 2);
    // One that is wrong fails all.
    let one = json!({"instances": [{"inputs": "a"}, {"inputs": ""}]});
    let error = post(&server, "/v2/models/st-6/vertex", &one).expect(400).json();
    assert_eq!(error["error_type"], "Empty");
}

#[test]
fn info_says_what_the_model_is() {
    let repository = repository(&["st-6", "sst2"]);
    let server = Server::start(&repository, &["--max-client-batch-size=16"]);
    let info = server.get("/v2/models/st-6/info").expect(200).json();
    assert_eq!(info["model_id"], "st-6");
    assert_eq!(info["model_dtype"], "float32");
    assert_eq!(info["model_type"], json!({"embedding": {"pooling": "mean"}}));
    assert_eq!(info["max_client_batch_size"], 16);
    assert_eq!(info["auto_truncate"], true);
    assert!(info["max_input_length"].as_u64().unwrap() > 8);
    let info = server.get("/v2/models/sst2/info").expect(200).json();
    let labels = json!({"0": "NEGATIVE", "1": "POSITIVE"});
    assert_eq!(info["model_type"]["classifier"]["id2label"], labels);
    // Several models, and none is named.
    assert_eq!(server.get("/info").expect(404).json()["error_type"], "Validation");
    server.get("/v2/models/sst2/health").expect(200);
}

/// How one kind of server says what is wrong: the status, and the name of the error.
type Said<'a> = (u16, &'a str);

/// Asks for the same at the addresses of OpenAI, of Text Embeddings Inference, of SageMaker and of KServe.
#[track_caller]
fn check_refusals(server: &Server, texts: &Value, openai: Said<'_>, tei: Said<'_>, others: u16) {
    let said = |path: &str, body: Value| {
        let reply = post(server, path, &body);
        let error = reply.json();
        let name = match error["error"]["code"].as_str().or(error["error"]["type"].as_str()) {
            Some(name) => name.to_owned(),
            None => error["error_type"].as_str().unwrap_or_default().to_owned(),
        };
        (reply.status, name)
    };
    let with = |name: &str, mut body: Value| {
        body[name] = texts.clone();
        body
    };
    let given = said("/v2/models/st-6/v1/embeddings", with("input", json!({"truncate": false})));
    assert_eq!((given.0, &*given.1), openai, "{texts}");
    let given = said("/v2/models/st-6/embed", with("inputs", json!({"truncate": false})));
    assert_eq!((given.0, &*given.1), tei, "{texts}");
    let headers = [("content-type", "application/json"), ("x-amzn-sagemaker-target-model", "st-6")];
    let body = with("inputs", json!({"parameters": {"truncation": false}})).to_string();
    let reply = Client::connect(server.sagemaker()).post("/invocations", &headers, body);
    assert_eq!(reply.status, others, "{texts}");
    let input = json!({"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [texts]});
    let body = json!({"inputs": [input], "parameters": {"truncation": false}});
    assert!(matches!(post(server, "/v2/models/st-6/infer", &body).status, 400), "{texts}");
}

#[test]
fn errors_have_the_dialects_status() {
    let flags = ["--max-client-batch-size=4", "--http-max-input-size=64KiB"];
    let server = Server::start(&repository(&["st-6", "sst2"]), &flags);
    let wrong = (400, "invalid_request_error");
    check_refusals(&server, &json!({"a": 1}), wrong, (422, "Validation"), 400);
    check_refusals(&server, &json!([]), wrong, (400, "Empty"), 400);
    check_refusals(&server, &json!(vec!["a"; 5]), wrong, (422, "Validation"), 400);
    check_refusals(&server, &json!("super happy ".repeat(500)), wrong, (422, "Validation"), 400);

    let openai = |body: Value| {
        let reply = post(&server, "/v2/models/st-6/v1/embeddings", &body);
        let error = reply.json()["error"].clone();
        (reply.status, error["param"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(openai(json!({"input": "a", "dimensions": 0})), (400, "dimensions".to_owned()));
    let unknown = json!({"input": "a", "prompt_name": "none"});
    assert_eq!(openai(unknown), (400, "prompt_name".to_owned()));
    assert_eq!(openai(json!({"model": "st-6"})), (400, "input".to_owned()));
    let tei = |path: &str, body: &str| {
        let reply = server.post(path, body);
        (reply.status, reply.json()["error_type"].as_str().unwrap_or_default().to_owned())
    };
    let validation = |status: u16| (status, "Validation".to_owned());
    for body in [r#"{"inputs":"a","dimensions":0}"#, r#"{"inputs":"a","prompt_name":"x"}"#, "{"] {
        assert_eq!(tei("/v2/models/st-6/embed", body), validation(422), "{body}");
    }
    let text = r#"{"inputs":"a"}"#;
    assert_eq!(tei("/v2/models/sst2/embed", text), (424, "Backend".to_owned()));
    assert_eq!(tei("/v2/models/none/embed", text), validation(404));
    // Also where no address has a route.
    assert_eq!(server.get("/v1/embeddings").status, 405);
    let large = json!({"inputs": "a".repeat(100_000), "input": "a"});
    assert_eq!(post(&server, "/v1/embeddings", &large).status, 413);
    assert_eq!(post(&server, "/embed", &large).json()["error_type"], "Validation");
}

#[test]
fn who_has_no_token_is_told_so_in_the_words_of_the_server() {
    let repository = repository(&["st-6"]).file("tokens", "inference a-token-of-one-client\n");
    let flag = format!("--auth-tokens-file={}", repository.at("tokens"));
    let server = Server::start(&repository, &[&flag]);
    let reply = post(&server, "/v1/embeddings", &json!({"input": "a"})).expect(401);
    assert_eq!(reply.json()["error"]["code"], "invalid_api_key");
    assert_eq!(post(&server, "/embed", &json!({"inputs": "a"})).expect(401).body, b"");
    let headers = [("authorization", "Bearer a-token-of-one-client")];
    server.client().post("/embed", &headers, r#"{"inputs":"a"}"#).expect(200);
}

#[test]
fn a_command_line_of_text_embeddings_inference_serves_its_model() {
    let repository = repository(&["st-6"]);
    let server = Start::command(&[
        "--model-id",
        &repository.at("st-6"),
        "--port",
        "0",
        "--prometheus-port=0",
        "--api-key=swordfish",
        "--max-client-batch-size",
        "2",
    ])
    .run();
    assert_eq!(server.address("grpc"), None);
    let ask = |texts: &[&str]| {
        let headers = [("authorization", "Bearer swordfish")];
        server.client().post("/embed", &headers, json!({"inputs": texts}).to_string())
    };
    assert_eq!(ask(&["a", "b"]).expect(200).json().as_array().unwrap().len(), 2);
    assert_eq!(ask(&["a", "b", "c"]).expect(422).json()["error_type"], "Validation");
    post(&server, "/embed", &json!({"inputs": "a"})).expect(401);
    assert_eq!(server.get("/health").status, 200);
    assert!(server.get("/metrics").expect(200).text().contains("\nte_request_count"));
}

#[test]
fn texts_and_token_ids_in_one_list_are_refused_in_the_words_of_the_server() {
    let server = Server::start(&repository(&["st-6"]), &[]);
    for mixed in [json!(["a", [1, 2]]), json!([[1, 2], "a"]), json!([1, "a"]), json!(["a", 1])] {
        let reply = post(&server, "/embed", &json!({"inputs": mixed})).expect(422).json();
        assert_eq!(reply["error_type"], "Validation", "{mixed}");
        let reply = post(&server, "/v1/embeddings", &json!({"input": mixed})).expect(400).json();
        assert_eq!(reply["error"]["type"], "invalid_request_error", "{mixed}");
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.contains("expected a string") || text.contains("token ids"), "{text}");
    }
}

#[test]
fn a_client_that_leaves_takes_its_texts_along() {
    let server = Server::start(&repository(&["st-6"]), &["--scheduler-hold=1000"]);
    let texts = vec!["I am super happy right now."; 20];
    let body = json!({"input": texts}).to_string();
    let mut client = server.client();
    client.send(post_head("/v1/embeddings", &[], body.len())).unwrap();
    client.send(&body).unwrap();
    wait_queued(server.http(), "st-6", 20);
    drop(client);
    wait_queued(server.http(), "st-6", 0);
    wait_for("a cancelled request", || {
        (Page::read(server.http()).failures("st-6", "CANCELED") > 0.0).then_some(())
    });
}

#[test]
fn operators_say_what_the_model_is_called_and_what_holds_where_a_request_says_nothing() {
    let flags = [
        "--served-model-name=minilm",
        "--auto-truncate=false",
        "--max-client-batch-size=2",
        "--tei-batch-status=413",
    ];
    let server = Server::start(&repository(&["st-6"]), &flags);
    let named = post(&server, "/v1/embeddings", &json!({"input": "a", "model": "minilm"}));
    assert_eq!(named.expect(200).json()["model"], "minilm");
    let info = server.get("/info").expect(200).json();
    assert_eq!((&info["served_model_name"], &info["model_id"]), (&json!("minilm"), &json!("st-6")));
    assert_eq!(info["auto_truncate"], false);
    let long = "super happy ".repeat(500);
    assert_eq!(post(&server, "/embed", &json!({"inputs": long})).status, 422);
    let many = post(&server, "/embed", &json!({"inputs": ["a", "b", "c"]})).expect(413).json();
    assert_eq!(many["error_type"], "Validation");
    let cut = json!({"inputs": long, "truncate": true});
    assert_eq!(post(&server, "/embed", &cut).status, 200);

    let first = |server: &Server, body: &Value| {
        numbers(&post(server, "/embed", body).expect(200).json()[0])
    };
    let plain = Server::start(&repository(&["prompted"]), &[]);
    let passage = first(&plain, &json!({"inputs": "a", "prompt_name": "passage"}));
    assert_ne!(first(&plain, &json!({"inputs": "a"})), passage);
    let prompted = Server::start(&repository(&["prompted"]), &["--default-prompt-name=passage"]);
    assert_eq!(first(&prompted, &json!({"inputs": "a"})), passage);
}
