//! Archives with a script that loads the model: it reads and writes the bodies of `/invocations` itself.

use std::{fs, process::Command};

use crate::support::{
    Client, Process, Reply, Repository, Server, check_end, infer, multi_model::start, post_head,
    program, python::python,
};

const JSON: (&str, &str) = ("content-type", "application/json");
const CSV: (&str, &str) = ("content-type", "text/csv");

/// Multiplies by the number in a file beside it, and leaves what it can to the defaults.
const TIMES: &str = r#"
import os
import numpy as np

def model_fn(model_dir):
    with open(os.path.join(model_dir, "factor.txt")) as file:
        return float(file.read())

def predict_fn(data, model):
    if np.any(np.asarray(data, float) < 0):
        raise ValueError("no number below zero")
    return np.asarray(data, float) * model
"#;

/// All four functions.
const FOUR: &str = r#"
import json

def model_fn(model_dir):
    return {"greeting": "hello"}

def input_fn(data, content_type):
    return json.loads(data)["name"] if content_type.startswith("application/json") else data.strip()

def predict_fn(name, model):
    return f"{model['greeting']} {name}"

def output_fn(prediction, accept):
    return (prediction + "\n", "text/csv") if accept == "text/csv" else json.dumps({"said": prediction})
"#;

/// One function that does everything, and looks at the head of the request.
const CONTEXT: &str = r#"
def model_fn(model_dir, context):
    return context.system_properties["model_dir"]

def transform_fn(model, data, content_type, accept, context):
    said = context.get_request_header(0, "X-Amzn-SageMaker-Custom-Attributes")
    context.set_response_status(202, "Accepted", 0)
    context.set_response_header(0, "X-Model-Dir", model)
    context.set_response_header(0, "Content-Length", "1")
    return bytes(data) + b"|" + str(said).encode(), "application/x-own"
"#;

/// Answers piece by piece, and fails behind the second where it is told to.
const PIECES: &str = r#"
def model_fn(model_dir):
    return None

def input_fn(data, content_type):
    return data

def predict_fn(data, model):
    return data.split()

def output_fn(words, accept):
    def pieces():
        for at, word in enumerate(words):
            if word == "fail":
                raise ValueError("no such word")
            yield word + ";"
    return pieces(), "text/x-words"
"#;

/// `--python=` with numpy; `None` without one.
fn interpreter() -> Option<String> {
    Some(format!("--python={}", python("requirements.txt")?.display()))
}

/// `muster serve` as the platform starts it.
fn hosted(repository: &Repository, variables: &[(&str, &str)]) -> Option<Process> {
    let path = repository.at("model");
    let platform = [("SAGEMAKER_MODEL_PATH", &*path), ("SAGEMAKER_BIND_TO_PORT", "0")];
    let all = [&platform, variables].concat();
    Some(Process::command(&["serve", &interpreter()?], &all))
}

fn script(text: &str) -> Repository {
    Repository::new().file("model/code/inference.py", text).file("model/factor.txt", "2.5")
}

fn connect(process: &mut Process) -> Client {
    process.wait_ready();
    Client::connect(process.address("sagemaker"))
}

