//! Answers in parts as clients read them that others wrote: tritonclient, curl, boto3 and a page in a browser.

use std::process::Command;

use crate::support::{
    IN_PROCESS, Repository, Server,
    python::{python, run},
    root,
};

/// A decoupled model: `INPUT0` → `OUTPUT0`, in as many parts as a request says.
const CONFIG: &str =
    "backend: 'identity' max_batch_size: 8 model_transaction_policy { decoupled: true }
    input { name: 'INPUT0' data_type: TYPE_FP32 dims: [ 4 ] }
    output { name: 'OUTPUT0' data_type: TYPE_FP32 dims: [ 4 ] }
    parameters { key: 'parts' value: { string_value: '3' } }";

/// Runs a script against a server with such a model.
fn check(requirements: &str, script: &str, arguments: impl FnOnce(&Server) -> Vec<String>) {
    let Some(python) = python(requirements) else { return };
    let (repository, spool) = (Repository::new().model("m", CONFIG), Repository::new());
    let spool = format!("--async-spool={}", spool.at(""));
    let server = Server::start(&repository, &[IN_PROCESS, "--aws-facade", &spool]);
    let path = root(&format!("tests/clients/{script}"));
    let said = run(Command::new(python).arg(path).args(arguments(&server)));
    let said = said.unwrap_or_else(|said| panic!("{script} failed:\n{said}"));
    assert!(!said.is_empty(), "{script} said nothing: did it check anything?");
}

#[test]
fn tritonclient_and_curl_read_each_part_before_the_last_is_sent() {
    check("requirements.txt", "parts.py", |server| {
        let grpc = server.address("grpc").unwrap();
        [server.http(), grpc, server.sagemaker()].map(|it| it.to_string()).to_vec()
    });
}

#[test]
fn boto3_reads_each_part_before_the_last_is_sent() {
    check("requirements-aws.txt", "parts_boto3.py", |server| {
        vec![format!("http://{}", server.sagemaker())]
    });
}

#[cfg(feature = "browser")]
#[test]
fn a_page_in_a_browser_reads_each_part_before_the_last_is_sent() {
    let Some(chromium) = crate::support::browser::chromium() else { return };
    check("requirements-browser.txt", "parts_page.py", |server| {
        vec![chromium.display().to_string(), format!("http://{}", server.http())]
    });
}
