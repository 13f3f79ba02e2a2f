//! Bodies that are none, on every address that takes one: refused with 400, and the server goes on.

use super::Target;
use crate::support::Client;

/// Addresses that take a JSON body, on the port of the protocol and on that of SageMaker.
const ADDRESSES: &[(&str, &str)] = &[
    ("http", "/v2/models/copy/infer"),
    ("http", "/v2/models/copy/versions/1/infer"),
    ("http", "/v2/models/copy/generate"),
    ("http", "/v2/models/copy/generate_stream"),
    ("http", "/v2/repository/index"),
    ("http", "/v2/repository/models/copy/load"),
    ("http", "/v2/repository/models/copy/unload"),
    ("http", "/v2/systemsharedmemory/region/r/register"),
    ("http", "/v2/cudasharedmemory/region/r/register"),
    ("http", "/v2/trace/setting"),
    ("http", "/v2/models/copy/trace/setting"),
    ("http", "/v2/logging"),
    ("http", "/v1/models/copy:predict"),
    ("sagemaker", "/invocations"),
];

#[test]
fn a_body_that_is_none_is_refused_on_every_address() {
    let target = Target::new(&[
        "--model-control-mode=explicit",
        "--load-model=*",
        "--allow-client-shm=true",
        "--sagemaker-default-model=copy",
    ]);
    let deep = "[".repeat(100_000);
    let nested = format!("{{\"a\":{deep}");
    let repeated = r#"{"parameters":{},"parameters":{},"inputs":[],"inputs":[]"#;
    let bodies: [(&str, &[u8]); 8] = [
        ("an unfinished object", b"{"),
        ("a list", b"[1,2]"),
        ("a text", b"\"x\""),
        ("more than one object", b"{}{}"),
        ("brackets without an end", deep.as_bytes()),
        ("a value without an end", nested.as_bytes()),
        ("bytes that are no text", b"{\"\xff\":\"\xfe\"}"),
        ("an object that is cut off", repeated.as_bytes()),
    ];
    for (service, path) in ADDRESSES {
        for (what, body) in bodies {
            let mut client = Client::connect(target.server.address(service).unwrap());
            let reply = client.post(path, &[("content-type", "application/json")], body);
            let text = reply.text();
            assert_eq!(reply.status, 400, "{path}, {what}: {text}");
            let error = reply.json()["error"].as_str().unwrap_or_default().to_owned();
            assert!(!error.is_empty() && error.len() < 2000, "{path}, {what}: {text}");
        }
        target.still_serves(&mut target.server.client());
    }
}
