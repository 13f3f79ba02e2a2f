//! What changes while requests come: none of them fails, and what fails to change stays as it was.

use std::{
    fs,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use backend::{NamedTensor, Shape, Tensor};
use inference::request::InferenceRequest;
use serde_json::json;
use serving::{ServedModel, infer::Inference};

use crate::support::{
    Client, Models, Page, Repository, Server, Traffic,
    control::{EXPLICIT, index, load, wait_for_index},
    first_of, infer, row, wait_for,
};

/// The configuration of a model that [`Repository::identity`] makes, with more to it.
fn config(more: &str) -> String {
    format!(
        "backend: \"identity\"\nmax_batch_size: 8\n\
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}\n\
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}\n{more}\n"
    )
}

fn delay(microseconds: u32) -> String {
    let delay = "parameters { key: \"latency_alpha_us\" value: { string_value: ";
    config(&format!("{delay}\"{microseconds}\" }} }}"))
}

fn write(repository: &Repository, text: &str) {
    fs::write(repository.path().join("m/config.pbtxt"), text).unwrap();
}

/// Nobody is refused because others wait, however slow a busy machine is.
const FLAGS: [&str; 3] = [EXPLICIT, "--load-model=m", "--max-queue-wait-ms=0"];

/// Reloads of one version under 16 connections, until there are so many answers.
fn reload_under_load(requests: usize, flags: &[&str]) {
    let repository = Repository::new().model("m", &delay(0));
    let flags: Vec<&str> = FLAGS.iter().chain(flags).copied().collect();
    let server = Server::start(&repository, &flags);
    let traffic = Traffic::start(server.http(), "m", 16);
    let mut reloads = 0;
    while traffic.answers() < requests {
        traffic.wait_for_more(200);
        reloads += 1;
        // Each is another model for the engine: the old one serves until the new one does.
        write(&repository, &delay(reloads % 7 * 10));
        load(&server, "m", "").expect(200);
    }
    let answers = traffic.stop();
    println!("{answers} answers, {reloads} reloads, no failure");
    assert!(3 <= reloads && requests <= answers, "{reloads} reloads, {answers} answers");
    wait_for_index(&server, &["m:1 READY"]);
    server.stop().unwrap();
}

#[test]
fn no_request_fails_while_its_model_is_loaded_again() {
    reload_under_load(20_000, &[]);
}

#[test]
fn nor_where_every_run_is_on_another_thread() {
    reload_under_load(10_000, &["--caller-runs=off"]);
}

/// `cargo test --release -p muster --test lifecycle reload:: -- --ignored --nocapture`
#[test]
#[ignore = "takes a minute: it makes 100,000 requests"]
fn none_of_a_hundred_thousand_requests_fails_while_their_model_is_loaded_again() {
    reload_under_load(100_000, &[]);
}

/// Classifiers with tokenizers and labels of their own.
const FOLDERS: [&str; 2] = ["sst2", "roberta"];

/// Puts the files of one fixture into the place of those of another.
#[cfg(feature = "pipelines")]
fn replace_folder(repository: &Repository, fixture: &str) {
    let folder = repository.path().join("m");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    let files = crate::support::pipelines::repository(&[fixture]);
    fs::rename(files.path().join(fixture), folder).unwrap();
}

/// An answer of the tokenizer of one by the graph of the other would be a third one.
#[cfg(feature = "pipelines")]
#[test]
fn a_folder_that_is_loaded_again_under_load_answers_as_one_of_its_versions() {
    let repository = Repository::new();
    let flags = [EXPLICIT, "--load-model=m"];
    replace_folder(&repository, FOLDERS[0]);
    let server = Server::start(&repository, &flags);
    let body =
        json!({"inputs": "I am super happy right now.", "parameters": {"top_k": 2}}).to_string();
    let ask =
        |client: &mut Client| client.post("/v2/models/m/pipeline", &[], &*body).expect(200).text();
    let first = ask(&mut server.client());
    replace_folder(&repository, FOLDERS[1]);
    load(&server, "m", "").expect(200);
    let second = ask(&mut server.client());
    assert_ne!(first, second);
    let is_over = AtomicBool::new(false);
    let asked = thread::scope(|scope| {
        let traffic = || {
            let mut client = server.client();
            let mut asked = [0, 0];
            while !is_over.load(Ordering::Relaxed) {
                let answer = ask(&mut client);
                let which = [&first, &second].iter().position(|it| **it == answer);
                asked[which.unwrap_or_else(|| panic!("{answer} is neither"))] += 1;
            }
            asked
        };
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(traffic)).collect();
        for reload in 0..20 {
            replace_folder(&repository, FOLDERS[reload % 2]);
            load(&server, "m", "").expect(200);
        }
        is_over.store(true, Ordering::Relaxed);
        let asked = clients.into_iter().map(|it| it.join().unwrap());
        asked.fold([0, 0], |sum, it| [sum[0] + it[0], sum[1] + it[1]])
    });
    assert!(asked.iter().all(|it| 0 < *it), "{asked:?}");
}

