//! How long a run may take where the configuration of its model says so.

use std::time::{Duration, Instant};

use crate::support::{
    Page, Process, Repository, Server, first_of, infer, row, rows, wait_for,
    workers::{ask_again, of_worker, workers},
};

const LIMIT: (&str, &str) = ("EXECUTION_TIMEOUT_SECONDS", "1");

#[test]
fn a_hung_run_is_answered_at_the_limit_of_its_model_and_its_process_replaced() {
    let deaf = [("fault", "deaf"), ("fault_marker", "888"), ("ISOLATION", "process"), LIMIT];
    let repository = Repository::identity("m", &deaf);
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    let (http, before) = (server.address("http"), workers(server.id()));
    let mut client = server.client();
    // Other requests each time: one that has ended processes is known.
    let mut hang = |times: usize| {
        let began = Instant::now();
        let error = client.post(&infer("m"), &[], rows(888, times)).error(504);
        let took = began.elapsed();
        assert!(error.contains("took longer than 1 s"), "{error}");
        assert!(Duration::from_secs(1) <= took, "{took:?}");
        let began = Instant::now();
        assert_eq!(first_of(&ask_again(&mut client, "m", row(3))), 3.0);
        wait_for("another process", || {
            let restarts =
                of_worker(&Page::read(http), "m", "restarts_total", "reason=\"timeout\"");
            (restarts == times as f64).then_some(())
        });
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        took
    };
    // Not as late as its process is ended, a second later. Whatever else the machine does makes it later.
    assert!((1..4).any(|times| hang(times) < Duration::from_secs(2)), "each time a second late");
    server.wait_for_line("the process of model 'm' ended by signal 9 (SIGKILL)");
    assert_ne!(workers(server.id()), before);
    assert_eq!(first_of(&ask_again(&mut client, "m", row(4))), 4.0);
}

#[test]
fn the_limit_of_a_model_is_its_own_in_the_server_too() {
    let hang = [("fault", "hang"), ("fault_marker", "888")];
    let repository = Repository::identity("m", &[hang[0], hang[1], LIMIT])
        .with_identity("slow", &[("execute_delay_ms", "1500")])
        .with_identity("none", &[("execute_delay_ms", "1500"), ("execution_timeout_seconds", "0")]);
    let server = Server::start(&repository, &["--run-limit-secs=1"]);
    let error = server.post(&infer("m"), row(888)).error(504);
    assert!(error.ends_with("(--run-limit-secs, EXECUTION_TIMEOUT_SECONDS)"), "{error}");
    server.post(&infer("slow"), row(1)).error(504);
    assert_eq!(first_of(&server.post(&infer("none"), row(1))), 1.0);
}

#[test]
fn a_limit_that_is_no_number_of_seconds_is_an_error_of_the_load() {
    let wrong = [("EXECUTION_TIMEOUT_SECONDS", "soon")];
    let repository = Repository::identity("m", &wrong).with_identity("other", &[]);
    let server = Server::start(&repository, &["--exit-on-error=false"]);
    let error = server.post(&infer("m"), row(1)).error(503);
    let expected =
        "parameter EXECUTION_TIMEOUT_SECONDS is 'soon'; expected a whole number of seconds";
    assert!(error.contains(expected), "{error}");
}
