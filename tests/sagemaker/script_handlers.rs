//! Archives of SageMaker's TensorFlow Serving container with a script: its handlers stand around the SavedModel.

use serde_json::{Value, json};

use crate::support::{
    Client, Process, Reply, Repository, Start,
    python::python,
    savedmodels::{FIXTURES, library},
};

const JSON: (&str, &str) = ("content-type", "application/json");
const CSV: (&str, &str) = ("content-type", "text/csv");
const ATTRIBUTES: &str = "x-amzn-sagemaker-custom-attributes";

/// Numbers of a table in, and numbers with a bar between them out.
const PAIR: &str = r#"
import json

def input_handler(data, context):
    if context.request_content_type != "text/csv":
        raise ValueError("Unsupported content type " + context.request_content_type)
    return json.dumps({"instances": [float(it) if it != "x" else it for it in data.read().decode().split(",")]})

def output_handler(response, context):
    if response.status_code != 200:
        raise Exception(response.content.decode("utf-8"))
    return "|".join(map(str, response.json()["predictions"])), context.accept_header
"#;

/// Asks the model over its address, and says what it was told.
const HANDLER: &str = r#"
import json
import urllib.request

def handler(data, context):
    with urllib.request.urlopen(urllib.request.Request(context.rest_uri, data.read())) as answer:
        said = json.load(answer)
    told = context._replace(channel=None, grpc_port=None, rest_uri=context.rest_uri.rpartition("/v1/")[2])
    return json.dumps({"said": said, "told": told._asdict()}), "application/x-own"
"#;

/// `muster serve` as the platform starts it; `None` without TensorFlow or Python.
fn hosted(repository: &Repository) -> Option<Process> {
    let (library, python) = (library()?, python("requirements.txt")?);
    let path = repository.at("model");
    let platform = [("SAGEMAKER_MODEL_PATH", &*path), ("SAGEMAKER_BIND_TO_PORT", "0")];
    let python = format!("--python={}", python.display());
    Some(Process::command(&["serve", &library, &python], &platform))
}

fn connect(process: &mut Process) -> Client {
    process.wait_ready();
    Client::connect(process.address("sagemaker"))
}

fn invoke(client: &mut Client, headers: &[(&str, &str)], body: &str) -> Reply {
    client.post("/invocations", headers, body)
}

fn archive(place: &str, model: &str, script: &str) -> Repository {
    Repository::new()
        .copy(&format!("model/{place}"), &format!("{FIXTURES}/{model}/1"))
        .file("model/code/inference.py", script)
}

#[test]
fn the_handlers_of_a_script_stand_around_the_model() {
    for place in ["1", "half_plus_three/00000123", "export/Servo/7"] {
        let repository = archive(place, "half_plus_three", PAIR);
        let Some(mut server) = hosted(&repository) else { return };
        let mut client = connect(&mut server);
        client.get("/ping").expect(200);
        let reply = invoke(&mut client, &[CSV, ("accept", "text/x-bars")], "1,2,5").expect(200);
        assert_eq!(reply.header("content-type"), Some("text/x-bars"), "{place}");
        assert_eq!(reply.text(), "3.5|4.0|5.5", "{place}");
        // What either side refuses is the script's to say.
        let reply = invoke(&mut client, &[JSON], "[1]").expect(500);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.json(), json!({"error": "Unsupported content type application/json"}));
        let said = invoke(&mut client, &[CSV], "x").expect(500).json();
        let said: Value = serde_json::from_str(said["error"].as_str().unwrap()).unwrap();
        assert!(said["error"].as_str().unwrap().contains("instances"), "{said}");
    }
}

