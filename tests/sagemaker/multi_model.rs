//! Multi-model endpoints of SageMaker: models that a platform loads, lists, asks and unloads under keys of its own.

use std::{
    fs,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use frontend::grpc::proto::{ModelReadyRequest, ModelReadyResponse};
use serde_json::{Value, json};

use crate::support::{
    Client, IN_PROCESS, Page, Process, Reply, Repository, Server, control::index, first_of,
    grpc::Client as GrpcClient, infer, measures::resident, multi_model::start, onnx_file, row,
    wait_for,
};

const TARGET: &str = "X-Amzn-SageMaker-Target-Model";
const JSON: (&str, &str) = ("content-type", "application/json");

/// A platform's side of an endpoint.
#[derive(Clone, Copy)]
struct Platform<'a> {
    address: SocketAddr,
    models: &'a Repository,
}

impl Platform<'_> {
    fn url(&self, place: &str) -> String {
        self.models.at(place)
    }

    fn load(&self, key: &str, place: &str) -> Reply {
        self.load_as(key, place, &[])
    }

    fn load_as(&self, key: &str, place: &str, headers: &[(&str, &str)]) -> Reply {
        let body = json!({"model_name": key, "url": self.url(place)}).to_string();
        self.ask("POST", "/models", headers, Some(&body))
    }

    fn unload(&self, key: &str) -> Reply {
        self.ask("DELETE", &format!("/models/{key}"), &[], None)
    }

    fn describe(&self, key: &str) -> Reply {
        self.ask("GET", &format!("/models/{key}"), &[], None)
    }

    fn list(&self, query: &str) -> Reply {
        self.ask("GET", &format!("/models{query}"), &[], None)
    }

    fn keys(&self) -> Vec<String> {
        let models = self.list("").expect(200).json();
        let key = |it: &Value| it["modelName"].as_str().unwrap().to_owned();
        models["models"].as_array().unwrap().iter().map(key).collect()
    }

    fn invoke(&self, key: &str, first: i32) -> Reply {
        self.invoke_as(key, &[], first)
    }

    fn invoke_as(&self, key: &str, headers: &[(&str, &str)], first: i32) -> Reply {
        self.ask("POST", &format!("/models/{key}/invoke"), headers, Some(&row(first)))
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Reply {
        let headers = [&[JSON][..], headers].concat();
        Client::connect(self.address).request(method, path, &headers, body.map(str::as_bytes))
    }
}

fn platform<'a>(server: &Server, models: &'a Repository) -> Platform<'a> {
    Platform { address: server.sagemaker(), models }
}

/// `<key>/model` for each key, a model of the engine `identity` each.
fn models(keys: &[&str]) -> Repository {
    keys.iter().fold(Repository::new(), |it, key| it.with_identity(&format!("{key}/model"), &[]))
}

/// An ensemble x → `member` → y.
fn ensemble(member: &str) -> String {
    let port = |what: &str, name: &str| {
        format!("{what} {{ name: \"{name}\" data_type: TYPE_FP32 dims: [ 4 ] }}\n")
    };
    format!(
        "platform: \"ensemble\"\nmax_batch_size: 8\n{}{}ensemble_scheduling {{ step {{ model_name: \"{member}\" \
         model_version: -1 input_map {{ key: \"INPUT0\" value: \"INPUT0\" }} output_map {{ key: \"OUTPUT0\" value: \
         \"OUTPUT0\" }} }} }}",
        port("input", "INPUT0"),
        port("output", "OUTPUT0")
    )
}

