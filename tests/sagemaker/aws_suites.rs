//! What the local tests of AWS's own containers ask of a container over HTTP: TensorFlow Serving's, and those of the
//! inference toolkit and XGBoost, which load several models. The names are those of their cases.

use serde_json::{Value, json};

use crate::support::{Client, Process, Reply, Repository};

const MODELS: &str = "tests/fixtures/converted";

/// A model of numbers, `y = x / 2 + 3`, and one of rows of any width, `y = 2 x`, behind TensorFlow Serving's container.
fn tensorflow() -> (Repository, Process) {
    let open = "max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }";
    let repository = Repository::new()
        .copy("half_plus_three", &format!("{MODELS}/half_plus_three"))
        .copy("wide", &format!("{MODELS}/unknown_rank"))
        .file("wide/config.pbtxt", open);
    let environment = [
        ("SAGEMAKER_TFS_NGINX_LOGLEVEL", "info"),
        ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "half_plus_three"),
    ];
    let mut process = Process::start(&repository, &[], &environment);
    process.wait_ready();
    (repository, process)
}

/// An invocation of a model as the suite makes them.
fn invoke(process: &mut Process, model: &str, kind: &str, body: &str) -> Reply {
    let attributes = format!("tfs-model-name={model},tfs-method=predict");
    let headers = [
        ("content-type", kind),
        ("accept", "*/*"),
        ("x-amzn-sagemaker-custom-attributes", &*attributes),
    ];
    Client::connect(process.address("sagemaker")).post("/invocations", &headers, body)
}

#[test]
fn tensorflow_servings_container_answers_predictions_whatever_came() {
    let (_repository, mut process) = tensorflow();
    let lines = "[1.0, 2.0, 5.0]\n[1.0, 2.0, 5.0]";
    let objects = "{\"x\": [1.0, 2.0, 5.0]}\n{\"x\": [1.0, 2.0, 5.0]}";
    let numbers = "{\"instances\": [1.0, 2.0, 5.0]}";
    let rows = "{\"instances\": [[1.0, 2.0, 5.0], [1.0, 2.0, 5.0]]}";
    let (three, row) = (json!([3.5, 4.0, 5.5]), json!([2.0, 4.0, 10.0]));
    let two = json!([row, row]);
    let (json_type, csv) = ("application/json", "text/csv");
    let cases = [
        ("predict", "half_plus_three", json_type, numbers, three.clone()),
        ("predict_two_instances", "wide", json_type, rows, two.clone()),
        ("predict_jsons_json_content_type", "wide", json_type, lines, two.clone()),
        ("predict_jsonlines", "wide", "application/jsonlines", lines, two.clone()),
        ("predict_jsons", "wide", "application/jsons", lines, two.clone()),
        ("predict_jsons_2", "wide", json_type, objects, two.clone()),
        ("predict_generic_json", "wide", json_type, "[1.0, 2.0, 5.0]", json!([row])),
        (
            "predict_generic_json_two_instances",
            "wide",
            json_type,
            &rows[14..rows.len() - 1],
            two.clone(),
        ),
        ("predict_csv", "half_plus_three", csv, "1.0", json!([3.5])),
        ("predict_csv_with_zero", "half_plus_three", csv, "0.0", json!([3.0])),
        (
            "predict_csv_one_instance_three_values_with_zero",
            "wide",
            csv,
            "0.0,2.0,5.0",
            json!([[0.0, 4.0, 10.0]]),
        ),
        ("predict_csv_one_instance_three_values", "wide", csv, "1.0,2.0,5.0", json!([row])),
        ("predict_csv_two_instances_three_values", "wide", csv, "1.0,2.0,5.0\n1.0,2.0,5.0", two),
        ("predict_csv_three_instances", "half_plus_three", csv, "1.0\n2.0\n5.0", three.clone()),
    ];
    for (name, model, kind, body, expected) in cases {
        for _ in 0..2 {
            let reply = invoke(&mut process, model, kind, body).expect(200);
            assert_eq!(reply.json(), json!({"predictions": expected}), "{name}");
        }
    }
    // predict_csv_wide_categorical_input
    let row = vec!["0.0,1.0"; 15].join(",");
    let reply = invoke(&mut process, "wide", csv, &format!("{row}\n{row}\n")).expect(200).json();
    let sum = |it: &Value| -> f64 { it.as_array().unwrap().iter().filter_map(Value::as_f64).sum() };
    let sums: Vec<f64> = reply["predictions"].as_array().unwrap().iter().map(sum).collect();
    assert_eq!(sums, [30.0, 30.0], "{reply}");
    // predict_no_custom_attributes_header
    let kind = [("content-type", json_type)];
    let mut client = Client::connect(process.address("sagemaker"));
    let reply = client.post("/invocations", &kind, numbers).expect(200);
    assert_eq!(reply.json(), json!({"predictions": three}));
    // predict_bad_input, predict_bad_input_instances
    for body in ["whatever", "{\"junk\": \"data\"}"] {
        let reply = invoke(&mut process, "half_plus_three", json_type, body).expect(400).json();
        assert!(reply["error"].is_string(), "{reply}");
    }
}

