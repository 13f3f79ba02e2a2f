//! Models of every kind, run by ONNX Runtime behind the real server, against what Python's ONNX Runtime
//! answered to the same inputs (`tests/fixtures/expected`).

use std::{fs, thread};

use serde_json::Value;

use crate::support::{
    Client, Form, IN_PROCESS, Process, Repository, Server, Tensor, root, savedmodels, torchscript,
};

const TYPES: [&str; 14] = [
    "type_bool",
    "type_uint8",
    "type_uint16",
    "type_uint32",
    "type_uint64",
    "type_int8",
    "type_int16",
    "type_int32",
    "type_int64",
    "type_fp16",
    "type_bf16",
    "type_fp32",
    "type_fp64",
    "type_string",
];
const NETWORKS: [&str; 4] = ["mlp", "convnet", "transformer", "retrieval"];
const WITHOUT_BATCH: [&str; 5] =
    ["any_rank", "scalar", "scalar_one", "fixed_batch", "optional_input"];
const OTHERS: [&str; 4] = ["dynamic", "two_outputs", "slow", "fails_on_negative"];

fn serve(models: &[&str]) -> (Repository, Server) {
    let repository = Repository::of(models);
    let server = Server::start(&repository, &["--backend-config=default-max-batch-size=8"]);
    (repository, server)
}

/// `optional_input` with its input that has a default: such an input is a part of the model only where the
/// configuration says so, as every weight of an old file is one.
fn with_optional_input(repository: Repository) -> Repository {
    let config = r#"
        input [
            { name: "input" data_type: TYPE_FP32 dims: [ 3 ] },
            { name: "bias" data_type: TYPE_FP32 dims: [ 3 ] optional: true }
        ]
        output [ { name: "output" data_type: TYPE_FP32 dims: [ 3 ] } ]
    "#;
    repository
        .fixture("optional_input", "optional_input")
        .file("optional_input/config.pbtxt", config)
}