#[test]
fn a_model_is_loaded_described_listed_asked_and_unloaded() {
    let models = models(&["k1", "k2"]);
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    assert_eq!(platform.list("").expect(200).json(), json!({"models": []}));
    let shown =
        |key: &str| json!({"modelName": key, "modelUrl": platform.url(&format!("{key}/model"))});
    platform.load("k1", "k1/model").expect(200);
    platform.load("k2", "k2/model").expect(200);
    assert_eq!(platform.describe("k1").expect(200).json(), shown("k1"));
    assert_eq!(platform.list("").json(), json!({"models": [shown("k1"), shown("k2")]}));
    assert_eq!(first_of(&platform.invoke("k1", 7)), 7.0);
    let headers = [("content-type", "text/csv"), ("X-Amzn-SageMaker-Custom-Attributes", "a=b")];
    let mut client = Client::connect(platform.address);
    let reply = client.post("/models/k2/invoke", &headers, "1,2,3,4\n").expect(200);
    assert_eq!(reply.text(), "1.0,2.0,3.0,4.0\n");
    assert_eq!(reply.header("x-amzn-sagemaker-custom-attributes"), Some("a=b"));
    platform.unload("k1").expect(200);
    assert_eq!(platform.keys(), ["k2"]);
    for reply in [platform.describe("k1"), platform.unload("k1"), platform.invoke("k1", 1)] {
        assert_eq!(reply.error(404), "Model not found: k1");
    }
    // Nothing is left of it, and it may come back.
    assert_eq!(index(&server), ["k2:1 READY"]);
    platform.load("k1", "k1/model").expect(200);
    assert_eq!(first_of(&platform.invoke("k1", 3)), 3.0);
}

#[test]
fn what_is_loaded_is_not_loaded_again() {
    let models = models(&["k"]);
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    platform.load("k", "k/model").expect(200);
    for place in ["k/model", "elsewhere"] {
        assert_eq!(platform.load("k", place).error(409), "Model k is already registered.");
    }
    assert_eq!(first_of(&platform.invoke("k", 1)), 1.0);
}

#[test]
fn of_two_loads_of_one_key_the_second_waits_and_gets_a_conflict_or_the_firsts_error() {
    let slow = [("creation_delay_sec", "1")];
    let models = Repository::identity("good/model", &slow)
        .with_identity("bad/model", &[("creation_delay_sec", "1"), ("load_fault", "fail")]);
    let root = format!("--sagemaker-models-root={}", models.at(""));
    let ports = ["http", "grpc", "sagemaker", "metrics"].map(|it| format!("--{it}-port=0"));
    let ports: Vec<&str> = ports.iter().map(|it| &**it).collect();
    let args =
        [&["--sagemaker-multi-model=true", &*root, "--drain-delay-secs=0"], &*ports].concat();
    let mut server = Process::command(&args, &[]);
    server.wait_ready();
    let platform = Platform { address: server.address("sagemaker"), models: &models };
    for (key, expected) in [("good", [200, 409]), ("bad", [400, 400])] {
        let place = format!("{key}/model");
        let replies: Vec<Reply> = thread::scope(|scope| {
            let load = || platform.load(key, &place);
            [scope.spawn(load), scope.spawn(load)].map(|it| it.join().unwrap()).into()
        });
        let mut statuses: Vec<u16> = replies.iter().map(|it| it.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, expected, "{key}");
        if key == "bad" {
            let texts = replies.iter().map(|it| it.error(400)).collect::<Vec<_>>();
            assert_eq!(texts[0], texts[1]);
            assert!(texts[0].contains("told to fail"), "{}", texts[0]);
        }
    }
    assert_eq!(platform.keys(), ["good"]);
    platform.invoke("bad", 1).error(404);
    // One load each, and both waited for it.
    server.signal("TERM");
    let log = server.wait().log;
    let lines = |part: &str| log.iter().filter(|it| it.contains(part)).count();
    assert_eq!((lines("model is ready"), lines("cannot load the model:")), (1, 1), "{log:#?}");
}

#[test]
fn a_load_goes_on_when_its_client_leaves_and_an_unload_waits_for_it() {
    let models = Repository::identity("k/model", &[("creation_delay_sec", "1")]);
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    let body = json!({"model_name": "k", "url": platform.url("k/model")}).to_string();
    let mut client = Client::connect(platform.address);
    let head = crate::support::post_head("/models", &[JSON], body.len());
    client.send(head + &body).unwrap();
    wait_for("the load to begin", || (index(&server) == ["k:1 LOADING"]).then_some(()));
    drop(client);
    platform.invoke("k", 1).error(404);
    platform.unload("k").expect(200);
    assert_eq!(index(&server), [""; 0]);
}

