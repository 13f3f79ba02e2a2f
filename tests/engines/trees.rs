//! Files of tree models behind the server: found without a configuration, Triton's FIL configurations, refusals.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::{Client, Repository, Server, Start, root};

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

/// A file or a folder of a model, on ports that are free.
fn serve(path: &str) -> Start {
    let ports = ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"];
    Start::command(&["serve", path]).flags(&ports)
}

/// Serves a file, and compares what it answers with what the library does.
#[track_caller]
fn check_file(name: &str, library: &str, fixture: &str, model: &str) {
    let repository = Repository::new().copy(name, &format!("{FORESTS}/{library}/{fixture}"));
    let server = serve(&repository.at(name)).run();
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

#[test]
fn a_lone_file_is_known_by_its_bytes_whatever_its_name_is() {
    // Names of the tests of SageMaker's container, and a pickle.
    check_file("mnist-xgb-model", "xgboost-3.2.0", "logistic.ubj", "model");
    check_file("xgboost-model.bin", "xgboost-1.7.6", "logistic.bin", "xgboost-model");
    check_file("pickled.model.v2", "xgboost-1.7.6", "logistic.pkl", "pickled.model");
    let of = |file: &str| format!("{FORESTS}/xgboost-3.2.0/{file}");
    for name in ["mnist-xgb-model", "model", "xgboost-model.bin"] {
        let repository = Repository::new()
            .copy(&format!("model/{name}"), &of("logistic.ubj"))
            .file("model/README", "# A model")
            .file("model/notes.tar.gz", b"\x1f\x8b\x08\0");
        let hosted =
            [("SAGEMAKER_MODEL_PATH", &*repository.at("model")), ("SAGEMAKER_BIND_TO_PORT", "0")];
        let start = Start::command(&["serve"]);
        let server = hosted.iter().fold(start, |it, (name, value)| it.variable(name, value)).run();
        let Answers { rows, values, .. } = answers("xgboost-3.2.0", "logistic", "predictions");
        assert_eq!(bits(&infer(&server, "model", "output__0", &rows)), bits(&values), "{name}");
    }
    let repository = Repository::new()
        .copy("versioned/1/mnist-xgb-model", &of("logistic.ubj"))
        .copy("flat/forest.v3", &of("logistic.ubj"))
        .copy("onnx/1/network", "tests/fixtures/models/type_fp32/1/model.onnx")
        .copy("two/1/one", &of("logistic.ubj"))
        .copy("two/1/other", &of("logistic.ubj"))
        .file("unknown/1/network", "weights");
    let server = Server::start(&repository, &[]);
    for model in ["versioned", "flat", "onnx"] {
        server.get(&format!("/v2/models/{model}/ready")).expect(200);
    }
    for model in ["two", "unknown"] {
        let error = server.get(&format!("/v2/models/{model}/ready")).error(503);
        assert!(error.contains("there is no model in"), "{error}");
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
fn checkpoints_of_treelite() {
    let fixture = format!("{FORESTS}/treelite-4.8.1/xgboost_logistic.tl");
    let repository = Repository::new()
        .copy("m/1/checkpoint.tl", &fixture)
        .file("m/config.pbtxt", fil(1, &[("model_type", "treelite_checkpoint")]))
        .copy("plain/1/any.tl", &fixture);
    let server = Server::start(&repository, &[]);
    let text = std::fs::read(root(FORESTS).join("treelite-4.8.1/expected.json")).unwrap();
    let all: Value = serde_json::from_slice(&text).unwrap();
    let rows: Vec<f32> = STANDARD
        .decode(all["rows"]["raw"].as_str().unwrap())
        .unwrap()
        .chunks_exact(8)
        .map(|it| f64::from_le_bytes(it.try_into().unwrap()) as f32)
        .collect();
    let values = singles(&all["xgboost_logistic"]["predictions"]);
    for model in ["m", "plain"] {
        assert_eq!(bits(&infer(&server, model, "output__0", &rows)), bits(&values), "{model}");
    }
    refused(
        &fil(1, &[("model_type", "xgboost_ubj")]),
        "treelite-4.8.1/xgboost_logistic.tl",
        &["the file is treelite checkpoint; write", "\"treelite_checkpoint\""],
    );
}

/// `contributions.json` of a library: the expectations of a file, and the rows of all.
fn contributions(library: &str, file: &str) -> (Value, Vec<f32>) {
    let text = std::fs::read(root(FORESTS).join(library).join("contributions.json")).unwrap();
    let all: Value = serde_json::from_slice(&text).unwrap();
    (all[file].clone(), singles(&all["rows"]))
}

#[test]
fn contributions_and_leaves() {
    let with = |more: &str, config: String| format!("{config}\noutput [{more}]");
    let shap = |dims: &str, trees: usize| {
        let leaf = format!("{{ name: \"leaf\" data_type: TYPE_INT32 dims: [ {trees} ] }}");
        format!("{{ name: \"treeshap_output\" data_type: TYPE_FP32 dims: [ {dims} ] }}, {leaf}")
    };
    let of = |file: &str| format!("{FORESTS}/xgboost-3.2.0/{file}");
    let class = fil(1, &[("is_classifier", "true")]);
    let repository = Repository::new()
        .copy("one/1/xgboost.json", &of("logistic.json"))
        .file("one/config.pbtxt", with(&shap("9", 5), class.clone()))
        .copy("three/1/xgboost.ubj", &of("softprob.ubj"))
        .file("three/config.pbtxt", with(&shap("3, 9", 9), class.clone()))
        .copy("flat/1/xgboost.ubj", &of("softprob.ubj"))
        .file("flat/config.pbtxt", with(&shap("27", 9), class.clone()));
    let server = Server::start(&repository, &[]);
    for (model, file) in
        [("one", "logistic.json"), ("three", "softprob.ubj"), ("flat", "softprob.ubj")]
    {
        let (expected, rows) = contributions("xgboost-3.2.0", file);
        let given = infer(&server, model, "treeshap_output", &rows);
        let library = singles(&expected["contributions"]);
        assert_eq!(given.len(), library.len(), "{model}");
        let far = |(a, b): &(&f32, &f32)| 1e-4 < (*a - *b).abs();
        assert_eq!(given.iter().zip(&library).find(far), None, "{model}");
        // Four bytes each, whatever they are.
        let leaves = infer(&server, model, "leaf", &rows);
        let leaves: Vec<u64> = leaves.iter().map(|it| u64::from(it.to_bits())).collect();
        let library = expected["leaves"].as_array().unwrap().iter();
        let library: Vec<u64> = library
            .flat_map(|it| it.as_array().unwrap().iter().map(|it| it.as_u64().unwrap()))
            .collect();
        assert_eq!(leaves, library, "{model}");
    }
    let config = with(&shap("9", 5), class);
    refused(
        &config,
        "treelite-4.8.1/sklearn_random_forest.tl",
        &["tree 0: treeshap_output: its leaves are vectors"],
    );
    let vectors =
        with("{ name: \"treeshap_output\" data_type: TYPE_FP32 dims: [ 9 ] }", fil(1, &[]));
    refused(&vectors, "xgboost-3.4.1/vectors.ubj", &["tree 0: treeshap_output", "are vectors"]);
    let linear = vectors.replace("TYPE_FP32", "TYPE_FP64");
    let parts = ["tree 0: treeshap_output: its leaves are linear models", "LightGBM neither"];
    refused(&linear, "lightgbm-4.7.0/linear.txt", &parts);
    refused(&config, "xgboost-3.2.0/gblinear.ubj", &["output 'leaf': the model has no trees"]);
}

#[test]
fn leaves_of_many_rows_are_counted_before_they_are_made() {
    let leaf = "output [{ name: \"leaf\" data_type: TYPE_INT32 dims: [ 12 ] }]";
    let config = format!("{}\n{leaf}", fil(1, &[("is_classifier", "true")]));
    let repository = Repository::new()
        .copy("m/1/xgboost.ubj", &format!("{FORESTS}/xgboost-1.7.6/early.ubj"))
        .file("m/config.pbtxt", config);
    let server = Server::start(&repository, &["--max-inflight-bytes=1048576"]);
    let of_rows = |output: &str, count: usize| {
        let raw = vec![0; count * 8 * 4];
        let input = json!({
            "name": "input__0", "datatype": "FP32", "shape": [count, 8],
            "parameters": {"binary_data_size": raw.len()},
        });
        let outputs = json!([{"name": output, "parameters": {"binary_data": true}}]);
        let head = json!({"inputs": [input], "outputs": outputs}).to_string();
        let length = head.len().to_string();
        let headers = [("inference-header-content-length", &*length)];
        server.client().post(
            &crate::support::infer("m"),
            &headers,
            [head.as_bytes(), &raw].concat(),
        )
    };
    let runs = || {
        let statistics = server.get("/v2/models/m/stats").expect(200).json();
        statistics["model_stats"][0]["execution_count"].as_u64().unwrap()
    };
    let before = runs();
    // 30,000 rows are 960 kB, and their leaves 1.44 MB.
    let refused = of_rows("leaf", 30_000).error(400);
    let expected = "'leaf' of 30000 rows would take 1440000 bytes";
    assert!(refused.contains(expected) && refused.contains("--max-inflight-bytes"), "{refused}");
    assert_eq!(runs(), before, "nothing was run");
    // What a request held is given back just behind its answer.
    for (output, rows) in [("output__0", 30_000), ("leaf", 5_000)] {
        let answered = || (of_rows(output, rows).status == 200).then_some(());
        crate::support::wait_for(&format!("{rows} rows of {output}"), answered);
    }
}

#[test]
fn fil_takes_32_bits_of_models_of_64() {
    let repository = Repository::new()
        .copy("m/1/model.txt", &format!("{FORESTS}/lightgbm-4.7.0/binary.txt"))
        .file("m/config.pbtxt", fil(1, &[("model_type", "lightgbm"), ("is_classifier", "false")]));
    let server = Server::start(&repository, &[]);
    let rows: Vec<f32> = (0..40).map(|it| it as f32 / 10.0 - 2.0).collect();
    let given = infer(&server, "m", "output__0", &rows);
    assert!(given.len() == 5 && given.iter().all(|it| (0.0..1.0).contains(it)), "{given:?}");
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
        .file("three/config.pbtxt", rounds("0:3"))
        .copy("eight/1/model.ubj", &early)
        .file("eight/config.pbtxt", rounds("0:8"));
    let server = Server::start(&repository, &[]);
    let of = |what| answers("xgboost-1.7.6", "early", what);
    let (all, best) = (of("predictions"), of("best"));
    let given = |model: &str| bits(&infer(&server, model, "output__0", &all.rows));
    assert_eq!(given("all"), bits(&all.values));
    assert_eq!(given("stopped"), bits(&best.values));
    assert_eq!(given("best"), bits(&best.values));
    // The best round is the eighth.
    assert_eq!(given("eight"), bits(&best.values));
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

#[test]
fn labels_are_the_class_that_the_library_predicts() {
    let config = "output [{ name: \"output__0\" }, { name: \"label\" }]";
    let of = |fixture: &str| format!("{FORESTS}/xgboost-3.2.0/{fixture}.ubj");
    let repository = Repository::new()
        .copy("softmax/1/model.ubj", &of("softmax"))
        .file("softmax/config.pbtxt", config)
        .copy("hinge/1/model.ubj", &of("hinge"))
        .file("hinge/config.pbtxt", config)
        .copy("logitraw/1/model.ubj", &of("logitraw"))
        .file("logitraw/config.pbtxt", config)
        .copy("folds/1/xgboost-model-0", &of("softmax"))
        .copy("folds/1/xgboost-model-1", &of("softmax"))
        .file("folds/config.pbtxt", config);
    let server = Server::start(&repository, &[]);
    let labels = |model: &str, fixture: &str| {
        let Answers { rows, values, .. } = answers("xgboost-3.2.0", fixture, "predictions");
        (infer(&server, model, "label", &rows), values)
    };
    for (model, fixture) in [("softmax", "softmax"), ("hinge", "hinge"), ("folds", "softmax")] {
        let (given, classes) = labels(model, fixture);
        assert_eq!(given, classes, "{model}");
    }
    assert!(labels("softmax", "softmax").0.contains(&2.0));
    let (given, margins) = labels("logitraw", "logitraw");
    let classes: Vec<f32> = margins.iter().map(|it| f32::from(u8::from(0.0 < *it))).collect();
    assert_eq!(given, classes);
    assert!(margins.iter().any(|it| (0.0..0.5).contains(it)));
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
    let server = serve(&repository.at("xgboost-model")).run();
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

/// A record as SageMaker's SDK frames it: a row of eight numbers.
fn record(row: &[f32]) -> Vec<u8> {
    let numbers: Vec<u8> = row.iter().flat_map(|it| it.to_le_bytes()).collect();
    // Frame; `features`, its key, its value, the tensor, packed floats.
    let head = b"\x0a\x23\xd7\xce\x30\0\0\0\x0a\x2e\x0a\x06values\x12\x24\x12\x22\x0a\x20";
    [&head[..], &numbers].concat()
}

#[test]
fn an_endpoint_with_nothing_but_such_a_file_takes_every_format_of_the_container() {
    let fixture = format!("{FORESTS}/xgboost-3.2.0/logistic.ubj");
    let repository = Repository::new().copy("model/xgboost-model", &fixture);
    let hosted =
        [("SAGEMAKER_MODEL_PATH", &*repository.at("model")), ("SAGEMAKER_BIND_TO_PORT", "0")];
    let start = Start::command(&["serve"]);
    let server = hosted.iter().fold(start, |it, (name, value)| it.variable(name, value)).run();
    let Answers { rows, values, .. } = answers("xgboost-3.2.0", "logistic", "predictions");
    // A missing number is nothing in libsvm; the first column says from where the others count.
    let is_plain = |it: &[f32]| !it[0].is_nan() && it.iter().all(|it| !it.is_infinite());
    let asked: Vec<usize> = (0..16).filter(|i| is_plain(&rows[i * 8..i * 8 + 8])).collect();
    let row = |i: &usize| &rows[i * 8..i * 8 + 8];
    let sparse = |row: &[f32]| {
        let present = row.iter().enumerate().filter(|(_, it)| !it.is_nan());
        let words: Vec<String> = present.map(|(at, it)| format!("{at}:{it}")).collect();
        format!("1 {}\n", words.join(" "))
    };
    let expected: Vec<f32> = asked.iter().map(|i| values[*i]).collect();
    assert!(4 < expected.len());
    let bodies: [(&str, Vec<u8>); 3] = [
        ("text/csv", asked.iter().map(|i| csv(row(i))).collect::<String>().into_bytes()),
        ("text/libsvm", asked.iter().map(|i| sparse(row(i))).collect::<String>().into_bytes()),
        ("application/x-recordio-protobuf", asked.iter().flat_map(|i| record(row(i))).collect()),
    ];
    for (content_type, body) in bodies {
        let headers = [("content-type", content_type), ("accept", "text/csv")];
        let mut client = Client::connect(server.sagemaker());
        let reply = client.post("/invocations", &headers, body).expect(200).text();
        let given: Vec<f32> = reply.lines().map(|it| it.parse().unwrap()).collect();
        assert_eq!(bits(&given), bits(&expected), "{content_type}");
    }
}

#[test]
fn short_rows() {
    let fixture = format!("{FORESTS}/xgboost-3.2.0/logistic.ubj");
    let repository = Repository::new().copy("xgboost-model", &fixture);
    let server = serve(&repository.at("xgboost-model")).run();
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

/// Predictions of a model of one column, and the rows that it was asked.
fn column(library: &str, model: &str) -> Answers {
    let found = answers(library, model, "predictions");
    assert_eq!(found.columns, 1);
    found
}

/// As SageMaker's training by k folds leaves them, of three formats, and what else lies in such an archive.
fn folds(of: [(&str, &str); 3]) -> Repository {
    let [first, second, third] = of.map(|(library, file)| format!("{FORESTS}/{library}/{file}"));
    Repository::new()
        .copy("model/xgboost-model-10", &third)
        .copy("model/xgboost-model-0", &first)
        .copy("model/xgboost-model-1", &second)
        .file("model/requirements.txt", "xgboost==1.7.6\n")
        .file("model/.DS_Store", "\0\0\0\u{1}Bud1")
}

const LOGISTIC: [(&str, &str); 3] = [
    ("xgboost-1.7.6", "logistic.pkl"),
    ("xgboost-1.7.6", "logistic_base.bin"),
    ("xgboost-3.2.0", "parallel.ubj"),
];

#[test]
fn k_folds_are_one_model() {
    let repository = folds(LOGISTIC);
    let path = repository.at("model");
    let server = serve(&path).run();
    let models = server.client().post("/v2/repository/index", &[], "{}").expect(200).json();
    assert_eq!(models.as_array().unwrap().len(), 1, "{models}");
    let [first, second, third] = [
        column("xgboost-1.7.6", "logistic"),
        column("xgboost-1.7.6", "logistic_base"),
        column("xgboost-3.2.0", "parallel"),
    ];
    assert_eq!(bits(&first.rows), bits(&third.rows));
    // As numpy.mean does it with arrays of 32 bits.
    let mean: Vec<f32> = (0..first.values.len())
        .map(|i| (first.values[i] + second.values[i] + third.values[i]) / 3.0)
        .collect();
    assert_eq!(bits(&infer(&server, "model", "output__0", &first.rows)), bits(&mean));
    // The dialect is that of XGBoost's container.
    let at =
        (0..32).find(|i| first.rows[i * 8..i * 8 + 8].iter().all(|it| it.is_finite())).unwrap();
    let headers = [("content-type", "text/csv")];
    let body = csv(&first.rows[at * 8..at * 8 + 8]);
    let text = Client::connect(server.sagemaker()).post("/invocations", &headers, body);
    let text = text.expect(200).text();
    assert_eq!(text.trim().parse::<f32>().unwrap().to_bits(), mean[at].to_bits());

    let server = serve(&path).variable("SAGEMAKER_INFERENCE_ENSEMBLE", "false").run();
    assert_eq!(bits(&infer(&server, "model", "output__0", &first.rows)), bits(&first.values));
}

#[test]
fn the_class_that_most_folds_name_is_the_answer() {
    let repository = folds([
        ("xgboost-1.7.6", "softmax.bin"),
        ("xgboost-3.2.0", "softmax.ubj"),
        ("xgboost-3.4.1", "softmax.json"),
    ]);
    let server = serve(&repository.at("model")).run();
    let old = column("xgboost-1.7.6", "softmax");
    let new = column("xgboost-3.2.0", "softmax");
    assert_eq!(bits(&new.values), bits(&column("xgboost-3.4.1", "softmax").values));
    assert_ne!(bits(&new.values), bits(&old.values));
    assert_eq!(bits(&infer(&server, "model", "output__0", &new.rows)), bits(&new.values));
}

#[test]
fn folds_lie_in_version_directories_and_in_folders_of_repositories_too() {
    let file = |number: usize| {
        let (library, file) = LOGISTIC[number];
        format!("{FORESTS}/{library}/{file}")
    };
    let repository = Repository::new()
        .copy("versioned/1/xgboost-model-0", &file(0))
        .copy("versioned/1/xgboost-model-1", &file(1))
        .copy("flat/xgboost-model-0", &file(0))
        .copy("flat/xgboost-model-1", &file(1))
        .copy("named/1/xgboost-model-0", &file(0))
        .copy("named/1/xgboost-model-1", &file(1))
        .file("named/config.pbtxt", "backend: \"fil\" default_model_filename: \"xgboost-model-1\"")
        .copy("only/1/xgboost-model-0", &file(0))
        .copy("unlike/1/xgboost-model-0", &file(0))
        .copy("unlike/1/xgboost-model-1", &format!("{FORESTS}/xgboost-3.2.0/softprob.ubj"));
    let flags = ["--exit-on-error=false", "--strict-readiness=false"];
    let server = Server::start(&repository, &flags);
    let first = column("xgboost-1.7.6", "logistic");
    let second = column("xgboost-1.7.6", "logistic_base");
    let given = |model: &str| bits(&infer(&server, model, "output__0", &first.rows));
    let mean: Vec<f32> =
        first.values.iter().zip(&second.values).map(|(one, other)| (one + other) / 2.0).collect();
    assert_eq!(given("versioned"), bits(&mean));
    assert_eq!(given("flat"), bits(&mean));
    assert_eq!(given("named"), bits(&second.values), "a configuration names the file");
    assert_eq!(given("only"), bits(&first.values));
    let models = server.client().post("/v2/repository/index", &[], "{}").expect(200).text();
    let expected = "are not one model: objective binary:logistic and multi:softprob";
    assert!(models.contains(expected), "{models}");
}

#[test]
fn at_most_a_hundred_folds_are_one_model() {
    let fixture = format!("{FORESTS}/xgboost-3.2.0/stump.ubj");
    let folds = |count: usize| {
        (0..count).fold(Repository::new(), |it, fold| {
            it.copy(&format!("m/1/xgboost-model-{fold}"), &fixture)
        })
    };
    let error = Start::new(&folds(101)).try_run().err().unwrap().to_string();
    assert!(error.contains("its folds are 101 files; at most 100 are one model"), "{error}");
    let server = Server::start(&folds(100), &[]);
    let expected = column("xgboost-3.2.0", "stump");
    // A mean of equal numbers, rounded after each addition.
    let mean = |it: f32| (1..100).fold(it, |sum, _| sum + it) / 100.0;
    let mean: Vec<f32> = expected.values.iter().copied().map(mean).collect();
    assert_eq!(bits(&infer(&server, "m", "output__0", &expected.rows)), bits(&mean));
}

/// `MLmodel` as MLflow 3 writes it.
fn mlmodel(flavor: &str, key: &str, file: &str) -> String {
    format!(
        "flavors:\n  {flavor}:\n    code: null\n    {key}: {file}\n  python_function:\n    data: {file}\n    env:\n      \
         conda: conda.yaml\n    loader_module: mlflow.{flavor}\nmlflow_version: 3.17.2\n"
    )
}

#[test]
fn folders_of_mlflow_are_served_by_the_file_of_their_flavor() {
    let of = |file: &str| format!("{FORESTS}/xgboost-3.2.0/{file}");
    let repository = Repository::new()
        .copy("flat/model.ubj", &of("logistic.ubj"))
        .copy("flat/other.ubj", &of("softprob.ubj"))
        .file("flat/MLmodel", mlmodel("xgboost", "data", "model.ubj"))
        .copy("named/weights", &of("logistic.ubj"))
        .copy("named/model.ubj", &of("softprob.ubj"))
        .file("named/MLmodel", mlmodel("xgboost", "data", "weights"))
        .copy("versioned/1/artifacts/forest.json", &of("logistic.json"))
        .file("versioned/1/MLmodel", mlmodel("xgboost", "data", "artifacts/forest.json"))
        .copy("pickled/model.pkl", &of("logistic.pkl"))
        .file("pickled/MLmodel", mlmodel("sklearn", "pickled_model", "model.pkl"))
        .copy("light/model.lgb", &format!("{FORESTS}/lightgbm-4.7.0/binary.txt"))
        .file("light/MLmodel", mlmodel("lightgbm", "data", "model.lgb"))
        .copy("forest/model.pkl", &format!("{FORESTS}/sklearn-1.9.1/random_forest.pkl"))
        .file("forest/MLmodel", mlmodel("sklearn", "pickled_model", "model.pkl"))
        .copy("skops/model.skops", &format!("{FORESTS}/sklearn-1.9.1/random_forest.skops"))
        .file("skops/MLmodel", mlmodel("sklearn", "pickled_model", "model.skops"))
        .copy("graph/model.onnx", "model_repository/fraud/1/model.onnx")
        .file("graph/MLmodel", mlmodel("onnx", "data", "./model.onnx"))
        .copy("beside/1/model.onnx", "model_repository/fraud/1/model.onnx")
        .file("beside/1/MLmodel", mlmodel("transformers", "model_binary", "model"))
        .copy("hub/onnx/model.onnx", "model_repository/fraud/1/model.onnx")
        .file("hub/MLmodel", mlmodel("transformers", "model_binary", "model"))
        .file("vectors/model.pkl", "\u{80}")
        .file("vectors/MLmodel", mlmodel("catboost", "data", "model.cb").replace("python_", "r_"))
        .file("keras/data/model.keras", "PK\u{3}\u{4}model.weights.h5PK\u{5}\u{6}")
        .file("keras/MLmodel", mlmodel("tensorflow", "data", "data"));
    let flags = ["--exit-on-error=false", "--strict-readiness=false"];
    let server = Server::start(&repository, &flags);
    let expected = column("xgboost-3.2.0", "logistic");
    for model in ["flat", "named", "versioned", "pickled"] {
        let given = infer(&server, model, "output__0", &expected.rows);
        assert_eq!(bits(&given), bits(&expected.values), "{model}");
    }
    let eight = |model: &str| {
        let rows = expected.rows.iter().map(|it| if it.is_finite() { *it } else { 0.25 });
        infer(&server, model, "probabilities", &rows.collect::<Vec<f32>>())
    };
    assert_eq!(eight("forest"), eight("skops"));
    for model in ["light", "forest"] {
        let config = server.get(&format!("/v2/models/{model}/config")).expect(200).json();
        assert_eq!(config["backend"], "fil", "{model}");
    }
    for model in ["graph", "beside", "hub"] {
        server.get(&format!("/v2/models/{model}/ready")).expect(200);
    }
    let index = server.client().post("/v2/repository/index", &[], "{}").expect(200).json();
    let reason = |name: &str| {
        let models = index.as_array().unwrap();
        let model = models.iter().find(|it| it["name"] == name).unwrap();
        model["reason"].as_str().unwrap().to_owned()
    };
    let catboost = reason("vectors");
    assert!(catboost.contains("names the flavors catboost, r_function and no file"), "{catboost}");
    assert!(catboost.contains("mlflow.<flavor>.save_model"), "{catboost}");
    let keras = reason("keras");
    assert!(keras.contains("this is a Keras model (.keras); python -c"), "{keras}");

    // As SageMaker unpacks an archive with nothing else in it.
    let server = serve(&repository.at("flat")).run();
    let given = infer(&server, "flat", "output__0", &expected.rows);
    assert_eq!(bits(&given), bits(&expected.values));
}

#[test]
fn selected_output() {
    let keys = "predicted_label,probability,probabilities,labels";
    let body = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8\n";
    let rows = [0.1_f32, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];
    let of = |model: &str| {
        let file = format!("{FORESTS}/xgboost-3.2.0/{model}.ubj");
        let repository = Repository::new().copy("xgboost-model", &file);
        let start = serve(&repository.at("xgboost-model"));
        let server = start.variable("SAGEMAKER_INFERENCE_OUTPUT", keys).run();
        let headers = [("content-type", "text/csv")];
        let reply = Client::connect(server.sagemaker()).post("/invocations", &headers, body);
        (reply.expect(200).text(), infer(&server, "model", "output__0", &rows))
    };
    let (text, of_logistic) = of("logistic");
    let p = of_logistic[0];
    let label = i32::from(0.5 < p);
    assert_eq!(text, format!("{label},{p},\"[{}, {p}]\",\"[0, 1]\"", 1.0 - p));
    let (text, of_softprob) = of("softprob");
    let best = (1..3).fold(0, |best, i| if of_softprob[best] < of_softprob[i] { i } else { best });
    let all: Vec<String> = of_softprob.iter().map(f32::to_string).collect();
    let (largest, all) = (of_softprob[best], all.join(", "));
    assert_eq!(text, format!("{best},{largest},\"[{all}]\",\"[0, 1, 2]\""));
    // The file says how many classes there are, and the only output one of them.
    let (text, class) = of("softmax");
    assert_eq!(text, format!("{:.1},nan,nan,\"[0, 1, 2]\"", class[0]));
    let (text, class) = of("hinge");
    assert_eq!(text, format!("{:.1},nan,nan,\"[0, 1]\"", class[0]));
    assert_eq!(of("squarederror").0, "nan,nan,nan,nan");
}

#[test]
fn precision_is_the_models() {
    // One split at 0.1: what is not above it goes left, to 1.
    let model = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=0\n\
                 objective=regression\nfeature_names=a\nfeature_infos=[0:1]\ntree_sizes=1\n\nTree=0\nnum_leaves=2\n\
                 num_cat=0\nsplit_feature=0\nsplit_gain=1\nthreshold=0.1\ndecision_type=2\nleft_child=-1\n\
                 right_child=-2\nleaf_value=1 2\nleaf_weight=1 1\nleaf_count=1 1\ninternal_value=0\n\
                 internal_weight=0\ninternal_count=2\nis_linear=0\nshrinkage=1\n\n\nend of trees\n";
    let single = "input [{ name: \"input__0\" data_type: TYPE_FP32 dims: [ 1 ] }]";
    let repository = Repository::new()
        .file("double/1/model.txt", model)
        .file("single/1/model.txt", model)
        .file("single/config.pbtxt", format!("backend: \"fil\" {single}"));
    let server = Server::start(&repository, &[]);
    let ask = |name: &str, datatype: &str| {
        let body = json!({"inputs": [{
            "name": "input__0", "datatype": datatype, "shape": [2, 1], "data": [0.1, 0.100_000_01],
        }]});
        let reply =
            server.client().post(&format!("/v2/models/{name}/infer"), &[], body.to_string());
        reply.expect(200).json()["outputs"][0]["data"].clone()
    };
    let metadata = server.get("/v2/models/double").expect(200).json();
    assert_eq!(metadata["inputs"][0]["datatype"], "FP64");
    assert_eq!(ask("double", "FP64"), json!([1.0, 2.0]));
    // The float nearest to 0.1 lies above it.
    assert_eq!(ask("single", "FP32"), json!([2.0, 2.0]));
}

/// What SageMaker's SDK (2.257) sets for an `XGBoostModel`: without a script, and with one that it has uploaded.
const SDK: [[(&str, &str); 2]; 2] = [
    [("SAGEMAKER_PROGRAM", ""), ("SAGEMAKER_SUBMIT_DIRECTORY", "")],
    [
        ("SAGEMAKER_PROGRAM", "inference.py"),
        ("SAGEMAKER_SUBMIT_DIRECTORY", "s3://bucket/fraud/sourcedir.tar.gz"),
    ],
];

#[test]
fn the_variables_of_the_sdks_xgboost_model_change_nothing() {
    let fixture = format!("{FORESTS}/xgboost-3.2.0/logistic.ubj");
    let repository = Repository::new().copy("model/xgboost-model", &fixture);
    let Answers { rows, values, .. } = answers("xgboost-3.2.0", "logistic", "predictions");
    let plain = |it: &[f32]| it.iter().all(|it| it.is_finite());
    let asked: Vec<usize> = (0..32).filter(|i| plain(&rows[i * 8..i * 8 + 8])).collect();
    let row = |i: &usize| &rows[i * 8..i * 8 + 8];
    let sparse = |row: &[f32]| {
        let words: Vec<String> =
            row.iter().enumerate().map(|(at, it)| format!("{at}:{it}")).collect();
        words.join(" ") + "\n"
    };
    let expected: Vec<f32> = asked.iter().map(|i| values[*i]).collect();
    // Its predictor sends libsvm and reads CSV; with a CSVSerializer, CSV.
    let bodies = [
        ("text/libsvm", asked.iter().map(|i| sparse(row(i))).collect::<String>()),
        ("text/csv", asked.iter().map(|i| csv(row(i))).collect()),
    ];
    for variables in SDK {
        let start = Start::command(&["serve"])
            .variable("SAGEMAKER_CONTAINER_LOG_LEVEL", "20")
            .variable("SAGEMAKER_REGION", "us-east-1")
            .variable("SAGEMAKER_MODEL_PATH", &repository.at("model"))
            .variable("SAGEMAKER_BIND_TO_PORT", "0");
        let server =
            variables.iter().fold(start, |it, (name, value)| it.variable(name, value)).run();
        Client::connect(server.sagemaker()).get("/ping").expect(200);
        for (content_type, body) in &bodies {
            let headers = [("content-type", *content_type), ("accept", "text/csv")];
            let mut client = Client::connect(server.sagemaker());
            let reply = client.post("/invocations", &headers, body).expect(200).text();
            let given: Vec<f32> = reply.lines().map(|it| it.parse().unwrap()).collect();
            assert_eq!(bits(&given), bits(&expected), "{content_type} {variables:?}");
        }
    }
}
