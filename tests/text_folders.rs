//! Folders of text models whose graphs or surroundings are unusual.

use serde_json::{Value, json};

use crate::{
    pipelines::{agrees, repository},
    support::{Client, Page, Server, Start},
};

/// What a model answers to these inputs on `/invocations`.
fn ask(server: &Server, model: &str, inputs: &Value) -> Value {
    let headers = [("content-type", "application/json"), ("x-amzn-sagemaker-target-model", model)];
    let body = json!({"inputs": inputs}).to_string();
    let mut client = Client::connect(server.sagemaker());
    client.post("/invocations", &headers, body).expect(200).json()
}

#[test]
fn inputs_that_no_text_brings_get_the_value_that_a_text_alone_has() {
    // Each of the second has the weights of the first behind other inputs.
    let pairs = [("sst2", "merged"), ("multi-label", "int32")];
    let server = Server::start(&repository(&["sst2", "merged", "multi-label", "int32"]), &[]);
    let texts: Vec<String> = (1..40).map(|it| "so happy a film ".repeat(1 + it % 5)).collect();
    for (usual, other) in pairs {
        let (given, expected) =
            (ask(&server, other, &json!(texts)), ask(&server, usual, &json!(texts)));
        assert!(agrees(&given, &expected), "{other}: {given}\n{usual}: {expected}");
        let page = Page::read(server.http());
        let runs = page.of(other, "muster_pipeline_rows_per_run_count");
        let rows = page.of(other, "muster_pipeline_rows_per_run_sum");
        assert!(runs < rows, "{other}: {rows} rows in {runs} runs");
    }
    // A client that sends tensors needs no switch, either.
    let metadata = server.get("/v2/models/merged").expect(200).text();
    assert!(!metadata.contains("use_cache_branch"), "{metadata}");
}

#[test]
fn the_variable_of_hugging_faces_container_says_what_a_folder_is_for() {
    let repository = repository(&["features", "sst2"]);
    let start = |task| {
        Start::new(&repository).variable("HF_TASK", task).flags(&["--exit-on-error=false"]).run()
    };
    let server = start("feature-extraction");
    let vectors = ask(&server, "features", &json!("so happy"));
    assert!(vectors[0][0][0].is_number(), "a vector for each token: {vectors}");
    // The graph of a classifier has no such output, and of the other folder the task is another one.
    let reason = |server: &Server, model: &str| {
        let index = server.post("/v2/repository/index", "").expect(200).json();
        let models = index.as_array().unwrap();
        models.iter().find(|it| it["name"] == model).unwrap()["reason"].as_str().unwrap().to_owned()
    };
    let refused = reason(&server, "sst2");
    assert!(refused.contains("no such output; HF_TASK asks for feature-extraction"), "{refused}");
    let refused = reason(&start("sentiment-analysis"), "features");
    let words = "BertModel is for sentence-embedding, and HF_TASK asks for sentiment-analysis";
    assert!(refused.contains(words), "{refused}");
}

/// Names of the threads of this process.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|it| std::fs::read_to_string(it.path().join("comm")).ok());
    names.map(|it| it.trim().to_owned()).collect()
}

#[test]
fn the_texts_of_a_large_request_are_tokenized_on_several_threads_and_answered_in_order() {
    let repository = repository(&["st-6", "rerank", "sst2"]);
    let server = Server::start(&repository, &["--tokenization-workers=16"]);
    let words = ["so", "a", "happy", "film", "that", "sad", "night"];
    let text =
        |at: usize| (0..40).map(|it| words[(at * it + it) % 7]).collect::<Vec<_>>().join(" ");
    let texts: Vec<String> = (0..160).map(text).collect();
    let together = ask(&server, "st-6", &json!(texts));
    // As many threads only with as many pieces of work, and other servers of this process have fewer.
    assert!(threads().iter().any(|it| it == "prepare-7"), "{:?}", threads());
    for (at, text) in texts.iter().enumerate().step_by(9) {
        assert!(agrees(&together[at], &ask(&server, "st-6", &json!(text))), "{at}: {text}");
    }
    // A ranking is one input of many texts.
    let ranked =
        |texts: &[String]| ask(&server, "rerank", &json!({"query": "a film", "texts": texts}));
    let all = ranked(&texts);
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), texts.len());
    for it in all.iter().step_by(9) {
        let alone = ranked(&texts[it["index"].as_u64().unwrap() as usize..][..1]);
        assert!(agrees(&it["score"], &alone[0]["score"]), "{it} {alone}");
    }
    // Of two that are too long the first is named, by its place in the whole list.
    let mut texts = vec!["a happy film ".repeat(6); 160];
    texts[100] = "happy ".repeat(400);
    texts[150] = texts[100].clone();
    let refused = |model: &str, inputs: Value| {
        let headers = [("x-amzn-sagemaker-target-model", model)];
        let body = json!({"inputs": inputs, "parameters": {"truncation": false}}).to_string();
        Client::connect(server.sagemaker()).post("/invocations", &headers, body).error(400)
    };
    let problem = refused("sst2", json!(texts));
    assert!(problem.contains("text 101"), "{problem}");
    let problem = refused("rerank", json!({"query": "a film", "texts": texts}));
    assert!(problem.contains("text 101"), "{problem}");
}