#[test]
fn no_request_fails_while_versions_come_and_go() {
    let all = config("version_policy { all { } }");
    let repository = Repository::new().model("m", &all);
    let server = Server::start(&repository, &FLAGS);
    let traffic = Traffic::start(server.http(), "m", 16);
    for version in 2..30 {
        fs::create_dir(repository.path().join(format!("m/{version}"))).unwrap();
        load(&server, "m", "").expect(200);
        traffic.wait_for_more(100);
        fs::remove_dir(repository.path().join(format!("m/{}", version - 1))).unwrap();
        load(&server, "m", "").expect(200);
        traffic.wait_for_more(100);
    }
    traffic.stop();
    let lines = index(&server);
    assert_eq!(lines.last().map(|it| &**it), Some("m:29 READY"), "{lines:?}");
}

#[test]
fn a_load_that_changes_nothing_does_nothing() {
    let repository = Repository::new().model("m", &config(""));
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=m"]);
    let loaded = || Page::read(server.http()).of("m", "nv_model_load_duration_secs");
    let before = loaded();
    // As new as it can be, and the same.
    write(&repository, &format!("# a remark\n{}", config("")));
    load(&server, "m", "").expect(200);
    assert_eq!(loaded(), before);
    // Another configuration is another model.
    write(&repository, &delay(1));
    load(&server, "m", "").expect(200);
    assert_ne!(loaded(), before);
}

#[test]
fn instances_are_added_and_taken_away_in_place_without_a_failed_request() {
    let groups =
        |count: u32| config(&format!("instance_group {{ count: {count} kind: KIND_CPU }}"));
    let repository = Repository::new().model("m", &groups(1));
    let server = Server::start(&repository, &[&FLAGS[..], &["--caller-runs=off"]].concat());
    let traffic = Traffic::start(server.http(), "m", 16);
    for count in [4, 2, 7, 1, 3].repeat(4) {
        write(&repository, &groups(count));
        load(&server, "m", "").expect(200);
        let shown = server.get("/v2/models/m/config").json()["instance_group"].clone();
        assert_eq!(shown[0]["count"], json!(count), "{shown}");
        traffic.wait_for_more(100);
    }
    let answers = traffic.stop();
    // It was one model all the time: its counters go on.
    let counted = Page::read(server.http()).of("m", "nv_inference_count");
    assert_eq!(counted, answers as f64);
}

#[test]
fn a_policy_that_changes_loads_and_unloads_versions_and_leaves_the_others_alone() {
    let policy = |it: &str| config(&format!("version_policy {{ {it} }}"));
    let mut repository = Repository::new().model("m", &policy("latest { num_versions: 1 }"));
    for version in 2..4 {
        repository = repository.file(&format!("m/{version}/.keep"), "");
    }
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=m"]);
    assert_eq!(index(&server), ["m:3 READY"]);
    assert_eq!(first_of(&server.post(&infer("m"), row(1))), 1.0);
    write(&repository, &policy("all { }"));
    load(&server, "m", "").expect(200);
    assert_eq!(index(&server), ["m:1 READY", "m:2 READY", "m:3 READY"]);
    let page = Page::read(server.http());
    assert_eq!(page.value("nv_inference_count{model=\"m\",version=\"3\"}"), 1.0);
    write(&repository, &policy("specific { versions: 2 }"));
    load(&server, "m", "").expect(200);
    let gone = "UNAVAILABLE (unloaded)";
    wait_for_index(&server, &[&format!("m:1 {gone}"), "m:2 READY", &format!("m:3 {gone}")]);
    assert_eq!(server.post(&infer("m"), row(1)).json()["model_version"], "2");
}

