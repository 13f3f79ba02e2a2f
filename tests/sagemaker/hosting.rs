//! What a hosting platform starts, sets and asks: which models of its folder are loaded, what ends a start, what its
//! variables become, what it is told.

use std::{fs, process::Command, time::Duration};

use ::sagemaker::settings::Vendor;
use configuration::compat::sagemaker::VariableState;
use loading::settings::{HostedWay, ModelsFrom};
use muster::config::{ServerConfig, sagemaker_variables};
use sagemaker::codec::invocations::Dialect;

use crate::support::{
    Client, Finished, Process, Reply, Repository, Server, Start, ask, first_of, infer, row,
    wait_for, wait_queued,
};

const CSV: (&str, &str) = ("content-type", "text/csv");
const TARGET: &str = "X-Amzn-SageMaker-Target-Model";

/// `muster serve` as the platform starts it, with models in the folder `model`.
fn hosted(repository: &Repository) -> Start {
    Start::command(&["serve"])
        .variable("SAGEMAKER_MODEL_PATH", &repository.at("model"))
        .variable("SAGEMAKER_BIND_TO_PORT", "0")
}

/// The same as a process of its own.
pub fn hosted_process(repository: &Repository, variables: &[(&str, &str)]) -> Process {
    let path = repository.at("model");
    let platform = [("SAGEMAKER_MODEL_PATH", &*path), ("SAGEMAKER_BIND_TO_PORT", "0")];
    Process::command(&["serve"], &[&platform, variables].concat())
}

/// The server's end; it must not have come to serve.
#[track_caller]
fn refused(start: &Start) -> String {
    start.try_run().err().expect("it must not serve").to_string()
}

#[track_caller]
fn ended(process: Process, code: i32) -> Finished {
    let finished = process.wait();
    assert_eq!(finished.status.code(), Some(code), "{:#?}", finished.log);
    finished
}

fn get(server: &Server, path: &str) -> Reply {
    Client::connect(server.sagemaker()).get(path)
}

fn invoke(server: &Server, headers: &[(&str, &str)]) -> Reply {
    let headers = [&[CSV], headers].concat();
    Client::connect(server.sagemaker()).post("/invocations", &headers, "1,2,3,4\n")
}

/// The state of the model's configuration as clients see it.
fn config_of(server: &Server, model: &str) -> serde_json::Value {
    get(server, &format!("/v2/models/{model}/config")).expect(200).json()
}

