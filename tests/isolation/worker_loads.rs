//! Loads in processes of their own that do not end, or end their process: others go on, and nothing is left.

use std::fs;

use crate::support::{
    Page, Process, Repository, Traffic, first_of, infer, row, wait_for,
    workers::{kill, of_worker, process, wait_not_ready, workers},
};

/// A server with the model `m`, and `stuck`, whose load takes longer than it may, as the line says that is waited for.
fn check_stuck(parameters: &[(&str, &str)], limits: [&str; 2], line: &str) {
    let repository = Repository::identity("stuck", parameters).with_identity("m", &[]);
    let flags = ["--isolation=all", "--strict-readiness=false", "--exit-on-error=false"];
    let mut server = Process::start(&repository, &[&flags[..], &limits[..]].concat(), &[]);
    server.wait_ready();
    let mut client = server.client();
    wait_for("the other model", || {
        (client.post(&infer("m"), &[], row(1)).status == 200).then_some(())
    });
    let told = server.wait_for_line(line);
    assert!(told.contains("stuck"), "{told}");
    wait_for("its process to end", || (workers(server.id()).len() == 1).then_some(()));
    let error = client.post(&infer("stuck"), &[], row(1)).error(503);
    assert!(error.contains(line), "{error}");
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(2))), 2.0);
}

#[test]
fn a_load_that_never_ends_is_ended_with_its_process_and_other_models_serve() {
    let limits = ["--load-limit-secs=2", "--load-run-limit-secs=60"];
    check_stuck(
        &[("creation_delay_sec", "3600")],
        limits,
        "its load took longer than 2 s (--load-limit-secs)",
    );
}

#[test]
fn a_warm_up_that_never_ends_is_ended_with_its_process_and_other_models_serve() {
    let limits = ["--load-limit-secs=60", "--load-run-limit-secs=2"];
    let deaf = [("fault", "deaf"), ("columns", "4")];
    check_stuck(&deaf, limits, "its load took longer than 2 s (--load-run-limit-secs)");
}

#[test]
fn a_reload_that_ends_its_process_leaves_the_version_that_serves() {
    let repository = Repository::identity("m", &[]);
    let flags = ["--model-control-mode=explicit", "--load-model=m"];
    let mut server = process(&repository, &flags);
    let before = workers(server.id());
    let repository = repository.with_identity("m", &[("load_fault", "abort")]);
    let mut client = server.client();
    let error = client.post("/v2/repository/models/m/load", &[], "").error(400);
    let expected = "the process of model 'm' ended by signal 6 (SIGABRT) while it was loaded";
    assert!(error.contains(expected), "{error}");
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(1))), 1.0);
    client.get("/v2/models/m/ready").expect(200);
    assert_eq!(workers(server.id()), before);
    drop(repository);
}

#[test]
fn others_wait_for_nothing_while_a_model_whose_process_was_killed_loads_again() {
    let gate = Repository::new().file("open", "");
    let open = gate.at("open");
    let repository = Repository::identity("m", &[("creation_gate", open.as_str())]);
    let repository = repository.with_identity("other", &[]);
    let flags = ["--strict-readiness=false", "--max-queue-wait-ms=0"];
    let mut server = process(&repository, &flags);
    let (http, mut client) = (server.address("http"), server.client());
    let others = Traffic::start(http, "other", 16);
    others.wait_for_more(16);
    // The next process loads until the file is there again.
    fs::remove_file(&open).unwrap();
    kill(of_worker(&Page::read(http), "m", "pid", "") as u32);
    wait_not_ready(&mut client, "m", "another loads it");
    // Several for each client, all of them before the load has ended.
    others.wait_for_more(64);
    assert_eq!(client.get("/v2/models/m/ready").status, 503);
    fs::write(&open, "").unwrap();
    wait_for("the model to be ready", || {
        (client.get("/v2/models/m/ready").status == 200).then_some(())
    });
    others.stop();
}
