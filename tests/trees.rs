//! Files of tree models behind the server: found without a configuration, Triton's FIL configurations, refusals.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::{Repository, Server, Start, root};

/// A folder of files that a library wrote.
const FORESTS: &str = "tests/fixtures/forests";

/// The numbers that a library answers for a model: `margins` or `predictions`, and the rows that it was asked.
struct Answers {
    rows: Vec<f32>,
    values: Vec<f32>,
    columns: usize,
}

fn singles(tensor: &Value) -> Vec<f32> {
    let raw = STANDARD.decode(tensor["raw"].as_str().unwrap()).unwrap();
    raw.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
}

fn answers(library: &str, model: &str, what: &str) -> Answers {
    let text = std::fs::read(root(FORESTS).join(library).join("expected.json")).unwrap();
    let all: Value = serde_json::from_slice(&text).unwrap();
    let tensor = &all[model][what];
    let columns = tensor["shape"][1].as_u64().unwrap() as usize;
    let rows = all[model].get("rows").unwrap_or(&all["rows"]);
    Answers { rows: singles(rows), values: singles(tensor), columns }
}

/// The output of that name for rows of eight features, as binary tensors go and come.
fn infer(server: &Server, model: &str, output: &str, rows: &[f32]) -> Vec<f32> {
    let raw: Vec<u8> = rows.iter().flat_map(|it| it.to_le_bytes()).collect();
    let input = json!({
        "name": "input__0", "datatype": "FP32", "shape": [rows.len() / 8, 8],
        "parameters": {"binary_data_size": raw.len()},
    });
    let outputs = json!([{"name": output, "parameters": {"binary_data": true}}]);
    let head = json!({"inputs": [input], "outputs": outputs}).to_string();
    let length = head.len().to_string();
    let headers = [("inference-header-content-length", &*length)];
    let body = [head.as_bytes(), &raw].concat();
    let reply = server.client().post(&format!("/v2/models/{model}/infer"), &headers, body);
    let reply = reply.expect(200);
    let length: usize = reply.header("inference-header-content-length").unwrap().parse().unwrap();
    reply.body[length..]
        .chunks_exact(4)
        .map(|it| f32::from_le_bytes(it.try_into().unwrap()))
        .collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|it| it.to_bits()).collect()
}

/// Serves a file, and compares what it answers with what the library does.
#[track_caller]
fn check_file(name: &str, library: &str, fixture: &str, model: &str) {
    let repository = Repository::new().copy(name, &format!("{FORESTS}/{library}/{fixture}"));
    let server = Start::command(&["serve", &repository.at(name)]).run();
    let metadata = server.get(&format!("/v2/models/{model}")).expect(200).json();
    let kind = fixture.split('.').next().unwrap();
    let Answers { rows, values, columns } = answers(library, kind, "predictions");
    let input = json!([{"name": "input__0", "datatype": "FP32", "shape": [-1, 8]}]);
    let output = json!([{"name": "output__0", "datatype": "FP32", "shape": [-1, columns]}]);
    assert_eq!((&metadata["inputs"], &metadata["outputs"]), (&input, &output), "{name}");
    let given = infer(&server, model, "output__0", &rows[..values.len() / columns * 8]);
    assert_eq!(bits(&given), bits(&values), "{name}");
}

#[test]
fn zero_configuration() {
    check_file("xgboost-model", "xgboost-3.2.0", "logistic.ubj", "model");
    check_file("model.ubj", "xgboost-3.4.1", "softprob.ubj", "model");
    check_file("fraud.json", "xgboost-1.7.6", "softmax.json", "fraud");
    // What SageMaker's older images wrote: legacy binaries, and pickles before.
    check_file("xgboost-model", "xgboost-1.7.6", "logistic.bin", "model");
    check_file("xgboost-model", "xgboost-1.7.6", "logistic.pkl", "model");
}

#[test]
fn a_repository_may_hold_them_under_the_names_of_triton_or_any() {
    let of = |file: &str| format!("{FORESTS}/xgboost-3.2.0/{file}");
    let repository = Repository::new()
        .copy("fil/1/xgboost.json", &of("logistic.json"))
        .copy("named/1/xgboost-model", &of("logistic.ubj"))
        .copy("any/1/fraud.bst", &of("logistic.ubj"))
        .copy("flat/xgboost-model", &of("logistic.ubj"))
        .file("flat/config.json", "{\"model_type\": \"bert\"}")
        .copy("other/1/xgboost.ubj", &of("logistic.json"))
        .file("other/config.pbtxt", "backend: \"xgboost\"");
    let server = Server::start(&repository, &[]);
    let Answers { rows, values, .. } = answers("xgboost-3.2.0", "logistic", "predictions");
    for model in ["fil", "named", "any", "flat", "other"] {
        let given = infer(&server, model, "output__0", &rows);
        assert_eq!(bits(&given), bits(&values), "{model}");
        let config = server.get(&format!("/v2/models/{model}/config")).expect(200).json();
        assert_eq!(config["backend"], "fil");
    }
}

