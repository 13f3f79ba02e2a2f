//! Numbers in configurations that become sizes: one that is too large keeps its model from loading, and nothing else.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::{
    Process, Repository, Server, Start,
    control::{EXPLICIT, load},
    first_of, infer, row,
};

/// A configuration, and the words that the refusal of its load has.
fn too_large() -> Vec<(Value, &'static [&'static str])> {
    let state = json!({
        "input_name": "S", "output_name": "T", "data_type": "TYPE_FP32", "dims": [-1],
        "initial_state": [{"name": "i", "data_type": "TYPE_FP32", "dims": [2_000_000_000], "zero_data": true}],
    });
    let sample = |dims: Value| json!({"name": "w", "batch_size": 1, "inputs": {"INPUT0": {"data_type": "TYPE_FP32", "dims": dims, "zero_data": true}}});
    let endless = json!({"name": "w", "batch_size": 1, "count": 4_000_000_000u64, "inputs": {"INPUT0": {"data_type": "TYPE_FP32", "dims": [4], "zero_data": true}}});
    vec![
        (
            json!({"instance_group": [{"count": 1_000_000_000, "kind": "KIND_CPU"}]}),
            &["instance_group", "1000000000", "at most 1024", "thread"],
        ),
        (
            json!({"instance_group": [{"count": 1000, "kind": "KIND_CPU"}, {"count": 1000, "kind": "KIND_CPU"}]}),
            &["instance_group", "2000 instances", "at most 1024"],
        ),
        (
            json!({
                "instance_group": [{"count": 100, "kind": "KIND_CPU"}],
                "parameters": {"intra_op_thread_count": {"string_value": "1000"}},
            }),
            &["100 instances of 1000 threads", "are 100000", "at most 4096 threads"],
        ),
        (
            json!({"sequence_batching": {"oldest": {"max_candidate_sequences": 2_000_000_000}}}),
            &["max_candidate_sequences is 2000000000", "at most 1048576", "table"],
        ),
        (
            json!({"max_batch_size": 2_000_000_000, "sequence_batching": {"direct": {}}}),
            &["max_batch_size", "2000000000", "at most 1048576"],
        ),
        (
            json!({"sequence_batching": {"oldest": {"max_candidate_sequences": 1_000_000}}, "instance_group": [{"count": 100, "kind": "KIND_CPU"}]}),
            &["max_candidate_sequences is 1000000", "at most 41943"],
        ),
        (
            json!({"sequence_batching": {"direct": {}, "state": [state]}}),
            &["initial_state", "would be", "at most"],
        ),
        (
            json!({"model_warmup": [endless]}),
            &["model_warmup", "count is 4000000000", "at most 100000"],
        ),
        (
            json!({
                "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
                "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
                "model_warmup": [sample(json!([2_000_000_000]))],
            }),
            &["model_warmup 'w'", "input 'INPUT0'", "would be", "at most"],
        ),
        (
            json!({"max_batch_size": 8, "dynamic_batching": {"priority_levels": 4_294_967_295u64, "default_priority_level": 1}}),
            &["priority_levels is 4294967295", "at most 1000"],
        ),
    ]
}

fn config(changes: &Value) -> Value {
    let mut config = json!({
        "backend": "identity", "max_batch_size": 8,
        "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [4]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [4]}],
    });
    config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    config
}

#[test]
fn a_number_that_is_too_large_keeps_its_model_from_loading_and_no_other() {
    let repository = Repository::identity("good", &[]).with_identity("m", &[]);
    let mut server = Process::start(&repository, &[EXPLICIT, "--load-model=good"], &[]);
    server.wait_ready();
    let mut client = server.client();
    for (changes, words) in too_large() {
        let body = json!({"parameters": {"config": config(&changes).to_string()}}).to_string();
        let reply = client.post("/v2/repository/models/m/load", &[], body);
        assert!((400..=599).contains(&reply.status), "{changes}: {}", reply.text());
        for word in words {
            assert!(reply.text().contains(word), "no '{word}' for {changes}: {}", reply.text());
        }
        assert_eq!(first_of(&client.post(&infer("good"), &[], row(3))), 3.0, "{changes}");
    }
}

#[test]
fn fixed_dimensions_that_no_request_could_have_are_not_tried() {
    let repository = Repository::identity("good", &[]);
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=good"]);
    let huge = json!({
        "max_batch_size": 0,
        "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [100_000_000_000u64]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [100_000_000_000u64]}],
    });
    let body =
        json!({"parameters": {"config": config(&huge).to_string(), "file:1/x": ""}}).to_string();
    // Whether it loads or not, the server goes on.
    load(&server, "m", &body);
    assert_eq!(first_of(&server.post(&infer("good"), row(3))), 3.0);
}

#[test]
fn numbers_of_flags_that_become_threads_or_places_are_bounded() {
    let repository = Repository::identity("m", &[]);
    for flag in [
        "--http-thread-count=1000000000",
        "--model-load-thread-count=5000",
        "--tokenization-workers=18446744073709551615",
        "--default-instance-count=1000000",
        "--max-connections=18446744073709551615",
    ] {
        let error = Start::new(&repository).flags(&[flag]).config().map(drop).unwrap_err();
        let name = flag.split('=').next().unwrap();
        assert!(error.contains(name) && error.contains("a whole number from 1 to "), "{error}");
    }
}

#[test]
fn files_beside_versions_come_with_a_request_to_load() {
    let repository = Repository::identity("good", &[]);
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=good"]);
    let labelled = json!({
        "max_batch_size": 8,
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [4], "label_filename": "labels.txt"}],
    });
    let body = json!({"parameters": {
        "config": config(&labelled).to_string(),
        "file:1/notes/of/the/training.txt": STANDARD.encode("it converged"),
        "file:labels.txt": STANDARD.encode("ant\nbee\ncat\ndog\n"),
    }});
    load(&server, "m", &body.to_string()).expect(200);
    let best = json!({
        "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 1, 0]}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"classification": 1}}],
    });
    let best = server.post(&infer("m"), best.to_string()).expect(200).text();
    assert!(best.contains("cat"), "{best}");
    for path in ["../x", "1/../../x", "/../x", "//etc/x", "1/"] {
        let file = format!("file:{path}");
        let body = json!({"parameters": {"config": config(&json!({})).to_string(), "file:1/x": "", file: ""}});
        let error = load(&server, "m", &body.to_string()).error(500);
        assert!(error.contains("expected the path of a file in the model's directory"), "{error}");
    }
}