#[test]
fn every_layout_is_found_and_the_key_is_the_models_name() {
    let onnx = "tests/fixtures/models/type_fp32/1/model.onnx";
    let models = Repository::new()
        .with_identity("top/model", &[])
        .with_identity("below/model/fraud", &[])
        .with_identity("named/model/fraud", &[])
        .file("named/model/README.md", "")
        .copy("flat/model/net.onnx", onnx)
        .copy("versions/model/3/model.onnx", onnx)
        .with_identity("several/model/a", &[])
        .model("several/model/whole", &ensemble("a"))
        .with_identity("two/model/a", &[("fault", "fail")])
        .model("two/model/whole", &ensemble("a"));
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    for key in ["top", "below", "flat", "versions", "several", "two"] {
        platform.load(key, &format!("{key}/model")).expect(200);
    }
    platform.load("sub", "named/model/fraud").expect(200);
    for key in ["top", "below", "several", "sub"] {
        let reply = platform.invoke(key, 5);
        assert_eq!(first_of(&reply), 5.0);
        assert_eq!(reply.json()["model_name"], key);
    }
    // The members of both have the same names, and are not the same.
    platform.invoke("two", 5).error(500);
    assert_eq!(server.get("/v2/models/versions").expect(200).json()["versions"], json!(["3"]));
    server.get("/v2/models/flat").expect(200);
    platform.unload("two").expect(200);
    assert_eq!(first_of(&platform.invoke("several", 6)), 6.0);
    platform.unload("several").expect(200);
    let expected =
        ["below:1 READY", "flat:1 READY", "sub:1 READY", "top:1 READY", "versions:3 READY"];
    assert_eq!(index(&server), expected);
}

#[cfg(feature = "pipelines")]
#[test]
fn a_folder_of_hugging_face_is_a_model_of_its_key() {
    let models = crate::support::pipelines::repository(&["st-6", "sst2"]);
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    let ask = |key: &str| {
        let body = json!({"inputs": "I am super happy right now."}).to_string();
        platform.ask("POST", &format!("/models/{key}/invoke"), &[], Some(&body)).expect(200).json()
    };
    platform.load("vectors", "st-6").expect(200);
    platform.load("moods", "sst2").expect(200);
    // Pooling and normalising stand in folders beside the graph.
    let vector = ask("vectors").as_array().unwrap().clone();
    let length: f64 = vector.iter().map(|it| it.as_f64().unwrap().powi(2)).sum();
    assert!((length - 1.0).abs() < 1e-4, "{length}");
    assert!(ask("moods")[0]["label"].is_string());
}

#[test]
fn a_member_may_be_called_like_a_key_and_hides_no_model() {
    let models = Repository::new()
        .with_identity("e/model/pre", &[])
        .model("e/model/e", &ensemble("pre"))
        .with_identity("pre/model", &[("fault", "fail")]);
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    platform.load("e", "e/model").expect(200);
    platform.invoke("pre", 1).error(404);
    platform.load("pre", "pre/model").expect(200);
    assert_eq!(first_of(&platform.invoke("e", 2)), 2.0);
    platform.invoke("pre", 1).error(500);
    server.post(&infer("pre"), row(1)).error(500);
}

#[test]
fn other_protocols_find_a_model_by_its_key() {
    let models = models(&["k"]);
    let server = start(&models, &[]);
    platform(&server, &models).load("k", "k/model").expect(200);
    assert_eq!(first_of(&server.post(&infer("k"), row(4))), 4.0);
    let body = r#"{"instances": [[1, 2, 3, 4]]}"#;
    let predictions = server.post("/v1/models/k:predict", body).expect(200).json();
    assert_eq!(predictions["predictions"], json!([[1.0, 2.0, 3.0, 4.0]]));
    let request = ModelReadyRequest { name: "k".to_owned(), version: String::new() };
    let ready: ModelReadyResponse = GrpcClient::new(&server).call("ModelReady", request).unwrap();
    assert!(ready.ready);
    assert_eq!(index(&server), ["k:1 READY"]);
}