/// A configuration as Triton's FIL backend has them.
fn fil(output_dims: usize, parameters: &[(&str, &str)]) -> String {
    let parameters = parameters
        .iter()
        .map(|(key, value)| format!("{{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}"));
    let parameters: Vec<String> = parameters.collect();
    format!(
        "backend: \"fil\"\nmax_batch_size: 32768\n\
         input [{{ name: \"input__0\" data_type: TYPE_FP32 dims: [ 8 ] }}]\n\
         output [{{ name: \"output__0\" data_type: TYPE_FP32 dims: [ {output_dims} ] }}]\n\
         instance_group [{{ kind: KIND_AUTO }}]\n\
         parameters [{}]\n\
         dynamic_batching {{}}",
        parameters.join(", ")
    )
}

#[test]
fn fil_configurations() {
    let binary = format!("{FORESTS}/xgboost-3.2.0/logistic.json");
    let several = format!("{FORESTS}/xgboost-3.2.0/softprob.ubj");
    let json = ("model_type", "xgboost_json");
    let of_fil = [("storage_type", "AUTO"), ("layout", "depth_first"), ("algo", "ALGO_AUTO")];
    let with = |more: &[(&'static str, &'static str)]| [&[json], &of_fil[..], more].concat();
    let class = fil(1, &with(&[("is_classifier", "true"), ("threshold", "0.3")]));
    let older = fil(1, &with(&[("output_class", "true")]));
    let both = fil(2, &with(&[("is_classifier", "true"), ("predict_proba", "true")]));
    let value = fil(1, &with(&[("is_classifier", "false")]));
    let repository = Repository::new()
        .copy("class/1/xgboost.json", &binary)
        .file("class/config.pbtxt", class)
        .copy("older/1/xgboost.json", &binary)
        .file("older/config.pbtxt", older)
        .copy("both/1/xgboost.json", &binary)
        .file("both/config.pbtxt", both)
        .copy("value/1/xgboost.json", &binary)
        .file("value/config.pbtxt", value)
        .copy("several/1/xgboost.ubj", &several)
        .file("several/config.pbtxt", fil(1, &[("is_classifier", "true")]));
    let server = Server::start(&repository, &[]);
    let Answers { rows, values, .. } = answers("xgboost-3.2.0", "logistic", "predictions");
    let given = |model: &str| infer(&server, model, "output__0", &rows);
    let above = |threshold: f32| -> Vec<f32> {
        values.iter().map(|it| f32::from(threshold < *it)).collect()
    };
    assert_eq!(given("class"), above(0.3));
    assert_eq!(given("older"), above(0.5));
    assert_ne!(above(0.3), above(0.5));
    assert_eq!(given("both"), values.iter().flat_map(|it| [1.0 - it, *it]).collect::<Vec<_>>());
    assert_eq!(bits(&given("value")), bits(&values));
    let Answers { values, .. } = answers("xgboost-3.2.0", "softprob", "predictions");
    let best = |row: &[f32]| (1..3).fold(0, |best, i| if row[best] < row[i] { i } else { best });
    let classes: Vec<f32> = values.chunks(3).map(|it| best(it) as f32).collect();
    assert_eq!(given("several"), classes);
}

#[test]
fn iteration_range() {
    let early = format!("{FORESTS}/xgboost-1.7.6/early.ubj");
    let rounds = |range: &str| fil(1, &[("iteration_range", range)]);
    let repository = Repository::new()
        .copy("stopped/1/model.ubj", &early)
        .copy("all/1/model.ubj", &early)
        .file("all/config.pbtxt", rounds("all"))
        .copy("best/1/model.ubj", &early)
        .file("best/config.pbtxt", rounds("best"))
        .copy("three/1/model.ubj", &early)
        .file("three/config.pbtxt", rounds("0:3"));
    let server = Server::start(&repository, &[]);
    let of = |what| answers("xgboost-1.7.6", "early", what);
    let (all, best) = (of("predictions"), of("best"));
    let given = |model: &str| bits(&infer(&server, model, "output__0", &all.rows));
    assert_eq!(given("all"), bits(&all.values));
    assert_eq!(given("stopped"), bits(&best.values));
    assert_eq!(given("best"), bits(&best.values));
    assert!(given("three") != given("best") && given("three") != given("all"));
}