/// Two models `a` and `b`, and `pair`, which is made of `b`.
fn three() -> Repository {
    let pair = "platform: \"ensemble\" max_batch_size: 8
        input { name: \"X\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"Y\" data_type: TYPE_FP32 dims: [ 4 ] }
        ensemble_scheduling { step { model_name: \"b\" model_version: -1
            input_map { key: \"INPUT0\" value: \"X\" } output_map { key: \"OUTPUT0\" value: \"Y\" } } }";
    Repository::new()
        .with_identity("model/a", &[])
        .with_identity("model/b", &[])
        .model("model/pair", pair)
}

#[test]
fn of_several_models_one_must_be_named() {
    let error = refused(&hosted(&three()));
    for part in ["a, b, pair", "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", "MUSTER_MODEL_CONTROL_MODE"] {
        assert!(error.contains(part), "{error}");
    }
    let default = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME";
    let error = refused(&hosted(&three()).variable(default, "c"));
    assert!(error.contains("'c'") && error.contains("a, b, pair"), "{error}");
}

#[test]
fn the_default_model_and_what_it_is_made_of_is_all_that_is_loaded() {
    let repository = three();
    let server = hosted(&repository).variable("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", "pair").run();
    get(&server, "/ping").expect(200);
    get(&server, "/v2/models/pair/ready").expect(200);
    get(&server, "/v2/models/b/ready").expect(200);
    get(&server, "/v2/models/a/ready").expect(404);
    invoke(&server, &[]).expect(200);
}

#[test]
fn with_a_variable_of_tensorflow_serving_all_are_loaded_and_the_first_answers() {
    let repository = three();
    let server = hosted(&repository).variable("SAGEMAKER_TFS_INSTANCE_COUNT", "1").run();
    for model in ["a", "b", "pair"] {
        get(&server, &format!("/v2/models/{model}/ready")).expect(200);
    }
    get(&server, "/ping").expect(200);
    invoke(&server, &[]).expect(200);
    let page = get(&server, "/metrics").expect(200).text();
    let counted =
        page.lines().find(|it| it.starts_with("nv_inference_request_success{model=\"a\""));
    assert!(counted.is_some_and(|it| it.ends_with(" 1")), "{counted:?}");
    let server = hosted(&repository).variable("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "b").run();
    invoke(&server, &[]).expect(200);
    let page = get(&server, "/metrics").expect(200).text();
    assert!(page.contains("nv_inference_request_success{model=\"b\",version=\"1\"} 1"), "{page}");
}

#[test]
fn with_a_variable_of_tensorflow_serving_every_version_answers() {
    let config = "backend: \"identity\"\nmax_batch_size: 8\n\
                  input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }\n\
                  output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }\n";
    let repository = Repository::new()
        .model("model/half", config)
        .file("model/half/2/empty", "")
        .file("model/half/3/empty", "");
    let ask = |server: &Server, version: u64| {
        let version = format!("tfs-model-version={version}");
        invoke(server, &[("x-amzn-sagemaker-custom-attributes", &version)])
    };
    let server = hosted(&repository).variable("SAGEMAKER_TFS_INSTANCE_COUNT", "1").run();
    for version in 1..=3 {
        ask(&server, version).expect(200);
    }
    ask(&server, 4).error(404);
    // The dialect says so, whatever tells it.
    let server = hosted(&repository).flags(&["--sagemaker-dialect=tfs"]).run();
    ask(&server, 1).expect(200);
    let server = hosted(&repository)
        .variable("SAGEMAKER_TFS_INSTANCE_COUNT", "1")
        .flags(&["--sagemaker-dialect=triton"])
        .run();
    ask(&server, 1).error(404);
    // What a configuration says holds.
    let latest = format!("{config}version_policy {{ latest {{ num_versions: 1 }} }}");
    let repository = repository.file("model/half/config.pbtxt", latest);
    let server = hosted(&repository).variable("SAGEMAKER_TFS_INSTANCE_COUNT", "1").run();
    ask(&server, 3).expect(200);
    ask(&server, 1).error(404);
}

#[test]
fn of_several_models_the_first_that_serves_answers() {
    let repository = Repository::new()
        .with_identity("model/a", &[("load_fault", "fail")])
        .with_identity("model/b", &[])
        .with_identity("model/c", &[("fault", "fail")]);
    let server = hosted(&repository)
        .variable("SAGEMAKER_TFS_INSTANCE_COUNT", "1")
        .flags(&["--strict-readiness=false", "--exit-on-error=false"])
        .run();
    get(&server, "/v2/models/a/ready").expect(503);
    get(&server, "/ping").expect(200);
    invoke(&server, &[]).expect(200);
}

#[test]
fn who_says_how_models_are_loaded_may_have_several_without_a_default() {
    let repository = three();
    let server = hosted(&repository).variable("MUSTER_MODEL_CONTROL_MODE", "none").run();
    get(&server, "/ping").expect(200);
    invoke(&server, &[(TARGET, "b")]).expect(200);
    assert!(invoke(&server, &[]).error(400).contains("a, b, pair"));
}

const ONE: &str = "tests/fixtures/models/scalar_one/1/model.onnx";

#[test]
fn a_model_without_a_directory_of_its_own_takes_the_name_of_the_default() {
    for path in ["model/model.onnx", "model/export/Servo/1/model.onnx"] {
        let repository = Repository::new().copy(path, ONE);
        let server =
            hosted(&repository).variable("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "price").run();
        get(&server, "/v2/models/price/ready").expect(200);
        get(&server, "/ping").expect(200);
    }
}

#[test]
fn versions_with_leading_zeros_are_found_where_no_configuration_is_beside_them() {
    let paths = [("net/0000123", "net"), ("0000123", "model"), ("export/Servo/0000123", "Servo")];
    for (path, name) in paths {
        let repository = Repository::new().copy(&format!("model/{path}/model.onnx"), ONE);
        let server = hosted(&repository).run();
        let metadata = get(&server, &format!("/v2/models/{name}")).expect(200).json();
        assert_eq!(metadata["versions"][0], "123", "{path}");
    }
}

#[cfg(feature = "pipelines")]
#[test]
fn a_folder_of_texts_is_the_model_flat_in_its_archive_or_one_level_below() {
    // As the platform unpacks `model.tar.gz`.
    let body = r#"{"inputs": "I am super happy right now."}"#;
    let answer = |place: &str| {
        let folder = crate::support::pipelines::fixtures().join("sst2/folder");
        let repository = crate::support::pipelines::copy(Repository::new(), place, &folder);
        let server = hosted(&repository).run();
        let json = [("content-type", "application/json")];
        Client::connect(server.http()).post("/invocations", &json, body).expect(200).json()
    };
    let flat = answer("model");
    assert!(flat[0]["label"].is_string(), "{flat}");
    assert_eq!(answer("model/sst2"), flat);
}

#[test]
fn torchscript_files_are_models_that_lie_flat_too() {
    // Whether or not there is a libtorch, it is looked for because of the file.
    for name in ["model.pt", "net.pth", "net.jit", "net.torchscript"] {
        let repository = Repository::new().file(&format!("model/{name}"), "no archive");
        let error = refused(&hosted(&repository));
        assert!(error.contains("model 'model'") && !error.contains("no models found"), "{error}");
    }
}

#[test]
fn repositories_in_further_channels_are_served_too() {
    let repository = Repository::new()
        .with_identity("model/a", &[])
        .with_identity("additional-model-data-sources/more/b", &[])
        .file("additional-model-data-sources/text/notes.txt", "");
    let server = hosted(&repository).variable("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", "b").run();
    get(&server, "/v2/models/b/ready").expect(200);
    invoke(&server, &[]).expect(200);
}

#[test]
fn a_configuration_in_the_root_is_served_where_that_is_asked_for() {
    let config = "name: \"fraud\" backend: \"identity\" max_batch_size: 8
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";
    let repository = Repository::new().file("model/config.pbtxt", config).file("model/1/empty", "");
    assert!(refused(&hosted(&repository)).contains("MUSTER_ROOT_MODEL"));
    let server = hosted(&repository).variable("MUSTER_ROOT_MODEL", "true").run();
    get(&server, "/v2/models/model/ready").expect(200);
    invoke(&server, &[]).expect(200);
}

#[test]
fn a_script_that_would_not_run_ends_the_start_unless_it_is_to_be_ignored() {
    let with_script = |text| {
        Repository::new().with_identity("model/net", &[]).file("model/code/inference.py", text)
    };
    let repository = with_script("import json\n");
    let finished = ended(hosted_process(&repository, &[]), 1);
    for part in ["model/code/inference.py", "is not run", "MUSTER_IGNORE_SCRIPTS=true"] {
        assert!(finished.last().contains(part), "{:#?}", finished.log);
    }
    let mut process = hosted_process(&repository, &[("MUSTER_IGNORE_SCRIPTS", "true")]);
    process.wait_ready();
    let warning = process.wait_for_line("is not run");
    assert!(warning.contains("model/code/inference.py"), "{warning}");
    drop(process);

    let repository = with_script("# nothing\n\n   # yet\n").file("model/code/own.py", "x = 1");
    let mut process = hosted_process(&repository, &[]);
    process.wait_ready();
    assert!(!process.log().iter().any(|it| it.contains("inference.py")), "{:#?}", process.log());
    drop(process);
    let submitted = [
        ("SAGEMAKER_PROGRAM", "own.py"),
        ("SAGEMAKER_SUBMIT_DIRECTORY", &*repository.at("model/code")),
    ];
    let finished = ended(hosted_process(&repository, &submitted), 1);
    assert!(finished.last().contains("code/own.py"), "{:#?}", finished.log);
}

#[test]
fn a_script_in_an_object_store_is_told_and_does_not_end_the_start() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let archive = "s3://bucket/job/source/sourcedir.tar.gz";
    let variables = [("SAGEMAKER_PROGRAM", "train.py"), ("SAGEMAKER_SUBMIT_DIRECTORY", archive)];
    let mut process = hosted_process(&repository, &variables);
    process.wait_ready();
    let warning = process.wait_for_line("not fetched and not run");
    assert!(warning.contains("train.py") && warning.contains(archive), "{warning}");
}

#[test]
fn a_model_of_a_hub_is_not_fetched_where_the_folder_has_files_and_the_last_line_says_so() {
    let repository = Repository::new().file("model/readme.txt", "");
    let finished = ended(hosted_process(&repository, &[("HF_MODEL_ID", "org/name")]), 1);
    let last = finished.last();
    assert!(last.contains("no models found") && last.contains("org/name"), "{last}");
    let repository = Repository::new().with_identity("model/net", &[]);
    let mut process = hosted_process(&repository, &[("HF_MODEL_ID", "org/name")]);
    process.wait_ready();
}

#[test]
fn loading_that_takes_too_long_ends_the_start_with_a_reason() {
    let repository =
        Repository::new().with_identity("model/slow", &[("creation_delay_sec", "600")]);
    for (variable, part) in [
        ("SAGEMAKER_STARTUP_TIMEOUT", "--startup-timeout, 1 s; still loading: slow"),
        (
            "SAGEMAKER_TFS_WAIT_TIME_SECONDS",
            "model 'slow' has taken longer than --model-load-timeout",
        ),
    ] {
        let finished = ended(hosted_process(&repository, &[(variable, "1")]), 1);
        assert!(finished.last().contains(part), "{variable}: {:#?}", finished.log);
    }
}

#[test]
fn sigterm_ends_the_process_well_before_it_even_has_a_log() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let pipe = repository.at("log");
    // Opening it for writing blocks until somebody reads.
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let process = hosted_process(&repository, &[("MUSTER_LOG_FILE", &pipe)]);
    let status = format!("/proc/{}/status", process.id());
    wait_for("signals to be heard", || {
        let text = fs::read_to_string(&status).ok()?;
        let caught = text.lines().find_map(|it| it.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        (caught >> 14 & 1 == 1).then_some(())
    });
    process.signal("TERM");
    ended(process, 0);
}

#[test]
fn a_request_waits_in_no_queue_for_longer_than_it_may() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let start = hosted(&repository).flags(&["--scheduler-hold=9", "--queue-timeout=0.2"]);
    let server = start.run();
    let reply = invoke(&server, &[]);
    assert!(reply.header("retry-after").is_some());
    assert!(reply.error(503).contains("200000 us"), "{}", reply.text());
}

#[test]
fn hosted_requests_may_wait_for_50_s_and_those_of_batch_jobs_for_ever() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let timeout = |start: Start| start.config().unwrap().model_defaults.queue_timeout;
    assert_eq!(timeout(hosted(&repository)), Some(Duration::from_secs(50)));
    assert_eq!(timeout(hosted(&repository).variable("SAGEMAKER_BATCH", "True")), None);
    assert_eq!(timeout(hosted(&repository).variable("MUSTER_QUEUE_TIMEOUT", "0")), None);
    assert_eq!(timeout(Start::new(&repository)), None);
}

#[test]
fn in_the_mode_live_the_ping_says_yes_while_models_load() {
    let repository = Repository::new().with_identity("model/net", &[("creation_delay_sec", "600")]);
    let mode = |name, value| hosted(&repository).variable(name, value).launch();
    let server = mode("SAGEMAKER_TRITON_OVERRIDE_PING_MODE", "live");
    get(&server, "/ping").expect(200);
    std::mem::forget(server);
    let server = mode("SAGEMAKER_TRITON_PING_MODE", "ready");
    get(&server, "/ping").expect(503);
    std::mem::forget(server);
}

#[test]
fn batch_jobs_are_told_how_much_they_may_send_at_once() {
    let repository = Repository::new().with_identity("model/net", &[]);
    for (payload, count, expected) in
        [("", "1", (2, 6)), ("20", "1", (2, 20)), ("80", "5", (5, 20)), ("6", "40", (16, 6))]
    {
        let start = hosted(&repository)
            .variable("SAGEMAKER_MAX_PAYLOAD_IN_MB", payload)
            .variable("SAGEMAKER_MODEL_SERVER_WORKERS", count);
        let told = get(&start.run(), "/execution-parameters").expect(200).json();
        let found = (&told["MaxConcurrentTransforms"], &told["MaxPayloadInMB"]);
        assert_eq!(found, (&expected.0.into(), &expected.1.into()), "{payload} MB, {count}");
    }
}

#[test]
fn attributes_are_kept_where_that_is_asked_for() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let attributes = ("X-Amzn-SageMaker-Custom-Attributes", "trace=abc");
    let back = |flags: &[&str]| {
        let reply = invoke(&hosted(&repository).flags(flags).run(), &[attributes]).expect(200);
        reply.header(&attributes.0.to_ascii_lowercase()).map(str::to_owned)
    };
    assert_eq!(back(&[]).as_deref(), Some("trace=abc"));
    assert_eq!(back(&["--sagemaker-echo-custom-attributes=false"]), None);
}

#[test]
fn what_the_platform_says_of_a_request_is_in_the_line_of_its_error() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let mut process = hosted_process(&repository, &[]);
    process.wait_ready();
    let said = [
        CSV,
        ("X-Amzn-SageMaker-Inference-Id", "call-7"),
        ("X-Amzn-SageMaker-Target-Variant", "blue"),
        ("X-Amzn-SageMaker-Target-Container-Hostname", "second"),
        ("X-Amzn-SageMaker-Inference-Component", "ranker"),
        ("X-Amzn-SageMaker-Custom-Attributes", "trace=abc"),
    ];
    let mut client = Client::connect(process.address("sagemaker"));
    let reply = client.post("/invocations", &said, "1,2,x,4\n");
    assert!(!reply.error(400).is_empty());
    assert_eq!(reply.json()["request_id"], "call-7");
    let line = process.wait_for_line("request rejected");
    for part in [
        "request_id=call-7",
        "target_variant=blue",
        "target_container=second",
        "inference_component=ranker",
        "custom_attributes=\"trace=abc\"",
    ] {
        assert!(line.contains(part), "no '{part}' in {line}");
    }
}

#[test]
fn health_checks_leave_no_line_in_the_log() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let settings = [("MUSTER_LOG_REQUESTS", "true"), ("MUSTER_LOG_VERBOSE", "1")];
    let mut process = hosted_process(&repository, &settings);
    process.wait_ready();
    let mut client = Client::connect(process.address("sagemaker"));
    for _ in 0..20 {
        client.get("/ping").expect(200);
    }
    client.post("/invocations", &[CSV], "1,2,3,4\n").expect(200);
    // This one comes last, and is logged.
    client.post("/invocations", &[CSV], "x\n").error(400);
    process.wait_for_line("request rejected");
    assert!(!process.log().iter().any(|it| it.contains("/ping")), "{:#?}", process.log());
}

