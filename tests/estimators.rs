//! Classifiers of XGBoost that stopped early, and models whose categories have names: answered as the libraries do.

use serde_json::{Value, json};

use crate::support::{Client, Repository, Server, Start, root};

const ESTIMATORS: &str = "tests/fixtures/forests/estimators";
const PORTS: [&str; 4] =
    ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"];

/// What `make_estimators.py` recorded.
fn recorded(name: &str) -> Value {
    let text = std::fs::read(root(ESTIMATORS).join(format!("{name}.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect()
}

/// A server with that file as its only model, under that name.
fn serve(file: &str, name: &str) -> (Repository, Server) {
    let repository = Repository::new().copy(&format!("m/{name}"), &format!("{ESTIMATORS}/{file}"));
    let server =
        Start::command(&["serve", &repository.at(&format!("m/{name}"))]).flags(&PORTS).run();
    (repository, server)
}

fn infer(server: &Server, rows: &Value) -> crate::support::Reply {
    let data: Vec<f64> = rows.as_array().unwrap().iter().flat_map(numbers).collect();
    let shape = [rows.as_array().unwrap().len(), numbers(&rows[0]).len()];
    let inputs = json!([{"name": "input__0", "datatype": "FP32", "shape": shape, "data": data}]);
    let metadata = server.get("/v2/models/model").expect(200).json();
    let inputs = match &metadata["inputs"][0]["datatype"] {
        Value::String(it) if it == "FP64" => {
            json!([{"name": "input__0", "datatype": "FP64", "shape": shape, "data": data}])
        }
        _ => inputs,
    };
    server.post(&crate::support::infer("model"), json!({"inputs": inputs}).to_string())
}

#[track_caller]
fn check(file: &str, name: &str, rows: &Value, expected: &Value) {
    let (_repository, server) = serve(file, name);
    let reply = infer(&server, rows).expect(200).json();
    let single = |it: f64| (it as f32).to_bits();
    let given = numbers(&reply["outputs"][0]["data"]).into_iter().map(single);
    let expected: Vec<u32> = numbers(expected).into_iter().map(single).collect();
    assert_eq!(given.collect::<Vec<_>>(), expected, "{file}");
}

const VERSIONS: [&str; 5] = ["1.7.6", "2.0.3", "2.1.4", "3.0.5", "3.2.0"];

#[test]
fn a_classifier_that_stopped_early_predicts_with_its_best_rounds_and_a_booster_with_all() {
    for version in VERSIONS {
        let all = recorded(&format!("early-{version}"));
        let (rows, best) = (&all["rows"], &all["predict_proba"]);
        assert_ne!(best, &all["predict"]);
        check(&format!("early-{version}.pkl"), "model.pkl", rows, best);
        check(&format!("early-{version}.joblib"), "model.joblib", rows, best);
        check(&format!("early-{version}.ubj"), "model.ubj", rows, best);
        if version != "1.7.6" {
            check(&format!("early-{version}.booster.pkl"), "model.pkl", rows, &all["predict"]);
            check(&format!("early-{version}.booster.ubj"), "model.ubj", rows, &all["predict"]);
        }
    }
}

#[test]
fn codes_of_categories_with_names_are_answered_as_the_library_answers_their_values() {
    let all = recorded("categories");
    check("categories.ubj", "model.ubj", &all["codes"], &all["xgboost"]);
    check("categories.txt", "model.txt", &all["codes"], &all["lightgbm"]);
}

#[test]
fn what_is_no_code_of_a_category_is_refused_in_every_protocol() {
    for (file, name) in [("categories.ubj", "model.ubj"), ("categories.txt", "model.txt")] {
        let (_repository, server) = serve(file, name);
        let config = server.get("/v2/models/model/config").expect(200).json();
        assert_eq!(config["parameters"], json!({}), "its rows are independent");
        for (row, value) in [(json!([[0, 0, 40]]), "40"), (json!([[0, 1, 2], [0, 0.5, 2]]), "0.5")]
        {
            let error = infer(&server, &row).error(400);
            let what = format!("has {value} in feature");
            assert!(
                error.contains(&what) && error.contains("no code of its categories"),
                "{error}"
            );
        }
        let mut client = Client::connect(server.sagemaker());
        let csv = [("content-type", "text/csv")];
        let error = client.post("/invocations", &csv, "0,0,40\n").error(400);
        let expected = "row 1 has 40 in feature 'size', which is no code of its categories: 0 for '10', 1 for '20'";
        assert!(error.contains(expected), "{error}");
        client.post("/invocations", &csv, "0,2,3\n").expect(200);
        client.post("/invocations", &csv, "0,,3\n").expect(200);
    }
}