#[test]
fn what_is_wrong_with_a_request_or_a_model_is_a_400_that_names_it() {
    let models = Repository::identity("bad/model", &[("load_fault", "fail")])
        .with_identity("several/model/a", &[])
        .with_identity("several/model/b", &[])
        .file("empty/model/notes.txt", "")
        .file("broken/model/config.pbtxt", "name: [")
        .file("broken/model/1/model.onnx", "")
        .file("nonsense/model/model.onnx", "no model");
    let outside = Repository::identity("model", &[]);
    std::os::unix::fs::symlink(outside.path(), models.path().join("link")).unwrap();
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    let refused = |key: &str, place: &str, parts: &[&str]| {
        let error = platform.load(key, place).error(400);
        for part in parts {
            assert!(error.contains(part), "no '{part}' in: {error}");
        }
    };
    refused("k", "bad/model", &["'k'", "told to fail"]);
    refused("k", "several/model", &["'a', 'b'", "ensemble"]);
    refused("k", "broken/model", &["config.pbtxt"]);
    refused("k", "nonsense/model", &["model.onnx"]);
    let root = models.path().to_str().unwrap();
    refused("k", "link/model", &["link/model", root, outside.path().to_str().unwrap()]);
    refused("k", "../", &["--sagemaker-models-root", root]);
    refused("k", "", &["--sagemaker-models-root"]);
    refused("", "bad/model", &["model_name", "1 to 1024"]);
    refused(&"x".repeat(1025), "bad/model", &["model_name", "1024"]);
    for body in ["", "{", "[]", r#"{"model_name": "k"}"#, r#"{"model_name": 7, "url": "/m"}"#] {
        platform.ask("POST", "/models", &[], Some(body)).error(400);
    }
    let relative = r#"{"model_name": "k", "url": "models/k", "other": {"x": 1}}"#;
    assert!(platform.ask("POST", "/models", &[], Some(relative)).error(400).contains("absolute"));
    // Where there is no model, that is the 404 of AWS's containers.
    let there = [("gone/model", "cannot be opened"), ("empty/model", "there is no model there")];
    for (place, part) in there {
        let error = platform.load("k", place).error(404);
        assert!(error.contains(place) && error.contains(part), "{error}");
    }
    assert_eq!(platform.keys(), [""; 0]);
    // A model that failed is one that is not loaded.
    platform.invoke("k", 1).error(404);
    server.post(&infer("k"), row(1)).error(404);
}

#[test]
fn a_model_with_a_script_that_would_not_run_is_not_loaded_unless_it_is_to_be_ignored() {
    let models = Repository::identity("own/model", &[])
        .file("own/model/code/inference.py", "import json\n")
        .with_identity("empty/model", &[])
        .file("empty/model/code/inference.py", "# nothing yet\n");
    let server = start(&models, &[]);
    let error = platform(&server, &models).load("own", "own/model").error(400);
    for part in ["model/code/inference.py", "is not run", "MUSTER_IGNORE_SCRIPTS=true"] {
        assert!(error.contains(part), "{error}");
    }
    platform(&server, &models).load("empty", "empty/model").expect(200);
    let server = start(&models, &["--ignore-scripts=true"]);
    platform(&server, &models).load("own", "own/model").expect(200);
    // The one for all models of an endpoint lies beside them.
    let models =
        Repository::identity("plain/model", &[]).file("code/inference.py", "import json\n");
    let server = start(&models, &[]);
    let error = platform(&server, &models).load("plain", "plain/model").error(400);
    for part in [&*models.at("code/inference.py"), "is not run", "MUSTER_IGNORE_SCRIPTS=true"] {
        assert!(error.contains(part), "{error}");
    }
    let server = start(&models, &["--ignore-scripts=true"]);
    platform(&server, &models).load("plain", "plain/model").expect(200);
}

#[test]
fn nothing_is_read_that_a_link_in_a_models_directory_leads_to_outside_the_root() {
    let secret = Repository::new().file("secret.pbtxt", "not for clients").file("m/1/x", "");
    let mut models = Repository::new();
    for key in ["config", "alternative", "weights", "file", "deep"] {
        models = models.with_identity(&format!("{key}/model"), &[]);
    }
    let models = models
        .copy("flat/model/net.onnx", "tests/fixtures/models/type_fp32/1/model.onnx")
        .model("member/model/whole", &ensemble("a"))
        .with_identity("inside/model", &[])
        .file("inside/model/configs/.keep", "")
        .file("alternative/model/configs/.keep", "")
        .file("deep/model/1/data/.keep", "");
    fs::remove_file(models.path().join("config/model/config.pbtxt")).unwrap();
    let link = |place: &str, to: &str| {
        let place = models.path().join(place);
        std::os::unix::fs::symlink(secret.path().join(to), place).unwrap();
    };
    link("config/model/config.pbtxt", "secret.pbtxt");
    link("alternative/model/configs/other.pbtxt", "secret.pbtxt");
    link("weights/model/1/weights.bin", "secret.pbtxt");
    link("file/model/1/model.onnx", "secret.pbtxt");
    link("deep/model/1/data/weights.bin", "secret.pbtxt");
    link("flat/model/weights.bin", "secret.pbtxt");
    link("member/model/a", "m");
    // Where it leads to another place below the root, it is fine.
    let other = models.path().join("alternative/model/1");
    std::os::unix::fs::symlink(other, models.path().join("inside/model/2")).unwrap();
    let server = start(&models, &["--model-config-name=other"]);
    let platform = platform(&server, &models);
    for (place, file) in [
        ("config/model", "config.pbtxt"),
        ("alternative/model", "configs/other.pbtxt"),
        ("weights/model", "1/weights.bin"),
        ("file/model", "1/model.onnx"),
        ("deep/model", "1/data/weights.bin"),
        ("flat/model", "weights.bin"),
        ("flat/model/net.onnx", "weights.bin"),
        ("member/model", "a"),
    ] {
        let error = platform.load("k", place).error(400);
        for part in [file, "--sagemaker-models-root", models.path().to_str().unwrap()] {
            assert!(error.contains(part), "{place}: no '{part}' in: {error}");
        }
        assert!(!error.contains("not for clients"), "{error}");
    }
    platform.load("k", "inside/model").expect(200);
}

