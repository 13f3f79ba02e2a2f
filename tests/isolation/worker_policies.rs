//! What a model's configuration says of its process: may a request be run again that was in one that died, and after
//! how many requests does another take its place?

use crate::support::{
    Client, IN_PROCESS, Page, Process, Reply, Repository, Server, ask, first_of, infer, row,
    wait_for,
    workers::{ask_again, of_worker, process, workers},
};

/// Rows of one batch.
const ROWS: usize = 4;

/// A model `m` that runs as soon as four rows wait, with these parameters.
fn in_batches(parameters: &[(&str, &str)]) -> Repository {
    let parameters: String = parameters
        .iter()
        .map(|(key, value)| {
            format!("parameters {{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}\n")
        })
        .collect();
    let config = format!(
        "backend: \"identity\" max_batch_size: {ROWS}
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         instance_group {{ count: 1 kind: KIND_CPU }}
         dynamic_batching {{ preferred_batch_size: {ROWS} max_queue_delay_microseconds: 60000000 }}
         {parameters}"
    );
    Repository::new().model("m", &config)
}

/// The replies to one batch of these numbers.
fn replies(server: &mut Process, numbers: [i32; ROWS]) -> Vec<Reply> {
    let http = server.address("http");
    let mut clients: Vec<Client> = numbers.iter().map(|it| ask(http, "m", row(*it))).collect();
    clients.iter_mut().map(Client::reply).collect()
}

const NOT_AGAIN: &str =
    "a request that was in it is not run again, as parameter 'RERUN' is 'never'";

#[test]
fn a_request_that_is_not_to_be_run_again_gets_the_end_of_its_process_and_the_next_finds_another() {
    let never = [("fault", "abort"), ("fault_marker", "666"), ("RERUN", "never")];
    let mut server = process(&Repository::identity("m", &never), &[]);
    let before = workers(server.id());
    let mut client = server.client();
    let error = client.post(&infer("m"), &[], row(666)).error(500);
    let expected = format!("the process of model 'm' ended by signal 6 (SIGABRT); {NOT_AGAIN}");
    assert_eq!(error, expected);
    assert_eq!(first_of(&ask_again(&mut client, "m", row(3))), 3.0);
    assert_ne!(workers(server.id()), before);
    let page = Page::read(server.address("http"));
    let shown = |name: &str, label: &str| of_worker(&page, "m", name, label);
    assert_eq!(shown("restarts_total", "reason=\"signal\""), 1.0);
    let reruns = ["never", "ok", "failed", "late"];
    let reruns = reruns.map(|it| shown("rerun_total", &format!("outcome=\"{it}\"")));
    assert_eq!(reruns, [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn all_of_a_batch_that_is_not_to_be_run_again_get_the_end_of_their_process() {
    let never = [("fault", "abort"), ("fault_marker", "666"), ("RERUN", "never")];
    let mut server = process(&in_batches(&never), &[]);
    for reply in replies(&mut server, [1, 666, 2, 3]) {
        assert!(reply.error(500).ends_with(NOT_AGAIN), "{}", reply.text());
    }
    server.wait_for_line("a new process serves");
    let mut client = server.client();
    wait_for("the model to be ready", || {
        (client.get("/v2/models/m/ready").status == 200).then_some(())
    });
    let answers = replies(&mut server, [1, 2, 3, 4]);
    assert_eq!(answers.iter().map(first_of).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0]);
    let page = Page::read(server.address("http"));
    let shown = |name: &str, label: &str| of_worker(&page, "m", name, label);
    assert_eq!(shown("restarts_total", "reason=\"signal\""), 1.0);
    assert_eq!(shown("rerun_total", "outcome=\"never\""), ROWS as f64);
}

#[test]
fn with_crash_and_with_always_each_of_a_batch_is_run_once_more_and_only_who_killed_it_fails() {
    for policy in ["crash", "always"] {
        let parameters = [("fault", "abort"), ("fault_marker", "666"), ("RERUN", policy)];
        let mut server = process(&in_batches(&parameters), &[]);
        let replies = replies(&mut server, [1, 666, 2, 3]);
        let statuses: Vec<u16> = replies.iter().map(|it| it.status).collect();
        assert_eq!(statuses, [200, 500, 200, 200], "{policy}");
        assert!(!replies[1].text().contains("RERUN"), "{}", replies[1].text());
        let page = Page::read(server.address("http"));
        let shown = |name: &str, label: &str| of_worker(&page, "m", name, label);
        assert_eq!(shown("restarts_total", "reason=\"signal\""), 2.0);
        assert_eq!(shown("rerun_total", "outcome=\"ok\""), 3.0);
    }
}

#[test]
fn a_batch_that_fails_in_the_server_itself_is_not_run_again_either_where_its_model_says_so() {
    for (policy, statuses) in [("crash", [200, 500, 200, 200]), ("never", [500; ROWS])] {
        let parameters = [("fault", "fail"), ("fault_marker", "13"), ("RERUN", policy)];
        let repository = in_batches(&parameters);
        let mut server = Process::start(&repository, &[], &[]);
        server.wait_ready();
        let replies = replies(&mut server, [1, 13, 2, 3]);
        let given: Vec<u16> = replies.iter().map(|it| it.status).collect();
        assert_eq!(given, statuses, "{policy}");
    }
}

#[test]
fn no_run_begins_in_place_where_it_could_not_be_made_again() {
    let repository = Repository::identity("m", &[]).with_identity("never", &[("RERUN", "never")]);
    let server = Server::start(&repository, &["--caller-runs=auto", IN_PROCESS]);
    // It is shown once there is one.
    let has_run_in_place = |model: &str| {
        let labels = format!("model=\"{model}\",reason=\"in_place\",version=\"1\"");
        Page::read(server.http()).has(&format!("muster_batches_total{{{labels}}}"))
    };
    wait_for("a run in place", || {
        for model in ["m", "never"] {
            assert_eq!(first_of(&server.post(&infer(model), row(3))), 3.0);
        }
        has_run_in_place("m").then_some(())
    });
    assert!(!has_run_in_place("never"));
}

#[test]
fn what_is_no_policy_and_no_number_of_requests_fails_the_load_and_says_what_would_be() {
    let repository = Repository::identity("m", &[("RERUN", "sometimes")])
        .with_identity("n", &[("RECYCLE_AFTER_REQUESTS", "0")])
        .with_identity("other", &[]);
    let server = Server::start(&repository, &["--isolation=all"]);
    for (model, expected) in [
        ("m", "parameter 'RERUN': expected 'crash', 'never' or 'always', given 'sometimes'"),
        (
            "n",
            "parameter 'RECYCLE_AFTER_REQUESTS': expected a number of requests above 0, given '0'",
        ),
    ] {
        let error = server.post(&infer(model), row(1)).error(503);
        assert!(error.contains(expected), "{error}");
    }
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
