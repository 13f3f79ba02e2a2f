//! Folders of Hugging Face's libraries, served as they are: every request of the fixtures, against what transformers
//! and sentence-transformers said. `tests/fixtures/pipelines/make.py` makes both.

use std::fs;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::{
    Client, Page, Repository, Server, Start,
    pipelines::{CLOSE, agrees, fixtures, repository},
};

fn invoke(client: &mut Client, model: &str, body: &Value) -> crate::support::Reply {
    let headers = [("content-type", "application/json"), ("x-amzn-sagemaker-target-model", model)];
    client.post("/invocations", &headers, body.to_string())
}

/// A reply that is written as the bytes of a tensor.
fn as_lists(reply: &Value) -> Value {
    let (Some(raw), Some(shape)) = (reply["raw"].as_str(), reply["shape"].as_array()) else {
        return reply.clone();
    };
    let bytes = STANDARD.decode(raw).unwrap();
    let (floats, _) = bytes.as_chunks();
    let mut items: Vec<Value> = floats.iter().map(|it| f32::from_le_bytes(*it).into()).collect();
    for size in shape.iter().rev().map(|it| it.as_u64().unwrap() as usize) {
        items = items.chunks(size).map(|it| Value::Array(it.to_vec())).collect();
    }
    items.remove(0)
}

/// The same where a reply is a list of such.
fn as_reply(reply: &Value) -> Value {
    match reply.as_array() {
        Some(tensors) => tensors.iter().map(as_lists).collect(),
        None => as_lists(reply),
    }
}

/// Sends every request of a fixture that `/invocations` takes; how many there were.
fn replay(client: &mut Client, model: &str) -> usize {
    let cases = fs::read_to_string(fixtures().join(model).join("expected.jsonl")).unwrap();
    let mut asked = 0;
    for case in cases.lines().map(|it| serde_json::from_str::<Value>(it).unwrap()) {
        // The reference cut the texts of this one case at 64 tokens, the folder says 48.
        let is_other = model == "features" && case["case"] == "truncation";
        if !case["route"].is_null() || is_other {
            continue;
        }
        asked += 1;
        let reply = invoke(client, model, &case["request"]);
        let what = format!("{model}, {}: {}", case["case"], case["request"]);
        if !case["refused"].is_null() {
            let problem = reply.error(400);
            if let Some(tokens) = case["refused"]["tokens"].as_u64() {
                assert!(problem.contains(&tokens.to_string()), "{what}: {problem}");
            }
            continue;
        }
        let (given, expected) = (reply.expect(200).json(), as_reply(&case["reply"]));
        assert!(agrees(&given, &expected), "{what}\ngiven {given}\nexpected {expected}");
    }
    asked
}

#[track_caller]
fn check(models: &[&str]) {
    check_with(models, &[]);
}

#[track_caller]
fn check_with(models: &[&str], flags: &[&str]) {
    let repository = repository(models);
    let server = Server::start(&repository, flags);
    let mut client = Client::connect(server.sagemaker());
    for model in models {
        assert!(replay(&mut client, model) > 0, "{model} has no cases");
    }
}

#[test]
fn text_classification_says_what_the_pipeline_says() {
    check(&["sst2", "multi-label", "regression", "roberta", "exported"]);
}

#[test]
fn a_client_of_jumpstart_gets_all_classes_in_their_order() {
    let repository = repository(&["sst2", "st-6"]);
    let server = Server::start(&repository, &[]);
    let mut client = Client::connect(server.sagemaker());
    let mut ask = |model, accept| {
        let headers = [
            ("content-type", "application/x-text"),
            ("accept", accept),
            ("x-amzn-sagemaker-target-model", model),
        ];
        client.post("/invocations", &headers, "I am super happy right now.").expect(200).json()
    };
    let plain = ask("sst2", "application/json");
    let verbose = ask("sst2", "application/json;verbose");
    assert_eq!(verbose["labels"], serde_json::json!(["NEGATIVE", "POSITIVE"]));
    assert_eq!(verbose["predicted_label"], plain[0]["label"]);
    assert!(agrees(&verbose["probabilities"][1], &plain[0]["score"]));
    let vector = ask("st-6", "application/json;verbose");
    assert!(agrees(&vector["embedding"], &ask("st-6", "application/json")));
}

