//! Clients that others wrote, in Python: `tests/clients/*.py`, each against a server of its own. They need
//! Python 3 with `venv`; the packages are installed once, into the target folder. Without Python there is
//! nothing to run: that is said aloud, and is a failure where `CI=true`.

use std::{path::Path, process::Command};

use crate::{
    recommend_api::{self, Recommender},
    support::{
        Repository, Server, multi_model,
        pipelines::{self, add_folders, fixtures, sentiment},
        post_head,
        python::{python, run},
        root,
        savedmodels::{FIXTURES, instead_of_tfs},
        wait_queued,
    },
};

/// The file of `tests/clients` that lists the packages of a script.
fn packages(script: &str) -> &'static str {
    match script {
        "aws_boto3.py" | "aws_cli.py" | "pipelines_boto3.py" | "recommender_boto3.py" => {
            "requirements-aws.txt"
        }
        "recommender_sdk.py" => "requirements-sagemaker.txt",
        "locust_load.py" => "requirements-locust.txt",
        "kserve_client.py" => "requirements-kserve.txt",
        "mlserver_client.py" => "requirements-mlserver.txt",
        "pipelines_cohere.py" => "requirements-cohere.txt",
        "pipelines_haystack.py" | "pipelines_hub.py" | "pipelines_llama_index.py" => {
            "requirements-frameworks.txt"
        }
        "perf_analyzer.py" => "requirements-perf.txt",
        "tfs_client.py" | "tfs_savedmodel.py" => "requirements-tfs.txt",
        "websocket_client.py" => "requirements-websocket.txt",
        "pipelines_langchain.py" => "requirements-langchain.txt",
        _ if script.starts_with("pipelines_") => "requirements-pipelines.txt",
        _ => "requirements.txt",
    }
}

/// Runs a script with these arguments against a server; fails with what it says.
fn check(script: &str, arguments: impl FnOnce(&Server) -> Vec<String>) {
    check_with(script, &[], arguments);
}

/// The same with further flags of the server.
fn check_with(script: &str, flags: &[&str], arguments: impl FnOnce(&Server) -> Vec<String>) {
    let flags = [&["--sagemaker-default-model=fraud"][..], flags].concat();
    check_on(&tensors(), &flags, script, arguments);
}

/// Models that take tensors.
fn tensors() -> Repository {
    Repository::of(&["type_fp32", "type_string", "two_outputs"])
        .copy("digits", "model_repository/digits")
        .copy("fraud", "model_repository/fraud")
}

/// The same over these models, with no flags but these.
fn check_on(
    repository: &Repository,
    flags: &[&str],
    script: &str,
    arguments: impl FnOnce(&Server) -> Vec<String>,
) {
    check_against(|| Server::start(repository, flags), script, arguments);
}

/// The same against that server, which is started only where there is Python.
fn check_against(
    start: impl FnOnce() -> Server,
    script: &str,
    arguments: impl FnOnce(&Server) -> Vec<String>,
) {
    let Some(python) = python(packages(script)) else { return };
    let server = start();
    check_script(&python, script, &arguments(&server));
}

/// Runs a script with these arguments; fails with what it says.
fn check_script(python: &Path, script: &str, arguments: &[String]) {
    let path = root(&format!("tests/clients/{script}"));
    let outcome = run(Command::new(python).arg(path).args(arguments));
    let said = outcome.unwrap_or_else(|said| panic!("{script} failed:\n{said}"));
    assert!(!said.is_empty(), "{script} said nothing: did it check anything?");
}

/// Runs a script against a server with these text models, each of which takes 16 texts at once.
fn check_texts(script: &str, models: &[&str]) {
    let start = || Server::start(&pipelines::repository(models), &["--max-client-batch-size=16"]);
    check_against(start, script, |server| vec![format!("http://{}", server.http())]);
}

#[test]
fn the_openai_client_embeds() {
    check_texts("pipelines_openai.py", &["st-6", "pool-cls", "sst2"]);
}

