//! Bodies and replies of XGBoost's container and of AWS's built-in algorithms on /invocations.

use std::fs;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::support::{Client, Reply, Repository, Server, Start, multi_model, post_head, root};

const LIBSVM: &str = "text/libsvm";
const RECORDIO: &str = "application/x-recordio-protobuf";

/// The first row has the first feature below 0.5, in the second it is missing.
const ROWS: &str = "0,1\n,7\n";

/// Classifiers of trees, of two classes and of three.
fn trees() -> Repository {
    Repository::new()
        .copy("binary", "tests/fixtures/trees/binary")
        .copy("multi", "tests/fixtures/trees/multi")
}

fn xgboost(repository: &Repository, flags: &[&str]) -> Server {
    Server::start(repository, &[&["--sagemaker-dialect=xgboost"], flags].concat())
}

fn ask(server: &Server, model: &str, types: [&str; 2], body: impl AsRef<[u8]>) -> Reply {
    let named = [("content-type", types[0]), ("accept", types[1])];
    let mut headers: Vec<(&str, &str)> = named.into_iter().filter(|it| !it.1.is_empty()).collect();
    headers.push(("X-Amzn-SageMaker-Target-Model", model));
    Client::connect(server.sagemaker()).post("/invocations", &headers, body)
}

#[track_caller]
fn check(server: &Server, model: &str, types: [&str; 2], body: &str, expected: (&str, &str)) {
    let reply = ask(server, model, types, body).expect(200);
    let given = (reply.header("content-type").unwrap_or(""), &*reply.text());
    assert_eq!(given, expected, "{types:?}: {body}");
}

#[test]
fn a_prediction_is_on_each_line_whatever_is_between_the_fields() {
    let repository = trees();
    let server = xgboost(&repository, &[]);
    let csv = ("text/csv", "0.25\n0.875\n");
    for body in [ROWS, "0;1\n;7", "0\t1\r\n\t7\r\n", "0 1\nnan 7"] {
        check(&server, "binary", ["text/csv", ""], body, csv);
        check(&server, "binary", ["text/csv; charset=utf-8", "*/*"], body, csv);
    }
    check(&server, "binary", ["", ""], ROWS, csv);
    let lists = "0.25,0.25,0.5\n0.5,0.375,0.125\n";
    check(&server, "multi", ["text/csv", "text/csv"], ROWS, ("text/csv", lists));
}

#[test]
fn accept_chooses_the_form_of_a_prediction() {
    let repository = trees();
    let server = xgboost(&repository, &[]);
    let json = r#"{"predictions":[{"score":0.25},{"score":0.875}]}"#;
    check(&server, "binary", ["text/csv", "application/json"], ROWS, ("application/json", json));
    let lists = r#"{"predictions":[{"score":[0.25,0.25,0.5]},{"score":[0.5,0.375,0.125]}]}"#;
    check(&server, "multi", ["text/csv", "application/json"], ROWS, ("application/json", lists));
    let lines = ("application/jsonlines", "{\"score\":0.25}\n{\"score\":0.875}\n");
    check(&server, "binary", ["text/csv", "application/jsonlines"], ROWS, lines);
    let reply = ask(&server, "binary", ["text/csv", RECORDIO], ROWS).expect(200);
    assert_eq!(reply.header("content-type"), Some(RECORDIO));
    // Frame, `label`, its key, its value, the tensor, packed floats.
    let record = |value: f32| {
        let head = b"\x0a\x23\xd7\xce\x13\0\0\0\x12\x11\x0a\x05score\x12\x08\x12\x06\x0a\x04";
        [head, &value.to_le_bytes()[..], b"\0"].concat()
    };
    assert_eq!(reply.body, [record(0.25), record(0.875)].concat());
}

#[test]
fn libsvm_and_records_are_rows_in_which_values_may_be_missing() {
    let repository = trees();
    let server = xgboost(&repository, &[]);
    let csv = ("text/csv", "0.25\n0.875\n");
    for content_type in [LIBSVM, "text/x-libsvm", ""] {
        check(&server, "binary", [content_type, ""], "1 0:0 1:1\n0 1:7\n", csv);
    }
    let echo = Repository::of(&["type_fp32"]);
    let server = xgboost(&echo, &[]);
    let sdk = |name: &str| fs::read(root("tests/fixtures/recordio").join(name)).unwrap();
    for content_type in [RECORDIO, ""] {
        let sparse = sdk("sparse_float32_labels.rec");
        let reply = ask(&server, "type_fp32", [content_type, ""], &sparse).expect(200);
        assert_eq!(reply.text(), "1.5,nan,-2.25\nnan,1000000.0,3.0\n");
        let dense = sdk("dense_int32.rec");
        let reply = ask(&server, "type_fp32", [content_type, ""], &dense).expect(200);
        assert_eq!(reply.text(), "7.0,-1.0,0.0\n2.0,3.0,4.0\n");
    }
}

