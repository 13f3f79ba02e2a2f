//! Models that are loaded when somebody asks for them, and unloaded when others need their memory.

use std::{fs, thread, time::Duration};

use serde_json::{Value, json};

use crate::support::{
    Page, Process, Repository, Server, Traffic, ask,
    control::{EXPLICIT, index, load, unload, wait_for_index},
    first_of, infer, row, wait_for,
};

const ON_DEMAND: &str = "--model-load-on-demand=true";

/// Models of the engine `identity`, each with a file of [`SIZE`] that nobody reads.
fn sized(names: &[&str]) -> Repository {
    let repository = names
        .iter()
        .fold(Repository::new(), |repository, name| repository.with_identity(name, &[]));
    names.iter().for_each(|it| add_weights(&repository, &format!("{it}/1/weights.bin")));
    repository
}

/// MiB of a model's file: what else the server's memory grows by during a load, 17 MiB have been seen, is little
/// beside it.
const SIZE: u64 = 128;

/// A file of [`SIZE`] that takes no room on the disk.
fn add_weights(repository: &Repository, path: &str) {
    fs::File::create(repository.path().join(path)).unwrap().set_len(SIZE << 20).unwrap();
}

/// Room for so many such models, and half of one.
fn budget_for(models: u64) -> String {
    format!("--model-memory-budget={}MiB", models * SIZE + SIZE / 2)
}

#[test]
fn the_first_request_loads_a_model_and_those_beside_it_wait_for_the_same_load() {
    let repository = Repository::identity("m", &[("creation_delay_sec", "1")]);
    let mut server = Process::start(&repository, &[ON_DEMAND], &[]);
    server.wait_ready();
    let http = server.address("http");
    // To ask whether it is ready does not load it.
    server.client().get("/v2/models/m/ready").error(404);
    let mut clients: Vec<_> = (0..16).map(|it| ask(http, "m", row(it))).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(first_of(&client.reply()), number as f64);
    }
    assert_eq!(Page::read(http).of("m", "nv_inference_count"), 16.0);
    server.client().post(&infer("n"), &[], row(1)).error(404);
    server.signal("TERM");
    let log = server.wait().log;
    let loads = log.iter().filter(|it| it.contains("model is ready")).count();
    assert_eq!(loads, 1, "{log:#?}");
}

#[test]
fn metadata_load_it_too() {
    let repository = Repository::identity("m", &[]).with_identity("n", &[]);
    let server = Server::start(&repository, &[ON_DEMAND, EXPLICIT]);
    server.get("/v2/models/m").expect(200);
    assert_eq!(index(&server), ["m:1 READY", "n"]);
    // Who unloads a model by request wants it unloaded.
    unload(&server, "m").expect(200);
    server.post(&infer("m"), row(1)).error(404);
    load(&server, "m", "").expect(200);
    assert_eq!(first_of(&server.post(&infer("m"), row(1))), 1.0);
}

#[test]
fn a_model_that_fails_or_takes_too_long_is_a_503_that_says_when_to_come_back() {
    let gate = Repository::new();
    let repository = Repository::identity("bad", &[("load_fault", "fail")])
        .with_identity("slow", &[("creation_gate", &gate.at("open"))]);
    let server = Server::start(&repository, &[ON_DEMAND]);
    for _ in 0..3 {
        let reply = server.post(&infer("bad"), row(1));
        assert!(reply.error(503).contains("version 1 is at UNAVAILABLE state"), "{}", reply.text());
        assert!(reply.header("retry-after").is_some());
    }
    let headers = [("x-request-timeout-ms", "100")];
    let mut client = crate::support::ask_with(server.http(), "slow", &headers, row(1));
    let reply = client.reply();
    assert!(reply.error(503).contains("still loading"), "{}", reply.text());
    // The load has gone on.
    let _open = gate.file("open", "");
    assert_eq!(first_of(&server.post(&infer("slow"), row(4))), 4.0);
    server.get("/v2/health/ready").expect(200);
}

