//! Outputs of scikit-learn's estimators by the names of the methods that give them.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::{Repository, Server, Start, root};

const FORESTS: &str = "tests/fixtures/forests/sklearn-1.9.1";

fn doubles(tensor: &Value) -> Vec<f64> {
    let raw = STANDARD.decode(tensor["raw"].as_str().unwrap()).unwrap();
    raw.chunks_exact(8).map(|it| f64::from_le_bytes(it.try_into().unwrap())).collect()
}

/// What scikit-learn says of a model.
fn expected(model: &str) -> (Value, Vec<f64>) {
    let text = std::fs::read(root(FORESTS).join("expected.json")).unwrap();
    let all: Value = serde_json::from_slice(&text).unwrap();
    let rows = doubles(all[model].get("rows").unwrap_or(&all["rows"]));
    (all[model].clone(), rows)
}

/// The outputs of that request, by name.
fn infer(server: &Server, model: &str, rows: &[f64], outputs: &[&str]) -> Vec<Value> {
    let metadata = server.get(&format!("/v2/models/{model}")).expect(200).json();
    let datatype = metadata["inputs"][0]["datatype"].as_str().unwrap();
    let raw: Vec<u8> = match datatype {
        "FP32" => rows.iter().flat_map(|it| (*it as f32).to_le_bytes()).collect(),
        _ => rows.iter().flat_map(|it| it.to_le_bytes()).collect(),
    };
    let outputs: Vec<Value> = outputs.iter().map(|it| json!({"name": it})).collect();
    let head = json!({"outputs": outputs, "inputs": [{
        "name": "input__0", "datatype": datatype, "shape": [rows.len() / 8, 8],
        "parameters": {"binary_data_size": raw.len()},
    }]});
    let head = head.to_string();
    let length = head.len().to_string();
    let headers = [("inference-header-content-length", &*length)];
    let body = [head.as_bytes(), &raw].concat();
    let path = format!("/v2/models/{model}/infer");
    let reply = server.client().post(&path, &headers, body).expect(200).json();
    reply["outputs"].as_array().unwrap().clone()
}

const BOTH: &str =
    "output [{ name: \"predict\" }, { name: \"predict_proba\" }, { name: \"label\" }]";

#[test]
fn predict_gives_classes_and_predict_proba_their_probabilities() {
    let models = ["random_forest", "extra_trees", "gradient_boosting_binary"];
    let repository = models.iter().fold(Repository::new(), |it, model| {
        it.copy(&format!("{model}/1/model.joblib"), &format!("{FORESTS}/{model}.joblib"))
            .file(&format!("{model}/config.pbtxt"), BOTH)
    });
    let server = Server::start(&repository, &[]);
    for model in models {
        let (library, rows) = expected(model);
        let given = infer(&server, model, &rows, &["predict", "predict_proba", "label"]);
        assert_eq!(given[0]["datatype"], "INT64", "{model}");
        assert_eq!(given[0]["data"], library["labels"], "{model}");
        assert_eq!(given[2]["data"], library["labels"], "{model}");
        assert_eq!(given[1]["datatype"], "FP64", "{model}");
        let given: Vec<f64> =
            given[1]["data"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
        let library = doubles(&library["outputs"]);
        assert_eq!(given.len(), library.len(), "{model}");
        let far = |(a, b): &(&f64, &f64)| 1e-12 < (*a - *b).abs();
        assert_eq!(given.iter().zip(&library).find(far), None, "{model}");
    }
}

#[test]
fn classes_that_are_words_are_their_places_in_the_order_of_the_file() {
    let repository = Repository::new()
        .copy("m/1/model.joblib", &format!("{FORESTS}/pipeline.joblib"))
        .file("m/config.pbtxt", "output [{ name: \"predict\" }]");
    let server = Server::start(&repository, &[]);
    let (library, rows) = expected("pipeline");
    let words = ["blue", "green", "red"];
    let place = |it: &Value| words.iter().position(|word| it == word).unwrap();
    let labels: Vec<usize> = library["labels"].as_array().unwrap().iter().map(place).collect();
    assert_eq!(infer(&server, "m", &rows, &["predict"])[0]["data"], json!(labels));
}

#[test]
fn an_output_of_a_name_that_could_mean_either_is_refused_with_those_that_there_are() {
    let refused = |file: &str, output: &str, part: &str| {
        let repository = Repository::new()
            .copy("m/1/model.joblib", &format!("{FORESTS}/{file}"))
            .file("m/config.pbtxt", format!("output [{{ name: \"{output}\" }}]"));
        let error = Start::new(&repository).try_run().err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    };
    let part = "output 'probabilities': the model has none of that name; its outputs are 'output__0', 'predict', \
                'predict_proba', 'label', 'margin', 'leaf' and 'treeshap_output'";
    refused("random_forest.joblib", "probabilities", part);
    let part = "output 'predict_proba': the model has none of that name; its outputs are 'output__0', 'predict', ";
    refused("random_forest_regressor.joblib", "predict_proba", part);
    // Of one that gives numbers only, a configuration chooses the name.
    let config = "output [{ name: \"predict\" }]";
    let repository = Repository::new()
        .copy("m/1/model.joblib", &format!("{FORESTS}/random_forest_regressor.joblib"))
        .file("m/config.pbtxt", config);
    let server = Server::start(&repository, &[]);
    let (library, rows) = expected("random_forest_regressor");
    let given = infer(&server, "m", &rows, &["predict"]);
    let given: Vec<f64> =
        given[0]["data"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    let far = |(a, b): &(&f64, f64)| 1e-12 < (*a - *b).abs();
    assert_eq!(given.iter().zip(doubles(&library["outputs"])).find(far), None);
}
