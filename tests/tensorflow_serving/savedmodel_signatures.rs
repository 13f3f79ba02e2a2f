//! The signatures of a SavedModel by their names, on every protocol: which of them runs, what it answers, and that
//! requests for two of them are never taken for each other.

use std::{collections::BTreeMap, thread};

use frontend::grpc::proto::tensorflow::{
    TensorProto, TensorShapeProto,
    serving::{ModelSpec, PredictRequest, PredictResponse},
    tensor_shape_proto::Dim,
};
use serde_json::{Value, json};
use tonic::{Code, Request, Status};

use crate::support::{
    Client, Form, Repository, Tensor,
    grpc::Client as GrpcClient,
    root,
    savedmodels::{FIXTURES, instead_of_tfs, post, serve, serve_those},
};

const PREDICT: &str = "/v1/models/signatures:predict";

fn floats(dims: &[i64], values: &[f32]) -> TensorProto {
    let dim = dims.iter().map(|&size| Dim { size, name: String::new() }).collect();
    TensorProto {
        dtype: 1,
        tensor_shape: Some(TensorShapeProto { dim, unknown_rank: false }),
        float_val: values.to_vec(),
        ..TensorProto::default()
    }
}

fn spec(model: &str, signature: &str) -> Option<ModelSpec> {
    let (name, signature_name) = (model.to_owned(), signature.to_owned());
    Some(ModelSpec { name, signature_name, ..ModelSpec::default() })
}

fn predict(
    grpc: &mut GrpcClient,
    signature: &str,
    inputs: &[(&str, TensorProto)],
) -> Result<PredictResponse, Status> {
    let inputs = inputs.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
    let model_spec = spec("signatures", signature);
    let request = PredictRequest { model_spec, inputs, ..PredictRequest::default() };
    grpc.call_with("tensorflow.serving.PredictionService/Predict", Request::new(request))
}

/// A request of KServe to that signature, in JSON.
fn kserve(client: &mut Client, signature: &str, x: &[f32]) -> Value {
    let body = json!({
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [x.len() / 3, 3], "data": x}],
        "parameters": {"signature_name": signature},
    });
    post(client, "/v2/models/signatures/infer", &body)["outputs"][0]["data"].clone()
}