#[test]
fn there_are_no_adapters() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let server = hosted(&repository).run();
    let mut client = Client::connect(server.sagemaker());
    client.post("/adapters", &[], "{}").error(404);
    client.request("DELETE", "/adapters/a", &[], None).error(404);
}

#[test]
fn a_body_over_the_platforms_limit_is_refused_naming_the_setting() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let server = hosted(&repository).variable("SAGEMAKER_MAX_PAYLOAD_IN_MB", "1").run();
    let mut client = Client::connect(server.sagemaker());
    let refused = client.post("/invocations", &[CSV], " ".repeat((1 << 20) + 1));
    assert!(refused.error(413).contains("--http-max-input-size"), "{}", refused.text());
    assert_eq!(hosted(&repository).config().unwrap().limits.body_bytes, 1 << 30);
}

/// A model of which only inputs and outputs are written down, with `more`.
fn written(more: &str) -> Repository {
    let config = format!(
        "backend: \"identity\" max_batch_size: 8
        input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
        output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }} {more}"
    );
    Repository::new().model("model/net", &config)
}

#[test]
fn variables_about_batches_are_defaults_of_models_that_do_not_say() {
    let repository = written("").fixture("model/free", "mlp");
    let start = hosted(&repository)
        .variable("SAGEMAKER_TFS_ENABLE_BATCHING", "true")
        .variable("SAGEMAKER_TFS_MAX_BATCH_SIZE", "16")
        .variable("SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS", "700")
        .variable("SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES", "10");
    let server = start.run();
    for (model, size) in [("net", 8), ("free", 16)] {
        let config = config_of(&server, model);
        assert_eq!(config["max_batch_size"], size, "{config}");
        let batching = &config["dynamic_batching"];
        assert_eq!(batching["max_queue_delay_microseconds"], 700, "{config}");
        assert_eq!(batching["default_queue_policy"]["max_queue_size"], 160, "{config}");
    }
    // What is written down as one that takes one request after the other stays so.
    let server = hosted(&written("")).variable("SAGEMAKER_TS_MAX_BATCH_DELAY", "7").run();
    assert!(config_of(&server, "net").get("dynamic_batching").is_none());
}