#[test]
fn the_openai_client_raises_what_it_documents_for_a_wrong_token_and_a_full_queue() {
    const SCRIPT: &str = "pipelines_openai_refusals.py";
    let Some(python) = python(packages(SCRIPT)) else { return };
    let token = "a-token-of-one-client";
    let repository =
        pipelines::repository(&["st-6"]).file("tokens", format!("inference {token}\n"));
    let flag = format!("--auth-tokens-file={}", repository.at("tokens"));
    let guarded = Server::start(&repository, &[&flag]);
    // One text waits for others, and the queue takes no second one.
    let full = Server::start(&repository, &["--scheduler-hold=9", "--default-max-queue-size=1"]);
    let (mut waiting, body) = (full.client(), r#"{"inputs": ["a"]}"#);
    waiting.send(post_head("/v2/models/st-6/embed", &[], body.len()) + body).unwrap();
    wait_queued(full.http(), "st-6", 1);
    let [guarded, full] = [&guarded, &full].map(|it| format!("http://{}", it.http()));
    check_script(&python, SCRIPT, &[guarded, token.to_owned(), full]);
}

#[test]
fn langchain_embeds() {
    check_texts("pipelines_langchain.py", &["st-6", "pool-cls"]);
}

#[test]
fn examples_of_text_embeddings_inference_have_their_shapes() {
    check_texts("pipelines_tei_examples.py", &["st-6", "sst2", "splade-max"]);
}

#[test]
fn tritonclient_finds_what_it_expects() {
    check("triton.py", |server| vec![server.http().to_string()]);
}

#[test]
fn tritonclient_finds_the_same_over_grpc() {
    check("triton_grpc.py", |server| {
        vec![server.address("grpc").unwrap().to_string(), server.http().to_string()]
    });
}

#[test]
fn tritonclient_loads_and_unloads_models_and_no_request_fails() {
    check_with("triton_control.py", &["--model-control-mode=explicit"], |server| {
        let file = root("model_repository/digits/1/model.onnx").display().to_string();
        vec![server.http().to_string(), "--model-file".to_owned(), file]
    });
}

#[test]
fn tritonclient_shares_memory_and_reads_statistics_and_settings() {
    let flags = ["--allow-client-shm=true"];
    check_with("triton_extensions.py", &flags, |server| {
        vec![server.http().to_string(), server.address("grpc").unwrap().to_string()]
    });
}

#[test]
fn tritonclient_sends_sequences_over_http_and_grpc() {
    let sequences = |controls: &str, state: &str| {
        format!("max_batch_size: 4 sequence_batching {{ {controls} {state} }}")
    };
    let controls = r#"control_input [
        { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
        { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } },
        { name: "END" control { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } },
        { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } ]"#;
    let sum = r#"state { input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: [ 1 ] }"#;
    let text = r#"control_input
        { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }"#;
    let repository = Repository::new()
        .copy("sum", "tests/fixtures/batching/accumulate")
        .file("sum/config.pbtxt", sequences(controls, sum))
        .copy("text", "tests/fixtures/batching/text_id")
        .file("text/config.pbtxt", sequences(text, ""));
    check_on(&repository, &[], "triton_sequences.py", |server| {
        vec![server.http().to_string(), server.address("grpc").unwrap().to_string()]
    });
}

#[test]
fn stubs_of_tensorflow_serving_and_its_rest_clients_find_what_they_expect() {
    let types = [
        "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "fp16",
        "bf16", "fp32", "fp64", "string",
    ];
    let names = types.map(|it| format!("type_{it}"));
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["two_outputs"]).collect();
    let repository = Repository::of(&names)
        .copy("digits", "model_repository/digits")
        .copy("fraud", "model_repository/fraud");
    check_on(&repository, &["--tfs-grpc-port=0"], "tfs_client.py", |server| {
        let address = server.address("tfs-grpc").unwrap().to_string();
        vec![address, server.http().to_string(), root("server/proto").display().to_string()]
    });
}

#[test]
fn stubs_of_tensorflow_serving_and_programs_of_its_tutorials_find_what_they_expect_of_saved_models()
{
    let script = "tfs_savedmodel.py";
    let Some(python) = python(packages(script)) else { return };
    let model = |name: &str| {
        let base = root(&format!("{FIXTURES}/{name}"));
        let labels = match name {
            "half_plus_two" => "version_labels { key: 'stable' value: 1 }",
            _ => "",
        };
        format!(
            "config {{ name: '{name}' base_path: '{}' model_platform: 'tensorflow' {labels} }}",
            base.display()
        )
    };
    let models = ["half_plus_two", "examples", "signatures", "keras", "picture"].map(model);
    let text = format!("model_config_list {{ {} }}", models.join("\n"));
    let repository = Repository::new().file("models.config", text);
    let file = format!("--model_config_file={}", repository.at("models.config"));
    let Some(mut process) = instead_of_tfs(&[&*file]) else { return };
    let addresses = ["tfs-grpc", "http"].map(|it| process.address(it).to_string());
    let folders = ["server/proto", FIXTURES].map(|it| root(it).display().to_string());
    check_script(&python, script, &[addresses, folders].concat());
}

