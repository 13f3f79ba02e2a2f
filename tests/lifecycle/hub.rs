//! Models by their names on a hub, through the real binary: what is fetched, where it lies, and what goes wrong on the
//! way. The hub is a script, which `huggingface_hub` takes for one, too.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use serde_json::{Value, json};

use crate::support::{
    Client, Finished, Process, Repository, check_end,
    hub::{Hub, TOKEN},
    pipelines::{self, agrees},
    python::{python, run},
    root, small_disk,
};

/// Every port a free one.
const PORTS: [&str; 5] = [
    "--http-port=0",
    "--grpc-port=0",
    "--sagemaker-port=0",
    "--metrics-port=0",
    "--http-address=127.0.0.1",
];

/// What a server needs of `org/sst2`.
const NEEDED: [&str; 4] =
    ["config.json", "onnx/model.onnx", "tokenizer.json", "tokenizer_config.json"];

fn serve(hub: &Hub, cache: &Repository, args: &[&str], variables: &[(&str, &str)]) -> Process {
    hub.muster(cache, &[&["serve"], args, &PORTS].concat(), variables)
}

/// The answer to a sentence.
#[track_caller]
fn answer(process: &mut Process) -> String {
    process.wait_ready();
    let body = json!({"inputs": "I am super happy right now."}).to_string();
    process.client().post("/pipeline", &[], body).expect(200).text()
}

/// A pull that succeeds: the directory that it prints.
#[track_caller]
fn pull(hub: &Hub, cache: &Repository, args: &[&str], variables: &[(&str, &str)]) -> String {
    let ended = hub.muster(cache, &[&["pull"], args].concat(), variables).wait();
    assert!(ended.status.success(), "{:#?}", ended.log);
    ended.log.iter().find(|it| it.starts_with('/')).unwrap().clone()
}

/// A pull that fails: its last line is the reason, and holds all of `parts`.
#[track_caller]
fn refused(hub: &Hub, cache: &Repository, args: &[&str], parts: &[&str]) -> Finished {
    let ended = hub.muster(cache, &[&["pull"], args].concat(), &[]).wait();
    assert_eq!(ended.status.code(), Some(1), "{:#?}", ended.log);
    let reason = ended.log.iter().find(|it| it.starts_with("cannot fetch"));
    for part in parts {
        assert!(reason.is_some_and(|it| it.contains(part)), "no '{part}': {:#?}", ended.log);
    }
    ended
}

/// The files and links below a folder of a cache, each with what it holds or where it leads.
fn tree(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            match path.symlink_metadata().unwrap() {
                it if it.is_dir() => open.push(path),
                it if it.is_symlink() => {
                    let to = fs::read_link(path).unwrap().into_os_string();
                    found.push((name, to.into_encoded_bytes()));
                }
                _ => found.push((name, fs::read(path).unwrap())),
            }
        }
    }
    found.sort();
    found
}

/// The files of a cache whose transfer has not ended.
fn incomplete(cache: &Repository) -> Vec<u64> {
    let blobs = cache.path().join("home/hub/models--org--sst2/blobs");
    let entries = fs::read_dir(blobs).into_iter().flatten().map(|it| it.unwrap());
    let parts = entries.filter(|it| it.path().extension().is_some_and(|it| it == "incomplete"));
    parts.map(|it| it.metadata().unwrap().len()).collect()
}

#[test]
fn a_model_is_served_by_its_name_with_the_answers_of_its_folder_and_a_second_start_fetches_nothing()
{
    let Some(hub) = Hub::with_text_model() else { return };
    let (cache, copy) = (Repository::new(), pipelines::repository(&["sst2"]));
    let folder = copy.at("sst2");
    let expected = answer(&mut Process::command(&[&["serve", &*folder][..], &PORTS].concat(), &[]));
    let mut server = serve(&hub, &cache, &["org/sst2"], &[]);
    assert_eq!(answer(&mut server), expected);
    assert_eq!(hub.fetched(), NEEDED);
    let index = server.client().post("/v2/repository/index", &[], "").expect(200).json();
    assert_eq!(index[0]["name"], "sst2");
    drop(server);

    hub.fail(json!([]));
    assert_eq!(answer(&mut serve(&hub, &cache, &["hf://org/sst2@main"], &[])), expected);
    assert_eq!(hub.asked().len(), 1, "{:?}", hub.asked());
    // A folder of that name goes before the hub's.
    symlink(copy.path(), cache.path().join("org")).unwrap();
    hub.fail(json!([]));
    let args = [&["serve", "org/sst2"][..], &PORTS].concat();
    let shell = ["-c", "cd \"$0\" && exec \"$@\"", &cache.at(""), &crate::support::program()];
    let address = hub.address();
    let mut local =
        Process::program("/bin/sh", &[&shell[..], &args].concat(), &[("HF_ENDPOINT", &address)]);
    assert_eq!(answer(&mut local), expected);
    assert_eq!(hub.asked(), []);
}

