//! SavedModels of TensorFlow, and the library that they need.

use std::path::Path;

use serde_json::Value;

use super::{Client, Process, Repository, skip, target};

/// Where those of the tests are.
pub const FIXTURES: &str = "tests/fixtures/savedmodels";

/// The flag that names the library: a test's program lies one folder deeper than the server, which looks for it by
/// itself.
pub fn flag() -> String {
    format!(
        "--tensorflow-library={}",
        target().join("tensorflow/lib/libtensorflow_cc.so.2").display()
    )
}

/// A server with those of the fixtures; `None` where there is no library.
pub fn serve(models: &[&str], flags: &[&str]) -> Option<(Process, Repository)> {
    let add = |it: Repository, name: &&str| it.copy(name, &format!("{FIXTURES}/{name}"));
    serve_those(models.iter().fold(Repository::new(), add), flags)
}

/// A server with those of a repository; `None` where there is no library.
pub fn serve_those(repository: Repository, flags: &[&str]) -> Option<(Process, Repository)> {
    let flag = library()?;
    let mut process = Process::start(&repository, &[&[&*flag], flags].concat(), &[]);
    process.wait_ready();
    Some((process, repository))
}

/// The flag, where there is a library.
pub fn library() -> Option<String> {
    let flag = flag();
    if !flag.split_once('=').is_some_and(|(_, library)| Path::new(library).is_file()) {
        skip("tests of SavedModels: python3 backends/tensorflow/prepare.py has not been run");
        return None;
    }
    Some(flag)
}

/// The command of TensorFlow Serving with these flags, and ports that are free; `None` where there is no library.
pub fn instead_of_tfs(flags: &[&str]) -> Option<Process> {
    let library = library()?;
    let ports = ["--rest_api_port=1", "--http-port=0", "--port=1", "--tfs-grpc-port=0"];
    let args = [&["tensorflow_model_server", &*library][..], &ports, flags].concat();
    let mut process = Process::command(&args, &[]);
    process.wait_ready();
    Some(process)
}

/// A POST of JSON, and the JSON that answers it with 200.
pub fn post(client: &mut Client, path: &str, body: &Value) -> Value {
    client.post(path, &[], body.to_string()).expect(200).json()
}