#[test]
fn requests_sends_csv_and_numpy_arrays_as_users_of_sagemaker_do() {
    check("invocations.py", |server| vec![format!("http://{}", server.sagemaker())]);
}

/// Runs a script against a server over these models that stands in for SageMaker's runtime: URL, spool.
fn check_runtime(script: &str, repository: &Repository, default: &str) {
    let spool = Repository::new();
    let flags = [
        "--aws-facade",
        &format!("--async-spool={}", spool.at("")),
        &format!("--sagemaker-default-model={default}"),
    ];
    check_on(repository, &flags, script, |server| {
        vec![format!("http://{}", server.sagemaker()), spool.at("")]
    });
}

#[test]
fn boto3_invokes_endpoints_streams_replies_and_reads_results_from_a_spool() {
    check_runtime("aws_boto3.py", &tensors(), "fraud");
}

#[test]
fn the_command_line_of_aws_invokes_endpoints() {
    check_runtime("aws_cli.py", &tensors(), "fraud");
}

#[test]
fn boto3_and_the_command_line_of_aws_send_texts_images_and_sounds() {
    let models = ["sst2", "st-6", "ner", "question-answering", "zero-shot", "vit", "speech"];
    check_runtime("pipelines_boto3.py", &pipelines::repository(&models), "sst2");
}

#[test]
fn locust_puts_load_on_an_endpoint_and_no_request_fails() {
    check_with("locust_load.py", &["--aws-facade"], |server| {
        let payload = r#"{"instances": [[1, 2, 3]]}"#;
        [&format!("http://{}", server.sagemaker()), "type_fp32", payload].map(str::to_owned).into()
    });
}

#[test]
fn locust_sends_texts_and_no_request_fails() {
    let texts = fixtures().join("corpus.txt").display().to_string();
    let repository = pipelines::repository(&["sst2"]);
    check_on(&repository, &["--aws-facade"], "locust_load.py", |server| {
        let url = format!("http://{}", server.sagemaker());
        vec!["--hf".to_owned(), url, "sst2".to_owned(), texts]
    });
}

#[test]
fn locust_sends_pictures_and_no_request_fails() {
    let of_golden = ["444-q75.jpg", "420-progressive.jpg", "grey.jpg", "RGB.bmp", "lossless.webp"];
    let golden = root("backends/image/tests/golden/files");
    let pictures = of_golden.map(|it| golden.join(it).display().to_string());
    let repository = pipelines::repository(&["vit"]);
    check_on(&repository, &["--aws-facade"], "locust_load.py", |server| {
        let url = format!("http://{}", server.sagemaker());
        let arguments = ["--files".to_owned(), url, "vit".to_owned()];
        arguments.into_iter().chain(pictures).collect()
    });
}

#[test]
fn requests_loads_and_unloads_models_under_traffic_as_sagemaker_does() {
    let fraud = "model_repository/fraud";
    let models = Repository::new()
        .copy("a/model", fraud)
        .copy("b/model/fraud", fraud)
        .copy("c/model/model.onnx", "model_repository/fraud/1/model.onnx")
        .file("broken/model/model.onnx", "no model");
    check_against(
        || multi_model::start(&models, &[]),
        "multi_model.py",
        |server| vec![format!("http://{}", server.sagemaker()), models.at("")],
    );
}

#[test]
fn requests_numpy_and_tritonclient_send_every_body_to_invocations() {
    let port = |name: &str, dtype: &str| format!("name: \"{name}\" data_type: {dtype} dims: [ 1 ]");
    let (a, b) = (port("a", "TYPE_FP32"), port("b", "TYPE_STRING"));
    let pair = format!(
        "backend: \"identity\" max_batch_size: 8 input [ {{ {a} }}, {{ {b} }} ] output [ {{ {a} }}, {{ {b} }} ]"
    );
    let (input, output) = (port("INPUT0", "TYPE_STRING"), port("OUTPUT0", "TYPE_STRING"));
    let text = format!(
        "backend: \"identity\" max_batch_size: 8 input {{ {input} }} output {{ {output} }}"
    );
    let repository = Repository::identity("copy", &[]).model("text", &text).model("pair", &pair);
    check_on(&repository, &["--sagemaker-default-model=copy"], "invocation_bodies.py", |server| {
        vec![format!("http://{}", server.sagemaker())]
    });
}

#[test]
fn websockets_has_conversations_with_a_model() {
    let repository = Repository::identity("m", &[]).file(
        "m/config.pbtxt",
        "backend: \"identity\" max_batch_size: 100000
         input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
         output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }",
    );
    check_on(&repository, &["--http-max-input-size=1MiB"], "websocket_client.py", |server| {
        vec![server.sagemaker().to_string(), (1 << 20).to_string()]
    });
}

