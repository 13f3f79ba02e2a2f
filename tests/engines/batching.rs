//! Batching, queues and instances as clients see them: what a model's configuration says is what happens.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::support::{
    Page, Repository, Server, ask, ask_with, first_of, infer, row, rows, wait_queued,
};

/// A model `m` of the engine `identity` with these lines in its configuration, held until `hold` requests
/// wait.
fn held(config: &str, parameters: &[(&str, &str)], hold: usize) -> Server {
    let repository = model(config, parameters);
    Server::start(&repository, &[&format!("--scheduler-hold={hold}")])
}

fn model(config: &str, parameters: &[(&str, &str)]) -> Repository {
    let parameters = parameters.iter().map(|(key, value)| {
        format!("parameters {{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}\n")
    });
    let text = format!(
        "backend: \"identity\"\n\
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}\n\
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}\n{config}\n{}",
        parameters.collect::<String>()
    );
    Repository::new().model("m", &text)
}

/// Asks for one row for each of `firsts`, in that order, each when the one before is in the queue; and says
/// what became of each: the first number of its answer, or the status of its error.
#[track_caller]
fn answers(server: &Server, firsts: &[i32]) -> Vec<Result<f64, u16>> {
    let mut clients = Vec::new();
    for (waiting, first) in firsts.iter().enumerate() {
        clients.push(ask(server.http(), "m", row(*first)));
        if waiting + 1 < firsts.len() {
            wait_queued(server.http(), "m", waiting + 1);
        }
    }
    let answer = |reply: crate::support::Reply| match reply.status {
        200 => Ok(first_of(&reply)),
        status => Err(status),
    };
    clients.iter_mut().map(|it| answer(it.reply())).collect()
}

/// Sizes of batches that a held queue of single rows is cut into, as (executions, of these at most so many
/// rows).
#[track_caller]
fn check_batches(config: &str, requests: usize, executions: usize, up_to: &[(usize, usize)]) {
    let server = held(config, &[], requests);
    let firsts: Vec<i32> = (0..requests as i32).collect();
    let expected: Vec<Result<f64, u16>> = firsts.iter().map(|it| Ok(f64::from(*it))).collect();
    assert_eq!(answers(&server, &firsts), expected);
    let page = Page::read(server.http());
    assert_eq!(page.of("m", "nv_inference_exec_count"), executions as f64);
    assert_eq!(page.of("m", "nv_inference_count"), requests as f64);
    for (rows, batches) in up_to {
        assert_eq!(page.batches_up_to("m", *rows), *batches as f64, "batches of at most {rows}");
    }
}

#[test]
fn waiting_requests_share_a_batch_and_each_gets_its_own_rows() {
    check_batches("max_batch_size: 8 dynamic_batching { }", 6, 1, &[(4, 0), (8, 1)]);
}

#[test]
fn a_batch_holds_no_more_than_max_batch_size() {
    check_batches("max_batch_size: 4 dynamic_batching { }", 6, 2, &[(2, 1), (4, 2)]);
}

#[test]
fn a_batch_is_cut_to_the_preferred_size() {
    let config = "max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 4 ] }";
    check_batches(config, 6, 2, &[(2, 1), (4, 2)]);
}

#[test]
fn without_dynamic_batching_nothing_is_merged() {
    check_batches("max_batch_size: 8", 4, 4, &[(1, 4)]);
}

#[test]
fn requests_of_other_shapes_do_not_share_a_batch() {
    let config = "backend: \"identity\" max_batch_size: 8 dynamic_batching { }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }";
    let server = Server::start(&Repository::new().model("m", config), &["--scheduler-hold=3"]);
    let body = |data: &str, width| {
        format!(
            r#"{{"inputs":[{{"name":"INPUT0","shape":[1,{width}],"datatype":"FP32","data":{data}}}]}}"#
        )
    };
    let mut clients = Vec::new();
    for (waiting, (data, width)) in [("[1,1]", 2), ("[2,2]", 2), ("[3,3,3]", 3)].iter().enumerate()
    {
        wait_queued(server.http(), "m", waiting);
        clients.push(ask(server.http(), "m", body(data, *width)));
    }
    let firsts: Vec<f64> = clients.iter_mut().map(|it| first_of(&it.reply())).collect();
    assert_eq!(firsts, [1.0, 2.0, 3.0]);
    assert_eq!(Page::read(server.http()).of("m", "nv_inference_exec_count"), 2.0);
}

#[test]
fn a_lone_request_waits_for_company_as_long_as_the_delay_and_no_longer() {
    let config = "max_batch_size: 8
        dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 300000 }";
    let server = Server::start(&model(config, &[]), &[]);
    let started = Instant::now();
    let reply = server.post(&infer("m"), row(1));
    assert_eq!(first_of(&reply), 1.0);
    assert!(Duration::from_millis(300) <= started.elapsed(), "{:?}", started.elapsed());
}

