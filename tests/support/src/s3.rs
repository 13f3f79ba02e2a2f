//! A store that speaks S3 and checks signatures (moto).

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::Value;

use super::{Process, Repository, python::python, root};

/// The script `tests/clients/s3_server.py`, running.
pub struct S3 {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Where it listens.
    pub port: u64,
    /// Whose key its requests are signed with.
    pub key_id: String,
    /// The key.
    pub secret: String,
}

impl S3 {
    /// `None` without Python.
    pub fn start() -> Option<S3> {
        S3::start_with(&[])
    }

    /// One that checks no signatures.
    pub fn start_open() -> Option<S3> {
        S3::start_with(&["open"])
    }

    fn start_with(args: &[&str]) -> Option<S3> {
        let mut child = Command::new(python("requirements.txt")?)
            .arg(root("tests/clients/s3_server.py"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let ready = line(&mut answers);
        let text = |name: &str| ready[name].as_str().unwrap().to_owned();
        let port = ready["port"].as_u64().unwrap();
        let (key_id, secret) = (text("key_id"), text("secret"));
        let mut s3 = S3 { child, commands, answers, port, key_id, secret };
        s3.tell("bucket models");
        Some(s3)
    }

    /// Has the script do this; what it says to that.
    pub fn tell(&mut self, command: &str) -> Vec<String> {
        writeln!(self.commands, "{command}").unwrap();
        let answer = line(&mut self.answers);
        answer.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    }

    /// Writes an object.
    pub fn put(&mut self, key: &str, file: impl AsRef<Path>) {
        self.tell(&format!("put models {key} {}", file.as_ref().display()));
    }

    /// The text of an object, if there is one.
    pub fn get(&mut self, key: &str) -> Option<String> {
        self.tell(&format!("get models {key}")).pop()
    }

    /// A model of `tests/fixtures/models`.
    pub fn put_fixture(&mut self, name: &str) {
        let file = root(&format!("tests/fixtures/models/{name}/1/model.onnx"));
        self.put(&format!("all/{name}/1/model.onnx"), file);
    }

    /// Keys of objects that were read since the last time, sorted.
    pub fn read(&mut self) -> Vec<String> {
        let asked = self.tell("requests");
        let keys = asked.iter().filter_map(|it| it.strip_prefix("GET /models/all/"));
        let mut keys: Vec<String> = keys.map(str::to_owned).collect();
        keys.sort();
        keys
    }

    /// The repository of all models, as the server is told it.
    pub fn address(&self) -> String {
        format!("s3://http://127.0.0.1:{}/models/all", self.port)
    }

    /// The binary over this repository, with its copies in `cache`.
    pub fn serve(&self, cache: &Repository, secret: &str, flags: &[&str]) -> Process {
        let repository = format!("--model-repository={}", self.address());
        let cache = format!("--model-repository-cache-dir={}", cache.at("copies"));
        let environment = [("AWS_ACCESS_KEY_ID", &*self.key_id), ("AWS_SECRET_ACCESS_KEY", secret)];
        start(&[&[&*repository, &*cache], flags].concat(), &environment)
    }

    /// A model of the engine `identity`, with so many rows at most.
    pub fn put_identity(&mut self, name: &str, rows: usize) {
        let config = format!(
            "backend: \"identity\" max_batch_size: {rows} version_policy {{ all {{ }} }}
             input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
             output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}"
        );
        let file = Repository::new().file("config", config);
        self.put(&format!("all/{name}/config.pbtxt"), file.at("config"));
    }

    /// Gives it a version.
    pub fn put_version(&mut self, name: &str, version: u64) {
        let file = Repository::new().file("weights", format!("of version {version}"));
        self.put(&format!("all/{name}/{version}/weights"), file.at("weights"));
    }

    /// Such a model with one version.
    pub fn put_whole(&mut self, name: &str) {
        self.put_identity(name, 8);
        self.put_version(name, 1);
    }

    /// The binary over this repository, once it has loaded it.
    pub fn serve_here(&self, cache: &Repository, flags: &[&str]) -> Process {
        let mut server = self.serve(cache, &self.secret, flags);
        server.wait_ready();
        server
    }
    /// From now on nobody listens on its port.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.stop();
    }
}

fn line(from: &mut impl BufRead) -> Value {
    let mut text = String::new();
    from.read_line(&mut text).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: '{text}'"))
}

/// The binary with these flags, every port a free one.
pub fn start(flags: &[&str], environment: &[(&str, &str)]) -> Process {
    let ports = [
        "--http-port=0",
        "--grpc-port=0",
        "--sagemaker-port=0",
        "--metrics-port=0",
        "--http-address=127.0.0.1",
    ];
    Process::command(&[&ports[..], &["--drain-delay-secs=0"], flags].concat(), environment)
}