#[test]
fn a_request_names_the_model_its_version_and_what_to_do() {
    let repository = archive("half/1", "half_plus_two", PAIR)
        .copy("model/half/3", &format!("{FIXTURES}/half_plus_three/1"))
        .copy("model/other/1", &format!("{FIXTURES}/half_plus_two/1"));
    let Some(mut server) = hosted(&repository) else { return };
    let mut client = connect(&mut server);
    let mut asked = |attributes: &str| {
        invoke(&mut client, &[CSV, (ATTRIBUTES, attributes)], "1,2,5").expect(200).text()
    };
    assert_eq!(asked("trace=7"), "3.5|4.0|5.5");
    assert_eq!(asked("tfs-model-version=1"), "2.5|3.0|4.5");
    assert_eq!(asked("tfs-model-name=other"), "2.5|3.0|4.5");
    let unknown = (ATTRIBUTES, "tfs-model-name=none");
    invoke(&mut client, &[CSV, unknown], "1").expect(404);
}

#[test]
fn one_handler_asks_the_model_over_its_address_and_is_told_of_the_request() {
    let repository = archive("1", "half_plus_two", HANDLER);
    let Some(mut server) = hosted(&repository) else { return };
    let mut client = connect(&mut server);
    let body = r#"{"instances": [1.0, 2.0]}"#;
    let attributes = (ATTRIBUTES, "tfs-model-version=1,tfs-method=predict");
    let reply = invoke(&mut client, &[JSON, attributes], body).expect(200);
    assert_eq!(reply.header("content-type"), Some("application/x-own"));
    let told = json!({
        "model_name": null,
        "model_version": "1",
        "method": "predict",
        "rest_uri": "models/model/versions/1:predict",
        "grpc_port": null,
        "channel": null,
        "custom_attributes": attributes.1,
        "request_content_type": "application/json",
        "accept_header": "application/json",
        "content_length": body.len(),
    });
    assert_eq!(reply.json(), json!({"said": {"predictions": [2.5, 3.0]}, "told": told}));
}

#[test]
fn a_model_is_not_healthy_while_its_script_cannot_load() {
    let repository = archive("1", "half_plus_two", "def input_handler(data, context): pass\n");
    let Some(mut server) = hosted(&repository) else { return };
    server.wait_for_line("expected a function handler, or both input_handler and output_handler");
    let mut client = Client::connect(server.address("sagemaker"));
    assert_eq!(client.get("/ping").status, 503);
    assert_eq!(invoke(&mut client, &[CSV], "1").status, 503);
}

#[test]
fn each_model_of_an_endpoint_has_its_own_script() {
    let (Some(library), Some(python)) = (library(), python("requirements.txt")) else { return };
    let python = format!("--python={}", python.display());
    let add = |it: Repository, (key, model, sign): (&str, &str, &str)| {
        it.copy(&format!("{key}/1"), &format!("{FIXTURES}/{model}/1"))
            .file(&format!("{key}/code/inference.py"), PAIR.replace('|', sign))
    };
    let models = [("a", "half_plus_two", "|"), ("b", "half_plus_three", ";")];
    let repository = models.into_iter().fold(Repository::new(), add);
    let root = format!("--sagemaker-models-root={}", repository.at(""));
    let ports = ["http", "grpc", "sagemaker", "metrics"].map(|it| format!("--{it}-port=0"));
    let ports: Vec<&str> = ports.iter().map(|it| &**it).collect();
    let server = Start::command(&["--sagemaker-multi-model=true", &root])
        .flags(&ports)
        .flags(&[&library, &python])
        .run();
    let mut client = Client::connect(server.address("sagemaker").unwrap());
    for key in ["a", "b"] {
        let load = json!({"model_name": key, "url": repository.at(key)}).to_string();
        client.post("/models", &[JSON], load).expect(200);
    }
    let mut asked = |key: &str| client.post(&format!("/models/{key}/invoke"), &[CSV], "1,2,5");
    assert_eq!(asked("a").expect(200).text(), "2.5|3.0|4.5");
    assert_eq!(asked("b").expect(200).text(), "3.5;4.0;5.5");
    client.request("DELETE", "/models/a", &[], None).expect(200);
    let mut asked = |key: &str| client.post(&format!("/models/{key}/invoke"), &[CSV], "1,2,5");
    assert_eq!(asked("a").status, 404);
    assert_eq!(asked("b").expect(200).text(), "3.5;4.0;5.5");
}
