//! The statistics of a model, as clients read them: what is counted, of what, and what is not.

use std::time::SystemTime;

use frontend::grpc::proto::{
    ModelInferRequest, ModelStatistics, ModelStatisticsRequest, ModelStatisticsResponse,
    StatisticDuration,
};

use crate::support::{
    Repository, Server, ask,
    grpc::{Client, identity},
    infer, row, rows, wait_for, wait_queued,
};

const CONFIG: &str = "backend: \"identity\" max_batch_size: 8 dynamic_batching { }
    instance_group { count: 1 kind: KIND_CPU }
    input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
    output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
    parameters { key: \"execute_delay_ms\" value: { string_value: \"20\" } }
    parameters { key: \"fail_marked_rows\" value: { string_value: \"true\" } }
    parameters { key: \"fault_marker\" value: { string_value: \"13\" } }";

const DELAY_NS: u64 = 20_000_000;

fn start(flags: &[&str]) -> (Server, Client) {
    let server = Server::start(&Repository::new().model("m", CONFIG), flags);
    let client = Client::new(&server);
    (server, client)
}

fn statistics(client: &mut Client) -> ModelStatistics {
    let request = ModelStatisticsRequest { name: "m".to_owned(), version: String::new() };
    let answer: ModelStatisticsResponse = client.call("ModelStatistics", request).unwrap();
    answer.model_stats.into_iter().next().unwrap()
}

/// Number and nanoseconds.
fn pair(duration: Option<StatisticDuration>) -> (u64, u64) {
    duration.map_or((0, 0), |it| (it.count, it.ns))
}

#[test]
fn requests_of_one_batch_are_counted_each_and_their_run_once() {
    let (server, mut client) = start(&["--scheduler-hold=3"]);
    let mut waiting = Vec::new();
    for (number, count) in [(1, 1), (2, 2), (3, 1)] {
        waiting.push(ask(server.http(), "m", rows(number, count)));
        if waiting.len() < 3 {
            wait_queued(server.http(), "m", waiting.len());
        }
    }
    waiting.iter_mut().for_each(|it| drop(it.reply().expect(200)));
    let counted = statistics(&mut client);
    assert_eq!((counted.inference_count, counted.execution_count), (4, 1));
    let stats = counted.inference_stats.unwrap();
    let (success, queue) = (pair(stats.success), pair(stats.queue));
    let compute = pair(stats.compute_infer);
    assert_eq!((success.0, queue.0, compute.0), (3, 3, 3));
    // Each of the three has had all of the one run.
    assert!(3 * DELAY_NS <= compute.1, "{compute:?}");
    let parts = queue.1 + compute.1 + pair(stats.compute_input).1 + pair(stats.compute_output).1;
    assert!(parts <= success.1, "{parts} of {success:?}");
    assert_eq!(pair(stats.fail), (0, 0));
    let [batch] = &counted.batch_stats[..] else { panic!("{counted:?}") };
    assert_eq!(batch.batch_size, 4);
    let (runs, ns) = pair(batch.compute_infer);
    assert!(runs == 1 && DELAY_NS <= ns && 3 * ns <= compute.1 + 3, "{ns} of {compute:?}");
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    assert!(now - counted.last_inference < 60_000, "{}", counted.last_inference);
}

#[test]
fn a_failure_has_its_time_and_nothing_else_and_what_does_not_fit_the_model_is_none() {
    let (server, mut client) = start(&[]);
    assert_eq!(statistics(&mut client).last_inference, 0);
    server.post(&infer("m"), row(13)).error(500);
    server.post(&infer("m"), "{").error(400);
    server.post(&infer("m"), rows(1, 9).replace("[9,4]", "[9,5]")).error(400);
    client.infer(ModelInferRequest { inputs: vec![], ..identity("m", &[1.0]) }).unwrap_err();
    let counted = statistics(&mut client);
    let stats = counted.inference_stats.unwrap();
    let (failed, ns) = pair(stats.fail);
    assert!(failed == 1 && DELAY_NS / 2 <= ns, "{failed} in {ns} ns");
    for other in [stats.success, stats.queue, stats.compute_infer] {
        assert_eq!(pair(other), (0, 0));
    }
    assert_eq!((counted.inference_count, counted.execution_count), (0, 0));
}

#[test]
fn a_request_whose_client_has_left_is_a_failure() {
    let (server, mut client) = start(&["--scheduler-hold=2"]);
    let left = ask(server.http(), "m", row(1));
    wait_queued(server.http(), "m", 1);
    drop(left);
    wait_for("the client to be missed", || {
        let stats = statistics(&mut client).inference_stats?;
        (pair(stats.fail).0 == 1).then_some(())
    });
}
