//! What a model's configuration says of its process: after how many requests does another take its place?

use crate::{
    isolation::{of_worker, process, workers},
    support::{Page, Repository, Server, first_of, infer, row, wait_for},
};

#[test]
fn what_is_no_number_of_requests_fails_the_load_and_says_what_would_be() {
    let repository =
        Repository::identity("n", &[("RECYCLE_AFTER_REQUESTS", "0")]).with_identity("other", &[]);
    let server = Server::start(&repository, &["--isolation=all"]);
    let error = server.post(&infer("n"), row(1)).error(503);
    let expected =
        "parameter 'RECYCLE_AFTER_REQUESTS': expected a number of requests above 0, given '0'";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn after_so_many_requests_another_process_takes_the_place_and_no_request_notices() {
    const MOST: i32 = 20;
    let after = [("RECYCLE_AFTER_REQUESTS", "20")];
    let mut server = process(&Repository::identity("m", &after), &[]);
    let (http, mut client) = (server.address("http"), server.client());
    let before = workers(server.id());
    let mut ask = |number: i32| {
        assert_eq!(first_of(&client.post(&infer("m"), &[], row(number))), f64::from(number));
    };
    (1..MOST).for_each(&mut ask);
    assert_eq!(workers(server.id()), before);
    ask(MOST);
    let line = server.wait_for_line("another takes its place");
    assert!(line.contains("has answered 20 requests of 20 (RECYCLE_AFTER_REQUESTS)"), "{line}");
    wait_for("the old one to end", || {
        let now = workers(server.id());
        (now.len() == 1 && now != before).then_some(())
    });
    ask(7);
    let page = Page::read(http);
    let restarts =
        |reason| of_worker(&page, "m", "restarts_total", &format!("reason=\"{reason}\""));
    assert_eq!(["recycle", "signal", "exit"].map(restarts), [1.0, 0.0, 0.0]);
}