#[test]
fn too_little_memory_is_a_507_whoever_finds_it_out() {
    let models = Repository::identity("engine/model", &[("load_fault", "out_of_memory")])
        .with_identity("member/model/a", &[("load_fault", "out_of_memory")])
        .model("member/model/whole", &ensemble("a"))
        .with_identity("run/model", &[("fault", "out_of_memory")])
        .with_identity("a/model", &[])
        .file("a/model/1/weights.bin", vec![0; 3 << 20])
        .with_identity("b/model", &[])
        .file("b/model/1/weights.bin", vec![0; 3 << 20]);
    let server = start(&models, &["--model-memory-budget=5MiB"]);
    let platform = platform(&server, &models);
    assert!(
        platform.load("engine", "engine/model").error(507).contains("told to be out of memory")
    );
    assert!(platform.load("member", "member/model").error(507).contains("member 'a'"));
    platform.load("run", "run/model").expect(200);
    platform.invoke("run", 1).error(507);
    // 3 MiB of files are reckoned to take 3.6.
    platform.load("a", "a/model").expect(200);
    let error = platform.load("b", "b/model").error(507);
    for part in ["'b'", "3.6 MiB", "--model-memory-budget 5 MiB"] {
        assert!(error.contains(part), "no '{part}' in: {error}");
    }
    platform.unload("a").expect(200);
    platform.load("b", "b/model").expect(200);
}

/// Versions 1 and 2 of a model in the place of a container: which of them answer, and what they take.
#[test]
fn in_the_place_of_tensorflow_servings_container_every_version_of_a_model_answers_and_counts() {
    let weights = || vec![0; 1 << 20];
    let models = Repository::identity("k/model", &[])
        .file("k/model/1/weights.bin", weights())
        .file("k/model/2/weights.bin", weights());
    let ask = |platform: Platform<'_>, version: u64| {
        let attributes = format!("tfs-model-name=k,tfs-model-version={version}");
        let headers = [("X-Amzn-SageMaker-Custom-Attributes", &*attributes)];
        platform.invoke_as("k", &headers, 1)
    };
    let server = start(&models, &["--sagemaker-dialect=tfs"]);
    let platform = platform(&server, &models);
    platform.load("k", "k/model").expect(200);
    for version in [1, 2] {
        let reply = ask(platform, version).expect(200).json();
        assert_eq!(reply["model_version"], version.to_string());
    }
    assert_eq!(platform.invoke("k", 1).expect(200).json()["model_version"], "2");
    // With a 404 the platform would load the model again.
    let error = ask(platform, 3).error(400);
    assert!(error.contains("version 3"), "{error}");
    // In that of the others it is the latest.
    let server = start(&models, &[]);
    let platform = self::platform(&server, &models);
    platform.load("k", "k/model").expect(200);
    ask(platform, 1).error(400);
    ask(platform, 2).expect(200);
    // Two are reckoned to take 2.4 MiB.
    let server = start(&models, &["--sagemaker-dialect=tfs", "--model-memory-budget=2MiB"]);
    let error = self::platform(&server, &models).load("k", "k/model").error(507);
    assert!(error.contains("2.4 MiB"), "{error}");
}

