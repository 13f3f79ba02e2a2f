//! Sequences whose process is killed: one whose state the engine kept there hears so and begins anew, others go on.

use crate::support::{
    Client, Page, Process, Reply, Repository, gpus, infer, wait_for,
    workers::{kill, of_worker, process, workers},
};

const START: bool = true;
const NEXT: bool = false;

/// A model `m` that keeps the sum of each sequence in its instance, with these groups and so many sequences on each.
fn sums(groups: &str, rows: usize) -> Repository {
    let config = format!(
        "backend: \"identity\" max_batch_size: {rows} {groups}
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 1 ] }}
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 1 ] }}
         sequence_batching {{ max_sequence_idle_microseconds: 600000000
           control_input {{ name: \"START\"
             control {{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }} }} }}
         parameters {{ key: \"ISOLATION\" value: {{ string_value: \"process\" }} }}
         parameters {{ key: \"accumulates\" value: {{ string_value: \"true\" }} }}"
    );
    Repository::new().model("m", &config)
}

const ON_CPU: &str = "instance_group { count: 1 kind: KIND_CPU }";

fn send(client: &mut Client, id: u32, starts: bool, value: i32) -> Reply {
    let body = format!(
        r#"{{"parameters":{{"sequence_id":{id},"sequence_start":{starts}}},
           "inputs":[{{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[{value}]}}]}}"#
    );
    client.post(&infer("m"), &[], body)
}

/// The sum of the sequence by now.
#[track_caller]
fn sum(reply: &Reply) -> f64 {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["outputs"][0]["data"][0].as_f64().expect("a number")
}

/// Is that the error of a sequence whose state is lost?
#[track_caller]
fn check_lost(reply: &Reply) {
    let error = reply.error(400);
    for part in ["the instance that held its state was lost", "begin it again with sequence_start"]
    {
        assert!(error.contains(part), "{error}");
    }
}

/// Until another process has taken the place of that one, and the model is ready.
fn wait_for_another(server: &mut Process, before: u32) {
    wait_for("another process", || {
        let now = workers(server.id());
        (!now.is_empty() && !now.contains(&before)).then_some(())
    });
    let mut client = server.client();
    wait_for("the model to be ready", || {
        (client.get("/v2/models/m/ready").status == 200).then_some(())
    });
}

#[test]
fn open_sequences_of_a_process_that_is_killed_hear_that_their_state_is_lost_and_begin_anew() {
    let mut server = process(&sums(ON_CPU, 4), &[]);
    let mut client = server.client();
    for (id, value) in [(1, 5), (2, 7)] {
        assert_eq!(sum(&send(&mut client, id, START, value)), f64::from(value));
        assert_eq!(sum(&send(&mut client, id, NEXT, 1)), f64::from(value + 1));
    }
    let before = workers(server.id())[0];
    kill(before);
    wait_for_another(&mut server, before);
    // Each time, until it begins anew.
    for id in [1, 2, 2, 1] {
        check_lost(&send(&mut client, id, NEXT, 1));
    }
    assert_eq!(sum(&send(&mut client, 1, START, 2)), 2.0);
    assert_eq!(sum(&send(&mut client, 1, NEXT, 2)), 4.0);
    check_lost(&send(&mut client, 2, NEXT, 1));
    let never = send(&mut client, 3, NEXT, 1).error(400);
    assert!(!never.contains("lost"), "{never}");
}

#[test]
fn a_request_in_whose_run_the_process_of_its_sequence_dies_hears_that_the_state_is_lost() {
    let slow = r#"parameters { key: "execute_delay_ms" value: { string_value: "3000" } }"#;
    let mut server = process(&sums(&format!("{ON_CPU} {slow}"), 4), &[]);
    let (http, mut client) = (server.address("http"), server.client());
    assert_eq!(sum(&send(&mut client, 1, START, 5)), 5.0);
    let before = workers(server.id())[0];
    let runs = std::thread::spawn(move || send(&mut Client::connect(http), 1, NEXT, 1));
    wait_for("the request to be taken", || {
        (0.0 < Page::read(http).value("muster_bytes_in_flight")).then_some(())
    });
    kill(before);
    let reply = runs.join().unwrap();
    // Where it comes before the run, the instance is lost before it.
    assert!([400, 500].contains(&reply.status), "{}", reply.text());
    assert!(reply.text().contains("begin it again with sequence_start"), "{}", reply.text());
    wait_for_another(&mut server, before);
    check_lost(&send(&mut client, 1, NEXT, 1));
    assert_eq!(sum(&send(&mut client, 1, START, 2)), 2.0);
}

#[test]
fn sequences_that_were_not_in_the_process_that_is_killed_go_on() {
    let two = "instance_group { kind: KIND_GPU gpus: [ 0, 1 ] }";
    let mut server = gpus::start(&sums(two, 1), &[], &[]);
    let mut client = server.client();
    // One on each device.
    for id in [1, 2] {
        assert_eq!(sum(&send(&mut client, id, START, 5)), 5.0);
    }
    let there = workers(server.id());
    kill(there[0]);
    wait_for("another process", || {
        let now = workers(server.id());
        (now.len() == 2 && !now.contains(&there[0])).then_some(())
    });
    let replies = [1, 2].map(|id| send(&mut client, id, NEXT, 1));
    let (goes_on, lost): (Vec<&Reply>, Vec<&Reply>) =
        replies.iter().partition(|it| it.status == 200);
    assert_eq!((goes_on.len(), lost.len()), (1, 1));
    assert_eq!(sum(goes_on[0]), 6.0);
    check_lost(lost[0]);
}

#[test]
fn a_sequence_whose_state_the_server_keeps_goes_on_in_the_next_process() {
    let config = r#"max_batch_size: 4 instance_group { count: 1 kind: KIND_CPU }
        sequence_batching { max_sequence_idle_microseconds: 600000000
          control_input [
            { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
            { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } },
            { name: "END" control { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } },
            { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } ]
          state { input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: [ -1 ] } }"#;
    let repository = Repository::new()
        .copy("m", "tests/fixtures/batching/accumulate")
        .file("m/config.pbtxt", config);
    let mut server = process(&repository, &[]);
    let mut client = server.client();
    let mut add = |starts: bool, value: i32| {
        let body = format!(
            r#"{{"parameters":{{"sequence_id":7,"sequence_start":{starts}}},
               "inputs":[{{"name":"INPUT","shape":[1,1],"datatype":"INT32","data":[{value}]}}]}}"#
        );
        let reply = client.post(&infer("m"), &[], body).expect(200).json();
        let outputs = reply["outputs"].as_array().unwrap();
        outputs.iter().find(|it| it["name"] == "OUTPUT").unwrap()["data"][0].as_i64().unwrap()
    };
    assert_eq!([add(START, 5), add(NEXT, 1)], [5, 6]);
    let before = workers(server.id())[0];
    kill(before);
    wait_for_another(&mut server, before);
    assert_eq!(add(NEXT, 2), 8);
    let http = server.address("http");
    assert_eq!(of_worker(&Page::read(http), "m", "restarts_total", "reason=\"signal\""), 1.0);
}
