//! Triton's suite `L0_implicit_state`: what clients see of a state that the server keeps for a sequence. Cases of
//! models that write their state through Triton's C interface have no counterpart.

use serde_json::{Value, json};

use crate::support::{Repository, Server, infer};

/// A model without a batch dimension: OUTPUT is all that a sequence has sent, and NOW, its state, is the same.
fn history(state: &str, outputs: &str) -> (Repository, Server) {
    let config = format!(
        "max_batch_size: 0 instance_group {{ count: 1 kind: KIND_CPU }} {outputs}
         sequence_batching {{ max_sequence_idle_microseconds: 60000000
           state {{ input_name: \"PAST\" output_name: \"NOW\" data_type: TYPE_INT32 {state} }} }}"
    );
    let repository = Repository::new()
        .copy("m", "tests/fixtures/batching/history_alone")
        .file("m/config.pbtxt", config);
    let server = Server::start(&repository, &[]);
    (repository, server)
}

/// OUTPUT and the state, where a client may have it.
const BOTH: &str = "output [ { name: \"OUTPUT\" data_type: TYPE_INT32 dims: [ -1 ] },
    { name: \"NOW\" data_type: TYPE_INT32 dims: [ -1 ] } ]";

fn request(start: bool, end: bool, values: &[i32], outputs: &[&str]) -> String {
    let outputs: Vec<Value> = outputs.iter().map(|it| json!({"name": it})).collect();
    json!({
        "parameters": {"sequence_id": 1, "sequence_start": start, "sequence_end": end},
        "inputs": [{"name": "INPUT", "shape": [values.len()], "datatype": "INT32", "data": values}],
        "outputs": outputs,
    })
    .to_string()
}

/// Names and values of what an answer has.
#[track_caller]
fn outputs(server: &Server, body: &str) -> Vec<(String, Value)> {
    let reply = server.post(&infer("m"), body).expect(200).json();
    let output = |it: &Value| (it["name"].as_str().unwrap().to_owned(), it["data"].clone());
    reply["outputs"].as_array().unwrap().iter().map(output).collect()
}

#[test]
fn a_state_that_is_no_output_cannot_be_asked_for() {
    let (_repository, server) = history("dims: [ -1 ]", "");
    let reply = server.post(&infer("m"), request(true, true, &[1], &["NOW"]));
    let text = reply.error(400);
    assert!(text.starts_with("unexpected inference output 'NOW' for model 'm'"), "{text}");
}

#[test]
fn a_state_that_is_an_output_can_be_asked_for_beside_others_and_alone() {
    let start = "dims: [ -1 ] initial_state { name: \"s\" data_type: TYPE_INT32 dims: [ 1 ] zero_data: true }";
    let (_repository, server) = history(start, BOTH);
    let values = json!([0, 1]);
    let both = outputs(&server, &request(true, true, &[1], &["NOW", "OUTPUT"]));
    assert_eq!(both, [("NOW".to_owned(), values.clone()), ("OUTPUT".to_owned(), values.clone())]);
    let alone = outputs(&server, &request(true, true, &[1], &["NOW"]));
    assert_eq!(alone, [("NOW".to_owned(), values)]);
}

#[test]
fn a_state_grows_beyond_the_size_that_it_begins_with() {
    let flags = "use_same_buffer_for_input_output: true use_growable_memory: true";
    let (_repository, server) = history(&format!("dims: [ 4 ] {flags}"), BOTH);
    let state = |start, values: &[i32]| {
        outputs(&server, &request(start, false, values, &["NOW"])).remove(0).1
    };
    assert_eq!(state(true, &[1, 1]), json!([0, 0, 0, 0, 1, 1]));
    assert_eq!(state(false, &[1; 4]), json!([0, 0, 0, 0, 1, 1, 1, 1, 1, 1]));
    assert_eq!(state(false, &[2]), json!([0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2]));
}

#[test]
fn a_state_may_ask_for_one_buffer_for_both_of_its_sides() {
    let (_repository, server) =
        history("dims: [ -1 ] use_same_buffer_for_input_output: true", BOTH);
    for (start, end) in [(true, false), (false, true)] {
        outputs(&server, &request(start, end, &[3], &["OUTPUT"]));
    }
}

/// Eleven requests that add nothing to a state leave it as it began.
#[test]
fn a_state_that_no_request_changes_stays() {
    let start = "dims: [ -1 ] initial_state { name: \"s\" data_type: TYPE_INT32 dims: [ 1 ] zero_data: true }";
    let (_repository, server) = history(start, BOTH);
    for i in 0..=10 {
        let found = outputs(&server, &request(i == 0, i == 10, &[], &["OUTPUT"]));
        assert_eq!(found, [("OUTPUT".to_owned(), json!([0]))]);
    }
}