#[test]
fn batching_that_is_switched_on_is_that_of_tensorflow_servings_container_where_nobody_says_more() {
    let repository = written("").fixture("model/free", "mlp");
    let batching = |variables: &[(&str, &str)]| {
        let read =
            variables.iter().fold(hosted(&repository), |it, (name, text)| it.variable(name, text));
        let defaults = read.config().unwrap().model_defaults;
        (
            defaults.dynamic_batching,
            defaults.max_batch_size,
            defaults.queue_delay.map(|it| it.as_micros()),
        )
    };
    let on = ("SAGEMAKER_TFS_ENABLE_BATCHING", "true");
    assert_eq!(batching(&[on]), (true, Some(8), Some(1000)));
    assert_eq!(batching(&[("SAGEMAKER_TFS_ENABLE_BATCHING", "0")]), (false, None, None));
    let more =
        [("SAGEMAKER_TFS_MAX_BATCH_SIZE", "16"), ("SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS", "0")];
    assert_eq!(batching(&[&[on], &more[..]].concat()), (true, Some(16), None));
    let own = [on, ("MUSTER_DEFAULT_MAX_BATCH_SIZE", "3"), ("MUSTER_DEFAULT_QUEUE_DELAY_US", "5")];
    assert_eq!(batching(&own), (true, Some(3), Some(5)));
    let config = config_of(&hosted(&repository).variable(on.0, on.1).run(), "free");
    assert_eq!(config["max_batch_size"], 8, "{config}");
    assert_eq!(config["dynamic_batching"]["max_queue_delay_microseconds"], 1000, "{config}");
}

