//! TensorFlow Serving's REST API.

use serde_json::json;

use crate::support::{Client, Page, Repository, Server, Start, wait_for};

#[test]
fn rows_in_are_predictions_out_and_columns_in_are_outputs_out() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    let predict = |body: &str| server.post("/v1/models/copy:predict", body).expect(200).text();
    let rows = "[[1.0,2.0,3.0,4.0],[5.0,6.0,7.0,8.0]]";
    for body in [
        r#"{"instances":[[1,2,3,4],[5,6,7,8]]}"#,
        r#"{"signature_name":"serving_default","instances":[[1,2,3,4],[5,6,7,8]]}"#,
        r#"{"instances":[{"INPUT0":[1,2,3,4]},{"INPUT0":[5,6,7,8]}]}"#,
    ] {
        assert_eq!(predict(body), format!("{{\"predictions\":{rows}}}"), "{body}");
    }
    for body in
        [r#"{"inputs":[[1,2,3,4],[5,6,7,8]]}"#, r#"{"inputs":{"INPUT0":[[1,2,3,4],[5,6,7,8]]}}"#]
    {
        assert_eq!(predict(body), format!("{{\"outputs\":{rows}}}"), "{body}");
    }
}

#[test]
fn several_inputs_and_outputs_go_by_their_names() {
    let repository = Repository::of(&["two_outputs"]);
    let server = Server::start(&repository, &[]);
    let predict = |body| server.post("/v1/models/two_outputs:predict", body).expect(200).json();
    let row = json!({"sum": vec![3.0; 4], "difference": vec![1.0; 4], "product": vec![2.0; 4]});
    let rows = predict(r#"{"instances":[{"a":[2,2,2,2],"b":[1,1,1,1]}]}"#);
    assert_eq!(rows, json!({"predictions": [row]}));
    let columns = predict(r#"{"inputs":{"a":[[2,2,2,2]],"b":[[1,1,1,1]]}}"#);
    assert_eq!(columns["outputs"]["sum"], json!([[3.0, 3.0, 3.0, 3.0]]));
}

#[test]
fn strings_may_be_base64_in_and_are_where_they_must_be_out() {
    let repository = Repository::of(&["type_string"]);
    let server = Server::start(&repository, &[]);
    let body = r#"{"instances":[["text",{"b64":"/w=="},"é"]]}"#;
    let reply = server.post("/v1/models/type_string:predict", body).expect(200).json();
    assert_eq!(reply, json!({"predictions": [["text", {"b64": "/w=="}, "é"]]}));
    // In lines, with other padding or none, as TensorFlow Serving's decoder takes it.
    let body = r#"{"instances":[[{"b64":"/w\n=="},{"b64":" /w"},{"b64":"/w..\r\n"}]]}"#;
    let reply = server.post("/v1/models/type_string:predict", body).expect(200).json();
    let byte = json!({"b64": "/w=="});
    assert_eq!(reply, json!({"predictions": [[byte, byte, byte]]}));
    for wrong in ["/w=", "/w==A", "_w=="] {
        let body = format!(r#"{{"instances":[[{{"b64":"{wrong}"}},"","" ]]}}"#);
        server.post("/v1/models/type_string:predict", &body).error(400);
    }
}

#[test]
fn a_version_may_be_named() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    let body = r#"{"instances":[[1,2,3,4]]}"#;
    server.post("/v1/models/copy/versions/1:predict", body).expect(200);
    server.post("/v1/models/copy/versions/2:predict", body).error(404);
    server.post("/v1/models/none:predict", body).error(404);
    let unknown = server.post("/v1/models/copy/labels/stable:predict", body).error(400);
    assert!(unknown.contains("label 'stable'"), "{unknown}");
    server.get("/v1/models/copy/labels/stable").error(400);
    server.get("/v1/models/copy/labels/stable/metadata").error(400);
    server.post("/v1/models/none/labels/stable:predict", body).error(404);
}

#[test]
fn addresses_may_be_in_any_case_and_malformed_ones_are_the_callers_mistake() {
    let repository = Repository::identity("a b", &[]);
    let server = Server::start(&repository, &[]);
    let body = r#"{"instances":[[1,2,3,4]]}"#;
    server.post("/V1/Models/a%20b/Versions/1:Predict", body).expect(200);
    server.get("/v1/MODELS/a%20b/METADATA").expect(200);
    for path in ["/v1/models/a%20b/more", "/v1/models/a%20b/versions/x"] {
        let reply = server.get(path);
        assert!(reply.error(400).contains("address"), "{path}");
    }
    let both = server.post("/v1/models/m/versions/1/labels/x:predict", body).error(400);
    assert!(both.contains("given both"), "{both}");
    server.get("/v1/models/a%20b:predict").error(405);
}

#[test]
fn an_error_is_one_sentence_and_its_name_in_the_log_is_in_a_header() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    for (path, status) in [("/v1/models/none:predict", 404), ("/v1/models/copy:guess", 400)] {
        let reply = server.client().post(path, &[("x-request-id", "mine")], "{}").expect(status);
        let body = reply.json();
        let body = body.as_object().unwrap();
        assert_eq!(body.keys().collect::<Vec<_>>(), ["error"], "{body:?}");
        assert_eq!(reply.header("x-request-id"), Some("mine"));
    }
    let page = Page::read(server.http());
    assert_eq!(page.answers("tensorflow_serving", 400), 1.0);
    assert_eq!(page.answers("tensorflow_serving", 404), 1.0);
}

/// What it is given, as scores of the classes `cat`, `dog` and one without a name.
fn scores() -> Repository {
    let config = "backend: \"identity\"\nmax_batch_size: 8\n\
        input { name: \"x\" data_type: TYPE_FP32 dims: [ 3 ] }\n\
        output { name: \"y\" data_type: TYPE_FP32 dims: [ 3 ] label_filename: \"labels.txt\" }\n";
    Repository::new().model("scores", config).file("scores/labels.txt", "cat\ndog\n")
}

#[test]
fn examples_are_classified_by_the_label_file() {
    let server = Server::start(&scores(), &[]);
    let body = r#"{"signature_name": "serving_default", "context": {"x": [0, 0, 1]},
        "examples": [{"x": [0.5, 0.25, 2]}, {"x": [NaN, -Infinity, 1], "more": "?"}, {}]}"#;
    let reply = server.post("/v1/models/scores:classify", body).expect(200).text();
    let expected = r#"{"results":[[["cat",0.5],["dog",0.25],["",2.0]],[["cat",NaN],["dog",-Infinity],["",1.0]],[["cat",0.0],["dog",0.0],["",1.0]]]}"#;
    assert_eq!(reply, expected);
    server.post("/v1/models/scores/versions/1:classify", body).expect(200);
}