#[test]
fn every_generation_of_sentence_transformers_loads() {
    check(&["st-2", "st-5", "st-6", "st-older-name"]);
}

#[test]
fn sentence_vectors_agree() {
    check(&[
        "pool-cls",
        "pool-max",
        "pool-mean",
        "pool-mean-sqrt-len-tokens",
        "pool-weightedmean",
        "pool-lasttoken",
        "pool-several",
        "pool-booleans",
        "unnormalised",
        "prompted",
        "lower-case",
        "dense",
        "dense-old",
        "dense-gelu",
        "dense-projected",
    ]);
}

#[test]
fn rankers_and_sparse_vectors_agree() {
    check(&[
        "rerank",
        "rerank-identity",
        "rerank-legacy",
        "rerank-silent",
        "splade-max",
        "splade-sum",
    ]);
}

#[test]
fn entities_are_grouped_as_by_the_pipeline() {
    check(&["ner", "ner-bpe"]);
}

#[test]
fn answers_are_those_of_4_57() {
    check(&["question-answering", "question-answering-left"]);
}

#[test]
fn vectors_of_tokens_agree_and_are_bounded() {
    let task = "--task=feature-extraction";
    check_with(&["features"], &[task]);
    // As many tokens as an input may have, and as little work for the tokenizer as that takes.
    let texts = vec!["a ".repeat(60); 3000];
    let body = serde_json::json!({"inputs": texts, "parameters": {"truncation": true}});
    let is_bounded = |repository: Repository| {
        let server = Server::start(&repository, &[task, "--max-client-batch-size=4096"]);
        let mut client = Client::connect(server.sagemaker());
        let refused = invoke(&mut client, "features", &body).error(400);
        assert!(refused.contains("4608000 numbers, at most 4194304"), "{refused}");
    };
    is_bounded(repository(&["features"]));
    // By what the graph gives, whatever its folder says.
    let wrong = r#"{"embedding_dimension": 1, "pooling_mode": "mean", "include_prompt": true}"#;
    let modules = "tests/fixtures/pipelines/st-6/folder/modules.json";
    let repository = repository(&["features"]).copy("features/modules.json", modules);
    is_bounded(repository.file("features/1_Pooling/config.json", wrong));
}

#[test]
fn masks_and_labels_agree() {
    check(&["fill-mask", "fill-mask-bpe", "zero-shot", "zero-shot-first"]);
}

/// The sample model and two fixtures.
fn start() -> (Repository, Server) {
    let repository =
        repository(&["sst2", "st-6", "rerank"]).copy("sentiment", "model_repository/sentiment");
    let server = Server::start(&repository, &["--max-client-batch-size=16"]);
    (repository, server)
}

