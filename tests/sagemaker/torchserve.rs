//! Archives of TorchServe: the handler that comes with the model, at the addresses of TorchServe.

use std::process::Command;

use crate::support::{
    Client, Process, Repository, check_end,
    python::{python, run},
};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Tells what it was given.
const HANDLER: &str = r#"
class Echo:
    def initialize(self, context):
        with open("word.txt") as file:
            self.word = file.read()

    def handle(self, data, context):
        for at in range(len(data)):
            context.set_response_header(at, "x-word", self.word)
        return [self.answer(it, at, context) for at, it in enumerate(data)]

    def answer(self, it, at, context):
        if it.get("body") == "fail":
            raise ValueError("mine")
        names = {name: type(value).__name__ for name, value in it.items()}
        return {"names": names, "said": context.get_request_header(at, "X-Mine"),
                "secret": context.get_request_header(at, "Authorization")}
"#;

const MANIFEST: &str =
    r#"{"model": {"modelName": "echo", "handler": "echo.py", "modelVersion": "1.0"}}"#;

/// The files of an archive below that directory.
fn archive(repository: Repository, at: &str) -> Repository {
    repository
        .file(&format!("{at}/echo.py"), HANDLER)
        .file(&format!("{at}/word.txt"), "hello")
        .file(&format!("{at}/MAR-INF/MANIFEST.json"), MANIFEST)
}

/// A file `.mar` and an unpacked archive, and an interpreter with numpy. `None` without one.
fn both() -> Option<(Repository, String)> {
    let interpreter = python("requirements.txt")?;
    let source = archive(Repository::new(), "echo");
    let repository = archive(Repository::new().file("packed/1/.keep", ""), "unpacked/1");
    let mut pack = Command::new(&interpreter);
    pack.args(["-m", "zipfile", "-c", &repository.at("packed/1/echo.mar")]);
    pack.args(["echo.py", "word.txt", "MAR-INF/"]).current_dir(source.at("echo"));
    run(&mut pack).unwrap();
    Some((repository, format!("--python={}", interpreter.display())))
}

#[test]
fn an_archive_of_torchserve_is_served_packed_and_unpacked() {
    let Some((repository, interpreter)) = both() else { return };
    let kept = Repository::new();
    let kept = format!("--python-env-dir={}", kept.at("kept"));
    let mut server = Process::start(&repository, &[&interpreter, &kept], &[]);
    server.wait_ready();
    let mut client = Client::connect(server.address("sagemaker"));
    for model in ["packed", "unpacked"] {
        let address = format!("/predictions/{model}");
        let headers = [JSON, ("x-mine", "3"), ("authorization", "Bearer x")];
        let reply = client.post(&address, &headers, r#"{"a": 1}"#).expect(200);
        assert_eq!(reply.header("x-word"), Some("hello"));
        let expected = serde_json::json!({"names": {"body": "dict"}, "said": "3", "secret": null});
        assert_eq!(reply.json(), expected);
        let form = ("content-type", "application/x-www-form-urlencoded");
        let reply = client.post(&format!("{address}/1.0"), &[form], "a=1&b=2").expect(200);
        assert_eq!(reply.json()["names"], serde_json::json!({"a": "bytearray", "b": "bytearray"}));
        let failed = client.post(&address, &[JSON], "\"fail\"").expect(503).json();
        let said = serde_json::json!({"code": 503, "type": "InternalServerException", "message": "Prediction failed"});
        assert_eq!(failed, said);
        let target = ("x-amzn-sagemaker-target-model", model);
        client.post("/invocations", &[JSON, target], "1").expect(200);
    }
    server.wait_for_line("ValueError: mine");
    for (address, status) in [("nothing", 404), ("packed/7", 404), ("packed/one", 400)] {
        let reply = client.post(&format!("/predictions/{address}"), &[JSON], "1").expect(status);
        assert_eq!(reply.json()["code"], status, "{address}");
    }
    drop(server);
    let refused = Process::start(&repository, &["--secure-mode=true", &interpreter], &[]);
    check_end(refused, 1, "the model is Python code, and --secure-mode");
}

#[test]
fn requests_are_handled_together_as_the_archive_says() {
    const COUNTS: &str =
        "def handle(data, context):\n    return [len(data or [])] * len(data or [])\n";
    let Some(interpreter) = python("requirements.txt") else { return };
    let manifest = r#"{"model": {"handler": "counts.py", "configFile": "model-config.yaml"}}"#;
    let repository = Repository::new()
        .file("counts/1/counts.py", COUNTS)
        // JSON is YAML, too.
        .file("counts/1/model-config.yaml", r#"{"batchSize": 2, "maxBatchDelay": 60000}"#)
        .file("counts/1/MAR-INF/MANIFEST.json", manifest);
    let flag = format!("--python={}", interpreter.display());
    let mut server = Process::start(&repository, &[&flag], &[]);
    server.wait_ready();
    let address = server.address("sagemaker");
    let ask = || Client::connect(address).post("/predictions/counts", &[JSON], "1");
    std::thread::scope(|scope| {
        for reply in [scope.spawn(ask), scope.spawn(ask)] {
            assert_eq!(reply.join().unwrap().expect(200).text(), "2");
        }
    });
}