#[test]
fn labels_and_scores_may_be_two_outputs() {
    let port = |kind: &str, at, dtype| {
        format!("{kind} {{ name: \"{kind}{at}\" data_type: {dtype} dims: [ 2 ] }}\n")
    };
    let config =
        ["TYPE_STRING", "TYPE_FP32"].iter().enumerate().fold(
            "backend: \"identity\"\nmax_batch_size: 8\n".to_owned(),
            |config, (at, dtype)| config + &port("input", at, dtype) + &port("output", at, dtype),
        );
    let server = Server::start(&Repository::new().model("pair", &config), &[]);
    let body = r#"{"examples": [{"input0": ["a", {"b64": "Yg=="}], "input1": [1, 2]}]}"#;
    let reply = server.post("/v1/models/pair:classify", body).expect(200).json();
    assert_eq!(reply, json!({"results": [[["a", 1.0], ["b", 2.0]]]}));
}

#[test]
fn examples_are_regressed_by_a_model_of_one_number() {
    let repository = Repository::new().copy("fraud", "model_repository/fraud");
    let server = Server::start(&repository, &[]);
    let row = vec!["0.5"; 30].join(",");
    let instances = format!("{{\"instances\":[[{row}],[{row}]]}}");
    let predicted = server.post("/v1/models/fraud:predict", &instances).expect(200).json();
    let examples = format!("{{\"examples\":[{{\"input\":[{row}]}},{{\"input\":[{row}]}}]}}");
    let regressed = server.post("/v1/models/fraud:regress", &examples).expect(200).json();
    let results: Vec<_> = predicted["predictions"].as_array().unwrap().iter().collect();
    let results: Vec<_> = results.iter().map(|it| it[0].clone()).collect();
    assert_eq!(regressed, json!({ "results": results }));
}

#[test]
fn what_a_model_cannot_do_is_said_with_what_it_would_take() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    let body = r#"{"examples":[{"INPUT0":[1,2,3,4]}]}"#;
    let error = server.post("/v1/models/copy:classify", body).error(400);
    assert!(error.contains("label_filename"), "{error}");
    let error = server.post("/v1/models/copy:regress", body).error(400);
    assert!(error.contains("[rows, 1]"), "{error}");
}