#[test]
fn a_request_is_given_up_after_the_time_that_a_variable_gives_it() {
    let repository = Repository::new().with_identity("model/net", &[("execute_delay_ms", "3000")]);
    let server = hosted(&repository).variable("SAGEMAKER_MODEL_SERVER_TIMEOUT", "1").run();
    assert!(invoke(&server, &[]).error(504).contains("deadline"));
}

#[test]
fn a_configuration_beats_a_variable_and_a_line_says_so() {
    let repository = written(
        "instance_group { count: 1 } dynamic_batching { max_queue_delay_microseconds: 5
            default_queue_policy { max_queue_size: 3 } }",
    );
    let variables = [
        ("SAGEMAKER_TS_BATCH_SIZE", "32"),
        ("SAGEMAKER_TS_MAX_BATCH_DELAY", "7"),
        ("MMS_JOB_QUEUE_SIZE", "100"),
        ("SAGEMAKER_NUM_MODEL_WORKERS", "3"),
    ];
    let mut process = hosted_process(&repository, &variables);
    process.wait_ready();
    let line = process.wait_for_line("not applied to it");
    for part in [
        "model=net",
        "SAGEMAKER_TS_BATCH_SIZE (max_batch_size 8)",
        "SAGEMAKER_TS_MAX_BATCH_DELAY (max_queue_delay_microseconds 5)",
        "MMS_JOB_QUEUE_SIZE (max_queue_size 3)",
        "SAGEMAKER_NUM_MODEL_WORKERS (instance_group.count)",
    ] {
        assert!(line.contains(part), "no '{part}' in {line}");
    }
    let config = Client::connect(process.address("sagemaker")).get("/v2/models/net/config");
    assert_eq!(config.json()["dynamic_batching"]["max_queue_delay_microseconds"], 5);
}

#[test]
fn a_queue_is_as_long_as_a_variable_says_but_not_shorter_than_a_job_needs() {
    let size = |variables: &[(&str, &str)]| {
        let repository = Repository::new().with_identity("model/net", &[]);
        let start = variables
            .iter()
            .fold(hosted(&repository), |it, (name, value)| it.variable(name, value));
        start.config().unwrap().model_defaults.max_queue_size.map(|it| it.get())
    };
    assert_eq!(size(&[("TS_JOB_QUEUE_SIZE", "2")]), Some(2));
    let transforms = ("SAGEMAKER_MAX_CONCURRENT_TRANSFORMS", "8");
    assert_eq!(size(&[("TS_JOB_QUEUE_SIZE", "2"), transforms]), Some(8));
    assert_eq!(size(&[transforms]), None);
    // A model that is not merged has a queue, too.
    let repository = written("");
    let start = hosted(&repository).variable("TS_JOB_QUEUE_SIZE", "1");
    let server = start.flags(&["--scheduler-hold=9", "--max-queue-wait-ms=0"]).run();
    let waiting = ask(server.sagemaker(), "net", row(1));
    wait_queued(server.sagemaker(), "net", 1);
    assert!(invoke(&server, &[]).error(503).contains("max_queue_size 1"));
    drop(waiting);
}

#[test]
fn a_burst_of_more_than_few_clients_is_answered_in_the_time_that_the_platform_waits() {
    let slow = [("latency_alpha_us", "15000")];
    let repository = Repository::new().with_identity("model/net", &slow);
    let path = repository.path().join("model/net/config.pbtxt");
    let config = std::fs::read_to_string(&path).unwrap();
    let one = "instance_group { count: 1 kind: KIND_CPU }";
    let config = config.replace("max_batch_size: 8", "max_batch_size: 1");
    std::fs::write(&path, format!("{config}{one}")).unwrap();
    let server = hosted(&repository).run();
    invoke(&server, &[]).expect(200);
    let mut clients: Vec<_> =
        (0..200).map(|number| ask(server.sagemaker(), "net", row(number))).collect();
    for (number, client) in (0..200).zip(&mut clients) {
        assert_eq!(first_of(&client.reply().expect(200)), f64::from(number));
    }
}

#[test]
fn in_secure_mode_libraries_of_operators_are_refused() {
    let repository = Repository::new()
        .copy("model/net/1/model.onnx", ONE)
        .file("model/net/config.pbtxt", "model_operations { op_library_filename: \"ops.so\" }");
    let error = refused(&hosted(&repository).variable("SAGEMAKER_SECURE_MODE", "true"));
    assert!(error.contains("--secure-mode") && error.contains("model_operations"), "{error}");
}

