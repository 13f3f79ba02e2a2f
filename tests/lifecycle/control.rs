//! Loading and unloading by request: what is asked for, what is refused and how, what the index says, and that memory
//! comes back.

use std::{fs, sync::mpsc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::{
    Client, IN_PROCESS, Page, Process, Reply, Repository, Server, Start, ask,
    control::{EXPLICIT, index, load, unload, wait_for_index},
    first_of, infer,
    measures::resident,
    onnx_file, post_head, row, wait_for,
};

#[test]
fn only_what_is_asked_for_is_loaded_and_the_index_names_the_rest() {
    let repository = Repository::identity("a", &[]).with_identity("b", &[]);
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=b"]);
    assert_eq!(index(&server), ["a", "b:1 READY"]);
    assert!(server.post(&infer("a"), row(1)).error(404).contains("'a' has no available versions"));
    load(&server, "a", "").expect(200);
    assert_eq!(first_of(&server.post(&infer("a"), row(1))), 1.0);
    unload(&server, "b").expect(200);
    wait_for_index(&server, &["a:1 READY", "b:1 UNAVAILABLE (unloaded)"]);
    server.post(&infer("b"), row(1)).error(404);
    server.get("/v2/models/b/versions/1/ready").error(503);
    let ready = server.post("/v2/repository/index", "{\"ready\":true}").json();
    assert_eq!(ready, json!([{"name": "a", "version": "1", "state": "READY"}]));
}

#[test]
fn a_star_loads_all_and_nothing_at_all_is_a_server_that_is_ready() {
    let repository = Repository::identity("a", &[]).with_identity("b", &[]);
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=*"]);
    assert_eq!(index(&server), ["a:1 READY", "b:1 READY"]);
    let empty = Repository::new();
    let server = Server::start(&empty, &[EXPLICIT]);
    server.get("/v2/health/ready").expect(200);
    let empty = empty.with_identity("late", &[]);
    assert_eq!(index(&server), ["late"]);
    load(&server, "late", "{}").expect(200);
    assert_eq!(first_of(&server.post(&infer("late"), row(7))), 7.0);
    drop(empty);
}

#[test]
fn a_name_that_is_to_be_loaded_and_is_not_there_ends_the_start_or_makes_it_unready() {
    let repository = Repository::identity("a", &[]);
    let error = Start::new(&repository).flags(&[EXPLICIT, "--load-model=x"]).try_run();
    assert!(error.err().unwrap().to_string().contains("no directory of that name in"));
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=a", "--load-model=x"]);
    server.get("/v2/health/ready").expect(400);
    // It is no matter any more once somebody has decided so.
    unload(&server, "x").expect(200);
    server.get("/v2/health/ready").expect(200);
}

#[test]
fn what_is_loaded_or_fails_later_leaves_the_server_ready() {
    let repository = Repository::identity("a", &[]).with_identity("bad", &[("load_fault", "fail")]);
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=a"]);
    let error = load(&server, "bad", "").error(400);
    assert!(
        error.contains("'bad'") && error.contains("version 1 is at UNAVAILABLE state"),
        "{error}"
    );
    server.get("/v2/health/ready").expect(200);
    server.get("/v2/models/a/ready").expect(200);
    server.get("/v2/models/bad/ready").expect(503);
    unload(&server, "a").expect(200);
    server.get("/v2/health/ready").expect(200);
}

#[test]
fn whatever_is_wrong_with_a_request_to_load_is_named() {
    let repository = Repository::identity("m", &[])
        .file("broken/config.pbtxt", "backend: \"identity\"\nmax_batch: 8\n")
        .file("empty/config.pbtxt", "backend: \"identity\"\n");
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=m"]);
    #[track_caller]
    fn check(server: &Server, model: &str, body: &str, status: u16, parts: &[&str]) {
        let error = load(server, model, body).error(status);
        for part in parts {
            assert!(error.contains(part), "no '{part}' in: {error}");
        }
    }
    let parameters = |it: &str| format!("{{\"parameters\":{{{it}}}}}");
    check(
        &server,
        "none",
        "",
        500,
        &["failed to load 'none', failed to poll from model repository", &repository.at("")],
    );
    check(&server, "broken", "", 500, &["config.pbtxt:2:1", "'max_batch_size'"]);
    check(&server, "empty", "", 400, &["'empty'", "has versions: none"]);
    for (name, shown) in [("..", ".."), ("%2e%2e", ".."), ("a%2fb", "a/b")] {
        let told =
            format!("invalid model name '{shown}', model name must not contain path traversal");
        check(&server, name, "", 400, &[&told]);
    }
    check(&server, "%20", "", 400, &["Model name cannot be empty"]);
    check(&server, "m", &parameters("\"x\":1"), 400, &["parameters.x", "'config'"]);
    check(&server, "m", &parameters("\"config\":1"), 400, &["parameters.config", "a string"]);
    let config = r#""config":"{\"max_batch\":1}""#;
    let polled = "failed to load 'm', failed to poll from model repository: ";
    check(&server, "m", &parameters(config), 500, &[polled, "config:1:", "'max_batch_size'"]);
    let file = r#""file:1/x":"AAAA""#;
    check(&server, "m", &parameters(file), 500, &[polled, "needs the parameter 'config'"]);
    let out = r#""config":"{}","file:1/../x":"AAAA""#;
    check(&server, "m", &parameters(out), 500, &[polled, "file:1/../x", "file:1/model.onnx"]);
    let error = server.post("/v2/repository/models/m/unload", parameters("\"dependents\":true"));
    assert!(error.error(400).contains("'unload_dependents'"));
    unload(&server, "nobody_has_heard_of_it").expect(200);
    server.post("/v2/repository/r/models/m/load", "").error(501);
    server.post("/v2/repository/r/index", "").expect(200);
    // None of it has touched the model that serves.
    assert_eq!(first_of(&server.post(&infer("m"), row(3))), 3.0);
}

#[test]
fn a_configuration_that_is_given_may_have_single_values_for_lists() {
    let repository = Repository::of(&["mlp"]);
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=mlp"]);
    let shown = || server.get("/v2/models/mlp/config").expect(200).json();
    let before = shown();
    let single = |port: &Value| {
        let mut port = port.clone();
        port["dims"] = port["dims"][0].clone();
        port
    };
    let (input, output) = (single(&before["input"][0]), single(&before["output"][0]));
    load_mlp_with(
        &server,
        json!({"max_batch_size": "8", "input": input, "output": output,
            "instance_group": {"count": 2, "kind": "KIND_CPU", "gpus": []}}),
    )
    .expect(200);
    let after = shown();
    assert_eq!((&after["input"], &after["output"]), (&before["input"], &before["output"]));
    let group = &after["instance_group"][0];
    assert_eq!((&after["max_batch_size"], &group["count"]), (&json!(8), &json!(2)));
}

/// What the server says to a load of `mlp` with that in its configuration.
fn load_mlp_with(server: &Server, part: Value) -> Reply {
    let mut config = json!({"backend": "onnxruntime"});
    config.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
    let body = json!({"parameters": {"config": config.to_string()}}).to_string();
    load(server, "mlp", &body)
}

#[test]
fn a_configuration_that_is_given_neither_brings_code_nor_names_files_unless_the_operator_says_so() {
    let repository = Repository::of(&["mlp"]);
    let library = || json!({"model_operations": {"op_library_filename": ["/tmp/ops.so"]}});
    // One of the model's own: of others not all processes of models may have anything.
    let own = repository.at("mlp/1");
    let key = |key: &str| json!({"parameters": {key: {"string_value": own}}});
    let folder = "session.model_external_initializers_file_folder_path";
    let server = Server::start(&repository, &[EXPLICIT]);
    for part in [library(), key(folder)] {
        let error = load_mlp_with(&server, part).error(400);
        assert!(error.contains("--trust-load-requests"), "{error}");
    }
    let error = load_mlp_with(&server, key("session.optimised_model_filepath")).error(400);
    assert!(error.contains("did you mean session.optimized_model_filepath?"), "{error}");
    load_mlp_with(&server, key("session.disable_prepacking")).expect(200);

    let trusting = Server::start(&repository, &[EXPLICIT, "--trust-load-requests=true"]);
    let error = load_mlp_with(&trusting, library()).error(400);
    assert!(error.contains("/tmp/ops.so"), "{error}");
    load_mlp_with(&trusting, key(folder)).expect(200);

    let flags = [EXPLICIT, "--trust-load-requests=true", "--secure-mode=true"];
    let secure = Server::start(&repository, &flags);
    for part in [library(), key(folder)] {
        let error = load_mlp_with(&secure, part).error(400);
        assert!(error.contains("--secure-mode"), "{error}");
    }
}

#[test]
fn a_configuration_that_is_given_lasts_until_the_repository_changes() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=m"]);
    let batch = || server.get("/v2/models/m/config").json()["max_batch_size"].as_i64().unwrap();
    let mut config = server.get("/v2/models/m/config").json();
    config["max_batch_size"] = json!("3");
    let body = json!({"parameters": {"config": config.to_string()}}).to_string();
    load(&server, "m", &body).expect(200);
    assert_eq!(batch(), 3);
    load(&server, "m", "").expect(200);
    assert_eq!(batch(), 3);
    let repository = repository.with_identity("m", &[("delay_us", "1")]);
    load(&server, "m", "").expect(200);
    assert_eq!(batch(), 8);
    drop(repository);
}