#[test]
fn the_index_of_the_first_column_can_be_set() {
    let echo = Repository::of(&["type_fp32"]);
    let row = |flags: &[&str]| {
        let server = xgboost(&echo, flags);
        ask(&server, "type_fp32", [LIBSVM, ""], "1:1 2:2").expect(200).text()
    };
    assert_eq!(row(&[]), "1.0,2.0,nan\n");
    assert_eq!(row(&["--libsvm-index-base=0"]), "nan,1.0,2.0\n");
}

#[test]
fn codes_are_those_of_the_container() {
    let repository = trees();
    let server = xgboost(&repository, &[]);
    let status = |types, body: &str| ask(&server, "binary", types, body).status;
    let empty = ask(&server, "binary", ["text/csv", ""], "");
    assert_eq!((empty.status, empty.body.len()), (204, 0));
    let chunked = [("X-Amzn-SageMaker-Target-Model", "binary"), ("transfer-encoding", "chunked")];
    let head = post_head("/invocations", &chunked, 0).replace("content-length: 0\r\n", "");
    for (chunks, status) in [("0\r\n\r\n", 204), ("3\r\n0,1\r\n0\r\n\r\n", 200)] {
        let mut client = Client::connect(server.sagemaker());
        client.send(format!("{head}{chunks}")).unwrap();
        assert_eq!(client.reply().status, status);
    }
    assert_eq!(status(["text/csv", ""], "0,x\n"), 415);
    assert_eq!(status(["text/csv", ""], "0,1\n2\n"), 415);
    assert_eq!(status([LIBSVM, ""], "word\n"), 415);
    assert_eq!(status([RECORDIO, ""], "no frame"), 415);
    assert_eq!(status(["application/x-parquet", ""], "PAR1"), 415);
    assert_eq!(status(["text/csv;label_size=5", ""], ROWS), 415);
    assert_eq!(status(["text/csv; label_size=1", ""], ROWS), 200);
    assert_eq!(status(["text/csv", ""], "0,1,2\n"), 400);
    assert_eq!(status([LIBSVM, ""], "0:1 9:1\n"), 400);
    assert_eq!(status(["text/csv", "image/png"], ROWS), 406);
    let error = ask(&server, "binary", [LIBSVM, ""], "0:1\n0:1 9:1\n").error(400);
    assert!(error.contains("libsvm record 2: index 9 is beyond the model's 2 columns"), "{error}");
}

#[test]
fn a_run_that_fails_is_the_fault_of_its_rows_in_this_dialect_only() {
    let fails = Repository::identity("fails", &[("fault", "fail"), (OBJECTIVE, "reg:gamma")]);
    let server = Server::start(&fails, &[]);
    ask(&server, "fails", ["text/csv", ""], "1,2,3,4").error(400);
    let fails = Repository::identity("fails", &[("fault", "fail")]);
    let server = Server::start(&fails, &[]);
    ask(&server, "fails", ["text/csv", ""], "1,2,3,4").error(500);
}

const OBJECTIVE: &str = "xgboost_objective";

#[test]
fn a_batch_job_gets_a_line_for_each_record_under_whatever_type_it_accepts() {
    let repository = trees();
    let flags = ["--sagemaker-batch=true", "--xgboost-csv=lines"];
    let server = xgboost(&repository, &flags);
    for (accept, content_type) in
        [("", "text/csv"), ("application/json", "application/json"), (RECORDIO, RECORDIO)]
    {
        let lines = (content_type, "0.25\n0.875\n");
        check(&server, "binary", ["text/csv", accept], ROWS, lines);
        let lists = (content_type, "[0.25, 0.25, 0.5]\n[0.5, 0.375, 0.125]\n");
        check(&server, "multi", ["text/csv", accept], ROWS, lists);
    }
    assert_eq!(ask(&server, "binary", ["text/csv", "image/png"], ROWS).status, 406);
}

#[test]
fn predictions_can_be_joined_on_one_line_as_in_older_images() {
    let repository = trees();
    let server = xgboost(&repository, &["--xgboost-csv=joined"]);
    check(&server, "binary", ["text/csv", ""], ROWS, ("text/csv", "0.25,0.875"));
}