#[test]
fn the_sample_model_answers_a_sentence_in_every_form() {
    let (_repository, server) = start();
    let sentence = "I am super happy right now.";
    let mut client = Client::connect(server.sagemaker());
    let mut ask = |content: &str, accept: &str, body: &str| {
        let headers = [
            ("content-type", content),
            ("accept", accept),
            ("x-amzn-sagemaker-target-model", "sentiment"),
        ];
        client.post("/invocations", &headers, body).expect(200).text()
    };
    let quoted = format!("{{\"inputs\": \"{sentence}\"}}");
    let label = "{\"label\":\"POSITIVE\",\"score\":0.999";
    assert!(ask("application/json", "*/*", &quoted).starts_with(&format!("[{label}")));
    let reply = ask("text/plain", "*/*", sentence);
    assert!(reply.starts_with(&format!("[{label}")), "{reply}");
    let lines = format!("{quoted}\n{quoted}\n");
    let reply = ask("application/jsonlines", "*/*", &lines);
    assert_eq!(reply.lines().filter(|it| it.starts_with(label)).count(), 2, "{reply}");
    let table = ask("application/json", "text/csv", &quoted);
    assert!(table.starts_with("label,score\nPOSITIVE,0.999"), "{table}");
    // KServe's typed outputs, and those of TensorFlow Serving.
    let body = format!(
        r#"{{"inputs":[{{"name":"text","datatype":"BYTES","shape":[2,1],"data":["{sentence}","What a sad day!"]}}]}}"#
    );
    let reply = server.post("/v2/models/sentiment/infer", &body).expect(200).json();
    let output = |name: &str| {
        let outputs = reply["outputs"].as_array().unwrap();
        outputs.iter().find(|it| it["name"] == name).unwrap()["data"].clone()
    };
    assert_eq!(output("label"), serde_json::json!(["POSITIVE", "NEGATIVE"]));
    assert!(output("result")[0].as_str().unwrap().starts_with(label));
    let body = format!(r#"{{"instances": ["{sentence}"]}}"#);
    let reply = server.post("/v1/models/sentiment:predict", &body).expect(200).json();
    assert_eq!(reply["predictions"][0]["label"], serde_json::json!(["POSITIVE"]));
    let reply = server.post("/v2/models/sentiment/generate", r#"{"text": "sad"}"#).expect(200);
    assert_eq!(reply.json()["label"], "NEGATIVE");
}

#[test]
fn who_sends_tensors_to_a_folder_still_may() {
    let (_repository, server) = start();
    let tensor = |name: &str| {
        format!(r#"{{"name":"{name}","datatype":"INT64","shape":[1,3],"data":[2,7,3]}}"#)
    };
    let body = format!(r#"{{"inputs":[{},{}]}}"#, tensor("input_ids"), tensor("attention_mask"));
    let reply = server.post("/v2/models/sst2/infer", &body).expect(200).json();
    let metadata = server.get("/v2/models/sst2").expect(200).json();
    let expected = serde_json::json!({"graph_inputs": ["input_ids", "attention_mask"]});
    assert_eq!(metadata["parameters"], expected);
    assert_eq!(reply["outputs"][0]["name"], "logits");
    assert_eq!(reply["outputs"][0]["shape"], serde_json::json!([1, 2]));
}

#[test]
fn inputs_and_outputs_of_two_forms_are_not_mixed() {
    let (_repository, server) = start();
    let text = r#"{"name":"text","datatype":"BYTES","shape":[1,1],"data":["a"]}"#;
    let ids = r#"{"name":"input_ids","datatype":"INT64","shape":[1,1],"data":[2]}"#;
    let ask = |body: String| server.post("/v2/models/sst2/infer", &body).error(400);
    let logits = ask(format!(r#"{{"inputs":[{text}],"outputs":[{{"name":"logits"}}]}}"#));
    assert!(logits.contains("unexpected inference output 'logits'"), "{logits}");
    let both = ask(format!(r#"{{"inputs":[{text},{ids}]}}"#));
    assert!(both.contains("unexpected inference input 'input_ids'"), "{both}");
}

#[test]
fn an_embedder_ranks_by_its_vectors() {
    let (_repository, server) = start();
    let body = serde_json::json!({"inputs": {"query": "a film", "texts": ["b c d", "a film"]}});
    let mut client = Client::connect(server.sagemaker());
    let ranked = invoke(&mut client, "st-6", &body).expect(200).json();
    assert_eq!(ranked[0]["index"], 1);
    assert!((ranked[0]["score"].as_f64().unwrap() - 1.0).abs() < CLOSE);
}

#[test]
fn a_folder_may_be_the_only_model_and_its_changes_are_seen() {
    let repository = repository(&["st-6", "sst2"]);
    // The graph lies in `onnx/`, and beside the other files.
    let ports = ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"];
    for folder in ["st-6", "sst2"] {
        let server = Start::command(&["serve", &repository.at(folder)]).flags(&ports).run();
        let metadata = server.get(&format!("/v2/models/{folder}")).expect(200).json();
        assert_eq!(metadata["inputs"][0]["name"], "text");
        // The body that most clients send, with no name of a model anywhere.
        let headers = [("content-type", "application/json")];
        let body = r#"{"inputs": "I am super happy right now."}"#;
        let reply = Client::connect(server.sagemaker()).post("/invocations", &headers, body);
        let first = reply.expect(200).json()[0].clone();
        let is_class = first["label"].is_string() && first["score"].is_number();
        assert!(is_class || folder == "st-6" && first.is_number(), "{folder}: {first}");
    }
    let server =
        Server::start(&repository, &["--model-control-mode=explicit", "--load-model=sst2"]);
    let mut client = Client::connect(server.http());
    let mut label = || {
        let reply = client.post("/v2/models/sst2/generate", &[], r#"{"text": "so happy"}"#);
        reply.expect(200).json()["label"].as_str().unwrap().to_owned()
    };
    let before = label();
    let path = repository.path().join("sst2/config.json");
    let config = fs::read_to_string(&path).unwrap().replace(&before, "CHANGED");
    fs::write(&path, config).unwrap();
    server.post("/v2/repository/models/sst2/load", "").expect(200);
    assert_eq!(label(), "CHANGED");
}

#[test]
fn one_bad_input_harms_nobody() {
    let (_repository, server) = start();
    let mut client = Client::connect(server.sagemaker());
    let mut refused = |model: &str, body: Value| invoke(&mut client, model, &body).error(400);
    let many = serde_json::json!({"inputs": vec!["a"; 17]});
    assert!(refused("sst2", many).contains("16"));
    let ranked = serde_json::json!({"inputs": {"query": "q", "texts": vec!["a"; 17]}});
    assert!(refused("rerank", ranked).contains("make 17 rows, at most 16"));
    let misspelt = serde_json::json!({"inputs": "a", "parameters": {"topk": 1}});
    assert!(refused("sst2", misspelt).contains("'top_k'"));
    let missing = serde_json::json!({"inputs": {"query": "a"}});
    assert!(refused("rerank", missing).contains("texts"));
    let bytes = b"{\"inputs\": \"a\xff\"}".to_vec();
    let headers = [("content-type", "application/json"), ("x-amzn-sagemaker-target-model", "sst2")];
    client.post("/invocations", &headers, bytes).error(400);
    let body = serde_json::json!({"inputs": "a"});
    invoke(&mut client, "sst2", &body).expect(200);
}

#[test]
fn what_is_wrong_with_a_folder_is_said() {
    let repository = repository(&["sst2", "st-6", "rerank"]);
    fs::remove_file(repository.path().join("sst2/tokenizer.json")).unwrap();
    let pooling = repository.path().join("st-6/1_Pooling/config.json");
    fs::write(pooling, r#"{"pooling_mode": "meen"}"#).unwrap();
    let server = Server::start(&repository, &["--exit-on-error=false"]);
    let index = server.post("/v2/repository/index", "").expect(200).json();
    let reason = |name: &str| {
        let models = index.as_array().unwrap();
        models.iter().find(|it| it["name"] == name).unwrap()["reason"].as_str().unwrap().to_owned()
    };
    assert!(reason("sst2").contains("tokenizer.json: it is missing"), "{}", reason("sst2"));
    assert!(reason("sst2").contains("save_pretrained"), "{}", reason("sst2"));
    assert!(reason("st-6").contains("1_Pooling/config.json: pooling_mode"), "{}", reason("st-6"));
}

/// Texts of many lengths, all unlike.
fn texts_of_many_lengths(count: usize) -> Vec<String> {
    let words = ["so", "a", "happy", "film", "that", "sad", "the", "night", "we", "saw", "was"];
    let text = |at: usize| {
        let length = 1 + (at * 7) % 24;
        let words = (0..length).map(|it| words[(at * 3 + it * it) % words.len()]);
        words.collect::<Vec<_>>().join(" ")
    };
    (0..count).map(text).collect()
}

/// The answers to each of these texts, asked by so many clients at once, each a few times.
fn asked_at_once(
    server: &Server,
    model: &str,
    texts: &[String],
    clients: usize,
) -> Vec<(usize, String)> {
    let address = server.sagemaker();
    std::thread::scope(|scope| {
        let client = |number: usize| {
            move || {
                let mut client = Client::connect(address);
                let answer = |step: usize| {
                    let at = (number * 5 + step * 3) % texts.len();
                    let body = serde_json::json!({"inputs": texts[at]});
                    (at, invoke(&mut client, model, &body).expect(200).text())
                };
                (0..12).map(answer).collect::<Vec<_>>()
            }
        };
        let clients: Vec<_> = (0..clients).map(|it| scope.spawn(client(it))).collect();
        clients.into_iter().flat_map(|it| it.join().unwrap()).collect()
    })
}

#[test]
fn company_changes_no_answer() {
    let repository = repository(&["st-6", "question-answering-left", "multi-label"]);
    let server = Server::start(&repository, &[]);
    let texts = texts_of_many_lengths(60);
    for model in ["st-6", "multi-label"] {
        let alone: Vec<String> = texts
            .iter()
            .map(|text| {
                let body = serde_json::json!({"inputs": text});
                let mut client = Client::connect(server.sagemaker());
                invoke(&mut client, model, &body).expect(200).text()
            })
            .collect();
        for (at, answer) in asked_at_once(&server, model, &texts, 64) {
            assert_eq!(answer, alone[at], "{model}: {}", texts[at]);
        }
        let together = serde_json::json!({"inputs": texts});
        let mut client = Client::connect(server.sagemaker());
        let together = invoke(&mut client, model, &together).expect(200).text();
        // Of one text the best class stands in a list, of several it stands by itself.
        let bare = |it: &String| match it.strip_prefix("[{") {
            Some(class) => format!("{{{}", class.trim_end_matches(']')),
            None => it.clone(),
        };
        let alone: Vec<String> = alone.iter().map(bare).collect();
        assert_eq!(together, format!("[{}]", alone.join(",")));
        let page = Page::read(server.http());
        let count = |name: &str| page.of(model, name);
        let (runs, rows) = (
            count("muster_pipeline_rows_per_run_count"),
            count("muster_pipeline_rows_per_run_sum"),
        );
        assert!(runs < rows, "{model}: {rows} rows in {runs} runs");
        let padding = format!("{{kind=\"padding\",model=\"{model}\",version=\"1\"}}");
        assert!(0.0 < page.value(&format!("muster_pipeline_tokens_total{padding}")));
        assert!(rows >= 64.0 * 12.0 + 120.0);
    }
    // Padded on the left.
    let questions = texts.iter().map(|it| serde_json::json!({"question": "Which?", "context": it}));
    let questions: Vec<Value> = questions.collect();
    let mut client = Client::connect(server.sagemaker());
    let mut ask = |inputs: Value| {
        let body = serde_json::json!({"inputs": inputs});
        invoke(&mut client, "question-answering-left", &body).expect(200).json()
    };
    let alone: Value = questions.iter().map(|it| ask(it.clone())).collect();
    assert_eq!(ask(Value::Array(questions)), alone);
}

#[test]
fn company_that_matters_is_told() {
    let ask = |muster_json: Option<&str>| {
        let repository = repository(&["quantized"]);
        let repository = match muster_json {
            Some(text) => repository.file("quantized/muster.json", text),
            None => repository,
        };
        let graphs = repository.path().join("quantized/onnx");
        fs::rename(graphs.join("model_quantized.onnx"), graphs.join("model.onnx")).unwrap();
        let server = Server::start(&repository, &[]);
        let metadata = server.get("/v2/models/quantized").expect(200).json();
        assert_eq!(metadata["parameters"]["row_independent"], false, "{metadata}");
        let texts = texts_of_many_lengths(24);
        let mut client = Client::connect(server.sagemaker());
        let mut alone = |text: &String| {
            let body = serde_json::json!({"inputs": text});
            invoke(&mut client, "quantized", &body).expect(200).text()
        };
        let alone: Vec<String> = texts.iter().map(&mut alone).collect();
        let together = serde_json::json!({"inputs": texts});
        let mut client = Client::connect(server.sagemaker());
        let mut together = || invoke(&mut client, "quantized", &together).expect(200).text();
        let at_rest = together();
        let answers = asked_at_once(&server, "quantized", &texts, 32);
        let differing = answers.iter().filter(|(at, answer)| *answer != alone[*at]).count();
        let page = Page::read(server.http());
        let (runs, rows) = (
            page.of("quantized", "muster_pipeline_rows_per_run_count"),
            page.of("quantized", "muster_pipeline_rows_per_run_sum"),
        );
        (differing, runs < rows, at_rest == together())
    };
    let (_, has_runs_of_several, _) = ask(None);
    assert!(has_runs_of_several);
    let (differing, has_runs_of_several, is_repeated) = ask(Some(r#"{"strict_rows": true}"#));
    assert_eq!((differing, is_repeated), (0, true));
    // Rows of equal length of the request of many.
    assert!(has_runs_of_several);
}

#[test]
fn a_run_is_as_large_as_flags_say() {
    let runs = |flags: &[&str]| {
        let repository = repository(&["st-6"]);
        let server = Server::start(&repository, flags);
        let body = serde_json::json!({"inputs": vec!["so happy"; 6]});
        let mut client = Client::connect(server.sagemaker());
        invoke(&mut client, "st-6", &body).expect(200);
        let page = Page::read(server.http());
        assert_eq!(page.of("st-6", "muster_pipeline_rows_per_run_sum"), 6.0);
        page.of("st-6", "muster_pipeline_rows_per_run_count")
    };
    // How many it is depends on what runs have been seen to cost.
    assert!(runs(&[]) < 6.0);
    assert!(runs(&["--max-batch-requests=2"]) >= 3.0);
    assert_eq!(runs(&["--max-batch-requests=1"]), 6.0);
    assert_eq!(runs(&["--max-batch-tokens=5"]), 6.0);
}

#[test]
fn pipelines_off_serves_the_graph() {
    let repository = repository(&["sst2"]);
    let server = Server::start(&repository, &["--pipelines=off"]);
    let metadata = server.get("/v2/models/sst2").expect(200).json();
    assert_eq!(metadata["inputs"][0]["name"], "input_ids");
}

#[test]
fn tokens_of_the_models_own_are_as_good_as_a_text() {
    let (_repository, server) = start();
    let ask = |input: &str, data: Value, parameters: Value| {
        let body = serde_json::json!({
            "inputs": [{"name": input, "datatype": "BYTES", "shape": [data.as_array().unwrap().len(), 1], "data": data}],
            "outputs": [{"name": "embedding"}, {"name": "tokens"}, {"name": "truncated"}],
            "parameters": parameters,
        });
        server.post("/v2/models/st-6/infer", body.to_string())
    };
    let none = || serde_json::json!({});
    let texts = serde_json::json!(["model rows", "model rows ".repeat(400)]);
    let reply = ask("text", texts, none()).expect(200).json();
    let data = |reply: &Value, at: usize| reply["outputs"][at]["data"].clone();
    let counts = data(&reply, 1);
    assert!(counts[0].as_u64().unwrap() < counts[1].as_u64().unwrap(), "{counts}");
    assert_eq!(data(&reply, 2), serde_json::json!([false, true]));
    // What the tokenizer makes of the first text, with and without what it adds.
    let tokenizer = fixtures().join("st-6/folder/tokenizer.json");
    let vocabulary: Value = serde_json::from_slice(&fs::read(tokenizer).unwrap()).unwrap();
    let id = |token: &str| vocabulary["model"]["vocab"][token].as_u64().unwrap();
    let bare = vec![id("model"), id("rows")];
    let whole = [vec![id("[CLS]")], bare.clone(), vec![id("[SEP]")]].concat();
    let first = data(&reply, 0).as_array().unwrap()[..32].to_vec();
    for ids in [bare, whole] {
        let ids = serde_json::json!([serde_json::json!(ids).to_string()]);
        let reply = ask("token_ids", ids, none()).expect(200).json();
        assert_eq!(data(&reply, 0), Value::Array(first.clone()));
        assert_eq!(data(&reply, 1), serde_json::json!([4]));
    }
    let foreign = ask("token_ids", serde_json::json!(["[100000]"]), none()).error(400);
    let said = "token id 100000 is beyond the vocabulary";
    assert!(foreign.contains(said) && foreign.contains("check_embedding_ctx_length=False"));
    let long = serde_json::json!([serde_json::json!(vec![id("rows"); 2000]).to_string()]);
    let truncated = ask("token_ids", long.clone(), none()).expect(200).json();
    assert_eq!(data(&truncated, 2), serde_json::json!([true]));
    let refused = ask("token_ids", long, serde_json::json!({"truncate": false})).error(400);
    assert!(refused.contains("the input has 2000 tokens"), "{refused}");
    let metadata = server.get("/v2/models/st-6").expect(200).json();
    assert_eq!(metadata["outputs"].as_array().unwrap().len(), 2, "{metadata}");
}

#[test]
fn what_is_wrong_is_said_of_the_text_and_of_the_model_that_it_concerns() {
    let (_repository, server) = start();
    let mut client = Client::connect(server.sagemaker());
    let long = "so happy ".repeat(400);
    let mut error = |model: &str, inputs: Value| {
        let body = serde_json::json!({"inputs": inputs});
        invoke(&mut client, model, &body).error(400)
    };
    let second = error("sst2", serde_json::json!(["so happy", long]));
    assert!(second.starts_with("text 2 of the request: the input has "), "{second}");
    let only = error("sst2", serde_json::json!(long));
    assert!(only.starts_with("the input has "), "{only}");
    let gone = error("gone", serde_json::json!("so happy"));
    assert!(gone.starts_with("there is no model 'gone'") && gone.contains("sst2"), "{gone}");
}

#[test]
fn a_graph_that_is_named_is_the_one_that_answers() {
    let answer = |repository: &Repository, flags: &[&str]| {
        let server = Server::start(repository, flags);
        let mut client = Client::connect(server.sagemaker());
        let body = serde_json::json!({"inputs": "a film that was good"});
        invoke(&mut client, "quantized", &body).expect(200).text()
    };
    let unnamed = repository(&["quantized"]);
    let quantized = answer(&unnamed, &["--pipeline-graph=quantized"]);
    assert_ne!(answer(&unnamed, &[]), quantized);
    let named =
        repository(&["quantized"]).file("quantized/muster.json", r#"{"graph": "quantized"}"#);
    assert_eq!(answer(&named, &[]), quantized);
}

#[test]
fn labels_of_equal_scores_are_turned_round_as_a_stable_sort_of_the_reference_has_them() {
    let server = Server::start(&repository(&["zero-shot"]), &[]);
    // Blanks make no tokens, so that the texts of all of these labels are one.
    let labels = ["happy", " happy", "happy ", "sad", "  happy"];
    for multi_label in [false, true] {
        let parameters = json!({"candidate_labels": labels, "multi_label": multi_label});
        let body = json!({"inputs": "What a day!", "parameters": parameters}).to_string();
        let headers = [("content-type", "application/json")];
        let reply = Client::connect(server.sagemaker()).post("/invocations", &headers, body);
        let reply = reply.expect(200).json();
        let ranked =
            reply["labels"].as_array().unwrap().iter().zip(reply["scores"].as_array().unwrap());
        let mut ranked: Vec<(&str, &Value)> =
            ranked.map(|(it, score)| (it.as_str().unwrap(), score)).collect();
        ranked.retain(|it| it.0 != "sad");
        assert!(ranked.iter().all(|it| it.1 == ranked[0].1), "{reply}");
        // It sorts upwards and turns the list round, those that are equal with it. NumPy's sort leaves these in their
        // order where it has no vector instructions; with them their order is not told.
        let equal: Vec<&str> = ranked.iter().map(|it| it.0).collect();
        assert_eq!(equal, ["  happy", "happy ", " happy", "happy"]);
    }
}

#[test]
fn vectors_are_given_as_an_array_to_those_who_ask_for_one() {
    let server = Server::start(&repository(&["st-6"]), &[]);
    let ask = |inputs: Value, accept: &str| {
        let headers = [("content-type", "application/json"), ("accept", accept)];
        let body = json!({"inputs": inputs}).to_string();
        Client::connect(server.sagemaker()).post("/invocations", &headers, body).expect(200)
    };
    for (inputs, rows) in
        [(json!("so happy"), 1), (json!(["so happy", "What a sad day!", "rows"]), 3)]
    {
        let reply = ask(inputs.clone(), "application/x-npy");
        assert_eq!(reply.header("content-type"), Some("application/x-npy"));
        let texts = if inputs.is_array() { inputs } else { json!([inputs]) };
        let expected = ask(texts, "application/json").json();
        let expected = expected.as_array().unwrap().iter().flat_map(|it| it.as_array().unwrap());
        let expected: Vec<f32> = expected.map(|it| it.as_f64().unwrap() as f32).collect();
        assert_eq!(expected.len() % rows, 0);
        let shape = format!("({rows}, {})", expected.len() / rows);
        // Magic, version, then the length of the text in front of the numbers.
        let length = usize::from(u16::from_le_bytes([reply.body[8], reply.body[9]]));
        let text = std::str::from_utf8(&reply.body[10..10 + length]).unwrap();
        assert!(text.contains("'<f4'") && text.contains(&shape), "{text}");
        let (floats, rest) = reply.body[10 + length..].as_chunks();
        let given: Vec<f32> = floats.iter().map(|it| f32::from_le_bytes(*it)).collect();
        assert!(rest.is_empty());
        assert_eq!(given, expected);
    }
}
