//! Outputs of scikit-learn's estimators by the names of the methods that give them.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::{Client, Repository, Server, Start, root};

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
    let part = "output 'chances': the model has none of that name; its outputs are 'output__0', 'predict', \
                'predict_proba', 'probabilities', 'label', 'margin', 'leaf' and 'treeshap_output'";
    refused("random_forest.joblib", "chances", part);
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

/// Lines of CSV for rows of four columns.
fn lines(rows: &[f64]) -> String {
    let line = |row: &[f64]| row.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
    rows.chunks(4).map(line).collect::<Vec<_>>().join("\n")
}

/// What a version of scikit-learn says of that model.
fn answers(version: &str, model: &str) -> (Value, Vec<f64>) {
    let path = root("tests/fixtures/sklearn").join(version).join("expected.json");
    let all: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    (all[model].clone(), doubles(&all["rows"]))
}

/// One fixture as models of these names.
fn files(version: &str, files: &[(&str, &str)]) -> Repository {
    let folder = format!("tests/fixtures/sklearn/{version}");
    files.iter().fold(Repository::new(), |it, (model, file)| {
        let ending = file.rsplit('.').next().unwrap();
        it.copy(&format!("{model}/1/model.{ending}"), &format!("{folder}/{file}"))
    })
}

#[test]
fn a_classifier_answers_labels_whatever_its_file_is_and_probabilities_where_they_are_asked_for() {
    let forms = [("pickle", "forest.pkl"), ("skops", "forest.skops")];
    let server = Server::start(&files("1.9.1", &forms), &[]);
    let (library, rows) = answers("1.9.1", "forest");
    let labels: Vec<String> =
        library["labels"].as_array().unwrap().iter().map(Value::to_string).collect();
    for (model, _) in forms {
        let metadata = server.get(&format!("/v2/models/{model}")).expect(200).json();
        let outputs = json!([
            {"name": "label", "datatype": "INT64", "shape": [-1, 1]},
            {"name": "probabilities", "datatype": "FP64", "shape": [-1, 3]},
        ]);
        assert_eq!(metadata["outputs"], outputs, "{model}");
        let ask = |accept: &str| {
            let headers = [
                ("content-type", "text/csv"),
                ("accept", accept),
                ("x-amzn-sagemaker-target-model", model),
            ];
            let mut client = Client::connect(server.sagemaker());
            let reply = client.post("/invocations", &headers, lines(&rows)).expect(200);
            reply.text().lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(ask("text/csv"), labels, "{model}");
        let expected = doubles(&library["outputs"]);
        let probabilities: Vec<f64> = ask("text/csv; output=probabilities")
            .iter()
            .flat_map(|it| it.split(',').map(|it| it.parse::<f64>().unwrap()))
            .collect();
        let far = |(a, b): &(&f64, &f64)| 1e-12 < (*a - *b).abs();
        assert_eq!(probabilities.len(), expected.len(), "{model}");
        assert_eq!(probabilities.iter().zip(&expected).find(far), None, "{model}");
    }
}

#[test]
fn a_classifier_that_met_one_class_in_training_answers_it_with_certainty() {
    let models = [("number", "one_class", "INT64"), ("word", "one_word", "BYTES")];
    let pickles = ["one_class.pkl", "one_word.pkl"];
    let server =
        Server::start(&files("1.9.1", &[("number", pickles[0]), ("word", pickles[1])]), &[]);
    for (model, kind, datatype) in models {
        let metadata = server.get(&format!("/v2/models/{model}")).expect(200).json();
        let outputs = json!([
            {"name": "label", "datatype": datatype, "shape": [-1, 1]},
            {"name": "probabilities", "datatype": "FP64", "shape": [-1, 1]},
        ]);
        assert_eq!(metadata["outputs"], outputs, "{model}");
        let (library, rows) = answers("1.9.1", kind);
        let said = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
        let labels: Vec<String> = library["labels"].as_array().unwrap().iter().map(said).collect();
        let headers = [("content-type", "text/csv"), ("x-amzn-sagemaker-target-model", model)];
        let mut client = Client::connect(server.sagemaker());
        let reply = client.post("/invocations", &headers, lines(&rows)).expect(200);
        let answered: Vec<String> = labels.iter().map(|it| format!("{it},1.0")).collect();
        assert_eq!(reply.text().lines().collect::<Vec<_>>(), answered, "{model}");
    }
}

#[test]
fn boosting_of_every_version_loads_and_answers_words_for_classes_that_are_words() {
    let versions =
        ["0.22.2.post1", "0.23.2", "1.0.2", "1.4.2", "1.5.2", "1.6.1", "1.7.2", "1.8.0", "1.9.1"];
    let name = |version: &str| format!("v{}", version.replace('.', "_"));
    let folder = "tests/fixtures/sklearn";
    let repository = versions.iter().fold(Repository::new(), |it, version| {
        let model = name(version);
        it.copy(&format!("{model}/1/model.pkl"), &format!("{folder}/{version}/boosting.pkl")).copy(
            &format!("h{model}/1/model.joblib"),
            &format!("{folder}/{version}/histogram.joblib"),
        )
    });
    let server = Server::start(&repository, &[]);
    for version in versions {
        for (model, kind) in
            [(name(version), "boosting"), (format!("h{}", name(version)), "histogram")]
        {
            let (library, rows) = answers(version, kind);
            let headers =
                [("content-type", "text/csv"), ("x-amzn-sagemaker-target-model", &*model)];
            let reply =
                Client::connect(server.sagemaker()).post("/invocations", &headers, lines(&rows));
            let given: Vec<String> = reply.expect(200).text().lines().map(str::to_owned).collect();
            assert_eq!(json!(given), library["labels"], "{version}: {kind}");
        }
    }
}

#[test]
fn null_is_a_missing_value_in_each_form_of_json() {
    let server = Server::start(&files("1.9.1", &[("m", "histogram_regressor.pkl")]), &[]);
    let bodies = |value: &str| {
        let row = format!("[0.5,{value},-1.25,{value}]");
        let tensor =
            format!(r#"{{"name":"input__0","datatype":"FP64","shape":[1,4],"data":[{row}]}}"#);
        [
            ("/v2/models/m/infer", format!(r#"{{"inputs":[{tensor}]}}"#)),
            ("/v1/models/m:predict", format!(r#"{{"instances":[{row}]}}"#)),
            ("/v1/models/m:predict", format!(r#"{{"inputs":[{row}]}}"#)),
            ("/v1/models/m:predict", format!(r#"{{"instances":[{{"input__0":{row}}}]}}"#)),
            ("/invocations", format!("[{row}]")),
            ("/invocations", format!(r#"{{"instances":[{{"features":{row}}}]}}"#)),
            ("/invocations", format!(r#"{{"inputs":[{tensor}]}}"#)),
        ]
    };
    for ((path, nulls), (_, numbers)) in bodies("null").into_iter().zip(bodies("NaN")) {
        let headers = [("content-type", "application/json")];
        let port = if path == "/invocations" { server.sagemaker() } else { server.http() };
        let ask = |body: &str| Client::connect(port).post(path, &headers, body).expect(200).text();
        assert_eq!(ask(&nulls), ask(&numbers), "{path}: {nulls}");
    }
    // Another model has no missing values.
    let server = Server::start(&Repository::identity("copy", &[]), &[]);
    let body = r#"{"instances":[[1,null,3,4]]}"#;
    let error = server.post("/v1/models/copy:predict", body).error(400);
    assert!(error.contains("expected a number for FP32, found 'null'"), "{error}");
}

#[test]
fn an_array_of_what_a_regressor_predicts_has_one_dimension_as_there() {
    let repository = files("1.9.1", &[("m", "boosting_regressor.pkl")]);
    let server = Server::start(&repository, &[]);
    let (library, rows) = answers("1.9.1", "boosting_regressor");
    let ask = |accept: &str| {
        let headers = [("content-type", "text/csv"), ("accept", accept)];
        Client::connect(server.sagemaker()).post("/invocations", &headers, lines(&rows)).expect(200)
    };
    let npy = ask("application/x-npy");
    let header = String::from_utf8_lossy(&npy.body).into_owned();
    assert!(header.contains("'shape': (8,)"), "{header:?}");
    let expected = doubles(&library["outputs"]);
    let given: Vec<f64> = npy.body[npy.body.len() - 64..]
        .chunks_exact(8)
        .map(|it| f64::from_le_bytes(it.try_into().unwrap()))
        .collect();
    let far = |(a, b): &(&f64, &f64)| 1e-12 < (*a - *b).abs();
    assert_eq!(given.iter().zip(&expected).find(far), None);
    assert_eq!(ask("application/json").json()["predictions"], json!(given));
    // KServe v2 has a dimension for it.
    let metadata = server.get("/v2/models/m").expect(200).json();
    assert_eq!(metadata["outputs"][0]["shape"], json!([-1, 1]));
}