/// An endpoint of several models, and its replies' status and JSON.
struct Endpoint(Process, Repository);

impl Endpoint {
    fn start(environment: &[(&str, &str)]) -> Endpoint {
        let repository = Repository::new()
            .copy("half_plus_three", &format!("{MODELS}/half_plus_three"))
            .copy("other", &format!("{MODELS}/half_plus_three"))
            .copy("trees", "tests/fixtures/trees/binary");
        let root = format!("--sagemaker-models-root={}", repository.at(""));
        let ports = ["http", "grpc", "sagemaker", "metrics"].map(|it| format!("--{it}-port=0"));
        let mut args = vec!["--drain-delay-secs=0", &root];
        args.extend(ports.iter().map(String::as_str));
        let environment = [&[("SAGEMAKER_MULTI_MODEL", "true")], environment].concat();
        let mut process = Process::command(&args, &environment);
        process.address("sagemaker");
        Endpoint(process, repository)
    }

    fn ask(&mut self, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
        let kind = [("content-type", "application/json")];
        let mut client = Client::connect(self.0.address("sagemaker"));
        let reply = client.request(method, path, &kind, body.map(str::as_bytes));
        (reply.status, reply.json())
    }

    fn load(&mut self, model: &str) -> (u16, Value) {
        let body = json!({"model_name": model, "url": self.1.at(model)}).to_string();
        self.ask("POST", "/models", Some(&body))
    }

    fn unload(&mut self, model: &str) -> (u16, Value) {
        self.ask("DELETE", &format!("/models/{model}"), None)
    }

    fn list(&mut self) -> (u16, Value) {
        self.ask("GET", "/models", None)
    }

    fn invoke(&mut self, model: &str) -> (u16, Value) {
        let body = Some("{\"instances\": [1.0, 2.0, 5.0]}");
        self.ask("POST", &format!("/models/{model}/invoke"), body)
    }
}

/// `{"modelName", "modelUrl"}` of these models.
fn entries(endpoint: &Endpoint, models: &[&str]) -> Value {
    let entry = |it: &&str| json!({"modelName": it, "modelUrl": endpoint.1.at(it)});
    json!({"models": models.iter().map(entry).collect::<Vec<_>>()})
}