#[test]
fn the_cache_is_that_of_huggingface_hub_both_ways() {
    let Some(hub) = Hub::with_text_model() else { return };
    let Some(python) = python("requirements-pipelines.txt") else { return };
    let script = crate::support::root("tests/clients/hub_client.py");
    let client = |cache: &str, revision: &str, offline: &str| {
        let mut command = Command::new(&python);
        command.arg(&script).args([cache, "org/sst2", revision]).args(NEEDED);
        command.env("HF_ENDPOINT", hub.address()).env("HF_HUB_OFFLINE", offline);
        command.env("HF_HOME", Path::new(cache).join("home")).env("HF_HUB_DISABLE_XET", "1");
        run(&mut command).unwrap().lines().last().unwrap().to_owned()
    };
    let (ours, theirs) = (Repository::new(), Repository::new());
    let mine = pull(&hub, &ours, &["org/sst2@refs/pr/1"], &[]);
    let other = client(&theirs.at("hub"), "refs/pr/1", "0");
    let below = |cache: &Repository, hub: &str| {
        tree(&cache.path().join(hub).join("models--org--sst2"))
            .into_iter()
            // What their client notes of the list of files is of no use to others.
            .filter(|it| {
                ["blobs/", "refs/", "snapshots/"].iter().any(|part| it.0.starts_with(part))
            })
            .collect::<Vec<_>>()
    };
    let found = below(&ours, "home/hub");
    assert_eq!(found.len(), 2 * NEEDED.len() + 1, "{found:?}");
    assert!(found == below(&theirs, "hub"), "the trees differ");
    // Each takes what the other has fetched.
    hub.fail(json!([]));
    assert_eq!(client(&ours.at("home/hub"), "refs/pr/1", "1"), mine);
    let offline = [("HF_HUB_OFFLINE", "1"), ("HF_HUB_CACHE", &*theirs.at("hub"))];
    assert_eq!(pull(&hub, &ours, &["org/sst2@refs/pr/1"], &offline), other);
    assert_eq!(hub.asked(), []);
}

#[test]
fn a_transfer_that_breaks_is_gone_on_with_in_this_and_in_the_next_attempt() {
    let Some(hub) = Hub::with_text_model() else { return };
    let cache = Repository::new();
    let cut = |times: u32, bytes: u32| json!([{"path": "GET cdn /org/sst2/onnx/model.onnx", "times": times, "fault": "cut", "bytes": bytes}]);
    let ranges = |hub: &Hub| {
        let of_graph = |it: &(String, _, Option<String>)| it.0.starts_with("GET cdn /");
        hub.asked().into_iter().filter(of_graph).map(|it| it.2).collect::<Vec<_>>()
    };
    // Nothing comes, each time.
    hub.fail(cut(5, 0));
    refused(&hub, &cache, &["org/sst2"], &["model.onnx", "end of file", "5 times"]);
    // Something comes, three times.
    hub.fail(cut(3, 1000));
    let directory = pull(&hub, &cache, &["org/sst2"], &[]);
    let asked = ranges(&hub);
    let expected = [None, Some("bytes=1000-"), Some("bytes=2000-"), Some("bytes=3000-")];
    assert_eq!(asked, expected.map(|it| it.map(str::to_owned)));
    let graph = fs::read(format!("{directory}/onnx/model.onnx")).unwrap();
    assert_eq!(graph, fs::read(hub.models.at("org/sst2/onnx/model.onnx")).unwrap());
    assert_eq!(incomplete(&cache), [0; 0]);

    // A process that ends in between leaves what has come to the next one.
    let cache = Repository::new();
    hub.fail(json!([
        {"path": "GET cdn", "times": 1, "fault": "cut", "bytes": 1000},
        {"path": "GET cdn", "times": 9, "fault": "status", "status": 503, "headers": {"Retry-After": "100"}},
    ]));
    let mut process = hub.muster(&cache, &["pull", "org/sst2"], &[]);
    process.wait_for_line("answered 503");
    drop(process);
    assert_eq!(incomplete(&cache), [1000]);
    hub.fail(json!([]));
    pull(&hub, &cache, &["org/sst2"], &[]);
    assert_eq!(ranges(&hub), [Some("bytes=1000-".to_owned())]);
}

