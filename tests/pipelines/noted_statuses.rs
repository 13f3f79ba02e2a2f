//! The status of a failure as the line of its request has it: the one that its client got, in whatever protocol.

use serde_json::json;
use tonic::Code;

use crate::support::{
    Client, Process, Repository, grpc, infer, pipelines::repository, post_head, row, wait_for,
    wait_queued,
};

/// A server whose log has a line for each request.
fn start(repository: &Repository, flags: &[&str]) -> Process {
    let mut server =
        Process::start(repository, &[&["--log-requests=true"][..], flags].concat(), &[]);
    server.wait_ready();
    server
}

/// The statuses of the requests for that model whose lines are there, in their order.
fn noted(server: &Process, model: &str) -> Vec<u16> {
    let model = format!(" model={model} ");
    let log = server.log();
    let lines = log.iter().filter(|it| it.contains(&model) && it.contains(" protocol="));
    let status = |it: &String| {
        let text = it.split(" status=").nth(1)?.split(' ').next()?;
        text.parse().ok()
    };
    lines.map(|it| status(it).unwrap_or_else(|| panic!("no status: {it}"))).collect()
}

#[track_caller]
fn check(server: &Process, model: &str, statuses: &[u16]) {
    let all = || Some(noted(server, model)).filter(|it| statuses.len() <= it.len());
    assert_eq!(wait_for("the lines of all requests", all), statuses, "{model}");
}

/// A run without memory, or one that failed, has another status in each of these.
#[test]
fn a_failed_run_is_noted_as_each_protocol_answers_it() {
    let no_memory = [("fault", "out_of_memory")];
    let fails = [("fault", "fail"), ("xgboost_objective", "reg:gamma")];
    let repository = Repository::identity("kserve", &no_memory)
        .with_identity("tfs", &no_memory)
        .with_identity("called", &no_memory)
        .with_identity("invoked", &no_memory)
        .with_identity("xgboost", &fails)
        .with_identity("facade", &no_memory);
    let mut server = start(&repository, &["--aws-facade", "--tfs-grpc-port=0"]);
    let mut http = Client::connect(server.address("http"));
    let mut sagemaker = Client::connect(server.address("sagemaker"));
    let rows = "{\"instances\":[[1,2,3,4]]}";
    http.post(&infer("kserve"), &[], row(1)).error(507);
    check(&server, "kserve", &[507]);
    http.post("/v1/models/tfs:predict", &[], rows).error(429);
    check(&server, "tfs", &[429]);
    let json = ("content-type", "application/json");
    let target = |model| [json, ("x-amzn-sagemaker-target-model", model)];
    sagemaker.post("/invocations", &target("invoked"), rows).error(507);
    check(&server, "invoked", &[507]);
    let csv = [("content-type", "text/csv"), ("x-amzn-sagemaker-target-model", "xgboost")];
    sagemaker.post("/invocations", &csv, "1,2,3,4").error(400);
    check(&server, "xgboost", &[400]);
    http.post("/endpoints/facade/invocations", &[json], rows).expect(424);
    check(&server, "facade", &[424]);
    let mut client = grpc::Client::connect(server.address("grpc"));
    client.refused(grpc::identity("called", &[1.0; 4]), Code::ResourceExhausted);
    check(&server, "called", &[Code::ResourceExhausted as u16]);
}

/// A refusal of an overloaded server has another status in each of these.
#[test]
fn a_refusal_is_noted_as_each_server_of_texts_answers_it() {
    let flags = ["--scheduler-hold=9", "--default-max-queue-size=1"];
    let mut server = start(&repository(&["st-6"]), &flags);
    let http = server.address("http");
    let mut waiting = Client::connect(http);
    let body = json!({"inputs": ["a"]}).to_string();
    waiting.send(post_head("/v2/models/st-6/embed", &[], body.len()) + &body).unwrap();
    wait_queued(http, "st-6", 1);
    let text = json!({"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": ["a"]});
    let mut told = Vec::new();
    for (path, body, status) in [
        ("embed", json!({"inputs": ["a"]}), 429),
        ("v1/embeddings", json!({"input": ["a"]}), 429),
        ("v2/rerank", json!({"query": "a", "documents": ["a"]}), 429),
        ("pipeline", json!({"inputs": "a"}), 503),
        ("infer", json!({"inputs": [text]}), 503),
    ] {
        let path = format!("/v2/models/st-6/{path}");
        let reply = Client::connect(http).post(&path, &[], body.to_string());
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        told.push(status);
        check(&server, "st-6", &told);
    }
}