#[test]
fn the_variable_of_the_container_selects_what_replies_say() {
    let repository = trees();
    let start = Start::new(&repository)
        .variable("SAGEMAKER_INFERENCE_OUTPUT", "predicted_label, probabilities,Predicted_Score");
    let server = start.run();
    let lines = "0,\"[0.75, 0.25]\",nan\n1,\"[0.125, 0.875]\",nan";
    check(&server, "binary", ["text/csv", ""], ROWS, ("text/csv", lines));
    let json = r#"{"predictions":[{"predicted_label":2,"probabilities":[0.25,0.25,0.5],"predicted_score":NaN}]}"#;
    check(&server, "multi", ["text/csv", "application/json"], "0,1", ("application/json", json));
    let wrong = Start::new(&repository).variable("SAGEMAKER_INFERENCE_OUTPUT", "label");
    let problem = wrong.config().unwrap_err();
    assert!(problem.contains("SAGEMAKER_INFERENCE_OUTPUT") && problem.contains("predicted_label"));
}

#[test]
fn a_model_that_names_its_objective_speaks_the_dialect_by_itself() {
    let repository = trees().file(
        "multi/config.pbtxt",
        "parameters { key: \"xgboost_objective\" value: { string_value: \"multi:softmax\" } }",
    );
    let server = Server::start(&repository, &[]);
    check(&server, "multi", ["text/csv", ""], ROWS, ("text/csv", "2.0\n0.0\n"));
    // The other answers with its label as ever, but to what only XGBoost takes.
    let labels = ("text/csv", "0\n1\n");
    check(&server, "binary", ["text/csv", ""], "0,1\n1,7\n", labels);
    check(&server, "binary", [LIBSVM, ""], "0:0\n0:1\n", ("text/csv", "0.25\n0.875\n"));
    assert_eq!(ask(&server, "binary", [LIBSVM, ""], "").status, 204);
    ask(&server, "binary", ["text/csv", ""], "").error(400);
}

#[test]
fn rows_of_the_built_in_algorithms_get_objects() {
    let repository = trees();
    let server = Server::start(&repository, &[]);
    let json = "application/json";
    let object = r#"{"label":0,"probabilities":[0.75,0.25]}"#;
    let predictions = format!("{{\"predictions\":[{object}]}}");
    for body in [
        r#"{"instances":[{"features":[0,1]}]}"#,
        r#"{"instances":[{"data":{"features":{"values":[1],"keys":[1],"shape":[2]}}}]}"#,
        r#"{"features":[0,1]}"#,
    ] {
        check(&server, "binary", [json, ""], body, (json, &predictions));
    }
    let lines = "{\"features\":[0,1]}\n{\"features\":[0,2]}\n";
    let jsonlines = "application/jsonlines";
    let expected = format!("{object}\n{object}\n");
    check(&server, "binary", [jsonlines, ""], lines, (jsonlines, &expected));
    check(&server, "binary", [json, "text/csv"], lines, ("text/csv", "0\n0\n"));
}

#[test]
fn an_only_output_is_the_score_and_records_get_records() {
    let fraud = Repository::new().copy("fraud", "model_repository/fraud");
    let server = Server::start(&fraud, &[]);
    let features = vec!["0"; 30].join(",");
    let body = format!("{{\"instances\":[{{\"features\":[{features}]}}]}}");
    let reply = ask(&server, "fraud", ["application/json", ""], body).expect(200).json();
    assert!(reply["predictions"][0]["score"].is_number(), "{reply}");

    let echo = Repository::of(&["type_fp32"]);
    let server = Server::start(&echo, &[]);
    let path = root("tests/fixtures/recordio/sparse_float32_labels.rec");
    let sparse = fs::read(path).unwrap();
    let reply = ask(&server, "type_fp32", [RECORDIO, "application/json"], &sparse).expect(200);
    let json = r#"{"predictions":[{"score":[1.5,0.0,-2.25]},{"score":[0.0,1000000.0,3.0]}]}"#;
    assert_eq!(reply.text(), json, "what a record leaves out is zero to these algorithms");
    let reply = ask(&server, "type_fp32", [RECORDIO, ""], &sparse).expect(200);
    assert_eq!(reply.header("content-type"), Some(RECORDIO));
    assert!(reply.body.starts_with(b"\x0a\x23\xd7\xce"));
    let error = ask(&server, "type_fp32", [RECORDIO, ""], "no frame").error(400);
    assert!(error.contains("RecordIO record 1: at byte 0"), "{error}");
}

const PORTS: [&str; 4] =
    ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"];

/// What XGBoost answered for a file of several targets: the rows that have no infinity, and for each its numbers.
fn answers(model: &str) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let text = fs::read(root("tests/fixtures/forests/xgboost-3.4.1/expected.json")).unwrap();
    let all: Value = serde_json::from_slice(&text).unwrap();
    let rows = |tensor: &Value| -> Vec<Vec<f32>> {
        let raw = STANDARD.decode(tensor["raw"].as_str().unwrap()).unwrap();
        let numbers = raw.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap()));
        let numbers: Vec<f32> = numbers.collect();
        let width = tensor["shape"][1].as_u64().unwrap() as usize;
        numbers.chunks(width).map(<[f32]>::to_vec).collect()
    };
    let of_model = &all[model];
    let asked = rows(of_model.get("rows").unwrap_or(&all["rows"]));
    let pairs = asked.into_iter().zip(rows(&of_model["predictions"]));
    pairs.filter(|(row, _)| row.iter().all(|it| !it.is_infinite())).take(8).unzip()
}