#[test]
fn without_a_budget_the_memory_of_the_machine_counts() {
    let models = models(&["k"]).file("k/model/1/weights.bin", "");
    let file = fs::File::create(models.path().join("k/model/1/weights.bin")).unwrap();
    // It takes no place on the disk, and nobody reads it.
    file.set_len(5 << 30).unwrap();
    let server = start(&models, &[]);
    let error = platform(&server, &models).load("k", "k/model").error(507);
    assert!(error.contains("6 GiB") && error.contains("4 GiB of memory"), "{error}");
}

#[test]
fn lists_come_in_pages() {
    let keys = ["a", "b", "c", "d", "e"];
    let models = models(&keys);
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    for key in keys {
        platform.load(key, &format!("{key}/model")).expect(200);
    }
    let (mut seen, mut query) = (Vec::new(), "?limit=2".to_owned());
    loop {
        let page = platform.list(&query).expect(200).json();
        let models = page["models"].as_array().unwrap();
        assert!(models.len() <= 2);
        seen.extend(models.iter().map(|it| it["modelName"].as_str().unwrap().to_owned()));
        let Some(token) = page.get("nextPageToken") else { break };
        query = format!("?next_page_token={}&limit=2&x", token.as_str().unwrap());
    }
    assert_eq!(seen, keys);
    assert_eq!(
        platform.list("?limit=5000").expect(200).json()["models"].as_array().unwrap().len(),
        5
    );
    for (query, part) in
        [("?limit=0", "limit"), ("?limit=x", "limit"), ("?next_page_token=3", "next_page_token")]
    {
        assert!(platform.list(query).error(400).contains(part), "{query}");
    }
}

#[test]
fn other_methods_are_refused_with_those_that_there_are() {
    let models = models(&["k"]);
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    for (method, path, allowed) in [
        ("PUT", "/models", "GET, POST"),
        ("DELETE", "/models", "GET, POST"),
        ("POST", "/models/k", "GET, DELETE"),
        ("GET", "/models/k/invoke", "POST"),
        ("DELETE", "/invocations", "POST"),
        ("DELETE", "/ping", "GET, POST"),
    ] {
        let reply = platform.ask(method, path, &[], None);
        reply.error(405);
        assert_eq!(reply.header("allow"), Some(allowed), "{method} {path}");
    }
    platform.ask("POST", "/models/k/other", &[], Some("{}")).error(404);
}

#[test]
fn an_invocation_without_a_key_goes_to_the_model_that_it_names_or_to_the_only_one() {
    let models =
        Repository::identity("k1/model", &[]).with_identity("k2/model", &[("fault", "fail")]);
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    let invoke =
        |headers: &[(&str, &str)]| platform.ask("POST", "/invocations", headers, Some(&row(1)));
    assert!(invoke(&[]).error(400).contains("0 models are loaded"));
    platform.load_as("k1", "k1/model", &[(TARGET, "a/b/model.tar.gz")]).expect(200);
    invoke(&[]).expect(200);
    invoke(&[(TARGET, "another.tar.gz")]).expect(200);
    platform.load("k2", "k2/model").expect(200);
    // Who asks one model cannot have what is asked of another one.
    platform.invoke_as("k2", &[(TARGET, "a/b/model.tar.gz")], 1).error(500);
    platform.invoke_as("k2", &[(TARGET, "k1")], 1).error(500);
    invoke(&[(TARGET, "a/b/model.tar.gz")]).expect(200);
    invoke(&[(TARGET, "k1")]).expect(200);
    let error = invoke(&[(TARGET, "another.tar.gz")]).error(400);
    assert!(error.contains("another.tar.gz") && error.contains("2 models"), "{error}");
    assert!(invoke(&[]).error(400).contains("2 models"));
    invoke(&[(TARGET, "a/b/model.tar.gz")]).expect(200);
    // What it is called may be said later.
    platform.invoke_as("k2", &[(TARGET, "late.tar.gz")], 1).error(500);
    invoke(&[(TARGET, "late.tar.gz")]).error(500);
    platform.unload("k1").expect(200);
    platform.load("k1", "k1/model").expect(200);
    invoke(&[(TARGET, "a/b/model.tar.gz")]).error(400);
}

