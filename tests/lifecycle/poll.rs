//! Following the repository: what comes, changes and goes there is taken up once it is whole, and nothing that fails
//! takes away what serves.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::support::{
    Process, Repository, Server, Traffic,
    control::{index, load, wait_for_index},
    first_of, infer, root, row, wait_for,
};

const POLL: [&str; 2] = ["--model-control-mode=poll", "--repository-poll-secs=0.1"];

const CONFIG: &str = "backend: \"identity\" max_batch_size: 8
    input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
    output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";

#[test]
fn models_and_versions_that_come_and_go_are_loaded_and_unloaded() {
    let repository = Repository::identity("a", &[]);
    let server = Server::start(&repository, &POLL);
    let traffic = Traffic::start(server.http(), "a", 4);
    let repository = repository.with_identity("b", &[]).file("a/2/anything", "");
    let unloaded = "a:1 UNAVAILABLE (unloaded)";
    wait_for_index(&server, &[unloaded, "a:2 READY", "b:1 READY"]);
    assert_eq!(first_of(&server.post(&infer("b"), row(2))), 2.0);
    fs::remove_dir_all(repository.path().join("b")).unwrap();
    wait_for_index(&server, &[unloaded, "a:2 READY", "b:1 UNAVAILABLE (unloaded)"]);
    let policy = format!("{CONFIG} version_policy {{ all {{ }} }}");
    let repository = repository.file("a/config.pbtxt", policy).with_identity("b", &[]);
    wait_for_index(&server, &["a:1 READY", "a:2 READY", "b:1 READY"]);
    traffic.stop();
    assert!(load(&server, "a", "").error(503).contains("--model-control-mode=explicit"));
    drop(repository);
}

#[test]
fn a_file_that_is_watched_is_served_anew() {
    let repository = Repository::identity("a", &[]);
    let server = Server::start(&repository, &["--watch", "--repository-poll-secs=0.1"]);
    let repository = repository.with_identity("b", &[]);
    wait_for_index(&server, &["a:1 READY", "b:1 READY"]);
    drop(repository);
}

#[test]
fn an_empty_repository_is_followed_too() {
    let repository = Repository::new();
    let server = Server::start(&repository, &POLL);
    server.get("/v2/health/ready").expect(200);
    let repository = repository.with_identity("m", &[]);
    wait_for_index(&server, &["m:1 READY"]);
    drop(repository);
}

#[test]
fn a_version_that_is_being_uploaded_is_waited_for() {
    // A busy machine may let so much time pass between two writes that two looks find the same.
    let is_found = (0..4).any(|_| upload());
    assert!(is_found, "each time too long a pause between two writes");
}

/// Is a version waited for that is being uploaded? False where two looks may have found the same of it.
fn upload() -> bool {
    const LOOKS: Duration = Duration::from_millis(500);
    let repository = Repository::of(&["mlp"]);
    let flags = ["--model-control-mode=poll", "--repository-poll-secs=0.5", "--log-verbose=1"];
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    let whole = fs::read(root("tests/fixtures/models/mlp/1/model.onnx")).unwrap();
    let mut client = server.client();
    let index =
        |client: &mut crate::support::Client| client.post("/v2/repository/index", &[], "").text();
    // Ever more of the file: none of it is loaded, as no two looks find the same.
    let steps = 40;
    let mut last = Instant::now();
    for step in 1..=steps {
        let part = &whole[..whole.len() * step / steps];
        fs::create_dir_all(repository.path().join("mlp/2")).unwrap();
        fs::write(repository.path().join("mlp/2/model.onnx"), part).unwrap();
        let written = Instant::now();
        let found = index(&mut client);
        if LOOKS <= last.elapsed() {
            return false;
        }
        last = written;
        assert!(!found.contains("UNAVAILABLE"), "{found}");
        std::thread::sleep(Duration::from_millis(20));
    }
    wait_for("version 2", || {
        index(&mut client).contains("\"2\",\"state\":\"READY\"").then_some(())
    });
    // Under another name first, as many programs write.
    let third = repository.path().join("mlp/3");
    fs::create_dir(&third).unwrap();
    fs::write(third.join("model.onnx.part"), &whole).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!index(&mut client).contains("\"3\""), "{}", index(&mut client));
    fs::rename(third.join("model.onnx.part"), third.join("model.onnx")).unwrap();
    wait_for("version 3", || {
        index(&mut client).contains("\"3\",\"state\":\"READY\"").then_some(())
    });
    let log = server.log();
    assert!(!log.iter().any(|it| it.contains("cannot load")), "{log:#?}");
    true
}

#[test]
fn a_version_that_fails_leaves_the_old_one_and_is_tried_again_only_when_it_changes() {
    let repository = Repository::of(&["mlp"]);
    let mut server = Process::start(&repository, &POLL, &[]);
    server.wait_ready();
    let whole = fs::read(root("tests/fixtures/models/mlp/1/model.onnx")).unwrap();
    let second = repository.path().join("mlp/2");
    fs::create_dir(&second).unwrap();
    fs::write(second.join("model.onnx"), &whole[..100]).unwrap();
    server.wait_for_line("cannot load the model");
    let mut client = server.client();
    client.get("/v2/models/mlp/versions/1/ready").expect(200);
    client.get("/v2/health/ready").expect(200);
    client.get("/v2/models/mlp/versions/2/ready").expect(503);
    // A good ten looks later it has failed once.
    std::thread::sleep(Duration::from_millis(1200));
    let failures = server.log().iter().filter(|it| it.contains("cannot load the model")).count();
    assert_eq!(failures, 1);
    fs::write(second.join("model.onnx"), &whole).unwrap();
    // The old one goes a moment after the new one has come.
    wait_for("version 2 in the place of version 1", || {
        let index = client.post("/v2/repository/index", &[], "").text();
        let is = |state: &str| index.contains(state);
        (is("\"2\",\"state\":\"READY\"") && is("\"1\",\"state\":\"UN")).then_some(())
    });
}

#[test]
fn without_polling_nothing_changes() {
    let repository = Repository::identity("a", &[]);
    let server = Server::start(&repository, &["--repository-poll-secs=0.1"]);
    let repository = repository.with_identity("b", &[]);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(index(&server), ["a:1 READY"]);
    drop(repository);
}