#[test]
fn every_signature_answers_by_its_name_on_every_protocol() {
    let Some((mut process, _repository)) = serve(&["signatures"], &["--tfs-grpc-port=0"]) else {
        return;
    };
    let mut client = process.client();
    let x = [1.0, 2.0, 3.0];
    let expected = [
        ("", [2.0, 4.0, 6.0]),
        ("serving_default", [2.0, 4.0, 6.0]),
        ("square", [1.0, 4.0, 9.0]),
        ("mean", [0.0, 0.0, 0.0]),
    ];
    let mut grpc = GrpcClient::connect(process.address("tfs-grpc"));
    for (name, y) in expected {
        // The name may stand in front of the inputs and behind them.
        for body in [
            format!(r#"{{"signature_name": "{name}", "instances": [[1, 2, 3]]}}"#),
            format!(r#"{{"instances": [[1, 2, 3]], "signature_name": "{name}"}}"#),
        ] {
            let reply = client.post(PREDICT, &[], &body).expect(200).json();
            assert_eq!(reply, json!({"predictions": [y]}), "{name}");
            let headers = [("Content-Type", "application/json")];
            let reply = client.post("/invocations", &headers, &body).expect(200).json();
            assert_eq!(reply, json!({"predictions": [y]}), "{name}");
        }
        let reply = predict(&mut grpc, name, &[("x", floats(&[1, 3], &x))]).unwrap();
        assert_eq!(reply.outputs["y"].float_val, y, "{name}");
        let used = if name.is_empty() { "serving_default" } else { name };
        assert_eq!(reply.model_spec.unwrap().signature_name, used);
        assert_eq!(kserve(&mut client, name, &x), json!(y), "{name}");
    }
    let join = json!({"signature_name": "join", "inputs": {"left": ["a"], "right": ["b"]}});
    let reply = post(&mut client, PREDICT, &join);
    assert_eq!(reply, json!({"outputs": {"joined": ["ab"], "length": [1]}}));
    // KServe shows the default one, and the names of all.
    let described = client.get("/v2/models/signatures").expect(200).json();
    assert_eq!(described["inputs"][0]["name"], "x");
    let mut names: Vec<&str> = described["parameters"]["signatures"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(names[0], "serving_default");
    names.sort_unstable();
    assert_eq!(names, ["join", "mean", "scaled", "serving_default", "sparse", "square"]);
    let rows = Tensor::fp32("x", &[1, 3], &x);
    let reply = client.infer("signatures", &[rows], Form::Binary, "").expect(200);
    assert_eq!(reply.output().numbers(), [2.0, 4.0, 6.0]);
}

#[test]
fn the_line_of_a_request_names_its_signature() {
    let flags = ["--log-requests=true"];
    let Some((mut process, _repository)) = serve(&["signatures"], &flags) else { return };
    let mut client = process.client();
    for (given, named) in [("square", "square"), ("", "serving_default")] {
        kserve(&mut client, given, &[1.0, 2.0, 3.0]);
        process.wait_for_line(&format!("signature={named}"));
    }
}

#[test]
fn an_unknown_signature_is_refused_with_the_names_of_all() {
    let Some((mut process, _repository)) =
        serve(&["signatures", "half_plus_two"], &["--tfs-grpc-port=0"])
    else {
        return;
    };
    let mut client = process.client();
    let body = r#"{"instances": [[1, 2, 3]], "signature_name": "cube"}"#;
    let error = client.post(PREDICT, &[], body).error(400);
    assert!(error.contains("'cube'") && error.contains("'join', 'mean'"), "{error}");
    let body = json!({
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}],
        "parameters": {"signature_name": "cube"},
    });
    let error = client.post("/v2/models/signatures/infer", &[], body.to_string()).error(400);
    assert!(error.contains("'cube'") && error.contains("'square'"), "{error}");
    let body = json!({
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}],
        "parameters": {"signature_name": 5},
    });
    let error = client.post("/v2/models/signatures/infer", &[], body.to_string()).error(400);
    assert!(error.contains("parameters.signature_name: expected a string"), "{error}");
    let body = r#"{"instances": [1], "signature_name": "cube"}"#;
    let error = client.post("/v1/models/half_plus_two:predict", &[], body).error(400);
    assert!(error.contains("'serving_default', the only signature"), "{error}");
    // The initialiser is a signature in the file, and none that clients may run.
    let body = r#"{"instances": [[1, 2, 3]], "signature_name": "__saved_model_init_op"}"#;
    client.post(PREDICT, &[], body).error(400);
    let mut grpc = GrpcClient::connect(process.address("tfs-grpc"));
    let status = predict(&mut grpc, "cube", &[("x", floats(&[1, 3], &[0.0; 3]))]).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("'cube'"), "{status}");
}

#[test]
fn an_input_that_has_a_default_may_be_left_out_and_what_is_wrong_with_inputs_and_outputs_is_named()
{
    let Some((mut process, _repository)) = serve(&["signatures"], &["--tfs-grpc-port=0"]) else {
        return;
    };
    let mut client = process.client();
    let mut ask = |inputs: Value| {
        let body = json!({"signature_name": "scaled", "inputs": inputs});
        client.post(PREDICT, &[], body.to_string())
    };
    let reply = ask(json!({"x": [[1, 2, 3]]})).expect(200).json();
    assert_eq!(reply, json!({"outputs": {"by": 2.5, "y": [[3.5, 6.0, 8.5]]}}));
    let reply = ask(json!({"x": [[1, 2, 3]], "by": 2, "plus": 0})).expect(200).json();
    assert_eq!(reply, json!({"outputs": {"by": 2.0, "y": [[2.0, 4.0, 6.0]]}}));
    let error = ask(json!({"by": 2})).error(400);
    assert!(error.contains("missing") && error.contains("'x'"), "{error}");
    let error = ask(json!({"x": [[1, 2, 3]], "minus": 2})).error(400);
    assert!(error.contains("'minus'"), "{error}");

    let mut grpc = GrpcClient::connect(process.address("tfs-grpc"));
    let x = || floats(&[1, 3], &[1.0, 2.0, 3.0]);
    let reply = predict(&mut grpc, "scaled", &[("x", x())]).unwrap();
    assert_eq!(reply.outputs["y"].float_val, [3.5, 6.0, 8.5]);
    let status = predict(&mut grpc, "scaled", &[("minus", x()), ("more", x())]).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let text = status.message();
    assert!(["'minus'", "'more'", "missing", "'x'"].iter().all(|it| text.contains(it)), "{text}");

    let mut filtered = |filter: &[&str]| -> Result<PredictResponse, Status> {
        let inputs: BTreeMap<_, _> = [("x".to_owned(), x())].into();
        let request = PredictRequest {
            model_spec: spec("signatures", "scaled"),
            inputs: inputs.into_iter().collect(),
            output_filter: filter.iter().map(|it| (*it).to_owned()).collect(),
        };
        grpc.call_with("tensorflow.serving.PredictionService/Predict", Request::new(request))
    };
    let reply = filtered(&["by"]).unwrap();
    assert_eq!(reply.outputs.keys().collect::<Vec<_>>(), ["by"]);
    for wrong in [&["z"][..], &["y", "y"]] {
        let status = filtered(wrong).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(&format!("'{}'", wrong[0])), "{status}");
    }
}