#[test]
fn wrong_examples_are_named_by_index_and_feature() {
    let server = Server::start(&scores(), &[]);
    for (body, part) in [
        ("{}", "'examples'"),
        (r#"{"examples":[]}"#, "at least one"),
        (r#"{"examples":[{"x":[1,2,3]},{"x":[1,2,"3"]}]}"#, "examples[1].x[2]"),
        (r#"{"examples":[{"x":[1,2,3]},{"X":[1,2,3]}]}"#, "examples[1]: expected the feature 'x'"),
        (r#"{"examples":[{"x":[1,2]}]}"#, "'x'"),
        (r#"{"signature_name":"other","examples":[{"x":[1,2,3]}]}"#, "'other'"),
    ] {
        let error = server.post("/v1/models/scores:classify", body).error(400);
        assert!(error.contains(part), "{body}: {error}");
    }
}

#[test]
fn a_version_that_was_unloaded_has_ended_well_and_one_that_failed_says_why() {
    let repository = Repository::identity("copy", &[]);
    let flags = ["--model-control-mode=explicit", "--load-model=copy"];
    let server = Server::start(&repository, &flags);
    server.post("/v2/repository/models/copy/unload", "").expect(200);
    // The answer does not wait for the last instance to go.
    let ended = wait_for("the end of the version", || {
        let told = server.get("/v1/models/copy").expect(200).json();
        (told["model_version_status"][0]["state"] == "END").then_some(told)
    });
    let expected = json!({"error_code": "OK", "error_message": ""});
    assert_eq!(ended["model_version_status"][0]["status"], expected);
}

#[test]
fn a_version_that_is_being_loaded_says_so() {
    let gate = Repository::new();
    let repository = Repository::identity("slow", &[("creation_gate", &gate.at("open"))]);
    let server = Start::new(&repository).launch();
    let state = |path: &str| {
        let told = Client::connect(server.http()).get(path);
        (told.status == 200).then(|| told.json()["model_version_status"][0]["state"].clone())
    };
    wait_for("the model to be found and begun", || {
        state("/v1/models/slow").filter(|it| it == "LOADING").map(drop)
    });
    let _open = gate.file("open", "");
    server.wait_loaded();
    assert_eq!(state("/v1/models/slow/versions/1").unwrap(), "AVAILABLE");
}

#[test]
fn versions_are_listed_from_the_highest_down() {
    let repository = Repository::new()
        .model(
            "m",
            "backend: \"identity\"\nmax_batch_size: 8\nversion_policy { all {} }\n\
            input { name: \"x\" data_type: TYPE_FP32 dims: [ 1 ] }\n\
            output { name: \"y\" data_type: TYPE_FP32 dims: [ 1 ] }\n",
        )
        .file("m/3/empty", "");
    let server = Server::start(&repository, &[]);
    let states = server.get("/v1/models/m").expect(200).json();
    let states = states["model_version_status"].as_array().unwrap();
    let versions: Vec<_> = states.iter().map(|it| it["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["3", "1"]);
    server.get("/v1/models/m/versions/2").error(404);
}

#[test]
fn the_status_says_of_each_version_whether_it_is_available_and_why_not() {
    let repository =
        Repository::identity("copy", &[]).copy("corrupt", "tests/fixtures/broken/corrupt");
    let server = Server::start(&repository, &[]);
    let expected = json!({"model_version_status": [{
        "version": "1",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }]});
    assert_eq!(server.get("/v1/models/copy").expect(200).json(), expected);
    assert_eq!(server.get("/v1/models/copy/versions/1").expect(200).json(), expected);
    let failed = server.get("/v1/models/corrupt").expect(200).json();
    let failed = &failed["model_version_status"][0];
    assert_eq!(failed["state"], "END");
    assert!(!failed["status"]["error_message"].as_str().unwrap().is_empty(), "{failed}");
    server.get("/v1/models/none").error(404);
}

#[test]
fn metadata_have_the_names_types_and_shapes_of_the_only_signature() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    let metadata = server.get("/v1/models/copy/metadata").expect(200).json();
    assert_eq!(metadata["model_spec"]["name"], "copy");
    assert_eq!(metadata["model_spec"]["version"], "1");
    let signature = &metadata["metadata"]["signature_def"]["signature_def"]["serving_default"];
    let input = &signature["inputs"]["INPUT0"];
    assert_eq!(input["dtype"], "DT_FLOAT");
    assert_eq!(input["tensor_shape"]["dim"][0]["size"], "-1");
    assert_eq!(input["tensor_shape"]["dim"][1]["size"], "4");
    assert_eq!(signature["method_name"], "tensorflow/serving/predict");
}

#[test]
fn what_is_wrong_is_named() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    for (body, part) in [
        ("{}", "'instances' or 'inputs'"),
        (r#"{"instances":[[1,2,3,4]],"inputs":[[1,2,3,4]]}"#, "both"),
        (r#"{"instances":[[1,2,3]]}"#, "INPUT0"),
        (r#"{"instances":[[1,2,3,"x"]]}"#, "instances[0][3]"),
        (r#"{"instances":[[1,2,3,4],[1,2]]}"#, "instances[1]"),
        (r#"{"instances":[{"INPUT1":[1,2,3,4]}]}"#, "INPUT1"),
        (r#"{"signature_name":"other","instances":[[1,2,3,4]]}"#, "'other'"),
        (r#"{"instances":7}"#, "instances"),
    ] {
        let error = server.post("/v1/models/copy:predict", body).error(400);
        assert!(error.contains(part), "{body}: {error}");
    }
}