#[test]
fn files_that_are_given_are_served_and_go_with_the_model() {
    let scratch = Repository::new();
    let repository = Repository::of(&["mlp"]);
    let start = Start::new(&repository).flags(&[EXPLICIT]).variable("TMPDIR", &scratch.at(""));
    let server = start.run();
    let model = fs::read(repository.path().join("mlp/1/model.onnx")).unwrap();
    let body = json!({"parameters": {
        "config": "{\"backend\": \"onnxruntime\", \"versionPolicy\": {\"all\": {}}}",
        "file:3/model.onnx": STANDARD.encode(&model),
        "file:5/model.onnx": STANDARD.encode(&model),
    }});
    load(&server, "elsewhere", &body.to_string()).expect(200);
    assert_eq!(index(&server), ["elsewhere:3 READY", "elsewhere:5 READY", "mlp"]);
    let files = || fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(files(), 1);
    // What serves already goes on where another load fails, and nothing of that load stays.
    let broken = body.to_string().replace(&STANDARD.encode(&model), "AAAA");
    let error = load(&server, "elsewhere", &broken).error(400);
    assert!(error.contains("version 3 is") && error.contains("version 5 is"), "{error}");
    server.get("/v2/models/elsewhere/versions/5/ready").expect(200);
    assert_eq!(files(), 1);
    unload(&server, "elsewhere").expect(200);
    wait_for("the files to be gone", || (files() == 0).then_some(()));
}