#[test]
fn several_files_of_a_model_are_fetched_at_the_same_time() {
    let Some(hub) = Hub::with_text_model() else { return };
    // None is answered before all have been asked for.
    let count = NEEDED.len();
    hub.fail(json!([{"path": "GET hub /org/sst2/resolve/", "times": count, "fault": "gather", "count": count}]));
    pull(&hub, &Repository::new(), &["org/sst2"], &[]);
    assert_eq!(hub.fetched(), NEEDED);
}

#[test]
fn a_content_with_another_digest_is_refused_and_not_kept() {
    let Some(hub) = Hub::with_text_model() else { return };
    // A file of the hub's own host is asked about before it is fetched.
    for (path, times, digest) in [("GET cdn", 1, "sha256:"), ("/tokenizer.json", 2, "git:")] {
        let cache = Repository::new();
        hub.fail(json!([{"path": path, "times": times, "fault": "corrupt"}]));
        refused(&hub, &cache, &["org/sst2"], &["its content has ", digest, "it was removed"]);
        hub.fail(json!([]));
        pull(&hub, &cache, &["org/sst2"], &[]);
        let again =
            hub.asked().into_iter().filter(|it| it.0.contains("GET") && it.0.contains(path));
        let ranges: Vec<_> = again.map(|it| it.2).collect();
        assert_eq!(ranges, [None]);
    }
    let cache = Repository::new();
    // What was begun by another content is fetched from its beginning.
    hub.fail(json!([
        {"path": "GET cdn", "times": 1, "fault": "cut", "bytes": 1000},
        {"path": "GET cdn", "times": 1, "fault": "corrupt"},
    ]));
    pull(&hub, &cache, &["org/sst2"], &[]);
}

#[test]
fn the_token_goes_to_the_hub_alone_and_is_never_shown() {
    let Some(hub) = Hub::with_text_model() else { return };
    let cache = Repository::new();
    hub.write("org/sst2/.private", b"");
    refused(&hub, &cache, &["org/sst2"], &["answered 401", "set HF_TOKEN", "Invalid username"]);
    let wrong = hub.muster(&cache, &["pull", "org/sst2"], &[("HF_TOKEN", "hub-guess")]).wait();
    assert!(!wrong.status.success(), "{:#?}", wrong.log);
    let log = wrong.log.join("\n");
    assert!(log.contains("does not take the token") && !log.contains("hub-guess"), "{log}");

    hub.fail(json!([]));
    let mut server = serve(&hub, &cache, &["org/sst2", "--log-verbose=1"], &[("HF_TOKEN", TOKEN)]);
    server.wait_ready();
    let asked = hub.asked();
    for (request, has_credentials, _) in &asked {
        assert_eq!(*has_credentials, !request.contains(" cdn "), "{request}");
    }
    assert!(asked.iter().any(|it| it.0.contains(" /org/sst2/onnx")), "{asked:?}");
    let log = server.log().join("\n");
    assert!(!log.contains(TOKEN) && !log.contains("swordfish"), "{log}");
    drop(server);
    // One that `hf auth login` has kept.
    let (cache, token) = (Repository::new(), TOKEN.to_owned() + "\n");
    let cache = cache.file("home/token", token);
    pull(&hub, &cache, &["org/sst2"], &[]);
}

