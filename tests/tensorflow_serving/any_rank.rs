//! Inputs of which the model's file does not say how many dimensions they have: any shape is served, with no
//! configuration.

use frontend::grpc::proto::ModelInferRequest;
use serde_json::json;
use tonic::Code;

use crate::support::{
    Client, Form, Repository, Server, Tensor,
    grpc::{Client as Calls, input},
    savedmodels::{post, serve},
};

/// Asks with tensors of several ranks, over KServe.
#[track_caller]
fn check_ranks(client: &mut Client, model: &str, input: &str, output: &str) {
    for shape in [&[4][..], &[2, 3], &[1, 2, 2], &[]] {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|it| it as f32 - 1.0).collect();
        let reply = client.infer(model, &[Tensor::fp32(input, shape, &values)], Form::Binary, "");
        let outputs = reply.expect(200).outputs();
        let output = outputs.iter().find(|it| it.name == output).unwrap();
        let doubled: Vec<f64> = values.iter().map(|it| f64::from(*it) * 2.0).collect();
        assert_eq!((&output.shape[..], output.numbers()), (shape, doubled), "{model} {shape:?}");
    }
}

/// Asks with a shape that comes to 2^63 elements before a zero makes it none, for which libraries end the process.
#[track_caller]
fn check_overflow(client: &mut Client, model: &str, input: &str) {
    let shape = [4, 1 << 62, 0, 3];
    let reply = client.infer(model, &[Tensor::fp32(input, &shape, &[])], Form::Binary, "");
    let error = reply.expect(400).text();
    assert!(error.contains("its shape [4,4611686018427387904,0,3] has no elements"), "{error}");
}

#[test]
fn a_graph_of_onnx_takes_any_shape() {
    let repository = Repository::new().copy("any_rank", "tests/fixtures/models/any_rank");
    let server = Server::start(&repository, &[]);
    let mut client = server.client();
    check_overflow(&mut client, "any_rank", "input");
    check_ranks(&mut client, "any_rank", "input", "output");
    let metadata = server.get("/v1/models/any_rank/metadata").expect(200).json();
    let input = &metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
        ["input"];
    assert_eq!(input["tensor_shape"], json!({"dim": [], "unknown_rank": true}));
    let csv = client.post("/invocations", &[("Content-Type", "text/csv")], "1,2\n3,4\n");
    assert_eq!(csv.expect(200).text(), "2.0,4.0\n6.0,8.0\n");
}

#[test]
fn a_signature_of_a_saved_model_takes_any_shape_over_every_protocol() {
    let Some((mut process, _repository)) = serve(&["any_rank"], &[]) else { return };
    let mut client = process.client();
    check_overflow(&mut client, "any_rank", "x");
    let deep = ModelInferRequest {
        model_name: "any_rank".to_owned(),
        inputs: vec![input("x", "FP32", &[1; 255])],
        raw_input_contents: vec![1.0f32.to_le_bytes().to_vec().into()],
        ..ModelInferRequest::default()
    };
    let mut calls = Calls::connect(process.address("grpc"));
    let error = calls.refused(deep, Code::InvalidArgument);
    assert!(error.contains("255 dimensions, TensorFlow takes at most 254"), "{error}");
    check_ranks(&mut client, "any_rank", "x", "y");
    let predict = "/v1/models/any_rank:predict";
    let rows = post(&mut client, predict, &json!({"inputs": [[1.0, 2.0], [3.0, 4.0]]}));
    assert_eq!(rows, json!({"outputs": {"sum": 10.0, "y": [[2.0, 4.0], [6.0, 8.0]]}}));
    let body = json!({"signature_name": "again", "inputs": [[[1.0]], [[2.0]]]});
    let again = post(&mut client, predict, &body);
    assert_eq!(again, json!({"outputs": {"sum": 3.0, "y": [[[2.0]], [[4.0]]]}}));
}