#[test]
fn a_request_that_runs_when_its_model_is_unloaded_is_answered() {
    // So long that it runs when the index is asked for.
    let repository = Repository::identity("m", &[("execute_delay_ms", "3000")]);
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=m"]);
    let mut client = ask(server.http(), "m", row(5));
    wait_for("the request to be with the model", || {
        let page = Page::read(server.http());
        (page.value("muster_bytes_in_flight") > 0.0).then_some(())
    });
    unload(&server, "m").expect(200);
    assert_eq!(index(&server), ["m:1 UNLOADING"]);
    assert_eq!(first_of(&client.reply()), 5.0);
    wait_for_index(&server, &["m:1 UNAVAILABLE (unloaded)"]);
}

#[test]
fn slow_loads_keep_nobody_else_waiting() {
    // One more than an I/O thread has threads for what computes, and the server renders its metrics there.
    let loads = std::thread::available_parallelism().unwrap().get() + 1;
    let delay = [("creation_delay_sec", "600")];
    let add = |it: Repository, number: usize| it.with_identity(&format!("m{number}"), &delay);
    let repository = (0..loads).fold(Repository::new(), add);
    let flags = [EXPLICIT, "--http-thread-count=1"];
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    let load = |number: usize| {
        let mut client = server.client();
        let head = post_head(&format!("/v2/repository/models/m{number}/load"), &[], 0);
        client.send(head).unwrap();
        client
    };
    let _clients: Vec<Client> = (0..loads).map(load).collect();
    wait_for("a load to begin", || {
        let index = server.client().post("/v2/repository/index", &[], "").text();
        index.contains("LOADING").then_some(())
    });
    server.client().get("/metrics").expect(200);
}