#[test]
fn the_prometheus_parser_takes_the_metrics_page() {
    check("metrics.py", |server| {
        // Some traffic first, so that there is something to count.
        server.post("/v1/models/fraud:predict", "{}").error(400);
        vec![format!("http://{}/metrics", server.address("metrics").unwrap())]
    });
}

#[test]
fn the_prometheus_parser_takes_the_page_of_tensorflow_serving() {
    check_with("metrics.py", &["--tfs-metrics=true"], |server| {
        server.post("/v1/models/fraud:predict", "{}").error(400);
        let page = format!("http://{}/monitoring/prometheus/metrics", server.http());
        let families =
            ["request_count", "request_latency_bucket", "batching_session:input_batch_size_bucket"];
        let families = families.map(|it| format!(":tensorflow:serving:{it}"));
        [vec![page], families.into()].concat()
    });
}

#[test]
fn tritonclient_sends_texts_and_reads_what_is_counted_of_steps() {
    let folders = ["st-6", "rerank", "ner", "vit", "detr", "speech", "audio-classification"];
    let repository = add_folders(sentiment("graph/tokenizer.json"), &folders);
    check_on(&repository, &[], "pipelines_triton.py", both_protocols);
}

/// `host:port` of the HTTP and the gRPC port.
fn both_protocols(server: &Server) -> Vec<String> {
    let grpc = server.address("grpc").expect("the gRPC port is on");
    vec![server.http().to_string(), grpc.to_string()]
}

#[test]
fn the_clients_of_kserve_find_what_they_expect() {
    check("kserve_client.py", both_protocols);
}

#[test]
fn the_codecs_and_the_command_of_mlserver_find_what_they_expect() {
    check("mlserver_client.py", both_protocols);
}

#[test]
fn perf_analyzer_measures_over_both_protocols_without_an_error() {
    check("perf_analyzer.py", |server| {
        let metrics = format!("http://{}/metrics", server.address("metrics").unwrap());
        [both_protocols(server), vec![metrics]].concat()
    });
}

#[test]
fn huggingface_hub_finds_every_task() {
    let texts = ["sst2", "ner", "question-answering", "fill-mask", "zero-shot", "st-6", "rerank"];
    let files = ["vit", "clip", "detr", "speech", "audio-classification"];
    check_texts("pipelines_hub.py", &[&texts[..], &files].concat());
}

#[test]
fn cohere_and_litellm_find_what_they_expect() {
    check_texts("pipelines_cohere.py", &["rerank", "st-6", "sst2"]);
}

#[test]
fn llama_index_finds_what_it_expects() {
    check_texts("pipelines_llama_index.py", &["rerank", "st-6"]);
}

#[test]
fn haystack_finds_what_it_expects() {
    check_texts("pipelines_haystack.py", &["rerank", "st-6"]);
}

/// Runs a script against a recommender, with the model and the bodies of `recommend_api`.
fn check_recommender(start: fn(&Repository) -> Recommender, script: &str) {
    let Some(python) = python(packages(script)) else { return };
    let repository = recommend_api::sleeper();
    let recommender = start(&repository);
    let path = root(&format!("tests/clients/{script}"));
    let url = format!("http://{}", recommender.address());
    let mut command = Command::new(python);
    command.arg(path).args([url, repository.at("models"), repository.at("bodies")]);
    let said = run(&mut command).unwrap_or_else(|said| panic!("{script} failed:\n{said}"));
    assert!(!said.is_empty(), "{script} said nothing: did it check anything?");
}

#[test]
fn boto3_makes_jobs_lists_them_waits_for_them_and_stops_them() {
    check_recommender(Recommender::start, "recommender_boto3.py");
}

#[test]
fn boto3_does_the_same_with_a_server_that_has_the_facade() {
    check_recommender(Recommender::behind_a_server, "recommender_boto3.py");
}

#[test]
#[ignore = "installs the SageMaker SDK, and waits for its polls of a minute"]
fn right_size_of_the_sagemaker_sdk_finds_the_best_setting() {
    check_recommender(Recommender::start, "recommender_sdk.py");
}

#[test]
#[ignore = "installs the SageMaker SDK, and waits for its polls of a minute"]
fn right_size_of_the_sagemaker_sdk_finds_it_with_a_server_that_has_the_facade() {
    check_recommender(Recommender::behind_a_server, "recommender_sdk.py");
}
