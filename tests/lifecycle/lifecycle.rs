//! Starting: what can be asked when, what a model that fails does to the others, and how a start that cannot
//! succeed ends.

use std::{fs, net::TcpListener, os::unix::fs::symlink, time::Duration};

use crate::support::{
    Client, IN_PROCESS, Process, Repository, Server, Start, check_end, first_of, infer,
    measures::busy, root, row, wait_for,
};

fn broken(repository: Repository, name: &str) -> Repository {
    repository.copy(name, &format!("tests/fixtures/broken/{name}"))
}

#[test]
fn ports_answer_before_models_are_loaded_and_say_so() {
    let gate = Repository::new();
    let repository = Repository::identity("m", &[("creation_gate", &gate.at("open"))]);
    let server = Start::new(&repository).launch();
    let ping = || Client::connect(server.sagemaker()).get("/ping").status;
    assert_eq!(ping(), 503);
    server.get("/v2/health/live").expect(200);
    server.get("/v2/health/ready").expect(400);
    let index = wait_for("the model to be found", || {
        let index = server.post("/v2/repository/index", "").json();
        index.as_array().is_some_and(|it| !it.is_empty()).then_some(index)
    });
    assert_eq!(index[0]["state"], "LOADING");
    let early = server.post(&infer("m"), row(1));
    assert!(
        early.error(503).contains("has no available versions: it is still loading"),
        "{}",
        early.text()
    );
    assert!(early.header("retry-after").is_some());
    server.get("/v2/models/m/ready").expect(503);

    let _open = gate.file("open", "");
    server.wait_loaded();
    assert_eq!(ping(), 200);
    server.get("/v2/health/ready").expect(200);
    server.get("/v2/models/m/ready").expect(200);
    assert_eq!(first_of(&server.post(&infer("m"), row(1))), 1.0);
}

#[test]
fn a_model_that_fails_to_load_does_not_keep_others_from_serving() {
    let mut repository = Repository::identity("good", &[]);
    let all = ["corrupt", "truncated", "empty", "missing", "bad_config", "wrong_dims"];
    for name in all {
        repository = broken(repository, name);
    }
    let server = Server::start(&repository, &[]);
    assert_eq!(first_of(&server.post(&infer("good"), row(1))), 1.0);
    Client::connect(server.sagemaker()).get("/ping").expect(200);
    // By default the server is ready only when every model is.
    server.get("/v2/health/ready").expect(400);
    let index = server.post("/v2/repository/index", "").json();
    for name in all {
        let entry = index.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
        assert_eq!(entry["state"], "UNAVAILABLE", "{entry}");
        assert!(entry["reason"].as_str().is_some_and(|it| it.len() > 10), "{entry}");
        let refused = server.get(&format!("/v2/models/{name}/ready"));
        assert!(refused.error(503).contains("has no available versions: "), "{}", refused.text());
    }
}

#[test]
fn without_strict_readiness_one_good_model_is_enough() {
    let repository = broken(Repository::identity("good", &[]), "corrupt");
    let server = Server::start(&repository, &["--strict-readiness=false"]);
    server.get("/v2/health/ready").expect(200);
}

#[test]
fn engines_that_panic_or_cannot_make_an_instance_fail_alone() {
    let mut repository = Repository::identity("good", &[]);
    for fault in ["fail", "panic", "instance"] {
        repository = repository.with_identity(fault, &[("load_fault", fault)]);
    }
    let server = Server::start(&repository, &[]);
    assert_eq!(first_of(&server.post(&infer("good"), row(1))), 1.0);
    for fault in ["fail", "panic", "instance"] {
        server.post(&infer(fault), row(1)).error(503);
    }
}

#[test]
fn a_server_without_a_model_to_serve_ends_and_says_why_last() {
    let repository = broken(broken(Repository::new(), "corrupt"), "bad_config");
    let finished = check_end(Process::start(&repository, &[], &[]), 1, "no model is served");
    let last = finished.last();
    assert!(last.contains("models 'bad_config', 'corrupt' could not be loaded"), "{last}");
    // Each reason stands once, in the line of its model.
    for reason in ["Protobuf parsing failed", "max_batchsize"] {
        let lines: Vec<&String> = finished.log.iter().filter(|it| it.contains(reason)).collect();
        assert!(lines.len() == 1 && lines[0].contains("cannot load the model"), "{lines:#?}");
    }
    let empty = Repository::new();
    check_end(Process::start(&empty, &[], &[]), 1, "no models found in");
}