#[test]
fn what_cannot_be_fetched_is_refused_with_what_to_do() {
    let Some(hub) = Hub::with_text_model() else { return };
    let cache = Repository::new();
    refused(&hub, &cache, &["org/none"], &["hf://org/none", "no such model, or it is private"]);
    let revision = ["404", "Invalid rev id: v9", "no such model, revision"];
    refused(&hub, &cache, &["org/sst2@v9"], &revision);
    hub.write("org/weights/model.safetensors", b"x");
    let export = "optimum-cli export onnx --model org/weights weights";
    refused(&hub, &cache, &["org/weights"], &["only weights (safetensors)", export]);
    hub.write("org/pickle/model.pkl", b"x");
    refused(&hub, &cache, &["org/pickle"], &["pickles, which are never fetched"]);
    let graph = ["no graph 'onnx/model_q4.onnx'", "onnx/model_quantized.onnx"];
    refused(&hub, &cache, &["org/sst2", "--pipeline-graph=q4"], &graph);
    // A disk that is too small for what is announced is not written to.
    let huge = json!({"X-Linked-Size": "900000000000000000"});
    hub.fail(json!([{"path": "HEAD", "times": 9, "fault": "header", "headers": huge}]));
    refused(
        &hub,
        &cache,
        &["org/sst2"],
        &["has room for", "3600000000000000000 are to be fetched"],
    );
    assert_eq!(hub.fetched(), [""; 0]);
    // Files that would lie elsewhere.
    let outside = json!({"X-Linked-Etag": "../../../x", "ETag": "../../../x"});
    hub.fail(json!([{"path": "HEAD", "times": 9, "fault": "header", "headers": outside}]));
    refused(&hub, &cache, &["org/sst2"], &["expected the name of its content"]);
    let usage = hub.muster(&cache, &["pull", "./model"], &[]).wait();
    assert!(usage.log.join("\n").contains("'./model' is no name of a model"), "{:#?}", usage.log);
}

#[test]
fn another_graph_is_fetched_where_it_is_named() {
    let Some(hub) = Hub::with_text_model() else { return };
    let cache = Repository::new();
    hub.put("org/sst2/onnx/model_quantized.onnx", &hub.models.at("org/sst2/onnx/model.onnx"));
    hub.write("org/sst2/onnx/model.onnx", b"not for this server");
    let args = ["org/sst2", "--pipeline-graph=quantized"];
    answer(&mut serve(&hub, &cache, &args, &[]));
    assert_eq!(hub.fetched()[1], "onnx/model_quantized.onnx");
}

#[test]
fn a_hub_that_is_busy_is_asked_again_when_it_says() {
    let Some(hub) = Hub::with_text_model() else { return };
    let cache = Repository::new();
    let busy = json!({"Retry-After": "0"});
    hub.fail(json!([
        {"path": "/api/models", "times": 2, "fault": "status", "status": 429, "headers": busy},
        {"path": "HEAD hub", "times": 1, "fault": "status", "status": 503, "headers": busy},
        {"path": "GET cdn", "times": 1, "fault": "status", "status": 500, "headers": busy},
    ]));
    pull(&hub, &cache, &["org/sst2"], &[]);
    let asked = hub.asked();
    assert_eq!(asked.iter().filter(|it| it.0.contains("/api/models")).count(), 3, "{asked:?}");
}

