//! Facts about the command line and the variables of Text Embeddings Inference.

use super::*;

use sources::Secret;

const PATHS: &[&str] = &["/data/x/", "/data/y/", "model_repository/"];

fn started(args: &str, variables: &[&str]) -> ServerConfig {
    config_at(PATHS, args, variables)
}

#[track_caller]
fn refused(args: &str, parts: &[&str]) {
    let error = read_at(PATHS, args, &[]).expect_err("it must not be taken");
    let problems = error.problems();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    for part in parts {
        assert!(problems[0].contains(part), "no '{part}' in: {}", problems[0]);
    }
}

#[test]
fn its_command_line_works_behind_its_name_and_by_itself() {
    for command in ["text-embeddings-router ", "/usr/local/bin/text-embeddings-router ", ""] {
        let args = format!(
            "{command}--model-id /data/x --port 8080 --pooling last-token --max-client-batch-size=64 \
             --auto-truncate --max-batch-tokens 1000 --max-concurrent-requests 7 --payload-limit 5000 \
             --served-model-name mine --json-output --tokenization-workers 3"
        );
        let config = started(&args, &[]);
        assert_eq!(config.repository.from, ModelsFrom::Path("/data/x".into()));
        assert_eq!((ports(&config), config.listeners.grpc), ([8080, 0, 9000], None));
        let pipelines = &config.repository.pipelines;
        assert_eq!(pipelines.pooling.as_deref(), Some("last-token"));
        assert_eq!(pipelines.max_client_batch_size.get(), 64);
        assert_eq!(pipelines.max_batch_tokens.map(|it| it.get()), Some(1000));
        assert_eq!(pipelines.prepare_threads.map(|it| it.get()), Some(3));
        assert_eq!(config.model_defaults.max_queue_size.map(|it| it.get()), Some(7));
        assert_eq!((config.limits.body_bytes, config.log.format), (5000, LogFormat::Json));
        assert_eq!(config.texts.served_model_name.as_deref(), Some("mine"));
        assert!(config.texts.truncates);
        assert_eq!(notices(&config), "");
    }
}

#[test]
fn what_is_not_said_is_as_there() {
    let config = started("text-embeddings-router --model-id=/data/x", &[]);
    assert_eq!(ports(&config), [3000, 0, 9000]);
    assert_eq!(config.repository.pipelines.max_client_batch_size.get(), 32);
    assert_eq!(config.limits.body_bytes, 2_000_000);
    assert!(config.metrics.tei_names && config.texts.tei_root);
    assert_eq!(config.texts.served_model_name.as_deref(), Some("/data/x"));
    let own = started("text-embeddings-router --model-id /data/x -p 81 --allow-metrics=false", &[]);
    assert_eq!(ports(&own), [81, 0, 0]);
    assert!(!started("--model-id /data/x --auto-truncate false", &[]).texts.truncates);
    // Without the name and the option nothing is as there.
    assert_eq!(ports(&started("", &["MODEL_ID=/data/x", "PORT=81"])), [8000, 8080, 8002]);
}

#[test]
fn its_variables_count_behind_its_options() {
    let variables = [
        "MODEL_ID=/data/x",
        "PORT=81",
        "HOSTNAME=0a1b2c3d4e5f",
        "POOLING=cls",
        "AUTO_TRUNCATE=false",
        "DEFAULT_PROMPT=query: ",
        "API_KEY=swordfish",
        "HF_TOKEN=hf_secret",
    ];
    let config = started("text-embeddings-router --pooling mean", &variables);
    assert_eq!(config.repository.from, ModelsFrom::Path("/data/x".into()));
    assert_eq!(config.listeners.http, socket("0.0.0.0:81"));
    assert_eq!(config.repository.pipelines.pooling.as_deref(), Some("mean"));
    assert_eq!(config.repository.pipelines.prompt.as_deref(), Some("query: "));
    assert!(!config.texts.truncates && config.access.has_tokens());
    let text = notices(&config);
    assert!(text.contains("applied from the environment: PORT: --http-port 81; "), "{text}");
    assert!(text.contains("API_KEY: --api-key "), "{text}");
    assert!(text.contains("HF_TOKEN: --hub-token "), "{text}");
    assert_eq!(config.sources.hub.token, Some(Secret::new("hf_secret".to_owned())));
    assert!(!text.contains("swordfish") && !text.contains("hf_secret"), "{text}");
    assert!(!text.contains("HOSTNAME") && !text.contains("POOLING"), "{text}");
    let other =
        started("text-embeddings-router --model-id /data/y --hostname 127.0.0.1", &variables);
    assert_eq!(other.repository.from, ModelsFrom::Path("/data/y".into()));
    assert_eq!(other.listeners.http, socket("127.0.0.1:81"));
}