#[test]
fn in_secure_mode_settings_that_name_files_are_refused() {
    for setting in [
        "parameters { key: \"session.model_external_initializers_file_folder_path\" value { string_value: \"/etc\" } }",
        "optimization { execution_accelerators { gpu_execution_accelerator { name: \"tensorrt\"
             parameters { key: \"extra_plugin_lib_paths\" value: \"/tmp/code.so\" } } } }",
    ] {
        let repository = Repository::new()
            .copy("model/net/1/model.onnx", ONE)
            .file("model/net/config.pbtxt", setting);
        let error = refused(&hosted(&repository).variable("SAGEMAKER_SECURE_MODE", "true"));
        assert!(
            error.contains("--secure-mode") && error.contains("files of the server"),
            "{error}"
        );
    }
}

#[test]
fn every_instance_is_made_before_the_ping_says_yes_where_that_is_asked_for() {
    // Each instance takes a second to get warm; there are as many as processors, two.
    let repository = written(
        "parameters { key: \"execute_delay_ms\" value: { string_value: \"1000\" } }
        model_warmup { name: \"w\" batch_size: 1
            inputs { key: \"INPUT0\" value: { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } }",
    );
    let server = hosted(&repository).variable("SAGEMAKER_HEALTH_CHECK_OVERRIDE", "true").run();
    get(&server, "/ping").expect(200);
    let page = get(&server, "/metrics").expect(200).text();
    let line = page.lines().find(|it| it.starts_with("nv_model_load_duration_secs{")).unwrap();
    let took: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(2.0 <= took, "{line}");
}

/// For each variable that does something, a text that changes the configuration.
const SAMPLES: &[(&str, &str)] = &[
    ("SAGEMAKER_BIND_TO_PORT", "9090"),
    ("HF_TASK", "text-classification"),
    ("HF_MODEL_ID", "org/name"),
    ("HF_MODEL_REVISION", "v1"),
    ("HF_HUB_TOKEN", "hf_secret"),
    ("HF_API_TOKEN", "hf_secret"),
    ("MLFLOW_DEPLOYMENT_FLAVOR_NAME", "python_function"),
    ("SAGEMAKER_SAFE_PORT_RANGE", "9000-9010"),
    ("SAGEMAKER_MULTI_MODEL", "True"),
    ("SAGEMAKER_MULTI_MODE", "1"),
    ("SAGEMAKER_TRITON_INFERENCE_TYPE", "generate"),
    ("SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT", "0.5"),
    ("SAGEMAKER_INFERENCE_OUTPUT", "predicted_label"),
    ("SAGEMAKER_INFERENCE_ENSEMBLE", "false"),
    ("SAGEMAKER_ENABLE_STATEFUL_SESSIONS", "true"),
    ("SAGEMAKER_SESSIONS_EXPIRATION", "60"),
    ("SAGEMAKER_BATCH", "True"),
    ("SAGEMAKER_BATCH_STRATEGY", "MULTI_RECORD"),
    ("SAGEMAKER_MAX_CONCURRENT_TRANSFORMS", "500"),
    ("SAGEMAKER_MAX_PAYLOAD_IN_MB", "20"),
    ("SAGEMAKER_CONTAINER_LOG_LEVEL", "30"),
    ("SAGEMAKER_REGION", "eu-central-1"),
    ("SAGEMAKER_PROGRAM", "own.py"),
    ("SAGEMAKER_SUBMIT_DIRECTORY", "file://{model}/own"),
    ("SAGEMAKER_BASE_DIR", "{base}"),
    ("SAGEMAKER_MODEL_PATH", "{base}"),
    ("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "text/csv"),
    ("SAGEMAKER_ENABLE_CLOUDWATCH_METRICS", "true"),
    ("NVIDIA_VISIBLE_DEVICES", "all"),
    ("CUDA_VISIBLE_DEVICES", "0"),
    ("OMP_NUM_THREADS", "3,2"),
    ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "net"),
    ("SAGEMAKER_TFS_INSTANCE_COUNT", "3"),
    ("SAGEMAKER_TFS_INTRA_OP_PARALLELISM", "3"),
    ("SAGEMAKER_TFS_INTER_OP_PARALLELISM", "3"),
    ("SAGEMAKER_TFS_ENABLE_BATCHING", "yes"),
    ("SAGEMAKER_TFS_MAX_BATCH_SIZE", "16"),
    ("SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS", "700"),
    ("SAGEMAKER_TFS_NUM_BATCH_THREADS", "3"),
    ("SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES", "10"),
    ("SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN", "0.2"),
    ("SAGEMAKER_TFS_WAIT_TIME_SECONDS", "60"),
    ("SAGEMAKER_GUNICORN_TIMEOUT_SECONDS", "30"),
    ("SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS", "60"),
    ("SAGEMAKER_MODEL_SERVER_WORKERS", "3"),
    ("SAGEMAKER_NUM_MODEL_WORKERS", "3"),
    ("SAGEMAKER_MODEL_SERVER_TIMEOUT", "30"),
    ("SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS", "30"),
    ("SAGEMAKER_RESPONSE_TIMEOUT", "30"),
    ("SAGEMAKER_STARTUP_TIMEOUT", "600"),
    ("SAGEMAKER_MODEL_JOB_QUEUE_SIZE", "100"),
    ("SAGEMAKER_MAX_REQUEST_SIZE", "1000000"),
    ("MAX_CONTENT_LENGTH", "1000000"),
    ("SAGEMAKER_TS_BATCH_SIZE", "16"),
    ("SAGEMAKER_TS_MAX_BATCH_DELAY", "10"),
    ("SAGEMAKER_TS_MAX_WORKERS", "3"),
    ("SAGEMAKER_TS_RESPONSE_TIMEOUT", "30"),
    ("SAGEMAKER_HEALTH_CHECK_OVERRIDE", "1"),
    ("SAGEMAKER_SECURE_MODE", "TRUE"),
    ("MMS_MAX_REQUEST_SIZE", "1000000"),
    ("TS_MAX_REQUEST_SIZE", "1000000"),
    ("MMS_DEFAULT_RESPONSE_TIMEOUT", "30"),
    ("MMS_DEFAULT_RESPONSE_TIMEOUT_SECONDS", "30"),
    ("MMS_DEFAULT_WORKERS_PER_MODEL", "3"),
    ("TS_DEFAULT_WORKERS_PER_MODEL", "3"),
    ("MMS_JOB_QUEUE_SIZE", "100"),
    ("TS_JOB_QUEUE_SIZE", "100"),
    ("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", "net"),
    ("SAGEMAKER_TRITON_PING_MODE", "live"),
    ("SAGEMAKER_TRITON_OVERRIDE_PING_MODE", "live"),
    ("SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING", "true"),
    ("SAGEMAKER_TRITON_ALLOW_GRPC", "true"),
    ("SAGEMAKER_TRITON_GRPC_PORT", "9001"),
    ("SAGEMAKER_TRITON_ALLOW_METRICS", "true"),
    ("SAGEMAKER_TRITON_METRICS_PORT", "9002"),
    ("SAGEMAKER_TRITON_THREAD_COUNT", "3"),
    ("SAGEMAKER_TRITON_LOG_VERBOSE", "true"),
    ("SAGEMAKER_TRITON_LOG_INFO", "no"),
    ("SAGEMAKER_TRITON_LOG_WARNING", "no"),
    ("SAGEMAKER_TRITON_LOG_ERROR", "no"),
    ("SAGEMAKER_TRITON_ADDITIONAL_ARGS", "--id='a b'"),
];

/// The configuration of a hosted server with these variables on top of the platform's.
fn read(repository: &Repository, variables: &[(&str, &str)]) -> Result<ServerConfig, String> {
    let (model, base) = (repository.at("model"), repository.at(""));
    let place = |it: &str| it.replace("{model}", &model).replace("{base}", &base);
    let start = variables
        .iter()
        .fold(hosted(repository), |start, (name, value)| start.variable(name, &place(value)));
    start.config()
}

fn said(config: &ServerConfig) -> String {
    config.notices.iter().map(|it| format!("{:?}: {}\n", it.level, it.text)).collect()
}

/// Without what is said of it.
fn quiet(config: ServerConfig) -> ServerConfig {
    ServerConfig { notices: Vec::new(), ..config }
}

/// Those that are only written into the log.
const ONLY_TOLD: [&str; 2] = ["SAGEMAKER_BATCH_STRATEGY", "SAGEMAKER_REGION"];

/// Those that say where something is, which the log shows where it is used.
const OF_THE_FOLDER: [&str; 4] = [
    "SAGEMAKER_PROGRAM",
    "SAGEMAKER_SUBMIT_DIRECTORY",
    "SAGEMAKER_BASE_DIR",
    "SAGEMAKER_MODEL_PATH",
];

#[test]
fn every_variable_that_works_changes_something_and_says_so() {
    let repository = Repository::new()
        .with_identity("model/net", &[])
        .file("model/code/inference.py", "1")
        .file("model/code/own.py", "1")
        .file("model/own/inference.py", "1");
    // What a variable needs to change anything.
    let needed: &[(&str, (&str, &str))] = &[
        ("SAGEMAKER_BASE_DIR", ("SAGEMAKER_MODEL_PATH", "")),
        ("SAGEMAKER_SESSIONS_EXPIRATION", ("SAGEMAKER_ENABLE_STATEFUL_SESSIONS", "1")),
        ("SAGEMAKER_MAX_CONCURRENT_TRANSFORMS", ("SAGEMAKER_MODEL_JOB_QUEUE_SIZE", "1")),
        ("SAGEMAKER_SAFE_PORT_RANGE", ("SAGEMAKER_TRITON_ALLOW_GRPC", "true")),
    ];
    for (name, state) in sagemaker_variables() {
        if state != VariableState::Works {
            continue;
        }
        let sample = SAMPLES.iter().find(|it| it.0 == name);
        let value = sample.unwrap_or_else(|| panic!("a text for {name}")).1;
        let needed = needed.iter().filter(|it| it.0 == name).map(|it| it.1);
        let mut variables: Vec<(&str, &str)> = needed.collect();
        // Without its folder there are no models.
        let before = read(&repository, &variables).ok().map(quiet);
        variables.push((&name, value));
        let after = read(&repository, &variables).unwrap_or_else(|it| panic!("{name}: {it}"));
        let told = said(&after);
        assert!(ONLY_TOLD.contains(&&*name) || before != Some(quiet(after)), "{name}");
        assert!(OF_THE_FOLDER.contains(&&*name) || told.contains(&name), "{name} in {told}");
    }
    let all = sagemaker_variables();
    let works = all.iter().filter(|it| it.1 == VariableState::Works);
    assert_eq!(SAMPLES.len(), works.count());
}

#[test]
fn variables_without_effect_change_nothing_and_get_one_line_together() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let all = sagemaker_variables();
    let idle = all.iter().filter(|it| it.1 == VariableState::WithoutEffect);
    let idle: Vec<String> = idle.map(|it| it.0.replace('*', "X")).collect();
    let variables: Vec<(&str, &str)> = idle.iter().map(|it| (&**it, "1")).collect();
    let plain = read(&repository, &[]).unwrap();
    let with_all = read(&repository, &variables).unwrap();
    let told = said(&with_all);
    for name in &idle {
        assert!(told.contains(name.as_str()), "{name} in {told}");
    }
    assert_eq!(told.lines().filter(|it| it.contains("variables without effect: ")).count(), 1);
    assert_eq!(quiet(with_all), quiet(plain));
}

#[test]
fn variables_with_no_setting_of_their_own_tell_whose_container_is_meant_and_nothing_else() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let whose = [
        ("SAGEMAKER_TFS_", Dialect::Tfs),
        ("SAGEMAKER_TRITON_", Dialect::Triton),
        ("SAGEMAKER_XGBOOST_", Dialect::Xgboost),
    ];
    let plain = quiet(read(&repository, &[]).unwrap());
    let all = sagemaker_variables();
    let telling: Vec<&String> =
        all.iter().filter(|it| it.1 == VariableState::Tells).map(|it| &it.0).collect();
    assert!(telling.len() > 5, "{telling:?}");
    for name in telling {
        let dialect = whose.iter().find(|it| name.starts_with(it.0)).unwrap().1;
        let config = read(&repository, &[(name, "1")]).unwrap();
        let told = said(&config);
        assert!(!told.contains("variables without effect"), "{told}");
        assert!(told.contains(&format!("because {name} is set")), "{told}");
        let mut expected = plain.clone();
        expected.sagemaker.vendor = Some(Vendor { dialect, variable: name.clone() });
        // How models of the folder are chosen.
        let way = match dialect {
            Dialect::Tfs => HostedWay::TensorFlowServing,
            _ => HostedWay::Triton,
        };
        expected.control.hosted.as_mut().unwrap().way = way;
        expected.repository.platform.way = way;
        assert_eq!(quiet(config), expected, "{name}");
    }
}

#[test]
fn variables_that_cannot_be_read_are_told_all_at_once_even_where_they_do_not_count() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let wrong = [
        ("SAGEMAKER_BATCH", "perhaps"),
        ("SAGEMAKER_TFS_ENABLE_BATCHING", "2"),
        ("SAGEMAKER_TFS_INSTANCE_COUNT", "some"),
        ("SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES", "-1"),
        ("SAGEMAKER_TRITON_PING_MODE", "dead"),
        ("SAGEMAKER_TS_MAX_BATCH_DELAY", "1s"),
        ("SAGEMAKER_STARTUP_TIMEOUT", "soon"),
        ("SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN", "1.5"),
        ("SAGEMAKER_MAX_PAYLOAD_IN_MB", "6.5"),
    ];
    let counts = [("SAGEMAKER_TRITON_OVERRIDE_PING_MODE", "live")];
    let error = read(&repository, &[&wrong[..], &counts].concat()).unwrap_err();
    for (name, value) in wrong {
        assert!(error.contains(&format!("{name}='{value}'")), "{name} in {error}");
    }
}

