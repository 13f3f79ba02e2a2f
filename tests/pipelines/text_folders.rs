//! Folders of text models whose graphs or surroundings are unusual.

use std::fs;

use serde_json::{Value, json};

use crate::support::{
    Client, Page, Process, Repository, Server, Start,
    pipelines::{agrees, copy, repository},
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

/// A fixture under another name, with these files instead of its own; `None` takes one away.
fn variant(
    to: Repository,
    name: &str,
    fixture: &str,
    files: &[(&str, Option<&str>)],
) -> Repository {
    let from = repository(&[fixture]);
    let to = copy(to, name, &from.path().join(fixture));
    files.iter().fold(to, |to, (file, text)| match text {
        Some(text) => to.file(&format!("{name}/{file}"), text),
        None => {
            fs::remove_file(to.path().join(name).join(file)).unwrap();
            to
        }
    })
}

/// The models of texts, images and sounds, with their tasks.
fn first_tasks(server: &Server) -> Vec<(String, Vec<String>)> {
    let list = server.get("/v1/models").expect(200).json()["data"].clone();
    let tasks = |it: &Value| {
        let tasks = it["tasks"].as_array().unwrap().iter();
        tasks.map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let models = list.as_array().unwrap().iter();
    models.map(|it| (it["id"].as_str().unwrap().to_owned(), tasks(it))).collect()
}

#[test]
fn the_task_is_told_from_the_folder() {
    let expected: [(&str, &str, &[&str]); 17] = [
        ("st-6", "sentence-embedding", &["feature-extraction", "sentence-similarity"]),
        ("features", "sentence-embedding", &["feature-extraction", "sentence-similarity"]),
        ("splade-max", "sparse-embedding", &[]),
        ("rerank", "rerank", &["text-classification"]),
        ("zero-shot", "zero-shot-classification", &["text-classification"]),
        ("sst2", "text-classification", &[]),
        ("ner", "token-classification", &[]),
        ("question-answering", "question-answering", &[]),
        ("fill-mask", "fill-mask", &[]),
        ("vit", "image-classification", &[]),
        ("detr", "object-detection", &[]),
        ("dinov2", "image-feature-extraction", &[]),
        ("clip", "zero-shot-image-classification", &[]),
        ("speech", "automatic-speech-recognition", &[]),
        ("audio-classification", "audio-classification", &[]),
        // What is there by another name.
        ("masks-for-vectors", "sparse-embedding", &[]),
        ("classes-by-their-alias", "text-classification", &[]),
    ];
    let fixtures: Vec<&str> = expected[..15].iter().map(|it| it.0).collect();
    let repository = repository(&fixtures);
    let splade = [("muster.json", Some(r#"{"pooling": "splade"}"#))];
    let repository = variant(repository, "masks-for-vectors", "fill-mask", &splade);
    let alias = [("muster.json", Some(r#"{"task": "sentiment-analysis"}"#))];
    let repository = variant(repository, "classes-by-their-alias", "sst2", &alias);
    let server = Server::start(&repository, &[]);
    let found = first_tasks(&server);
    for (model, first, others) in expected {
        let (_, tasks) = found.iter().find(|it| it.0 == model).unwrap();
        assert_eq!(tasks[0], first, "{model}");
        assert!(others.iter().all(|it| tasks.iter().any(|task| task == it)), "{model}: {tasks:?}");
    }
    // The route of a request goes before what the folder is for.
    let asked = |model: &str, path: &str, body: &Value| {
        server.post(&format!("/v2/models/{model}{path}"), body.to_string()).expect(200).json()
    };
    let classes = asked("zero-shot", "/predict", &json!({"inputs": "so happy"}));
    assert!(classes[0]["label"].is_string(), "{classes}");
    let labels = json!({"inputs": "so", "parameters": {"candidate_labels": "a,b"}});
    assert_eq!(asked("zero-shot", "/pipeline", &labels).as_array().unwrap().len(), 2);
    let vectors = asked("st-6", "/pipeline/feature-extraction", &json!({"inputs": "so"}));
    assert!(vectors[0].is_array(), "{vectors}");
}

#[test]
fn a_folder_of_another_kind_is_served_as_tensors_and_the_log_says_why() {
    let config = |architecture: &str| format!(r#"{{"architectures": ["{architecture}"]}}"#);
    let others = [
        ("unknown", "FooForBar", "FooForBar is no architecture with a pipeline"),
        ("writer", "LlamaForCausalLM", "LlamaForCausalLM: it generates text"),
        ("translator", "T5ForConditionalGeneration", "T5ForConditionalGeneration: it generates"),
    ];
    let repository = others.iter().fold(Repository::new(), |to, (name, architecture, _)| {
        variant(to, name, "sst2", &[("config.json", Some(&config(architecture)))])
    });
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    let log = server.log();
    for (name, _, reason) in others {
        let line = log.iter().find(|it| it.contains(reason));
        assert!(line.is_some_and(|it| it.contains(name)), "{name}: {log:#?}");
        let metadata = server.client().get(&format!("/v2/models/{name}")).expect(200).json();
        assert_eq!(metadata["inputs"][0]["name"], "input_ids");
    }
}

/// A fixture, its files that are wrong, and what is said of the folder.
type Wrong<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)], &'a str);

const NO_TOKENIZER: &str = "it once: AutoTokenizer.from_pretrained(d).save_pretrained(d)";
const DENSE: &str =
    r#"{"in_features": 32, "out_features": 12, "bias": true, "activation_function": "#;

#[test]
fn each_file_that_is_missing_or_wrong_is_named_with_its_key() {
    let classifier =
        |more: &str| format!(r#"{{"architectures": ["BertForSequenceClassification"], {more}}}"#);
    let labels = classifier(r#""id2label": {"0": "a", "1": "b", "2": "c"}"#);
    let activation = classifier(
        r#""id2label": {"0": "a"}, "sentence_transformers": {"activation_fn": "torch.nn.Mish"}"#,
    );
    let mish = format!(r#"{DENSE}"torch.nn.modules.activation.Mish"}}"#);
    let wide = format!(r#"{DENSE}"torch.nn.modules.activation.Tanh"}}"#).replace("12", "16");
    let wrong: &[Wrong<'_>] = &[
        ("sst2", &[("model.onnx", Some("x"))], "model.onnx"),
        ("sst2", &[("config.json", Some("{"))], "config.json: it is no JSON: "),
        (
            "sst2",
            &[("config.json", Some(r#"{"architectures": "Bert"}"#))],
            "config.json: architectures: it is \"Bert\", not a list of texts",
        ),
        (
            "sst2",
            &[("config.json", Some(&labels))],
            "config.json: id2label: 3 labels, and the graph has 2; name every class of the graph",
        ),
        (
            "sst2",
            &[("config.json", Some(&classifier(r#""max_position_embeddings": "many""#)))],
            "config.json: max_position_embeddings: it is \"many\", not a whole number from 0 on",
        ),
        (
            "sst2",
            &[("config.json", Some(r#"{"architectures": ["BertForQuestionAnswering"]}"#))],
            "model.onnx: start_logits: the graph has no such output",
        ),
        (
            "rerank",
            &[("config.json", Some(&activation))],
            "config.json: sentence_transformers.activation_fn: 'torch.nn.Mish' is none of Sigmoid, ",
        ),
        ("sst2", &[("tokenizer.json", None)], "tokenizer.json: it is missing; "),
        (
            "sst2",
            &[("tokenizer.json", None), ("vocab.txt", Some("a"))],
            "tokenizer.json: it is missing, and vocab.txt alone is not enough; ",
        ),
        (
            "sst2",
            &[("tokenizer.json", None), ("vocab.json", Some("{}")), ("merges.txt", Some(""))],
            "tokenizer.json: it is missing, and vocab.json alone is not enough; ",
        ),
        (
            "sst2",
            &[("tokenizer.json", None), ("spiece.model", Some("a"))],
            "tokenizer.json: it is missing, and spiece.model alone is not enough; ",
        ),
        ("sst2", &[("tokenizer.json", Some("{"))], "tokenizer.json: it is no JSON: "),
        ("sst2", &[("tokenizer.json", Some("{}"))], "tokenizer.json: it is no tokenizer: "),
        (
            "sst2",
            &[("tokenizer_config.json", Some("[]"))],
            "tokenizer_config.json: it is no JSON object",
        ),
        (
            "sst2",
            &[("tokenizer_config.json", Some(r#"{"padding_side": "top"}"#))],
            "tokenizer_config.json: padding_side: 'top' is neither left nor right",
        ),
        (
            "sst2",
            &[("tokenizer_config.json", Some(r#"{"model_max_length": "long"}"#))],
            "tokenizer_config.json: model_max_length: it is \"long\", not a number",
        ),
        (
            "sst2",
            &[("special_tokens_map.json", Some(r#"{"mask_token": 7}"#))],
            "special_tokens_map.json: mask_token: it is neither a text nor an object with 'content'",
        ),
        (
            "sst2",
            &[("muster.json", Some(r#"{"poling": "cls"}"#))],
            "muster.json: poling: no such key; the nearest is 'pooling'",
        ),
        (
            "sst2",
            &[("muster.json", Some(r#"{"task": "text-clasification"}"#))],
            "muster.json: task: there is no task 'text-clasification'; the nearest is \
             'text-classification'",
        ),
        (
            "st-6",
            &[("muster.json", Some(r#"{"pooling": "cls+meen"}"#))],
            "muster.json: pooling: 'meen' is none of cls, max, mean, ",
        ),
        (
            "sst2",
            &[("muster.json", Some(r#"{"graph": "int8"}"#))],
            "onnx/model_int8.onnx: the graph 'int8' is not there; there are model.onnx",
        ),
        (
            "sst2",
            &[("muster.json", Some(r#"{"labels": ["a"]}"#))],
            "muster.json: labels: 1 labels, and the graph has 2; name every class of the graph",
        ),
        (
            "sst2",
            &[("muster.json", Some(r#"{"max_batch_tokens": "many"}"#))],
            "muster.json: max_batch_tokens: it is \"many\", not a whole number from 0 on",
        ),
        ("st-6", &[("modules.json", Some("{}"))], "modules.json: it is no list of modules"),
        (
            "st-6",
            &[("modules.json", Some(r#"[{"path": "", "type": "a.b.LSTM"}]"#))],
            "modules.json: 0.type: 'LSTM' is none of Transformer, Pooling, ",
        ),
        ("st-6", &[("1_Pooling/config.json", None)], "1_Pooling/config.json: it is missing"),
        (
            "st-6",
            &[("1_Pooling/config.json", Some(r#"{"pooling_mode": "meen"}"#))],
            "1_Pooling/config.json: pooling_mode: \"meen\" is none of cls, max, mean, ",
        ),
        (
            "st-6",
            &[("sentence_bert_config.json", Some(r#"{"max_seq_length": "long"}"#))],
            "sentence_bert_config.json: max_seq_length: it is \"long\", not a whole number ",
        ),
        (
            "st-6",
            &[("config_sentence_transformers.json", Some(r#"{"prompts": 1}"#))],
            "config_sentence_transformers.json: prompts: it is 1, not an object of texts",
        ),
        (
            "st-6",
            &[("config_sentence_transformers.json", Some(r#"{"default_prompt_name": "x"}"#))],
            "config_sentence_transformers.json: default_prompt_name: no prompt 'x'",
        ),
        (
            "st-6",
            &[("config_sentence_transformers.json", Some(r#"{"similarity_fn_name": "x"}"#))],
            "config_sentence_transformers.json: similarity_fn_name: 'x' is none of cosine, dot, ",
        ),
        ("dense", &[("2_Dense/config.json", None)], "2_Dense/config.json: it is missing"),
        (
            "dense",
            &[("2_Dense/config.json", Some(r#"{"in_features": 32}"#))],
            "2_Dense/config.json: out_features: it is missing",
        ),
        (
            "dense",
            &[("2_Dense/config.json", Some(&mish))],
            "2_Dense/config.json: activation_function: 'torch.nn.modules.activation.Mish' is none ",
        ),
        (
            "dense",
            &[("2_Dense/config.json", Some(&wide))],
            "2_Dense/model.safetensors: linear.bias: its shape is [12], config.json says [16]",
        ),
        (
            "dense",
            &[("2_Dense/model.safetensors", None)],
            "2_Dense/model.safetensors: it is missing; convert it once: SentenceTransformer(d)",
        ),
        (
            "dense",
            &[("2_Dense/model.safetensors", None), ("2_Dense/pytorch_model.bin", Some("x"))],
            "2_Dense/pytorch_model.bin: it is a pickle, which could run any code; convert it once: ",
        ),
        (
            "dense",
            &[("2_Dense/model.safetensors", Some("x"))],
            "2_Dense/model.safetensors: it is no safetensors: ",
        ),
        (
            "splade-max",
            &[("1_SpladePooling/config.json", Some(r#"{"pooling_strategy": "mean"}"#))],
            "1_SpladePooling/config.json: pooling_strategy: 'mean' is neither max nor sum",
        ),
        (
            "splade-max",
            &[("1_SpladePooling/config.json", None)],
            "1_SpladePooling/config.json: it is missing",
        ),
    ];
    // Beside one that serves, since a server on which nothing serves ends.
    let name = |at: usize| format!("model-{at}");
    let repository = wrong
        .iter()
        .enumerate()
        .fold(repository(&["multi-label"]), |to, (at, it)| variant(to, &name(at), it.0, it.1));
    let server = Server::start(&repository, &["--exit-on-error=false"]);
    let index = server.post("/v2/repository/index", "").expect(200).json();
    let models = index.as_array().unwrap();
    for (at, (fixture, files, expected)) in wrong.iter().enumerate() {
        let model = models.iter().find(|it| it["name"] == name(at).as_str()).unwrap();
        let reason = model["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(expected), "{fixture}, {files:?}: {model}");
        assert!(
            !expected.starts_with("tokenizer.json: it is missing") || reason.contains(NO_TOKENIZER),
            "{reason}"
        );
    }
}
