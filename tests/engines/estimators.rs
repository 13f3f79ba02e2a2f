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

/// All numbers of a reply, in their order.
fn all_numbers(reply: &Value) -> Vec<f64> {
    match reply {
        Value::Array(members) => members.iter().flat_map(all_numbers).collect(),
        Value::Object(members) => members.values().flat_map(all_numbers).collect(),
        other => other.as_f64().into_iter().collect(),
    }
}

/// Rows whose second column is the text that its code stands for.
fn with_texts(codes: &Value) -> Vec<Value> {
    let row = |row: &Value| {
        let row = numbers(row);
        let color = ["red", "green", "blue"][row[1] as usize];
        json!([row[0], color, row[2]])
    };
    codes.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn texts_of_categories_are_answered_as_the_library_answers_a_data_frame() {
    let all = recorded("categories");
    for (file, name, library) in
        [("categories.ubj", "model.ubj", "xgboost"), ("categories.txt", "model.txt", "lightgbm")]
    {
        let (_repository, server) = serve(file, name);
        let rows = with_texts(&all["codes"]);
        let expected: Vec<u32> =
            numbers(&all[library]).into_iter().map(|it| (it as f32).to_bits()).collect();
        let is_right = |given: Vec<f64>, what: &str| {
            let given: Vec<u32> = given.into_iter().map(|it| (it as f32).to_bits()).collect();
            assert_eq!(given, expected, "{library}: {what}");
        };
        let ask = |body: Value| {
            let headers = [("content-type", "application/json"), ("accept", "application/json")];
            let mut client = Client::connect(server.sagemaker());
            all_numbers(&client.post("/invocations", &headers, body.to_string()).expect(200).json())
        };
        is_right(ask(json!(rows)), "rows");
        is_right(ask(json!({"instances": rows})), "instances");
        let names = ["size", "color", "x"];
        let turned = |row: &Value| json!([row[2], row[1], row[0]]);
        let turned: Vec<Value> = rows.iter().map(turned).collect();
        let split = json!({"dataframe_split": {"columns": names, "data": turned}});
        is_right(ask(split), "columns");
        let object = |row: &Value| json!({"color": row[1], "x": row[0], "size": row[2]});
        is_right(ask(rows.iter().map(object).collect()), "objects");
        let metadata = server.get("/v2/models/model").expect(200).json();
        let data: Vec<&Value> = rows.iter().flat_map(|it| it.as_array().unwrap()).collect();
        let tensor = json!({
            "name": "input__0", "datatype": metadata["inputs"][0]["datatype"],
            "shape": [rows.len(), 3], "data": data,
        });
        let body = json!({"inputs": [tensor]}).to_string();
        let reply = server.post(&crate::support::infer("model"), body).expect(200).json();
        is_right(numbers(&reply["outputs"][0]["data"]), "KServe v2");
        let body = json!({"instances": rows}).to_string();
        let reply = server.post("/v1/models/model:predict", body).expect(200).json();
        is_right(all_numbers(&reply["predictions"]), "TensorFlow Serving");
        // A number of a text is none.
        let body = json!({"instances": [[0, "red", "10"]]}).to_string();
        let error = server.post("/v1/models/model:predict", body).error(400);
        assert!(error.contains("expected a number"), "{error}");
    }
}

#[test]
fn a_text_that_is_no_category_is_missing_to_lightgbm_as_negative_codes_are_and_wrong_to_xgboost() {
    let (_repository, server) = serve("categories.txt", "model.txt");
    let csv = |body: &str| {
        let csv = [("content-type", "text/csv")];
        let reply = Client::connect(server.sagemaker()).post("/invocations", &csv, body);
        reply.expect(200).text().trim().to_owned()
    };
    let missing = csv("0.5,,1");
    for other in ["0.5,purple,1", "0.5,-1,1", "0.5,-2,1", "0.5,NaN,1"] {
        assert_eq!(csv(other), missing, "{other}");
    }
    assert_eq!(csv("x,color,size\n0.5,\"green\",1"), csv("0.5,1,1"));
    assert_eq!(csv("size,x,color\n1,0.5,red"), csv("0.5,0,1"));
    assert_ne!(csv("0.5,red,1"), csv("0.5,blue,1"));
    let (_repository, server) = serve("categories.ubj", "model.ubj");
    let body = json!({"instances": [[0.5, "purple", 1]]}).to_string();
    let error = server.post("/v1/models/model:predict", body).error(400);
    let expected = "'purple' is none of the categories that the model was trained on: 'red', 'green', 'blue'; send null";
    assert!(error.contains(expected), "{error}");
    let negative = infer(&server, &json!([[0.5, -1, 1]])).error(400);
    assert!(negative.contains("no code of its categories"), "{negative}");
}
