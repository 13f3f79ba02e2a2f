//! Batches of requests whose shapes differ: what the model is told about them, and how its outputs are cut up.

use crate::support::{Client, Page, Reply, Repository, Server, Start, ask, infer, wait_queued};

/// A model `m` that is held until `hold` requests wait.
fn held(fixture: &str, config: &str, hold: usize) -> Server {
    Server::start(&repository(fixture, config), &[&format!("--scheduler-hold={hold}")])
}

fn repository(fixture: &str, config: &str) -> Repository {
    let text = format!("max_batch_size: 8 dynamic_batching {{ }} {config}");
    Repository::new()
        .copy("m", &format!("tests/fixtures/batching/{fixture}"))
        .file("m/config.pbtxt", text)
}

/// The input `VALUES` with elements of any number.
fn values(dims: &str) -> String {
    format!(
        "input {{ name: \"VALUES\" data_type: TYPE_FP32 dims: {dims} allow_ragged_batch: true }}"
    )
}

/// The body of a request with `VALUES` of this shape, which count up from `first`, and further inputs.
fn request(shape: &[usize], first: usize, more: &str) -> String {
    let count: usize = shape.iter().product();
    let data: Vec<usize> = (first..first + count).collect();
    format!(
        r#"{{"inputs":[{{"name":"VALUES","shape":{shape:?},"datatype":"FP32","data":{data:?}}}{more}]}}"#
    )
}

/// Sends these, each when the one before is in the queue.
fn send(server: &Server, bodies: &[String]) -> Vec<Reply> {
    let mut clients: Vec<Client> = Vec::new();
    for (waiting, body) in bodies.iter().enumerate() {
        wait_queued(server.http(), "m", waiting);
        clients.push(ask(server.http(), "m", body));
    }
    clients.iter_mut().map(Client::reply).collect()
}

#[track_caller]
fn output(reply: &Reply, name: &str) -> (Vec<u64>, Vec<f64>) {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let json = reply.json();
    let outputs = json["outputs"].as_array().unwrap();
    let output = outputs.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{json}"));
    let shape = output["shape"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap());
    let data = output["data"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap());
    (shape.collect(), data.collect())
}

const SUM: &str = r#"output { name: "SUM" data_type: TYPE_FP32 dims: [ 1 ] }
    batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "BOUNDS" data_type: TYPE_INT32
                  source_input: "VALUES" }"#;

#[test]
fn requests_of_different_lengths_share_a_batch_and_each_gets_its_own() {
    let server = held("ragged_sum", &format!("{} {SUM}", values("[ -1 ]")), 3);
    let bodies = [request(&[1, 3], 1, ""), request(&[1, 1], 10, ""), request(&[1, 4], 1, "")];
    let sums: Vec<_> = send(&server, &bodies).iter().map(|it| output(it, "SUM")).collect();
    assert_eq!(sums, [(vec![1, 1], vec![6.0]), (vec![1, 1], vec![10.0]), (vec![1, 1], vec![10.0])]);
    let page = Page::read(server.http());
    assert_eq!(page.of("m", "nv_inference_exec_count"), 1.0);
    assert_eq!(page.of("m", "nv_inference_count"), 3.0);
    // Alone it is a batch all the same.
    let alone = server.post(&infer("m"), request(&[1, 2], 5, ""));
    assert_eq!(output(&alone, "SUM").1, [11.0]);
}

/// What `ragged_echo` is told of three requests with 4, 1 and 2 elements, by this kind of batch input.
#[track_caller]
fn check_told(kind: &str, expected: &[f64]) {
    let config = format!(
        r#"{} input {{ name: "ROW" data_type: TYPE_FP32 dims: [ 1 ] }}
           output [ {{ name: "ALL" data_type: TYPE_FP32 dims: [ -1 ] }}, {{ name: "SEEN" data_type: TYPE_FP32 dims: [ -1 ] }} ]
           batch_input {{ kind: {kind} target_name: "BATCH" data_type: TYPE_FP32 source_input: "VALUES" }}"#,
        values("[ -1 ]")
    );
    let server = held("ragged_echo", &config, 3);
    let row = r#",{"name":"ROW","shape":[1,1],"datatype":"FP32","data":[1]}"#;
    let bodies = [request(&[1, 4], 1, row), request(&[1, 1], 10, row), request(&[1, 2], 20, row)];
    for reply in send(&server, &bodies) {
        assert_eq!(output(&reply, "ALL").1, [1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 21.0]);
        assert_eq!(output(&reply, "SEEN"), (vec![1, expected.len() as u64], expected.to_vec()));
    }
}