#[test]
fn loads_of_one_model_wait_for_each_other() {
    let repository = Repository::identity("m", &[("creation_delay_sec", "1")]);
    let server = Server::start(&repository, &[EXPLICIT]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| load(&server, "m", "").expect(200));
        }
    });
    assert_eq!(index(&server), ["m:1 READY"]);
}

#[test]
fn a_load_that_fails_is_tried_again_as_often_as_one_says() {
    let repository = Repository::identity("m", &[("load_fault", "fail")]);
    let flags = [EXPLICIT, "--model-load-retry-count=2"];
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    server.client().post("/v2/repository/models/m/load", &[], "").error(400);
    server.wait_for_line("cannot load the model: ");
    let again = server.log().iter().filter(|it| it.contains("trying again")).count();
    assert_eq!(again, 2);
}

#[test]
fn with_namespaces_models_of_one_name_load_and_none_is_found_by_it() {
    let one = Repository::identity("m", &[]).with_identity("n", &[]);
    let other = Repository::identity("m", &[]);
    let second = format!("--model-repository={}", other.at(""));
    let server = Server::start(&one, &[&second, "--model-namespacing=true"]);
    assert_eq!(index(&server), ["m:1 READY", "m:1 READY", "n:1 READY"]);
    assert_eq!(first_of(&server.post(&infer("n"), row(1))), 1.0);
    let error = server.post(&infer("m"), row(1)).error(400);
    assert!(error.contains(&one.at("")) && error.contains(&other.at("")), "{error}");
    let page = Page::read(server.http());
    let series =
        format!("nv_inference_count{{model=\"n\",namespace=\"{}\",version=\"1\"}}", one.at(""));
    assert_eq!(page.value(&series), 1.0);
    // Without namespaces the name is refused, and the other model serves.
    let server = Server::start(&one, &[&second]);
    assert_eq!(first_of(&server.post(&infer("n"), row(1))), 1.0);
    assert!(index(&server)[0].contains("model appears in two or more repositories"));
    // Where models are loaded by request the index says so before one is.
    let server = Server::start(&one, &[&second, EXPLICIT, "--load-model=n"]);
    let shown = index(&server);
    let expected = "m UNAVAILABLE (model appears in two or more repositories: ";
    assert!(shown[0].starts_with(expected), "{shown:?}");
    assert_eq!(shown[1..], ["n:1 READY"]);
}