fn invoke(client: &mut Client, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Reply {
    client.post("/invocations", headers, body)
}

#[test]
fn four_functions_are_the_model_and_its_bodies() {
    let repository = script(FOUR);
    let Some(mut server) = hosted(&repository, &[]) else { return };
    let mut client = connect(&mut server);
    client.get("/ping").expect(200);
    let reply = invoke(&mut client, &[JSON], r#"{"name": "Ann"}"#).expect(200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.text(), r#"{"said": "hello Ann"}"#);
    let reply = invoke(&mut client, &[CSV, ("accept", "text/csv")], "Bob\n").expect(200);
    assert_eq!(reply.header("content-type"), Some("text/csv"));
    assert_eq!(reply.text(), "hello Bob\n");
    // Other routes see one string.
    let asked = r#"{"parameters":{"content_type":"text/csv"},
        "inputs":[{"name":"body","datatype":"BYTES","shape":[1],"data":["Eve"]}]}"#;
    let reply = client.post(&infer("model"), &[], asked).expect(200).json();
    assert_eq!(reply["outputs"][0]["data"][0], r#"{"said": "hello Eve"}"#);
}

#[test]
fn a_generator_is_sent_piece_by_piece() {
    let repository = script(PIECES);
    let Some(mut server) = hosted(&repository, &[]) else { return };
    let mut client = connect(&mut server);
    let text = ("content-type", "text/plain");
    let reply = invoke(&mut client, &[text], "a b c").expect(200);
    assert_eq!(reply.header("content-type"), Some("text/x-words"));
    assert_eq!((reply.text().as_ref(), reply.header("content-length")), ("a;b;c;", None));
    // Before the first piece there is a status; behind it the body breaks off.
    assert_eq!(invoke(&mut client, &[text], "fail").expect(500).text(), "no such word");
    let body = "a fail";
    client.send(post_head("/invocations", &[text], body.len()) + body).unwrap();
    let broken = client.try_reply();
    assert!(broken.is_err(), "the first piece is sent in any case: {broken:?}");
    // Where only one answer can be sent there is one piece.
    let mut client = connect(&mut server);
    assert_eq!(invoke(&mut client, &[text], "only").expect(200).text(), "only;");
}

#[test]
fn what_a_script_does_not_define_is_the_toolkits_and_it_finds_its_files() {
    let repository = script(TIMES);
    let Some(mut server) = hosted(&repository, &[]) else { return };
    let mut client = connect(&mut server);
    assert_eq!(
        invoke(&mut client, &[JSON], "[[1, 2], [3, 4]]").expect(200).text(),
        "[[2.5, 5.0], [7.5, 10.0]]"
    );
    let csv = invoke(&mut client, &[CSV, ("accept", "text/csv")], "1,2\n3,4\n").expect(200);
    assert_eq!(csv.text(), "2.5,5.0\n7.5,10.0\n");
    // A type that the default of input_fn does not read.
    let reply = invoke(&mut client, &[("content-type", "image/png")], b"\x89PNG").expect(415);
    assert!(reply.text().contains("image/png"), "{}", reply.text());
    let reply = invoke(&mut client, &[JSON, ("accept", "image/png")], "[1]").expect(406);
    assert!(reply.text().contains("image/png"), "{}", reply.text());
    // An exception costs no process, and its place stands in the log.
    let reply = invoke(&mut client, &[JSON], "[-1]").expect(500);
    assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(reply.text(), "no number below zero");
    server.wait_for_line("raise ValueError(\"no number below zero\")");
    assert_eq!(invoke(&mut client, &[JSON], "[2]").expect(200).text(), "[5.0]");
}

#[test]
fn a_script_says_the_status_and_the_headers_and_any_bytes_pass() {
    let repository = script(CONTEXT);
    let Some(mut server) = hosted(&repository, &[]) else { return };
    let mut client = connect(&mut server);
    let attributes = ("x-amzn-sagemaker-custom-attributes", "trace=7");
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let reply = invoke(&mut client, &[attributes], &bytes).expect(202);
    assert_eq!(reply.header("content-type"), Some("application/x-own"));
    assert_eq!(reply.header("x-model-dir"), Some(&*repository.at("model")));
    assert_eq!(reply.body, [&bytes, &b"|trace=7"[..]].concat());
    assert_eq!(invoke(&mut client, &[], "").expect(202).text(), "|None");
}

#[test]
fn the_platform_says_which_file_is_the_script() {
    let repository = script("def model_fn(d):\n    raise ValueError('not this one')\n")
        .file("elsewhere/own.py", FOUR);
    let place = repository.at("elsewhere");
    let variables = [("SAGEMAKER_PROGRAM", "own.py"), ("SAGEMAKER_SUBMIT_DIRECTORY", &*place)];
    let Some(mut server) = hosted(&repository, &variables) else { return };
    let mut client = connect(&mut server);
    invoke(&mut client, &[JSON], r#"{"name": "Ann"}"#).expect(200);
}

#[test]
fn explain_says_of_a_script_that_it_is_code() {
    let repository = script(TIMES);
    let Some(interpreter) = interpreter() else { return };
    let explain = Command::new(program())
        .args(["explain", &repository.at("model"), &interpreter])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&explain.stdout).into_owned();
    assert!(said.contains("served as tensors, and not as a pipeline: it is code"), "{said}");
}

#[test]
fn a_folder_with_a_script_is_served_without_a_platform_too() {
    let repository = script(TIMES);
    let Some(interpreter) = interpreter() else { return };
    let ports = ["http", "grpc", "sagemaker", "metrics"].map(|it| format!("--{it}-port=0"));
    let ports = ports.iter().map(|it| &**it);
    let folder = repository.at("model");
    let args: Vec<&str> = ["serve", &folder, &interpreter].into_iter().chain(ports).collect();
    let mut server = Process::command(&args, &[]);
    let mut client = connect(&mut server);
    assert_eq!(invoke(&mut client, &[JSON], "[2]").expect(200).text(), "[5.0]");
}

#[test]
fn a_script_that_cannot_load_fails_the_ping_and_ends_the_start_with_its_place() {
    let waits = r#"
import os, time

def model_fn(model_dir):
    while not os.path.exists(model_dir + "/go"):
        time.sleep(0.01)
    return open(model_dir + "/weights")
"#;
    let repository = script(waits);
    let Some(mut server) = hosted(&repository, &[]) else { return };
    let mut client = Client::connect(server.address("sagemaker"));
    assert!(client.get("/ping").error(503).contains("loading"));
    drop(client);
    fs::write(repository.path().join("model/go"), "").unwrap();
    let finished = check_end(server, 1, "FileNotFoundError");
    let place = format!("{}\", line 7, in model_fn", repository.at("model/code/inference.py"));
    assert!(finished.why().iter().any(|it| it.contains(&place)), "{:#?}", finished.log);
}

fn ask(server: &Server, path: &str, body: &str) -> Reply {
    Client::connect(server.sagemaker()).post(path, &[JSON], body)
}

fn load(server: &Server, models: &Repository, key: &str) -> Reply {
    let url = models.at(&format!("{key}/model"));
    ask(server, "/models", &serde_json::json!({"model_name": key, "url": url}).to_string())
}

#[test]
fn each_model_of_an_endpoint_has_a_script_of_its_own_or_that_of_all() {
    let bad = format!("import nothing_of_that_name\n{FOUR}");
    let models = Repository::new()
        .file("a/model/code/inference.py", TIMES)
        .file("a/model/factor.txt", "2")
        .file("b/model/code/inference.py", FOUR)
        .file("c/model/factor.txt", "10")
        .file("bad/model/code/inference.py", &bad)
        .file("code/inference.py", TIMES);
    let Some(interpreter) = interpreter() else { return };
    let server = start(&models, &[&interpreter]);
    for key in ["a", "b", "c"] {
        load(&server, &models, key).expect(200);
    }
    let invoke = |key: &str, body: &str| {
        ask(&server, &format!("/models/{key}/invoke"), body).expect(200).text()
    };
    assert_eq!(invoke("a", "[3]"), "[6.0]");
    assert_eq!(invoke("b", r#"{"name": "Ann"}"#), r#"{"said": "hello Ann"}"#);
    assert_eq!(invoke("c", "[3]"), "[30.0]");
    let reply = load(&server, &models, "bad");
    assert!(400 <= reply.status, "{}", reply.text());
    let place = format!("{}\\\", line 1", models.at("bad/model/code/inference.py"));
    assert!(reply.text().contains(&place), "{}", reply.text());
    assert_eq!(invoke("a", "[4]"), "[8.0]");
}