fn expectation(model: &str) -> Value {
    let path = root(&format!("tests/fixtures/expected/{model}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn tensors(written: &Value) -> Vec<Tensor> {
    written.as_object().unwrap().iter().map(|(name, it)| Tensor::expected(name, it)).collect()
}

/// Every case of a model, both ways.
fn check(client: &mut Client, model: &str) {
    check_as(client, model, model);
}

/// The same for a model that is to answer as the fixture does.
#[track_caller]
pub fn check_as(client: &mut Client, model: &str, fixture: &str) {
    for (number, case) in expectation(fixture)["cases"].as_array().unwrap().iter().enumerate() {
        let (inputs, expected) = (tensors(&case["inputs"]), tensors(&case["outputs"]));
        for form in [Form::Binary, Form::Json] {
            let utf8 = inputs.iter().chain(&expected).all(|it| it.texts().is_some());
            if form == Form::Json && !utf8 {
                continue; // only bytes can carry it
            }
            let place = format!("{model}, case {number}, {form:?}");
            let outputs = client.infer(model, &inputs, form, "").outputs();
            check_outputs(&place, &outputs, &expected, form, case["rtol"].as_f64());
        }
    }
}

fn check_outputs(
    place: &str,
    outputs: &[Tensor],
    expected: &[Tensor],
    form: Form,
    rtol: Option<f64>,
) {
    assert_eq!(outputs.len(), expected.len(), "{place}");
    for expected in expected {
        let output = outputs.iter().find(|it| it.name == expected.name);
        let output = output.unwrap_or_else(|| panic!("{place}: no output {}", expected.name));
        assert_eq!(output.datatype, expected.datatype, "{place}");
        // The dims of a configuration cannot be empty: a scalar is one element to clients.
        let shape = if expected.shape.is_empty() { &[1][..] } else { &expected.shape };
        assert_eq!(output.shape, shape, "{place}");
        match (rtol, form) {
            (Some(rtol), _) => {
                let (given, wanted) = (output.numbers(), expected.numbers());
                assert_eq!(given.len(), wanted.len(), "{place}");
                for (given, wanted) in given.iter().zip(&wanted) {
                    let near = (given - wanted).abs() <= rtol * wanted.abs();
                    assert!(near, "{place}: {given} is not within {rtol} of {wanted}");
                }
            }
            (None, Form::Binary) => assert_eq!(output.raw, expected.raw, "{place}"),
            // One NaN is as good as another in JSON, and the texts say all about the others.
            (None, Form::Json) => assert_eq!(output.texts(), expected.texts(), "{place}"),
        }
    }
}

#[test]
fn every_element_type_goes_in_and_out_as_bytes_and_as_json() {
    let (_repository, server) = serve(&TYPES);
    let mut client = server.client();
    TYPES.iter().for_each(|model| check(&mut client, model));
}

#[test]
fn networks_answer_as_in_python() {
    let (_repository, server) = serve(&NETWORKS);
    let mut client = server.client();
    NETWORKS.iter().for_each(|model| check(&mut client, model));
}

#[test]
fn models_without_a_batch_dimension_answer_as_in_python() {
    let repository = with_optional_input(Repository::of(&WITHOUT_BATCH));
    let server = Server::start(&repository, &[]);
    let mut client = server.client();
    WITHOUT_BATCH.iter().for_each(|model| check(&mut client, model));
}

#[test]
fn models_with_open_shapes_several_outputs_or_loops_answer_as_in_python() {
    let (_repository, server) = serve(&OTHERS);
    let mut client = server.client();
    OTHERS.iter().for_each(|model| check(&mut client, model));
}

#[test]
fn every_expectation_is_tested_here() {
    let names = fs::read_dir(root("tests/fixtures/expected")).unwrap();
    let mut written: Vec<String> = names
        .map(|it| it.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut tested = [&TYPES[..], &NETWORKS, &WITHOUT_BATCH, &OTHERS].concat();
    written.sort();
    tested.sort();
    assert_eq!(written, tested);
}

#[test]
fn what_the_engine_refuses_is_answered_with_its_reason_and_harms_no_later_request() {
    const MODEL: &str = "fails_on_negative";
    let (_repository, server) = serve(&[MODEL]);
    let mut client = server.client();
    for case in expectation(MODEL)["failing"].as_array().unwrap() {
        let python = case["error"].as_str().unwrap();
        let reason = python.rsplit_once("Status Message: ").unwrap().1;
        let reply = client.infer(MODEL, &tensors(&case["inputs"]), Form::Binary, "");
        let text = reply.error(reply.status);
        assert!(reply.status == 400 || reply.status == 500, "{}: {text}", reply.status);
        assert!(text.contains(reason), "{text}\nis without\n{reason}");
    }
    check(&mut client, MODEL);
}

#[test]
fn only_the_outputs_that_were_asked_for_come_in_the_order_asked() {
    let (_repository, server) = serve(&["two_outputs"]);
    let case = &expectation("two_outputs")["cases"][0];
    let (inputs, expected) = (tensors(&case["inputs"]), tensors(&case["outputs"]));
    for form in [Form::Binary, Form::Json] {
        let extra = r#""outputs":[{"name":"difference"},{"name":"sum"}]"#;
        let outputs = server.client().infer("two_outputs", &inputs, form, extra).outputs();
        let names: Vec<&str> = outputs.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["difference", "sum"], "{form:?}");
        for output in &outputs {
            assert!(expected.contains(output), "{form:?}: {output:?}");
        }
    }
}

#[test]
fn an_input_with_a_default_may_be_left_out() {
    let repository = with_optional_input(Repository::new());
    let server = Server::start(&repository, &[]);
    let input = Tensor::fp32("input", &[3], &[1.0, 2.0, 3.0]);
    let bias = Tensor::fp32("bias", &[3], &[0.5, 0.5, 0.5]);
    let mut client = server.client();
    let without = client.infer("optional_input", std::slice::from_ref(&input), Form::Binary, "");
    assert_eq!(without.output(), Tensor::fp32("output", &[3], &[11.0, 22.0, 33.0]));
    let with = client.infer("optional_input", &[input, bias.clone()], Form::Binary, "");
    assert_eq!(with.output(), Tensor::fp32("output", &[3], &[1.5, 2.5, 3.5]));
    let alone = client.infer("optional_input", &[bias], Form::Binary, "").error(400);
    assert!(alone.contains("missing required input(s) ['input']"), "{alone}");
}

#[test]
fn a_scalar_may_be_written_with_or_without_its_one_dimension() {
    let (_repository, server) = serve(&["scalar", "scalar_one"]);
    let mut client = server.client();
    for model in ["scalar", "scalar_one"] {
        let mut values = Vec::new();
        for shape in [&[][..], &[1]] {
            let input = Tensor::fp32("input", shape, &[21.0]);
            for form in [Form::Binary, Form::Json] {
                let reply = client.infer(model, std::slice::from_ref(&input), form, "").output();
                assert_eq!(reply.shape, [1], "{model} {shape:?} {form:?}");
                values.push(reply.raw);
            }
        }
        values.dedup();
        assert_eq!(values.len(), 1, "{model}: {values:?}");
    }
}

#[test]
fn strings_of_any_bytes_come_back_unchanged() {
    let (_repository, server) = serve(&["type_string"]);
    let all: Vec<u8> = (0..=255).collect();
    let long = vec![0xF0; 100_000];
    let input = Tensor::strings("input", &[1, 3], &[&all, b"", &long]);
    let reply =
        server.client().infer("type_string", std::slice::from_ref(&input), Form::Binary, "");
    assert_eq!(reply.output().raw, input.raw);

    // JSON cannot carry them, and says so rather than changing them.
    let (json, raw) = crate::support::infer_body(&[input], Form::Binary, "");
    let json = json.replace("\"binary_data_output\":true", "\"binary_data_output\":false");
    let length = json.len().to_string();
    let headers = [("inference-header-content-length", &*length)];
    let body = [json.as_bytes(), &raw].concat();
    let error = server.client().post("/v2/models/type_string/infer", &headers, body).error(400);
    assert!(error.contains("output 'output'") && error.contains("binary_data"), "{error}");
}

#[test]
fn a_model_with_an_output_that_is_no_tensor_is_refused_and_the_rest_is_served() {
    let list = "backends/onnxruntime/tests/models/refused/sequence_output.onnx";
    let repository = Repository::of(&["scalar_one"]).copy("list/1/model.onnx", list);
    let server = Server::start(&repository, &["--strict-readiness=false"]);
    let error = server.get("/v2/models/list/ready").error(503);
    assert!(error.contains("output 'list' is a sequence"), "{error}");
    server.get("/v2/models/scalar_one/ready").expect(200);
}

/// Models of four engines in one process, whose libraries have threads, memory and symbols of the same names, asked by
/// several clients at once so often.
fn beside_each_other(rounds: usize) {
    let (Some(torch), Some(tensorflow)) = (torchscript::plugin(), savedmodels::library()) else {
        return;
    };
    let repository = Repository::new()
        .fixture("onnx", "mlp")
        .copy("torchscript", "tests/fixtures/torchscript/mlp")
        .copy("half_plus_two", &format!("{}/half_plus_two", savedmodels::FIXTURES))
        .copy("forest/1/xgboost.json", "tests/fixtures/forests/xgboost-3.2.0/logistic.json");
    // A process of its own: it opens the library of TensorFlow only once.
    let mut process = Process::start(&repository, &[&torch, &tensorflow, IN_PROCESS], &[]);
    process.wait_ready();
    let address = process.address("http");
    let row = r#"{"inputs": [{"name": "input__0", "datatype": "FP32", "shape": [1, 8],
                              "data": [0, 1, 2, 3, 4, 5, 6, 7]}]}"#;
    let forest = |client: &mut Client| {
        client.post("/v2/models/forest/infer", &[], row).expect(200).json()["outputs"].clone()
    };
    let first = forest(&mut Client::connect(address));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::connect(address);
                for _ in 0..rounds {
                    check_as(&mut client, "onnx", "mlp");
                    check_as(&mut client, "torchscript", "mlp");
                    let instances = r#"{"instances": [1.0, 2.0, 5.0]}"#;
                    let reply = client.post("/v1/models/half_plus_two:predict", &[], instances);
                    let predictions = serde_json::json!({"predictions": [2.5, 3.0, 4.5]});
                    assert_eq!(reply.expect(200).json(), predictions);
                    assert_eq!(forest(&mut client), first);
                }
            });
        }
    });
}

#[test]
fn engines_of_all_kinds_answer_beside_each_other() {
    beside_each_other(10);
}

/// A hundred thousand requests and more: `cargo test --test engines -- --ignored engines_of_all_kinds`.
#[test]
#[ignore = "takes minutes"]
fn engines_of_all_kinds_answer_beside_each_other_for_long() {
    beside_each_other(3000);
}