#[test]
fn the_more_specific_family_wins() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let families = [
        ("SAGEMAKER_TFS_INSTANCE_COUNT", "2"),
        ("SAGEMAKER_TS_MAX_WORKERS", "3"),
        ("SAGEMAKER_MODEL_SERVER_WORKERS", "4"),
        ("MMS_DEFAULT_WORKERS_PER_MODEL", "5"),
    ];
    for (at, (_, expected)) in families.iter().enumerate() {
        let config = read(&repository, &families[at..]).unwrap();
        let count = config.model_defaults.instance_count.unwrap().get();
        assert_eq!(count.to_string(), *expected);
    }
    let request_timeout = |variables: &[(&str, &str)]| {
        read(&repository, variables).unwrap().scheduling.request_timeout.unwrap().as_secs()
    };
    let gunicorn = ("SAGEMAKER_GUNICORN_TIMEOUT_SECONDS", "90");
    let nginx = ("SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS", "30");
    assert_eq!(request_timeout(&[gunicorn, nginx]), 90);
    assert_eq!(request_timeout(&[nginx]), 30);
    let base = [("SAGEMAKER_MODEL_PATH", ""), ("SAGEMAKER_BASE_DIR", "{base}")];
    let from = read(&repository, &base).unwrap().repository.from;
    assert_eq!(from, ModelsFrom::Path(repository.path().join("model")));
}