#[test]
fn a_reload_that_fails_leaves_everything_as_it_was() {
    let repository = Repository::new().model("m", &config("version_policy { all { } }"));
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=m"]);
    let traffic = Traffic::start(server.http(), "m", 4);
    let fault = "parameters { key: \"load_fault\" value: { string_value: \"fail\" } }";
    fs::create_dir(repository.path().join("m/2")).unwrap();
    write(&repository, &config(&format!("version_policy {{ all {{ }} }} {fault}")));
    let error = load(&server, "m", "").error(400);
    assert!(error.contains("version 1 is") && error.contains("version 2 is"), "{error}");
    write(&repository, "backend: 7");
    assert!(load(&server, "m", "").error(500).contains("config.pbtxt:1:"));
    traffic.wait_for_more(100);
    traffic.stop();
    let lines = index(&server);
    assert_eq!(lines[0], "m:1 READY");
    assert!(lines[1].starts_with("m:2 UNAVAILABLE ("), "{lines:?}");
    server.get("/v2/health/ready").expect(200);
    // Repaired, both serve.
    write(&repository, &config("version_policy { all { } }"));
    load(&server, "m", "").expect(200);
    wait_for("both versions", || (index(&server) == ["m:1 READY", "m:2 READY"]).then_some(()));
}

#[test]
fn an_override_that_says_what_the_files_say_changes_nothing_and_other_instances_change_in_place() {
    let repository = Repository::new().model("m", &config(""));
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=m"]);
    let port = |name: &str| json!([{"name": name, "dataType": "TYPE_FP32", "dims": ["4"]}]);
    let mut given = json!({
        "backend": "identity", "maxBatchSize": 8, "input": port("INPUT0"), "output": port("OUTPUT0"),
    });
    let loaded = || Page::read(server.http()).of("m", "nv_model_load_duration_secs");
    let before = loaded();
    let give = |config: &serde_json::Value| {
        let body = json!({"parameters": {"config": config.to_string()}}).to_string();
        load(&server, "m", &body).expect(200);
    };
    give(&given);
    assert_eq!(loaded(), before);
    given["instanceGroup"] = json!([{"count": 3, "kind": "KIND_CPU"}]);
    give(&given);
    assert_eq!(loaded(), before);
    let shown = server.get("/v2/models/m/config").json()["instance_group"].clone();
    assert_eq!(shown[0]["count"], json!(3), "{shown}");
}

#[test]
fn a_request_from_before_its_instances_changed_is_answered_after_a_reload() {
    let groups =
        |count: u32| config(&format!("instance_group {{ count: {count} kind: KIND_CPU }}"));
    let repository = Repository::new().model("m", &groups(1)).model("n", &config(""));
    let models = Models::load(repository);
    let get = |name: &str| models.manager.get(name, None).unwrap();
    let before = get("m");
    models.reload("m", &groups(2));
    let resized = Arc::downgrade(&get("m"));
    models.reload("m", &delay(1));
    // Models are ended in the order in which they were replaced, if their requests are over.
    let other = Arc::downgrade(&get("n"));
    models.reload("n", &delay(1));
    let wait_for_end = |of: &Weak<ServedModel>| {
        wait_for("the end of a model", || (of.strong_count() == 0).then_some(()));
    };
    wait_for_end(&other);
    let tensor = Tensor::from_vec(Shape::new(&[1, 4]), vec![5f32, 2.0, 3.0, 4.0]).unwrap();
    let inputs = vec![NamedTensor { name: "INPUT0".into(), tensor }];
    let request = InferenceRequest { inputs, ..Default::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(Inference::default().run(&before, request)).unwrap();
    assert_eq!(answer.outputs[0].tensor.as_slice_of::<f32>().unwrap()[0], 5.0);
    drop(before);
    wait_for_end(&resized);
}

#[test]
fn models_follow_the_processors_where_their_configuration_says_nothing() {
    let repository = Repository::new()
        .model("m", &config(""))
        .model("n", &config(""))
        .model("s", &config("sequence_batching { }"));
    let dir = repository.path().to_owned();
    let models = Models::load(repository);
    let get = |name: &str| models.manager.get(name, None).unwrap();
    let groups = |name: &str| {
        let config: serde_json::Value = serde_json::from_slice(&get(name).config_json).unwrap();
        config["instance_group"][0]["count"].clone()
    };
    let (first, sequences, changed) = (get("m"), get("s"), get("n"));
    assert_eq!(groups("m"), json!(1));
    // What was not asked for is not loaded on this occasion.
    fs::write(dir.join("n/config.pbtxt"), delay(1)).unwrap();
    models.follow(4);
    assert_eq!(groups("m"), json!(2));
    assert!(!Arc::ptr_eq(&first, &get("m")));
    assert!(Arc::ptr_eq(&changed, &get("n")));
    // An open sequence would be lost.
    assert!(Arc::ptr_eq(&sequences, &get("s")));
    let second = get("m");
    models.follow(4);
    assert!(Arc::ptr_eq(&second, &get("m")));
    fs::write(dir.join("n/config.pbtxt"), config("")).unwrap();
    models.follow(4);
    assert_eq!(groups("n"), json!(2));
}