#[test]
fn requests_are_merged_within_a_signature_and_never_across() {
    let base = format!("--model_base_path={}", root(&format!("{FIXTURES}/signatures")).display());
    let flags = [&*base, "--model_name=signatures", "--enable_batching"];
    let Some(mut process) = instead_of_tfs(&flags) else { return };
    let clients: Vec<_> = (0..64).map(|_| process.client()).collect();
    thread::scope(|scope| {
        for (at, mut client) in clients.into_iter().enumerate() {
            scope.spawn(move || {
                let values = [at as f32, 1.0, -2.0];
                let (name, expected) = match at % 3 {
                    0 => ("serving_default", values.map(|it| it * 2.0)),
                    1 => ("square", values.map(|it| it * it)),
                    // Its rows depend on each other: nothing is merged.
                    _ => ("mean", [0.0; 3]),
                };
                for _ in 0..40 {
                    assert_eq!(kserve(&mut client, name, &values), json!(expected), "{name}");
                }
            });
        }
    });
    let statistics = process.client().get("/v2/models/signatures/stats").expect(200).json();
    let batches = statistics["model_stats"][0]["batch_stats"].as_array().unwrap();
    let sizes: Vec<u64> = batches.iter().filter_map(|it| it["batch_size"].as_u64()).collect();
    assert!(sizes.iter().any(|it| 1 < *it), "{sizes:?}");
}

#[test]
fn answers_that_are_kept_are_those_of_their_signature() {
    let repository = Repository::new()
        .copy("signatures", "tests/fixtures/savedmodels/signatures")
        .file("signatures/config.pbtxt", "backend: \"tensorflow\" response_cache { enable: true }");
    let flags = ["--cache-config=local,size=1MiB"];
    let Some((mut process, _repository)) = serve_those(repository, &flags) else { return };
    let mut client = process.client();
    for _ in 0..2 {
        assert_eq!(kserve(&mut client, "serving_default", &[3.0; 3]), json!([6.0, 6.0, 6.0]));
        assert_eq!(kserve(&mut client, "square", &[3.0; 3]), json!([9.0, 9.0, 9.0]));
    }
    let statistics = client.get("/v2/models/signatures/stats").expect(200).json();
    let hits = &statistics["model_stats"][0]["inference_stats"]["cache_hit"]["count"];
    assert_eq!(*hits, 2);
}

#[test]
fn sizes_that_are_not_the_signatures_are_the_graphs_business_over_tfs_and_refused_over_kserve() {
    let Some((mut process, _repository)) = serve(&["signatures"], &["--tfs-grpc-port=0"]) else {
        return;
    };
    let body = json!({
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4]}],
        "parameters": {"signature_name": "square"},
    });
    let mut client = process.client();
    let error = client.post("/v2/models/signatures/infer", &[], body.to_string()).error(400);
    assert!(error.contains("[-1,3]") && error.contains("[2,2]"), "{error}");
    let rows = json!({"signature_name": "square", "instances": [[1.0, 2.0], [3.0, 4.0]]});
    let answer = post(&mut client, PREDICT, &rows);
    assert_eq!(answer, json!({"predictions": [[1.0, 4.0], [9.0, 16.0]]}));
    let mut grpc = GrpcClient::connect(process.address("tfs-grpc"));
    let given = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let reply = predict(&mut grpc, "square", &[("x", given)]);
    assert_eq!(reply.unwrap().outputs["y"].float_val, [1.0, 4.0, 9.0, 16.0]);
}