#[test]
fn ping_is_alive_without_a_model_and_with_a_bad_one() {
    let models = Repository::identity("bad/model", &[("load_fault", "fail")]);
    let mut server = start(&models, &["--drain-delay-secs=2"]);
    let platform = platform(&server, &models);
    let ping = || platform.ask("GET", "/ping", &[], None);
    assert_eq!((ping().status, ping().body.len()), (200, 0));
    platform.load("bad", "bad/model").error(400);
    assert_eq!(ping().status, 200);
    let parameters = platform.ask("GET", "/execution-parameters", &[], None).expect(200).json();
    assert_eq!(parameters["BatchStrategy"], "MULTI_RECORD");
    server.begin_stop();
    wait_for("the server to leave", || (ping().status == 503).then_some(()));
}

#[test]
fn metrics_bear_the_name_that_people_use_and_are_bounded() {
    const MOST: usize = 200;
    let models = models(&["k"]);
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    platform.load_as("k", "k/model", &[(TARGET, "a/b/model.tar.gz")]).expect(200);
    platform.invoke("k", 1).expect(200);
    let page = Page::read(platform.address);
    assert_eq!(page.of("a/b/model.tar.gz", "nv_inference_count"), 1.0);
    for number in 0..MOST {
        platform.load(&format!("x{number}"), "k/model").expect(200);
    }
    platform.invoke(&format!("x{}", MOST - 1), 1).expect(200);
    let page = Page::read(platform.address);
    let others = page.value("nv_inference_count{model=\"_other\",version=\"_other\"}");
    assert_eq!(others, 1.0);
    let series = |name: &str| format!("nv_inference_count{{model=\"{name}\",version=\"1\"}}");
    assert!(page.has(&series("x0")) && !page.has(&series(&format!("x{}", MOST - 1))));
}

#[test]
fn an_unload_is_answered_when_the_requests_of_the_model_are() {
    let models = Repository::identity("k/model/slow", &[("execute_delay_ms", "700")])
        .model("k/model/whole", &ensemble("slow"));
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    platform.load("k", "k/model").expect(200);
    thread::scope(|scope| {
        let asked = [(); 3].map(|()| scope.spawn(|| platform.invoke("k", 9)));
        // Two instances are at work, and the third request waits; before that each waits for a moment.
        let mut since = None;
        wait_for("a request to wait", || {
            let waiting = "muster_queue_depth{model=\"slow\",namespace=\"k\",version=\"1\"}";
            match Page::read(platform.address).value(waiting) == 1.0 {
                true => since.get_or_insert_with(Instant::now),
                false => since.insert(Instant::now()),
            };
            since.filter(|it| Duration::from_millis(150) < it.elapsed()).map(drop)
        });
        let began = Instant::now();
        platform.unload("k").expect(200);
        assert!(Duration::from_millis(500) < began.elapsed(), "{:?}", began.elapsed());
        for asked in asked {
            assert_eq!(first_of(&asked.join().unwrap()), 9.0);
        }
    });
    assert_eq!(index(&server), [""; 0]);
}

#[test]
fn models_come_and_go_and_requests_get_answers_or_are_told_that_the_model_is_not_loaded() {
    let models = models(&["stays", "goes"]);
    let server = start(&models, &[]);
    let platform = platform(&server, &models);
    platform.load("stays", "stays/model").expect(200);
    let stop = AtomicBool::new(false);
    let ask = |key: &'static str, allowed: &'static [u16]| {
        let mut answers = 0;
        let mut client = Client::connect(platform.address);
        while !stop.load(Ordering::Relaxed) {
            let path = format!("/models/{key}/invoke");
            let reply = client.post(&path, &[JSON], row(1));
            assert!(allowed.contains(&reply.status), "{key}: {} {}", reply.status, reply.text());
            answers += usize::from(reply.status == 200);
        }
        answers
    };
    let rounds = 60;
    let (stays, goes) = thread::scope(|scope| {
        let stays = [(); 2].map(|()| scope.spawn(|| ask("stays", &[200])));
        let goes = [(); 2].map(|()| scope.spawn(|| ask("goes", &[200, 404])));
        for _ in 0..rounds {
            platform.load("goes", "goes/model").expect(200);
            platform.unload("goes").expect(200);
        }
        stop.store(true, Ordering::Relaxed);
        let sum = |it: [thread::ScopedJoinHandle<'_, usize>; 2]| -> usize {
            it.into_iter().map(|it| it.join().unwrap()).sum()
        };
        (sum(stays), sum(goes))
    });
    assert!(0 < stays && 0 < goes, "{stays} and {goes} answers");
}