#[test]
fn the_variables_of_hugging_faces_container_name_the_model_and_what_is_here_goes_first() {
    let Some(mut hub) = Hub::with_text_model() else { return };
    let cache = Repository::new();
    let empty = cache.at("model");
    fs::create_dir(&empty).unwrap();
    let variables = [
        ("SAGEMAKER_MODEL_PATH", &*empty),
        ("SAGEMAKER_BIND_TO_PORT", "0"),
        ("HF_MODEL_ID", "org/sst2"),
        ("HF_MODEL_REVISION", "v1"),
        ("HF_TASK", "text-classification"),
    ];
    let start = |hub: &Hub, more: &[(&str, &str)]| {
        hub.muster(&cache, &["serve"], &[&variables, more].concat())
    };
    let ask = |process: &mut Process| {
        process.wait_ready();
        let address = process.address("sagemaker");
        let body = json!({"inputs": "I am super happy right now."}).to_string();
        let headers = [("Content-Type", "application/json")];
        let mut client = crate::support::Client::connect(address);
        client.post("/invocations", &headers, body).expect(200).text()
    };
    let expected = ask(&mut start(&hub, &[]));
    assert!(expected.contains("POSITIVE"), "{expected}");
    assert_eq!(hub.fetched(), NEEDED);
    // The hub goes away: what is here is served, with a warning, or without asking.
    hub.stop();
    let mut away = start(&hub, &[]);
    assert_eq!(ask(&mut away), expected);
    away.wait_for_line("the copy that is here is served, as the hub cannot be asked");
    let mut offline = start(&hub, &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(ask(&mut offline), expected);
    let elsewhere = [("HF_HUB_OFFLINE", "1"), ("HF_HUB_CACHE", &*cache.at("other"))];
    check_end(start(&hub, &elsewhere), 1, "is not in");
    // Files in the platform's folder go before a name.
    fs::remove_dir(&empty).unwrap();
    let cache = cache.with_identity("model/net", &[]);
    let mut local = hub.muster(&cache, &["serve"], &variables);
    local.wait_ready();
    assert!(local.log().iter().any(|it| it.contains("net")), "{:#?}", local.log());
}

#[test]
fn health_and_metrics_are_answered_while_a_model_is_fetched() {
    let Some(hub) = Hub::with_text_model() else { return };
    // No file is answered before somebody asks for one more.
    let count = NEEDED.len() + 1;
    let gather = json!([{"path": "GET hub /org/sst2/resolve/", "times": count, "fault": "gather", "count": count}]);
    let start = |flags: &[&str]| {
        hub.fail(gather.clone());
        serve(
            &hub,
            &Repository::new(),
            &[&["org/sst2", "--drain-delay-secs=0"], flags].concat(),
            &[],
        )
    };
    let cache = Repository::new();
    hub.fail(gather.clone());
    let mut server = serve(&hub, &cache, &["org/sst2"], &[]);
    let mut client = server.client();
    client.get("/v2/health/live").expect(200);
    client.get("/v2/health/ready").expect(400);
    let error = client.get("/v2/models/sst2").error(503);
    assert!(error.contains("the server does not know its models yet"), "{error}");
    let ping = Client::connect(server.address("sagemaker")).get("/ping").expect(503).text();
    assert!(ping.contains("models are still loading"), "{ping}");
    Client::connect(server.address("metrics")).get("/metrics").expect(200);
    let hub_address = hub.address();
    let released = hub_address.strip_prefix("http://").unwrap().parse().unwrap();
    Client::connect(released).get("/org/sst2/resolve/main/config.json").expect(200);
    assert!(answer(&mut server).contains("POSITIVE"));
    drop(server);

    // It is stopped as ever, and the time of the start counts.
    let mut stopped = start(&[]);
    stopped.wait_for_line("fetching it");
    stopped.signal("TERM");
    assert_eq!(stopped.wait().status.code(), Some(0));
    let overdue = "--startup-timeout, 0.5 s; still fetching: hf://org/sst2";
    check_end(start(&["--startup-timeout=0.5"]), 1, overdue);
}

#[test]
fn a_disk_that_is_full_fails_the_fetch_and_says_so() {
    let Some(hub) = Hub::with_text_model() else { return };
    let cache = Repository::new();
    let dir = cache.at("home");
    fs::create_dir(&dir).unwrap();
    if !small_disk::can_be_mounted(&dir) {
        return;
    }
    let address = hub.address();
    let reason = |options: &str| {
        let home = [("HF_ENDPOINT", &*address), ("HF_HOME", &*dir)];
        let ended = small_disk::muster(&dir, options, &["pull", "org/sst2"], &home).wait();
        assert_eq!(ended.status.code(), Some(1), "{:#?}", ended.log);
        ended.log.join("\n")
    };
    let log = reason("size=64k");
    assert!(log.contains("/home/hub/models--org--sst2 has room for"), "{log}");
    // Bytes are free, and another file has no place.
    let log = reason("size=9m,nr_inodes=9");
    assert!(log.contains("No space left on device"), "{log}");
}

#[test]
fn weights_without_a_graph_are_fetched_where_one_is_made_for_them() {
    let Some(hub) = Hub::start() else { return };
    let folder = root("tests/fixtures/weights/classifier");
    let files = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
    for file in files {
        let content = fs::read(folder.join(file)).unwrap();
        hub.write(&format!("org/sst2/{file}"), &content);
        let text = String::from_utf8_lossy(&content).replace("\"bert\"", "\"gpt2\"");
        let other = if file == "config.json" { text.into_bytes() } else { content };
        hub.write(&format!("org/unknown/{file}"), &other);
    }
    let cache = Repository::new();
    let replies = fs::read_to_string(folder.join("replies.json")).unwrap();
    let mut server = serve(&hub, &cache, &["org/sst2"], &[]);
    server.wait_ready();
    let body = json!({"inputs": "I am happy"}).to_string();
    let given = server.client().post("/pipeline", &[], body).expect(200).json();
    let replies: Value = serde_json::from_str(&replies).unwrap();
    assert!(agrees(&given[0], &replies["replies"][0]), "{given}\n{replies}");
    assert_eq!(hub.fetched(), files);
    drop(server);
    // Of an unknown family nothing but its description is fetched.
    hub.fail(json!([]));
    let command = ["only weights (safetensors)", "optimum-cli export onnx --model org/unknown"];
    refused(&hub, &cache, &["org/unknown"], &command);
    assert_eq!(hub.fetched(), ["config.json"]);
}