#[test]
fn a_prompt_of_an_own_variable_keeps_its_last_blank_and_no_other_setting_does() {
    let variables = ["MUSTER_DEFAULT_PROMPT=query: ", "MUSTER_TASK= sentence-embedding "];
    let pipelines = started("", &variables).repository.pipelines;
    assert_eq!(pipelines.prompt.as_deref(), Some("query: "));
    assert_eq!(pipelines.task.as_deref(), Some("sentence-embedding"));
    assert_eq!(started("", &["MUSTER_DEFAULT_PROMPT= "]).repository.pipelines.prompt, None);
}

#[test]
fn a_task_of_embeddings_takes_the_variables_that_are_about_texts() {
    let variables = ["POOLING=cls", "MAX_CLIENT_BATCH_SIZE=9", "PORT=81"];
    let config = started("--task sentence-embedding", &variables);
    assert_eq!(config.repository.pipelines.pooling.as_deref(), Some("cls"));
    assert_eq!(config.repository.pipelines.max_client_batch_size.get(), 9);
    assert_eq!(ports(&config)[0], 8000);
    for args in ["--task rerank", ""] {
        assert_eq!(started(args, &variables).repository.pipelines.pooling, None);
    }
}

#[test]
fn options_without_effect_get_a_line_each_and_unknown_ones_their_nearest_name() {
    let base = "text-embeddings-router --model-id /data/x";
    let args = format!("{base} --dtype float16 --device-id 0");
    let text = notices(&started(&args, &[]));
    let expected = "Info: without effect (the graph has its types): --dtype\n";
    assert_eq!(text, expected);
    let near =
        ["unknown option --max-batch-token of text-embeddings-router", "--max-batch-tokens?"];
    refused(&format!("{base} --max-batch-token=5"), &near);
    refused(&format!("{base} --port"), &["option --port needs a value"]);
    refused(&format!("{base} --port x"), &["--port=x (command line), for --http-port: expected"]);
}

#[test]
fn a_model_of_the_hub_is_fetched_as_its_options_say() {
    let args = "--model-id BAAI/bge --revision v1 --hf-token hf_a --huggingface-hub-cache /data";
    let config = started(args, &[]);
    assert_eq!(config.wanted, Some(name("hf://BAAI/bge")));
    let hub = &config.sources.hub;
    assert_eq!((&*hub.revision, &hub.cache), ("v1", &Some("/data".into())));
    assert_eq!(hub.token, Some(Secret::new("hf_a".to_owned())));
    // Old models have no owner, and what is here goes before what is elsewhere.
    assert_eq!(started("--model-id gpt2", &[]).wanted, Some(name("hf://gpt2")));
    assert_eq!(started("--model-id /data/x", &[]).wanted, None);
    let problem = &problems("--model-id gpt2 --hf-token=hf+secret\u{7f}", &[])[0];
    assert!(
        problem.contains("--hf-token= (command line)") && !problem.contains("hf+"),
        "{problem}"
    );
}

#[test]
fn the_key_is_a_secret_and_goes_without_a_file_of_tokens() {
    check_refused("--api-key=a:b=c --auth-tokens-file=x", &[], &["expected one of them"]);
    let problem = &problems("", &["MUSTER_API_KEY=sword fish"])[0];
    assert!(problem.contains("MUSTER_API_KEY=''") && !problem.contains("fish"), "{problem}");
    assert!(config("--api-key=short", &[]).access.has_tokens());
}