#[test]
fn a_multi_model_endpoint_has_the_words_of_tensorflow_servings_container_in_its_place() {
    let mut endpoint = Endpoint::start(&[("SAGEMAKER_TFS_NGINX_LOGLEVEL", "info")]);
    // test_ping, test_container_start_invocation_fail, test_delete_unloaded_model
    let mut client = Client::connect(endpoint.0.address("sagemaker"));
    client.get("/ping").expect(200);
    let (status, reply) = endpoint.invoke("half_plus_three");
    assert_eq!(status, 404);
    assert!(reply.to_string().contains("Model half_plus_three is not loaded yet."), "{reply}");
    let (status, reply) = endpoint.unload("non-existing-model");
    assert_eq!(status, 404);
    assert!(reply.to_string().contains("Model non-existing-model is not loaded yet"), "{reply}");
    // test_delete_model, test_load_one_model_two_times
    let (status, reply) = endpoint.load("half_plus_three");
    assert_eq!(status, 200);
    assert!(reply.to_string().contains("Successfully loaded model half_plus_three"), "{reply}");
    let (status, reply) = endpoint.load("half_plus_three");
    assert_eq!(status, 409);
    assert!(reply.to_string().contains("Model half_plus_three is already loaded"), "{reply}");
    let predictions = json!({"predictions": [3.5, 4.0, 5.5]});
    assert_eq!(endpoint.invoke("half_plus_three"), (200, predictions));
    assert_eq!(endpoint.unload("half_plus_three").0, 200);
    let (status, reply) = endpoint.invoke("half_plus_three");
    assert_eq!(status, 404);
    assert!(reply.to_string().contains("Model half_plus_three is not loaded yet."), "{reply}");
    // test_load_non_existing_model
    let (status, reply) = endpoint.load("gone");
    let expected =
        format!("Could not find valid base path {} for servable gone", endpoint.1.at("gone"));
    assert_eq!(status, 404);
    assert!(reply.to_string().contains(&expected), "{reply}");
}

#[test]
fn a_multi_model_endpoint_has_the_words_of_the_multi_model_server() {
    let mut endpoint = Endpoint::start(&[]);
    // The inference toolkit: test_ping, test_list_models_empty, test_load_models
    let mut client = Client::connect(endpoint.0.address("sagemaker"));
    client.get("/ping").expect(200);
    assert_eq!(endpoint.list(), (200, json!({"models": []})));
    for models in [&["half_plus_three"][..], &["half_plus_three", "other"]] {
        let (status, reply) = endpoint.load(models[models.len() - 1]);
        assert_eq!((status, &reply["status"]), (200, &json!("Workers scaled")));
        let listed = entries(&endpoint, models);
        assert_eq!(endpoint.list(), (200, listed));
    }
    // test_unload_models, test_load_non_existing_model, test_unload_non_existing_model, test_load_model_multiple_times
    let (status, reply) = endpoint.unload("half_plus_three");
    let expected = json!("Model \"half_plus_three\" unregistered");
    assert_eq!((status, &reply["status"]), (200, &expected));
    let listed = entries(&endpoint, &["other"]);
    assert_eq!(endpoint.list(), (200, listed));
    assert_eq!(endpoint.load("banana").0, 404);
    assert_eq!(endpoint.unload("half_plus_three").0, 404);
    assert_eq!(endpoint.load("other").0, 409);
    // XGBoost's container: test_container_start_invocation_fail, test_load_and_unload_model, which with a second model
    // is test_load_and_unload_two_models, and test_load_one_model_two_times
    let (status, reply) = endpoint.invoke("half_plus_three");
    assert_eq!((status, &reply["message"]), (404, &json!("Model not found: half_plus_three")));
    assert_eq!(endpoint.load("trees").1["status"], "Workers scaled");
    let csv = [("content-type", "text/csv")];
    let mut client = Client::connect(endpoint.0.address("sagemaker"));
    client.post("/models/trees/invoke", &csv, "0,1").expect(200);
    let (status, reply) = endpoint.load("trees");
    assert_eq!((status, &reply["message"]), (409, &json!("Model trees is already registered.")));
    let (status, reply) = endpoint.unload("trees");
    assert_eq!((status, &reply["status"]), (200, &json!("Model \"trees\" unregistered")));
    let reply = client.post("/models/trees/invoke", &csv, "0,1");
    assert_eq!(reply.error(404), "Model not found: trees");
}