#[test]
fn margins_and_labels_are_outputs_where_they_are_asked_for() {
    let config = "output [{ name: \"output__0\" }, { name: \"margin\" }, { name: \"label\" }]";
    let repository = Repository::new()
        .copy("m/1/model.ubj", &format!("{FORESTS}/xgboost-3.2.0/softprob.ubj"))
        .file("m/config.pbtxt", config);
    let server = Server::start(&repository, &[]);
    let of = |what| answers("xgboost-3.2.0", "softprob", what);
    let (margins, predictions) = (of("margins"), of("predictions"));
    let given = |output: &str| infer(&server, "m", output, &margins.rows);
    assert_eq!(bits(&given("margin")), bits(&margins.values));
    assert_eq!(bits(&given("output__0")), bits(&predictions.values));
    assert_eq!(given("label").len(), margins.values.len() / 3);
}

/// Why a model does not load.
#[track_caller]
fn refused(config: &str, fixture: &str, expected: &[&str]) {
    let repository = Repository::new()
        .copy("m/1/model.ubj", &format!("{FORESTS}/{fixture}"))
        .file("m/config.pbtxt", config);
    let error = Start::new(&repository).try_run().err().unwrap().to_string();
    for it in expected {
        assert!(error.contains(it), "{it}: {error}");
    }
}

#[test]
fn load_errors() {
    let logistic = "xgboost-3.2.0/logistic.ubj";
    refused(
        &fil(1, &[("model_type", "lightgbm")]),
        logistic,
        &["'model_type' is 'lightgbm', but the file is XGBoost UBJ; write", "xgboost_ubj"],
    );
    refused(
        &fil(1, &[]).replace("dims: [ 8 ]", "dims: [ 7 ]"),
        logistic,
        &["input 'input__0'", "8", "7"],
    );
    refused(&fil(1, &[]).replace("KIND_AUTO", "KIND_GPU"), logistic, &["KIND_GPU"]);
    refused(
        &fil(1, &[("objective", "reg:mine")]),
        logistic,
        &["objective 'reg:mine' is not known", "key: \"objective\""],
    );
    refused(&fil(1, &[("threshold", "half")]), logistic, &["parameter 'threshold'", "'half'"]);
}

/// CSV with one line of eight columns; a column that is missing is empty.
fn csv(row: &[f32]) -> String {
    let columns = row.iter().map(|it| if it.is_nan() { String::new() } else { it.to_string() });
    columns.collect::<Vec<_>>().join(",") + "\n"
}

#[test]
fn sagemaker_as_it_is() {
    let fixture = format!("{FORESTS}/xgboost-3.2.0/logistic.ubj");
    let repository = Repository::new().copy("xgboost-model", &fixture);
    let server = Start::command(&["serve", &repository.at("xgboost-model")]).run();
    let Answers { rows, values, .. } = answers("xgboost-3.2.0", "logistic", "predictions");
    let finite = |it: &[f32]| it.iter().all(|it| !it.is_infinite());
    let asked: Vec<usize> = (0..8).filter(|i| finite(&rows[i * 8..i * 8 + 8])).collect();
    let body: String = asked.iter().map(|i| csv(&rows[i * 8..i * 8 + 8])).collect();
    let expected: Vec<f32> = asked.iter().map(|i| values[*i]).collect();
    let ask = |accept| {
        let headers = [("content-type", "text/csv"), ("accept", accept)];
        server.client().post("/invocations", &headers, &body).expect(200)
    };
    let given: Vec<f32> = ask("text/csv").text().lines().map(|it| it.parse().unwrap()).collect();
    assert_eq!(bits(&given), bits(&expected));
    let json = ask("application/json").json();
    let scores = json["predictions"].as_array().unwrap().iter();
    let scores: Vec<f32> = scores.map(|it| it["score"].as_f64().unwrap() as f32).collect();
    assert_eq!(bits(&scores), bits(&expected));
}

#[test]
fn short_rows() {
    let fixture = format!("{FORESTS}/xgboost-3.2.0/logistic.ubj");
    let repository = Repository::new().copy("xgboost-model", &fixture);
    let server = Start::command(&["serve", &repository.at("xgboost-model")]).run();
    let headers = [("content-type", "text/csv")];
    let ask = |body: &str| server.client().post("/invocations", &headers, body);
    let written_out = ask("1,2,3,4,5,6,7,\n7,6,5,4,3,2,1,\n").expect(200).text();
    assert_eq!(ask("1,2,3,4,5,6,7\n7,6,5,4,3,2,1\n").expect(200).text(), written_out);
    let error = ask("1,2,3,4,5,6,7,8,9\n").error(400);
    assert!(error.contains("record 1 has 9 values, the model takes 8"), "{error}");
    // KServe's shapes are the model's.
    let body = json!({"inputs": [{
        "name": "input__0", "datatype": "FP32", "shape": [1, 7], "data": [1, 2, 3, 4, 5, 6, 7],
    }]});
    server.client().post("/v2/models/model/infer", &[], body.to_string()).error(400);
}