#[test]
fn the_model_that_was_unused_for_longest_makes_room() {
    let repository = sized(&["a", "b", "c"]);
    let server = Server::start(&repository, &[ON_DEMAND, &budget_for(2)]);
    let ask = |model: &str| {
        assert_eq!(first_of(&server.post(&infer(model), row(1))), 1.0);
        // The clock of last uses counts milliseconds.
        thread::sleep(Duration::from_millis(5));
    };
    ["a", "b", "a"].iter().for_each(|it| ask(it));
    let gone = "UNAVAILABLE (unloaded to make room; a request loads it again)";
    ask("c");
    wait_for_index(&server, &["a:1 READY", &format!("b:1 {gone}"), "c:1 READY"]);
    ask("b");
    wait_for_index(&server, &[&format!("a:1 {gone}"), "b:1 READY", "c:1 READY"]);
    ask("a");
    wait_for_index(&server, &["a:1 READY", "b:1 READY", &format!("c:1 {gone}")]);
}

#[test]
fn models_in_use_stay_and_what_finds_no_room_is_refused() {
    let repository = sized(&["busy", "other", "huge"]).file(
        "busy/config.pbtxt",
        fs::read_to_string(busy().path().join("m/config.pbtxt")).unwrap(),
    );
    add_weights(&repository, "huge/1/more.bin");
    let server = Server::start(&repository, &[ON_DEMAND, &budget_for(1)]);
    let mut client = ask(server.http(), "busy", row(3));
    wait_for("the model to be loaded", || {
        index(&server).contains(&"busy:1 READY".to_owned()).then_some(())
    });
    let error = server.post(&infer("other"), row(1)).error(503);
    assert!(error.contains("all of them are in use"), "{error}");
    assert_eq!(first_of(&client.reply()), 3.0);
    let error = server.post(&infer("huge"), row(1)).error(503);
    assert!(error.contains("more than --model-memory-budget"), "{error}");
}

/// A model whose runs take so long that it is in use meanwhile, on a busy machine too.
fn busy() -> Repository {
    Repository::identity("m", &[("execute_delay_ms", "3000")])
}

#[test]
fn no_request_fails_where_more_models_are_asked_for_than_there_is_room_for() {
    let repository = sized(&["a", "b", "c"]);
    let server = Server::start(&repository, &[ON_DEMAND, &budget_for(3)]);
    let traffic = ["a", "b"].map(|it| Traffic::start(server.http(), it, 4));
    traffic.iter().for_each(|it| it.wait_for_more(500));
    assert_eq!(first_of(&server.post(&infer("c"), row(1))), 1.0);
    for traffic in traffic {
        traffic.wait_for_more(500);
        traffic.stop();
    }
}

#[test]
fn a_model_with_an_open_sequence_is_not_unloaded_to_make_room() {
    let names = ["taking_turns", "other", "third"];
    let path = "taking_turns/config.pbtxt";
    let repository = sized(&names);
    let config = fs::read_to_string(repository.path().join(path)).unwrap();
    let idle = "max_sequence_idle_microseconds: 600000000";
    let repository = repository.file(path, format!("{config}\nsequence_batching {{ {idle} }}\n"));
    let server = Server::start(&repository, &[ON_DEMAND, &budget_for(1)]);
    let ask = |start: bool, end: bool| {
        let mut body: Value = serde_json::from_slice(row(1).as_ref()).unwrap();
        body["parameters"] =
            json!({"sequence_id": 1, "sequence_start": start, "sequence_end": end});
        server.post(&infer(names[0]), body.to_string()).expect(200);
    };
    ask(true, false);
    let error = server.post(&infer("other"), row(1)).error(503);
    assert!(error.contains("all of them are in use"), "{error}");
    ask(false, true);
    assert_eq!(first_of(&server.post(&infer("third"), row(1))), 1.0);
}