#[test]
fn with_exit_on_error_one_bad_model_ends_the_start() {
    let repository = broken(Repository::identity("good", &[]), "corrupt");
    let process = Process::start(&repository, &["--exit-on-error=true"], &[]);
    check_end(process, 1, "--exit-on-error is set: model 'corrupt' could not be loaded");
}

#[test]
fn a_port_in_use_ends_the_start_before_any_model_is_loaded() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    // Loading would take longer than the test waits.
    let repository = Repository::identity("m", &[("creation_delay_sec", "600")]);
    let process = Process::start(&repository, &[&format!("--metrics-port={port}")], &[]);
    let finished = check_end(process, 1, "cannot listen on");
    assert!(finished.last().contains(&format!("127.0.0.1:{port} for metrics")));
}

#[test]
fn help_and_version_are_printed_and_end_well() {
    let help = Process::command(&["--help-all"], &[]).wait();
    assert_eq!(help.status.code(), Some(0));
    let text = help.log.join("\n");
    for part in ["--model-repository", "--http-port", "--exit-timeout-secs", "serve", "bench"] {
        assert!(text.contains(part), "{part} is missing from --help-all");
    }
    let version = Process::command(&["--version"], &[]);
    check_end(version, 0, &format!("muster {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_command_train_is_refused_in_words() {
    check_end(Process::command(&["train"], &[]), 2, "does not train");
}

#[test]
fn health_is_yes_or_no_and_why_with_an_exit_code() {
    let gate = Repository::new();
    let repository = Repository::identity("m", &[("creation_gate", &gate.at("open"))]);
    let mut server = Process::start(&repository, &[], &[]);
    let port = server.address("sagemaker").port().to_string();
    let asked = |args: &[&str]| Process::command(&[&["health"], args].concat(), &[]);
    check_end(asked(&["--sagemaker-port", &port]), 1, "expected status 200, given 503");
    let _open = gate.file("open", "");
    server.wait_ready();
    check_end(
        asked(&["--sagemaker-port", &port]),
        0,
        &format!("healthy: http://127.0.0.1:{port}/ping"),
    );
    let url = format!("http://localhost:{port}/v2/models/other/ready");
    check_end(asked(&["--url", &url]), 1, "given 404");
    server.signal("KILL");
    server.wait();
    check_end(asked(&["--sagemaker-port", &port]), 1, "refused");
}

#[test]
fn all_bad_settings_are_told_at_once() {
    let args = ["--htp-port=1", "--http-port=x", "--exit-timeout-secs=-1"];
    let finished = Process::command(&args, &[("MUSTER_LOG_FORMAT", "xml")]).wait();
    assert_eq!(finished.status.code(), Some(2));
    let text = finished.log.join("\n");
    for part in [
        "unknown option --htp-port; did you mean --http-port?",
        "--http-port 'x'",
        "--exit-timeout-secs '-1'",
        "MUSTER_LOG_FORMAT",
    ] {
        assert!(text.contains(part), "'{part}' is missing from:\n{text}");
    }
}

#[test]
fn more_than_a_thousand_models_are_served_soon_and_in_little_memory() {
    const MODELS: usize = 1300;
    let repository = Repository::new();
    let model = root("tests/fixtures/models/type_fp32");
    for number in 0..MODELS {
        symlink(&model, repository.path().join(format!("model_{number:04}"))).unwrap();
    }
    let mut server = Process::start(&repository, &[IN_PROCESS], &[]);
    server.wait_ready();
    // Of processors, which others may need meanwhile.
    let took = busy(&server);
    let rss = resident_bytes(server.id());
    eprintln!("{MODELS} models: ready after {took:?} of a processor, {} MB resident", rss >> 20);
    let mut client = server.client();
    client.get("/v2/health/ready").expect(200);
    client.get("/v2/models/model_0000/ready").expect(200);
    client.get(&format!("/v2/models/model_{:04}/ready", MODELS - 1)).expect(200);
    assert!(rss < 500 << 20, "{} MB", rss >> 20);
    assert!(took < Duration::from_secs(20), "{took:?}");
    server.signal("TERM");
    assert_eq!(server.wait().status.code(), Some(0));
}

fn resident_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn a_log_that_nobody_reads_holds_up_no_request() {
    let repository = Repository::identity("m", &[]);
    let mut server = Process::start(&repository, &["--log-verbose=2"], &[]);
    server.wait_ready();
    let mut client = server.client();
    // From now on nobody reads it; a pipe holds 64 KiB.
    let held = server.hold_log();
    let long = "x".repeat(1000);
    for _ in 0..500 {
        // Every one of them is logged.
        client.post(&infer("m"), &[("x-request-id", &long)], "{").error(400);
    }
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(1))), 1.0);
    drop(held);
}
