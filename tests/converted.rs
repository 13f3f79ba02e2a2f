//! Models in the form in which converters write them.

use serde_json::json;

use crate::support::{Client, Repository, Server, infer};

/// Models of `tests/fixtures/converted`.
fn of(fixtures: &[&str]) -> Repository {
    let add =
        |it: Repository, name: &&str| it.copy(name, &format!("tests/fixtures/converted/{name}"));
    fixtures.iter().fold(Repository::new(), add)
}

#[test]
fn a_model_of_numbers_answers_numbers_as_tensorflow_serving_does() {
    let repository = of(&["half_plus_three"]);
    let server = Server::start(&repository, &[]);
    let predict = |body| server.post("/v1/models/half_plus_three:predict", body).expect(200).text();
    assert_eq!(predict(r#"{"instances": [1.0, 2.0, 5.0]}"#), r#"{"predictions":[3.5,4.0,5.5]}"#);
    assert_eq!(predict(r#"{"inputs": [1.0, 2.0, 5.0]}"#), r#"{"outputs":[3.5,4.0,5.5]}"#);
    let json = [("content-type", "application/json")];
    let body = r#"{"instances": [1.0, 2.0, 5.0]}"#;
    let reply =
        Client::connect(server.sagemaker()).post("/invocations", &json, body).expect(200).text();
    assert_eq!(reply, r#"{"predictions":[3.5,4.0,5.5]}"#);
    // KServe v2 says what its metadata say, as in Triton.
    let body =
        json!({"inputs": [{"name": "x", "shape": [2, 1], "datatype": "FP32", "data": [1, 2]}]});
    let reply = server.post(&infer("half_plus_three"), body.to_string()).expect(200).json();
    assert_eq!(reply["outputs"][0]["shape"], json!([2, 1]));
}

#[test]
fn an_input_of_unknown_rank_is_as_its_configuration_says() {
    let config = "input { name: \"x\" data_type: TYPE_FP32 dims: [ 2, -1 ] }";
    let repository = of(&["unknown_rank"]).file("unknown_rank/config.pbtxt", config);
    let server = Server::start(&repository, &[]);
    let reply = server.post("/v1/models/unknown_rank:predict", r#"{"inputs": [[1, 2], [3, 4]]}"#);
    assert_eq!(reply.expect(200).text(), r#"{"outputs":[[2.0,4.0],[6.0,8.0]]}"#);
}

#[test]
fn what_comes_out_decides_what_a_row_is_where_the_file_declares_another_shape() {
    let repository = of(&["wrong_label"]);
    let server = Server::start(&repository, &[]);
    let rows = "1,2,3,4\n-1,0,2,5\n0,0,0,0\n";
    let reply = Client::connect(server.sagemaker()).post(
        "/invocations",
        &[("content-type", "text/csv")],
        rows,
    );
    let text = reply.expect(200).text();
    let columns: Vec<usize> = text.lines().map(|it| it.split(',').count()).collect();
    assert_eq!(columns, [4, 4, 4], "{text}");
}

#[test]
fn an_output_that_is_not_served_may_be_of_any_type() {
    let config =
        "output { name: \"label\" data_type: TYPE_INT64 dims: [ 1 ] reshape { shape: [ ] } }";
    let repository = Repository::of(&["sequence_map"]).file("sequence_map/config.pbtxt", config);
    let server = Server::start(&repository, &[]);
    let body = r#"{"instances": [[1, 2, 3, 4], [0, 0, 0, 0]]}"#;
    let reply = server.post("/v1/models/sequence_map:predict", body).expect(200).json();
    assert_eq!(reply["predictions"].as_array().map(Vec::len), Some(2), "{reply}");
}
