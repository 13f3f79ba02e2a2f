//! TensorFlow Serving's REST API.

use serde_json::json;

use crate::support::{Repository, Server};

#[test]
fn rows_in_are_predictions_out_and_columns_in_are_outputs_out() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    let predict = |body: &str| server.post("/v1/models/copy:predict", body).expect(200).text();
    let rows = "[[1.0,2.0,3.0,4.0],[5.0,6.0,7.0,8.0]]";
    for body in [
        r#"{"instances":[[1,2,3,4],[5,6,7,8]]}"#,
        r#"{"signature_name":"serving_default","instances":[[1,2,3,4],[5,6,7,8]]}"#,
        r#"{"instances":[{"INPUT0":[1,2,3,4]},{"INPUT0":[5,6,7,8]}]}"#,
    ] {
        assert_eq!(predict(body), format!("{{\"predictions\":{rows}}}"), "{body}");
    }
    for body in
        [r#"{"inputs":[[1,2,3,4],[5,6,7,8]]}"#, r#"{"inputs":{"INPUT0":[[1,2,3,4],[5,6,7,8]]}}"#]
    {
        assert_eq!(predict(body), format!("{{\"outputs\":{rows}}}"), "{body}");
    }
}

#[test]
fn several_inputs_and_outputs_go_by_their_names() {
    let repository = Repository::of(&["two_outputs"]);
    let server = Server::start(&repository, &[]);
    let predict = |body| server.post("/v1/models/two_outputs:predict", body).expect(200).json();
    let row = json!({"sum": vec![3.0; 4], "difference": vec![1.0; 4], "product": vec![2.0; 4]});
    let rows = predict(r#"{"instances":[{"a":[2,2,2,2],"b":[1,1,1,1]}]}"#);
    assert_eq!(rows, json!({"predictions": [row]}));
    let columns = predict(r#"{"inputs":{"a":[[2,2,2,2]],"b":[[1,1,1,1]]}}"#);
    assert_eq!(columns["outputs"]["sum"], json!([[3.0, 3.0, 3.0, 3.0]]));
}

#[test]
fn strings_may_be_base64_in_and_are_where_they_must_be_out() {
    let repository = Repository::of(&["type_string"]);
    let server = Server::start(&repository, &[]);
    let body = r#"{"instances":[["text",{"b64":"/w=="},"é"]]}"#;
    let reply = server.post("/v1/models/type_string:predict", body).expect(200).json();
    assert_eq!(reply, json!({"predictions": [["text", {"b64": "/w=="}, "é"]]}));
}

#[test]
fn a_version_may_be_named() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    let body = r#"{"instances":[[1,2,3,4]]}"#;
    server.post("/v1/models/copy/versions/1:predict", body).expect(200);
    server.post("/v1/models/copy/versions/2:predict", body).error(404);
    server.post("/v1/models/none:predict", body).error(404);
    server.post("/v1/models/copy/labels/stable:predict", body).error(501);
    server.post("/v1/models/copy:classify", body).error(501);
}

#[test]
fn the_status_says_of_each_version_whether_it_is_available_and_why_not() {
    let repository =
        Repository::identity("copy", &[]).copy("corrupt", "tests/fixtures/broken/corrupt");
    let server = Server::start(&repository, &[]);
    let expected = json!({"model_version_status": [{
        "version": "1",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }]});
    assert_eq!(server.get("/v1/models/copy").expect(200).json(), expected);
    assert_eq!(server.get("/v1/models/copy/versions/1").expect(200).json(), expected);
    let failed = server.get("/v1/models/corrupt").expect(200).json();
    let failed = &failed["model_version_status"][0];
    assert_eq!(failed["state"], "END");
    assert!(!failed["status"]["error_message"].as_str().unwrap().is_empty(), "{failed}");
    server.get("/v1/models/none").error(404);
}

#[test]
fn metadata_have_the_names_types_and_shapes_of_the_only_signature() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    let metadata = server.get("/v1/models/copy/metadata").expect(200).json();
    assert_eq!(metadata["model_spec"]["name"], "copy");
    assert_eq!(metadata["model_spec"]["version"], "1");
    let signature = &metadata["metadata"]["signature_def"]["signature_def"]["serving_default"];
    let input = &signature["inputs"]["INPUT0"];
    assert_eq!(input["dtype"], "DT_FLOAT");
    assert_eq!(input["tensor_shape"]["dim"][0]["size"], "-1");
    assert_eq!(input["tensor_shape"]["dim"][1]["size"], "4");
    assert_eq!(signature["method_name"], "tensorflow/serving/predict");
}

#[test]
fn what_is_wrong_is_named() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    for (body, part) in [
        ("{}", "'instances' or 'inputs'"),
        (r#"{"instances":[[1,2,3,4]],"inputs":[[1,2,3,4]]}"#, "both"),
        (r#"{"instances":[[1,2,3]]}"#, "INPUT0"),
        (r#"{"instances":[[1,2,3,"x"]]}"#, "instances[0][3]"),
        (r#"{"instances":[[1,2,3,4],[1,2]]}"#, "instances[1]"),
        (r#"{"instances":[{"INPUT1":[1,2,3,4]}]}"#, "INPUT1"),
        (r#"{"signature_name":"other","instances":[[1,2,3,4]]}"#, "'other'"),
        (r#"{"instances":7}"#, "instances"),
    ] {
        let error = server.post("/v1/models/copy:predict", body).error(400);
        assert!(error.contains(part), "{body}: {error}");
    }
}