#[test]
fn a_full_preferred_batch_does_not_wait_for_the_delay() {
    let config = "max_batch_size: 8
        dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 60000000 }";
    // The test would time out if one of the four had to wait.
    let server = Server::start(&model(config, &[]), &[]);
    assert_eq!(answers(&server, &[1, 2, 3, 4]), [Ok(1.0), Ok(2.0), Ok(3.0), Ok(4.0)]);
    assert_eq!(Page::read(server.http()).of("m", "nv_inference_exec_count"), 1.0);
}

#[test]
fn a_full_queue_refuses_at_once_and_says_when_to_come_back() {
    let config = "max_batch_size: 8
        dynamic_batching { default_queue_policy { max_queue_size: 2 } }";
    let server = held(config, &[], 3);
    let mut waiting = Vec::new();
    for already in 0..2 {
        wait_queued(server.http(), "m", already);
        waiting.push(ask(server.http(), "m", row(1)));
    }
    wait_queued(server.http(), "m", 2);
    let refused = server.post(&infer("m"), row(9));
    assert!(refused.error(503).contains("max_queue_size 2"), "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    assert_eq!(Page::read(server.http()).failures("m", "REJECTED"), 1.0);
    server.stop().unwrap();
    waiting.iter_mut().for_each(|it| assert_eq!(first_of(&it.reply()), 1.0));
}

#[test]
fn clients_that_are_refused_together_are_told_to_come_back_at_different_times() {
    let config = "max_batch_size: 8
        dynamic_batching { default_queue_policy { max_queue_size: 1 } }";
    let server = held(config, &[], 2);
    let waiting = ask(server.http(), "m", row(1));
    wait_queued(server.http(), "m", 1);
    let mut client = server.client();
    let times: BTreeSet<String> = (0..60)
        .map(|_| {
            // Always under one name, as a client that repeats its request has.
            let reply = client.post(&infer("m"), &[("x-request-id", "same")], row(9)).expect(503);
            reply.header("retry-after").unwrap().to_owned()
        })
        .collect();
    assert_eq!(times, ["1", "2", "3"].map(str::to_owned).into());
    drop(waiting);
}

#[test]
fn a_batch_that_the_memory_does_not_suffice_for_is_run_in_halves() {
    let config = "max_batch_size: 8 dynamic_batching { }";
    let faults = [("fault", "out_of_memory"), ("fault_marker", "13"), ("fault_above_rows", "4")];
    let server = held(config, &faults, 8);
    let firsts = [13, 1, 2, 3, 4, 5, 6, 7];
    assert_eq!(answers(&server, &firsts), firsts.map(|it| Ok(f64::from(it))));
    let runs = || Page::read(server.http()).of("m", "nv_inference_exec_count");
    assert_eq!(runs(), 2.0);
    // That the rows of this engine are independent is not known: one request is not run apart.
    server.post(&infer("m"), rows(13, 8)).error(507);
    assert_eq!(first_of(&server.post(&infer("m"), rows(13, 4))), 13.0);
    assert_eq!(runs(), 3.0);
}

/// A queue policy of single rows, one at a time.
fn policy(fields: &str) -> String {
    format!(
        "max_batch_size: 1 instance_group {{ count: 1 kind: KIND_CPU }}
         dynamic_batching {{ default_queue_policy {{ {fields} }} }}"
    )
}

#[test]
fn a_request_that_waits_for_too_long_is_refused_in_time() {
    let server = held(&policy("default_timeout_microseconds: 200000"), &[], 9);
    let started = Instant::now();
    let refused = server.post(&infer("m"), row(1));
    assert!(refused.error(503).contains("its limit is 200000 us"), "{}", refused.text());
    assert!(Duration::from_millis(200) <= started.elapsed());
    wait_queued(server.http(), "m", 0);
    assert_eq!(Page::read(server.http()).failures("m", "REJECTED"), 1.0);
}

fn with_timeout(micros: u64) -> String {
    row(1).replacen('{', &format!("{{\"parameters\":{{\"timeout\":{micros}}},"), 1)
}

#[test]
fn a_request_may_shorten_its_timeout_only_where_the_policy_allows_it() {
    let allowed = "default_timeout_microseconds: 60000000 allow_timeout_override: true";
    let server = held(&policy(allowed), &[], 9);
    let refused = server.post(&infer("m"), with_timeout(5000));
    assert!(refused.error(503).contains("its limit is 5000 us"), "{}", refused.text());

    let server = held(&policy("default_timeout_microseconds: 200000"), &[], 9);
    let refused = server.post(&infer("m"), with_timeout(5000));
    assert!(refused.error(503).contains("its limit is 200000 us"), "{}", refused.text());
}

/// Only the first execution goes well: who gets an answer went first.
const FIRST_WINS: &[(&str, &str)] =
    &[("fault", "fail"), ("fault_marker", "1"), ("fault_after", "1")];

#[test]
fn an_expired_request_under_delay_is_served_after_the_others() {
    let fields = "default_timeout_microseconds: 60000000 allow_timeout_override: true
        timeout_action: DELAY";
    let server = held(&policy(fields), FIRST_WINS, 2);
    let mut expired = ask(server.http(), "m", with_timeout(1000));
    wait_queued(server.http(), "m", 1);
    // The one thing to wait for is that its millisecond is over.
    std::thread::sleep(Duration::from_millis(5));
    let mut fresh = ask(server.http(), "m", row(1));
    assert_eq!(fresh.reply().status, 200);
    assert_eq!(expired.reply().status, 500);
}

#[test]
fn a_request_of_higher_priority_goes_first_and_none_means_the_default() {
    let config = "max_batch_size: 1 instance_group { count: 1 kind: KIND_CPU }
        dynamic_batching { priority_levels: 3 default_priority_level: 2 }";
    let prioritised = |priority: u64| {
        row(1).replacen('{', &format!("{{\"parameters\":{{\"priority\":{priority}}},"), 1)
    };
    // (first to arrive, second to arrive): the second goes first.
    for (first, second) in [(prioritised(3), row(1)), (row(1), prioritised(1))] {
        let server = held(config, FIRST_WINS, 2);
        let mut first = ask(server.http(), "m", first);
        wait_queued(server.http(), "m", 1);
        let mut second = ask(server.http(), "m", second);
        assert_eq!(second.reply().status, 200);
        assert_eq!(first.reply().status, 500);
    }
}

#[test]
fn with_preserve_ordering_a_quick_answer_waits_for_the_slow_one_before_it() {
    let config = "max_batch_size: 8 instance_group { count: 2 kind: KIND_CPU }
        dynamic_batching { preferred_batch_size: [ 8 ] preserve_ordering: true }";
    let server = held(config, &[("latency_beta_us", "100000")], 2);
    let started = Instant::now();
    let mut slow = ask(server.http(), "m", rows(1, 8));
    wait_queued(server.http(), "m", 1);
    let mut quick = ask(server.http(), "m", row(2));
    assert_eq!(first_of(&quick.reply()), 2.0);
    // The eight rows of the first take 800 ms; the second alone would take 100.
    assert!(Duration::from_millis(800) <= started.elapsed(), "{:?}", started.elapsed());
    assert_eq!(first_of(&slow.reply()), 1.0);
}

#[test]
fn as_many_batches_run_at_once_as_there_are_instances() {
    let config = "max_batch_size: 1 instance_group { count: 2 kind: KIND_CPU }";
    let server = held(config, HANGS, 3);
    let mut clients = Vec::new();
    for (waiting, first) in [66, 66, 3].into_iter().enumerate() {
        wait_queued(server.http(), "m", waiting);
        clients.push(ask(server.http(), "m", row(first)));
    }
    // Two run, and both hang: the third waits.
    wait_queued(server.http(), "m", 1);
    let mut third = clients.pop().unwrap();
    // One hangs: the other instance serves.
    clients.pop();
    assert_eq!(first_of(&third.reply()), 3.0);
    for first in 4..8 {
        assert_eq!(first_of(&server.post(&infer("m"), row(first))), f64::from(first));
    }
}

/// A row that begins with 66 hangs.
const HANGS: &[(&str, &str)] = &[("fault", "hang"), ("fault_marker", "66")];

#[track_caller]
fn check_culprit(fault: &str) {
    let config = "max_batch_size: 8 dynamic_batching { }";
    let server = held(config, &[("fault", fault), ("fault_marker", "13")], 8);
    let expected = [Ok(1.0), Ok(2.0), Ok(3.0), Err(500), Ok(5.0), Ok(6.0), Ok(7.0), Ok(8.0)];
    assert_eq!(answers(&server, &[1, 2, 3, 13, 5, 6, 7, 8]), expected);
    assert_eq!(Page::read(server.http()).failures("m", "BACKEND"), 1.0);
    // And the model serves on.
    assert_eq!(first_of(&server.post(&infer("m"), row(4))), 4.0);
    server.get("/v2/health/ready").expect(200);
}

#[test]
fn only_the_culprit_of_a_failing_batch_gets_the_error() {
    check_culprit("fail");
}

#[test]
fn only_the_culprit_of_a_panicking_batch_gets_the_error() {
    check_culprit("panic");
}

#[test]
fn a_deadline_in_a_header_bounds_the_run() {
    let server = Server::start(&model("max_batch_size: 1", HANGS), &[]);
    let late = ask_with(server.http(), "m", &[("x-request-timeout-ms", "150")], row(66)).reply();
    assert!(late.error(504).contains("deadline"), "{}", late.text());
    // The run was stopped: its instance is free again.
    assert_eq!(first_of(&server.post(&infer("m"), row(1))), 1.0);
}

#[test]
fn a_deadline_in_a_header_bounds_the_wait() {
    let server = held("max_batch_size: 1 instance_group { count: 1 kind: KIND_CPU }", HANGS, 2);
    let hanging = ask(server.http(), "m", row(66));
    wait_queued(server.http(), "m", 1);
    let mut late = ask_with(server.http(), "m", &[("x-request-timeout-ms", "150")], row(2));
    assert!(late.reply().error(504).contains("deadline"));
    wait_queued(server.http(), "m", 0);
    drop(hanging);
    assert_eq!(first_of(&server.post(&infer("m"), row(1))), 1.0);
}