#[test]
fn memory_of_a_model_comes_back_when_it_is_unloaded() {
    let repository = Repository::new().file("large/1/.keep", "").file("small/1/.keep", "");
    // 100 MiB of weights in 25 matrices; and one that has the library opened and warm before it is measured.
    onnx_file::dense(&repository.path().join("large/1/model.onnx"), 25, 1024, 1).unwrap();
    onnx_file::dense(&repository.path().join("small/1/model.onnx"), 1, 64, 1).unwrap();
    let mut server =
        Process::start(&repository, &[EXPLICIT, "--load-model=small", IN_PROCESS], &[]);
    server.wait_ready();
    let address = server.address("http");
    let before = resident(&server);
    let post = |action: &str| {
        let path = format!("/v2/repository/models/large/{action}");
        Client::connect(address).post(&path, &[], "").expect(200);
    };
    for _ in 0..3 {
        post("load");
        let loaded = resident(&server);
        assert!(before + 90 < loaded, "{before} MiB before, {loaded} MiB loaded");
        post("unload");
        wait_for("the model to be gone", || {
            let index = Client::connect(address).post("/v2/repository/index", &[], "").text();
            index.contains("\"unloaded\"").then_some(())
        });
        // It is given back to the system a moment later.
        wait_for("its memory to come back", || (resident(&server) < before + 50).then_some(()));
    }
}

/// A request to load an ensemble in place of what lies in the repository: `slow` and `member`, one after the other.
fn ensemble_of(slow: &str, member: &str) -> String {
    let port = |name: &str| json!([{"name": name, "dataType": "TYPE_FP32", "dims": ["4"]}]);
    let step = |model: &str, from: &str, to: &str| json!({"modelName": model, "modelVersion": "-1", "inputMap": {"INPUT0": from}, "outputMap": {"OUTPUT0": to}});
    let config = json!({
        "platform": "ensemble",
        "maxBatchSize": 8,
        "input": port("INPUT0"),
        "output": port("OUTPUT0"),
        "ensembleScheduling": {"step": [step(slow, "INPUT0", "t"), step(member, "t", "OUTPUT0")]},
    });
    json!({"parameters": {"config": config.to_string()}}).to_string()
}

#[test]
fn an_unload_of_a_member_waits_for_the_ensemble_that_is_being_loaded() {
    let gate = Repository::new();
    let repository = Repository::identity("a", &[])
        .with_identity("b", &[("creation_gate", &gate.at("open"))])
        .with_identity("e", &[]);
    let server = Server::start(&repository, &[EXPLICIT]);
    let (waits, loaded, unloaded) = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&server, "e", &ensemble_of("b", "a")));
        let there = ["a:1 READY", "b:1 LOADING"];
        wait_for("one member, and the other to come", || {
            index(&server).starts_with(&there.map(str::to_owned)).then_some(())
        });
        let (done, is_done) = mpsc::channel();
        let server = &server;
        let unloading = scope.spawn(move || {
            let reply = unload(server, "a");
            let _ = done.send(());
            reply
        });
        let waits = is_done.recv_timeout(Duration::from_millis(200)).is_err();
        let _open = gate.file("open", "");
        (waits, loading.join().unwrap(), unloading.join().unwrap())
    });
    assert!(waits);
    loaded.expect(200);
    unloaded.expect(200);
}

#[test]
fn of_two_loads_that_would_wait_for_each_other_one_is_refused() {
    let slow = [("creation_delay_sec", "1")];
    // The slow ones are brought first, so that both loads hold their places before either asks for the other's.
    let repository = Repository::identity("a1", &slow)
        .with_identity("a2", &slow)
        .with_identity("zea", &[])
        .with_identity("zeb", &[]);
    let server = Server::start(&repository, &[EXPLICIT]);
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| load(&server, "zea", &ensemble_of("a1", "zeb")));
        let other = load(&server, "zeb", &ensemble_of("a2", "zea"));
        (one.join().unwrap(), other)
    });
    let (refused, loaded) = if one.status == 400 { (one, other) } else { (other, one) };
    let error = refused.error(400);
    assert!(error.contains("the ensembles are made of each other: 'ze"), "{error}");
    loaded.expect(200);
    for model in ["zea", "zeb"] {
        assert_eq!(first_of(&server.post(&infer(model), row(2))), 2.0);
    }
    unload(&server, "zea").expect(200);
}