#[test]
fn the_environment_is_shown_without_secrets_and_with_what_lost() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let path = repository.at("model");
    let variables = [
        ("MUSTER_LOG_FORMAT", "json"),
        ("MUSTER_DEFAULT_INSTANCE_COUNT", "3"),
        ("SAGEMAKER_TFS_INSTANCE_COUNT", "2"),
        ("SAGEMAKER_BIND_TO_PORT", "9999"),
        ("SAGEMAKER_GUNICORN_WORKERS", "2"),
        ("SAGEMAKER_TELEPATHY", "1"),
        ("SAGEMAKER_XGBOOST_VERSION", "2"),
        ("SAGEMAKER_REGION", "eu-central-1"),
        ("SAGEMAKER_MODEL_PATH", &*path),
        ("MUSTER_HTTP_RESTRICTED_API", "health:key=hush"),
    ];
    let finished = ended(Process::command(&["env", "--id=a"], &variables), 0);
    let text = finished.log.join("\n");
    for part in [
        "SAGEMAKER_BIND_TO_PORT=9999 -> --sagemaker-port 9999",
        "SAGEMAKER_TFS_INSTANCE_COUNT=2 -> --default-instance-count 2: MUSTER_DEFAULT_INSTANCE_COUNT goes before it",
        "Without effect:\n  SAGEMAKER_GUNICORN_WORKERS",
        "No setting of their own; tell whose container is meant:\n  SAGEMAKER_XGBOOST_VERSION",
        "Unknown, and ignored:\n  SAGEMAKER_TELEPATHY",
        "bodies of /invocations are read as TensorFlow Serving's container reads them, because SAGEMAKER_TFS_INSTANCE_COUNT is set",
        "Versions:\n  every one of a model is loaded, unless",
        "SAGEMAKER_REGION=eu-central-1",
        &format!("SAGEMAKER_MODEL_PATH={path} -> the folder of the models"),
        "--log-format json (default text), by MUSTER_LOG_FORMAT",
        "--id a (default triton), by the command line",
        "SageMaker 0.0.0.0:9999",
        "--http-restricted-api health:key=",
    ] {
        assert!(text.contains(part), "no '{part}' in:\n{text}");
    }
    assert!(!text.contains("hush"), "{text}");
    let wrong = [("OMP_NUM_THREADS", "many"), ("MUSTER_HTTP_PORT", "x")];
    let finished = ended(Process::command(&["env"], &wrong), 1);
    let text = finished.log.join("\n");
    assert!(
        text.contains("OMP_NUM_THREADS='many'") && text.contains("MUSTER_HTTP_PORT='x'"),
        "{text}"
    );
    let help = ended(Process::command(&["env", "--help"], &[]), 0).log.join("\n");
    assert!(help.contains("which lost against which"), "{help}");
}

#[test]
fn a_container_in_a_pipeline_has_its_port_and_its_form_of_replies() {
    let repository = Repository::new().with_identity("model/net", &[]);
    let start =
        hosted(&repository).variable("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "application/json");
    let server = start.run();
    let reply = invoke(&server, &[]).expect(200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(
        first_of(&Client::connect(server.sagemaker()).post(
            &infer("net"),
            &[("content-type", "application/json")],
            row(1)
        )),
        1.0
    );
}