#[test]
fn each_kind_of_batch_input_tells_its_part() {
    check_told("BATCH_ELEMENT_COUNT", &[4.0, 1.0, 2.0]);
    check_told("BATCH_ACCUMULATED_ELEMENT_COUNT", &[4.0, 5.0, 7.0]);
    check_told("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", &[0.0, 4.0, 5.0, 7.0]);
    check_told("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", &[0.0; 4]);
    check_told("BATCH_ITEM_SHAPE_FLATTEN", &[4.0, 1.0, 2.0]);
}

#[test]
fn the_shape_of_each_item_is_a_row() {
    let config = format!(
        r#"{} output {{ name: "SEEN" data_type: TYPE_INT64 dims: [ 2 ] }}
           batch_input {{ kind: BATCH_ITEM_SHAPE target_name: "SHAPES" data_type: TYPE_INT32 source_input: "VALUES" }}"#,
        values("[ -1, -1 ]")
    );
    let server = held("ragged_shape", &config, 2);
    // The number of elements is taken off again: the model adds nothing to shapes.
    let replies = send(&server, &[request(&[2, 3, 1], 0, ""), request(&[1, 2, 2], 0, "")]);
    assert_eq!(output(&replies[0], "SEEN"), (vec![2, 2], vec![3.0, 1.0, 3.0, 1.0]));
    assert_eq!(output(&replies[1], "SEEN"), (vec![1, 2], vec![2.0, 2.0]));
    assert_eq!(Page::read(server.http()).of("m", "nv_inference_exec_count"), 1.0);
}

const SCATTER: &str = r#"output { name: "TWICE" data_type: TYPE_FP32 dims: [ -1, -1 ] }
    batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "TWICE" source_input: "VALUES" }"#;

#[test]
fn an_output_is_cut_up_by_the_shapes_of_an_input() {
    let server = held("ragged_double", &format!("{} {SCATTER}", values("[ -1, -1 ]")), 2);
    let replies = send(&server, &[request(&[2, 1, 2], 1, ""), request(&[1, 3, 1], 10, "")]);
    assert_eq!(output(&replies[0], "TWICE"), (vec![2, 1, 2], vec![2.0, 4.0, 6.0, 8.0]));
    assert_eq!(output(&replies[1], "TWICE"), (vec![1, 3, 1], vec![20.0, 22.0, 24.0]));
    assert_eq!(Page::read(server.http()).of("m", "nv_inference_exec_count"), 1.0);
}

/// Why the configuration is refused.
#[track_caller]
fn refused(fixture: &str, config: &str, text: &str) {
    let repository = repository(fixture, config);
    let error = Start::new(&repository).try_run().err().expect("it does not load").to_string();
    assert!(error.contains(text), "{error}");
}

#[test]
fn what_does_not_fit_the_model_is_a_load_error() {
    let plain = values("[ -1 ]");
    refused(
        "ragged_sum",
        &format!("{plain} {}", SUM.replace("VALUES", "VALUE")),
        "source_input 'VALUE' is not a configured input, which are: VALUES; did you mean 'VALUES'?",
    );
    refused(
        "ragged_sum",
        &format!("{plain} {}", SUM.replace("INT32", "INT64")),
        "data_type is TYPE_INT64; expected TYPE_INT32 or TYPE_FP32",
    );
    refused(
        "ragged_sum",
        &format!("{plain} {}", SUM.replace("INT32", "FP32")),
        "batch_input[0]: 'BOUNDS' would be TYPE_FP32, the model has TYPE_INT32",
    );
    refused(
        "ragged_sum",
        &format!("{plain} {}", SUM.replace("BOUNDS", "BOUND")),
        "batch_input[0]: 'BOUND' is not an input of the model",
    );
    let scatter = format!(
        "{} {}",
        values("[ -1, -1 ]"),
        SCATTER.replace("target_name: \"TWICE\"", "target_name: [ \"TWICE\", \"TWICE\" ]")
    );
    refused("ragged_double", &scatter, "expected each output once");
    let sequences = format!("{plain} {SUM}");
    let sequences = repository("ragged_sum", &sequences)
        .file("m/config.pbtxt", format!("max_batch_size: 8 sequence_batching {{ }} {sequences}"));
    let error = Start::new(&sequences).try_run().err().unwrap().to_string();
    assert!(error.contains("sequence_batching excludes allow_ragged_batch"), "{error}");
}

#[test]
fn a_ragged_input_must_be_one_dimension_of_the_model() {
    let config = r#"max_batch_size: 4 input { name: "input" data_type: TYPE_FP32 dims: [ 3 ] allow_ragged_batch: true }
        output { name: "output" data_type: TYPE_FP32 dims: [ 3 ] }"#;
    let repository = Repository::of(&["type_fp32"]).file("type_fp32/config.pbtxt", config);
    let error = Start::new(&repository).try_run().err().unwrap().to_string();
    let text = "input 'input': the elements of a whole batch come in one dimension of any size, [ -1 ]; the model has [ -1, 3 ]";
    assert!(error.contains(text), "{error}");
}