fn forest(file: &str) -> Repository {
    let path = format!("tests/fixtures/forests/{file}");
    Repository::new().copy("model/xgboost-model", &path)
}

fn field(value: f32) -> String {
    if value.is_nan() { String::new() } else { value.to_string() }
}

#[test]
fn of_several_labels_targets_or_quantiles_a_prediction_is_all_that_xgboost_predicts() {
    for (model, columns) in [("labels", 3), ("targets", 2), ("quantiles", 3), ("vectors", 2)] {
        let repository = forest(&format!("xgboost-3.4.1/{model}.ubj"));
        let server = Start::command(&["serve", &repository.at("model")]).flags(&PORTS).run();
        let (rows, expected) = answers(model);
        assert!(4 <= rows.len() && columns == expected[0].len(), "{model}");
        let line = |row: &Vec<f32>| row.iter().copied().map(field).collect::<Vec<_>>().join(",");
        let body: String = rows.iter().map(|it| line(it) + "\n").collect();
        let ask = |accept| {
            let headers = [("content-type", "text/csv"), ("accept", accept)];
            Client::connect(server.sagemaker()).post("/invocations", &headers, &body).expect(200)
        };
        let csv = ask("text/csv").text();
        let numbers = |line: &str| line.split(',').map(|it| it.parse().unwrap()).collect();
        let given: Vec<Vec<f32>> = csv.lines().map(numbers).collect();
        assert_eq!(given, expected, "{model}");
        let json = ask("application/json").json();
        let scores = json["predictions"].as_array().unwrap().iter().map(|it| {
            let scores = it["score"].as_array().unwrap().iter();
            scores.map(|it| it.as_f64().unwrap() as f32).collect::<Vec<f32>>()
        });
        assert_eq!(scores.collect::<Vec<_>>(), expected, "{model}");
    }
}

#[test]
fn of_a_pickled_booster_one_column_may_be_left_out_and_of_a_file_any_number() {
    let status = |file: &str, body: &str| {
        let repository = forest(file);
        let server = Start::command(&["serve", &repository.at("model")]).flags(&PORTS).run();
        let mut client = Client::connect(server.sagemaker());
        client.post("/invocations", &[("content-type", "text/csv")], body)
    };
    let (six, seven) = ("1,2,3,4,5,6\n", "1,2,3,4,5,6,7\n");
    assert_eq!(status("xgboost-3.2.0/logistic.ubj", six).status, 200);
    assert_eq!(status("xgboost-3.2.0/logistic.pkl", seven).status, 200);
    let error = status("xgboost-3.2.0/logistic.pkl", six).error(400);
    assert!(
        error.contains("has 6 values, the model takes 8; it is a Booster in a pickle"),
        "{error}"
    );
}

#[test]
fn a_multi_model_endpoint_answers_as_the_containers_handler() {
    let repository = forest("xgboost-3.4.1/labels.ubj");
    let server = multi_model::start(&repository, &["--sagemaker-inference-output=labels"]);
    let body = serde_json::json!({"model_name": "m", "url": repository.at("model")}).to_string();
    let mut client = Client::connect(server.sagemaker());
    client.post("/models", &[("content-type", "application/json")], body).expect(200);
    let (_, expected) = answers("labels");
    let (rows, _) = answers("labels");
    let body: Vec<String> = rows[..2]
        .iter()
        .map(|row| row.iter().copied().map(field).collect::<Vec<_>>().join(","))
        .collect();
    let mut ask = |accept| {
        let headers: Vec<_> = [("content-type", "text/csv"), ("accept", accept)]
            .into_iter()
            .filter(|it| !it.1.is_empty())
            .collect();
        client.post("/models/m/invoke", &headers, body.join("\n")).expect(200)
    };
    let usual = ask("");
    assert_eq!(usual.header("content-type"), Some("application/json"));
    let numbers = |it: &Value| it.as_f64().unwrap() as f32;
    let given: Vec<Vec<f32>> = usual
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_array().unwrap().iter().map(numbers).collect())
        .collect();
    assert_eq!(given, expected[..2]);
    assert_eq!(ask("application/json").text(), usual.text());
    let csv = ask("text/csv").text();
    let lists = usual.text().replace(',', ", ").replace("], [", "],[");
    assert_eq!(csv, lists.strip_prefix('[').unwrap().strip_suffix(']').unwrap());
}
