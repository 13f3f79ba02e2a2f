//! Models in the form in which converters write them.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Client, Repository, Server, infer, root};

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
        &[("content-type", "text/csv"), ("accept", "text/csv; output=label; output=probabilities")],
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

/// Classifiers of `tests/fixtures/classifiers`, but for those of texts, which need a locale.
const CLASSIFIERS: [&str; 3] = ["species", "trees", "columns"];

fn classifiers() -> Repository {
    let add =
        |it: Repository, name: &&str| it.copy(name, &format!("tests/fixtures/classifiers/{name}"));
    CLASSIFIERS.iter().fold(Repository::new(), add)
}

/// What the library that trained the model says of some rows.
fn expected(name: &str) -> Value {
    let path = root(&format!("tests/fixtures/classifiers/{name}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    match list.as_array() {
        Some(items) => items.iter().flat_map(numbers).collect(),
        None => vec![list.as_f64().unwrap()],
    }
}

#[track_caller]
fn near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-5), "{found:?}");
}

/// The inputs of the model for these rows.
fn tensors(metadata: &Value, rows: &Value) -> Value {
    let (inputs, rows) = (metadata["inputs"].as_array().unwrap(), rows.as_array().unwrap());
    let column = |at: usize| match inputs.len() {
        1 => json!(rows),
        _ => rows.iter().map(|row| json!([row[at]])).collect(),
    };
    let width = |at: usize| inputs[at]["shape"][1].clone();
    let tensor = |(at, port): (usize, &Value)| {
        let shape = json!([rows.len(), width(at)]);
        json!({"name": port["name"], "datatype": "FP32", "shape": shape, "data": column(at)})
    };
    inputs.iter().enumerate().map(tensor).collect()
}

#[test]
fn a_classifier_as_its_converter_writes_it_gives_what_its_library_predicts() {
    let repository = classifiers();
    let server = Server::start(&repository, &[]);
    for name in CLASSIFIERS {
        let expected = expected(name);
        let metadata = server.get(&format!("/v2/models/{name}")).expect(200).json();
        let classes = expected["classes"].as_array().unwrap();
        let scores = &metadata["outputs"][1];
        assert_eq!(scores["datatype"], "FP32");
        assert_eq!(scores["shape"], json!([-1, classes.len()]), "{name}");

        let inputs = tensors(&metadata, &expected["inputs"]);
        let best = json!({"classification": 1});
        let outputs = json!([{"name": metadata["outputs"][0]["name"]}, {"name": scores["name"]}]);
        let body = json!({"inputs": inputs, "outputs": outputs});
        let reply = server.post(&infer(name), body.to_string()).expect(200).json();
        assert_eq!(reply["outputs"][0]["data"], expected["labels"], "{name}");
        near(&numbers(&reply["outputs"][1]["data"]), &numbers(&expected["probabilities"]));

        let outputs = json!([{"name": scores["name"], "parameters": best}]);
        let body = json!({"inputs": inputs, "outputs": outputs});
        let reply = server.post(&infer(name), body.to_string()).expect(200).json();
        for (text, label) in reply["outputs"][0]["data"]
            .as_array()
            .unwrap()
            .iter()
            .zip(expected["labels"].as_array().unwrap())
        {
            let class = text.as_str().unwrap().rsplit(':').next().unwrap();
            assert_eq!(class, label.to_string().trim_matches('"'), "{text}");
        }
    }
}

#[test]
fn a_model_of_texts_needs_its_locale_and_says_so() {
    let folder = "tests/fixtures/classifiers/opinions";
    let repository = of(&["half_plus_three"]).copy("opinions", folder);
    let server = Server::start(&repository, &["--strict-readiness=false"]);
    let ready = server.get("/v2/models/opinions/ready");
    if ready.status != 200 {
        let error = ready.error(503);
        assert!(error.contains("locale en_US.UTF-8") && error.contains("localedef"), "{error}");
        return;
    }
    let expected = expected("opinions");
    let body = json!({"inputs": expected["inputs"]}).to_string();
    let reply = server.post("/v1/models/opinions:predict", body).expect(200).json();
    assert_eq!(reply["outputs"]["output_label"], expected["labels"]);
    near(&numbers(&reply["outputs"]["output_probability"]), &numbers(&expected["probabilities"]));
}

#[test]
fn csv_and_npy_have_the_label_of_a_classifier_and_accept_names_other_outputs() {
    let repository = classifiers();
    let server = Server::start(&repository, &[]);
    let ask = |name: &str, accept: &str| {
        let rows = expected(name)["inputs"].clone();
        let rows = rows.as_array().unwrap().iter();
        let line =
            |row: &Value| numbers(row).iter().map(f64::to_string).collect::<Vec<_>>().join(",");
        let body = rows.map(line).collect::<Vec<_>>().join("\n");
        let headers = [
            ("content-type", "text/csv"),
            ("accept", accept),
            ("x-amzn-sagemaker-target-model", name),
        ];
        Client::connect(server.sagemaker()).post("/invocations", &headers, body)
    };
    for name in CLASSIFIERS {
        let (reply, expected) = (ask(name, "text/csv").expect(200).text(), expected(name));
        let labels = expected["labels"].as_array().unwrap().iter();
        let labels: Vec<String> =
            labels.map(|it| it.to_string().trim_matches('"').to_owned()).collect();
        assert_eq!(reply.lines().collect::<Vec<_>>(), labels, "{name}");
        let scores = if name == "trees" { "probabilities" } else { "output_probability" };
        let reply = ask(name, &format!("text/csv; output={scores}")).expect(200).text();
        let found: Vec<f64> = reply.split([',', '\n']).filter_map(|it| it.parse().ok()).collect();
        near(&found, &numbers(&expected["probabilities"]));
        let reply = ask(name, &format!("application/x-npy; output={scores}")).expect(200);
        let floats = reply.body.rchunks_exact(4).take(found.len());
        let floats: Vec<f32> =
            floats.map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect();
        near(&floats.iter().rev().map(|&it| it.into()).collect::<Vec<_>>(), &found);
    }
    let reply = ask("trees", "application/x-npy").expect(200).body;
    assert!(String::from_utf8_lossy(&reply).contains("'descr': '<i8'"));
    let error = ask("trees", "text/csv; output=scores").error(400);
    assert!(error.contains("scores"), "{error}");
}