#[test]
fn a_small_model_has_one_thread_for_a_run_unless_it_says_more() {
    let onnx = "tests/fixtures/models/type_fp32/1/model.onnx";
    let config = "parameters { key: 'intra_op_thread_count' value { string_value: '3' } }";
    let models = Repository::new()
        .copy("small/model/model.onnx", onnx)
        .copy("own/model/1/model.onnx", onnx)
        .file("own/model/config.pbtxt", config);
    let root = format!("--sagemaker-models-root={}", models.at(""));
    let flags =
        ["--sagemaker-multi-model=true", &root, "--http-address=127.0.0.1", "--sagemaker-port=0"];
    let off = ["--allow-http=false", "--allow-grpc=false", "--allow-metrics=false"];
    let mut process = Process::command(&[&flags[..], &off].concat(), &[]);
    let address = process.address("sagemaker");
    let platform = Platform { address, models: &models };
    for (key, threads) in [("small", "threads=1 "), ("own", "threads=3 ")] {
        platform.load(key, &format!("{key}/model")).expect(200);
        let ready = process.wait_for_line(&format!("model={key} version=1"));
        assert!(ready.contains(threads), "{ready}");
        // Not because there are no more processors.
        assert!(ready.contains("threads: intra_op_thread_count"), "{ready}");
    }
}

#[test]
fn without_the_mode_the_addresses_say_how_to_have_it() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &[]);
    let platform = platform(&server, &repository);
    let told = "--sagemaker-multi-model=true";
    for reply in [
        platform.list(""),
        platform.load("m", "m"),
        platform.describe("m"),
        platform.unload("m"),
        platform.invoke("m", 1),
    ] {
        assert!(reply.error(404).contains(told));
    }
    platform.ask("PUT", "/models", &[], None).error(405);
}

#[test]
fn a_platform_starts_it_with_variables_alone_and_memory_is_back_when_an_unload_is_answered() {
    let base = Repository::new().file("models/k/model/1/.keep", "");
    let dense = |path: &str, layers, width| {
        let path = base.path().join("models").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        onnx_file::dense(&path, layers, width, 1).unwrap();
    };
    // 240 MiB of weights; and one that has the library opened before memory is measured.
    dense("k/model/1/model.onnx", 60, 1024);
    dense("small/model/model.onnx", 1, 64);
    let variables = [
        ("SAGEMAKER_MULTI_MODEL", "true"),
        ("SAGEMAKER_BIND_TO_PORT", "0"),
        ("SAGEMAKER_BASE_DIR", &base.at("")),
    ];
    let mut process = Process::command(&["serve", IN_PROCESS], &variables);
    process.wait_ready();
    let services: Vec<String> =
        process.log().into_iter().filter(|it| it.contains("listening service=")).collect();
    assert!(services.len() == 1 && services[0].contains("service=sagemaker"), "{services:?}");
    let address = process.address("sagemaker");
    let platform = Platform { address, models: &base };
    platform.ask("GET", "/ping", &[], None).expect(200);
    platform.load("warm", "models/small/model").expect(200);
    let before = resident(&process);
    for _ in 0..3 {
        platform.load_as("k", "models/k/model", &[(TARGET, "big.tar.gz")]).expect(200);
        let loaded = resident(&process);
        assert!(before + 220 < loaded, "{before} MiB before, {loaded} MiB loaded");
        platform.unload("k").expect(200);
        let after = resident(&process);
        println!("{before} MiB before, {loaded} MiB loaded, {after} MiB after");
        // glibc keeps the free end of a heap that is not the first, which is 64 MiB at most.
        assert!(after < before + 100, "{before} MiB before, {after} MiB after");
    }
    platform.invoke_as("k", &[(TARGET, "big.tar.gz")], 1).error(404);
    let rejected = process.wait_for_line("request rejected");
    assert!(rejected.contains("/models/k/invoke") && rejected.contains("big.tar.gz"), "{rejected}");
    let loaded = process.wait_for_line("loaded for the platform model=k ");
    assert!(loaded.contains("big.tar.gz"), "{loaded}");
    process.signal("TERM");
    assert!(process.wait().status.success());
}
