//! The port of Vertex AI: the platform's variables, its two addresses, and the header behind which the others are.

use crate::support::{Form, Reply, Repository, Server, Start, Tensor, infer_body, row, wait_for};

const TYPE: &str = "application/vnd.vertex-ai-triton.binary+json;json-header-size=";
const REDIRECT: &str = "x-vertex-ai-triton-redirect";

/// As the platform starts a container.
fn start(repository: &Repository) -> Start {
    Start::command(&["--metrics-port=0"])
        .variable("AIP_MODE", "PREDICTION")
        .variable("AIP_HTTP_PORT", "0")
        .variable("AIP_PREDICT_ROUTE", "/v1/endpoints/7:predict")
        .variable("AIP_HEALTH_ROUTE", "/v1/endpoints/7/health")
        .variable("AIP_STORAGE_URI", &repository.at(""))
}

/// Such a server, once it has loaded its models.
fn run(start: Start) -> Server {
    let server = start.launch();
    wait_for("the models to be loaded", || {
        let reply = server.get("/v1/endpoints/7/health");
        (!reply.text().contains("still loading")).then_some(())
    });
    server
}

fn post(server: &Server, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Reply {
    server.client().post("/v1/endpoints/7:predict", headers, body)
}

#[test]
fn the_platform_gets_its_port_its_routes_and_its_models_and_no_other_port_but_that_of_metrics() {
    let repository = Repository::identity("copy", &[]);
    let server = run(start(&repository));
    assert!(server.address("http").is_none() && server.address("sagemaker").is_none());
    assert!(server.address("metrics").is_some());
    assert_eq!(Some(server.http()), server.address("vertex-ai"));
    server.get("/v1/endpoints/7/health").expect(200);
    let reply = post(&server, &[], row(3)).output();
    assert_eq!(reply, Tensor::fp32("OUTPUT0", &[1, 4], &[3.0, 0.0, 0.0, 0.0]));
    for path in ["/v2/health/ready", "/ping", "/metrics", "/v2/models/copy/infer"] {
        let text = server.get(path).error(404);
        assert!(text.contains("/v1/endpoints/7:predict"), "{text}");
    }
    server.get("/v1/endpoints/7:predict").error(405);
}

#[test]
fn other_ports_open_where_they_are_asked_for() {
    let repository = Repository::identity("copy", &[]);
    let server = start(&repository).flags(&["--http-port=0", "--allow-metrics=false"]).run();
    assert!(server.address("metrics").is_none());
    server.get("/v2/models/copy").expect(200);
}

#[test]
fn binary_tensors_begin_where_the_content_type_says() {
    let repository = Repository::identity("copy", &[]);
    let server = run(start(&repository));
    let row = Tensor::fp32("INPUT0", &[1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let (head, tail) = infer_body(std::slice::from_ref(&row), Form::Binary, "");
    let body = [head.as_bytes(), &tail].concat();
    let content_type = format!("{TYPE}{}", head.len());
    let reply = post(&server, &[("content-type", &content_type)], &body).expect(200);
    let length: usize =
        reply.header("content-type").unwrap().strip_prefix(TYPE).unwrap().parse().unwrap();
    // Triton sends the header alone, and its clients read it.
    assert_eq!(reply.header("inference-header-content-length"), Some(&*length.to_string()));
    assert_eq!(reply.body[length..], row.raw);
    // The body is the tensor.
    let reply = post(&server, &[("content-type", &format!("{TYPE}0"))], &row.raw).expect(200);
    assert!(reply.body.ends_with(&row.raw));
    for wrong in [format!("{TYPE}x"), format!("text/plain;{TYPE}3"), format!("{TYPE}9999")] {
        post(&server, &[("content-type", &wrong)], &body).error(400);
    }
}

#[test]
fn the_header_leads_to_other_addresses_but_not_to_those_that_change_the_server() {
    let repository = Repository::identity("copy", &[]).with_identity("other", &[]);
    let server = run(start(&repository));
    let to = |target: &str| post(&server, &[(REDIRECT, target)], row(1));
    assert_eq!(to("v2").expect(200).json()["name"], "triton");
    assert_eq!(to("v2/models/other").expect(200).json()["name"], "other");
    for target in ["v2/health/live", "v2/health/ready", "v2/models/copy/ready", "metrics"] {
        to(target).expect(200);
    }
    for target in ["v2/models/copy/config", "v2/models/copy/stats", "v2/systemsharedmemory/status"]
    {
        to(target).expect(200);
    }
    let index = post(&server, &[(REDIRECT, "v2/repository/index")], "").expect(200).json();
    assert_eq!(index.as_array().unwrap().len(), 2);
    assert_eq!(to("v2/models/other/infer").expect(200).json()["model_name"], "other");
    for target in ["v2/repository/models/copy/unload", "v2/systemsharedmemory/region/r/register"] {
        to(target).error(403);
    }
    for target in ["v2/logging", "elsewhere", "v2/models/copy/generate"] {
        to(target).error(400);
    }
    to("v2/models/none").error(404);
}

#[test]
fn of_several_models_one_must_be_the_default() {
    let repository = Repository::identity("copy", &[]).with_identity("other", &[]);
    let server = run(start(&repository));
    let text = post(&server, &[], row(1)).error(400);
    assert!(text.contains("--vertex-ai-default-model"), "{text}");
    let reply = server.get("/v1/endpoints/7/health").expect(503);
    assert!(reply.text().contains("copy, other"), "{}", reply.text());
    let server = run(start(&repository).flags(&["--vertex-ai-default-model=other"]));
    assert_eq!(post(&server, &[], row(1)).expect(200).json()["model_name"], "other");
    server.get("/v1/endpoints/7/health").expect(200);
}

#[test]
fn a_start_without_routes_or_models_says_what_is_missing() {
    let repository = Repository::identity("copy", &[]);
    let flags = ["--allow-vertex-ai=true", "--vertex-ai-health-route=/health"];
    let error = Start::new(&repository).flags(&flags).config().unwrap_err();
    assert!(
        error.contains("--vertex-ai-predict-route") && error.contains("AIP_PREDICT_ROUTE"),
        "{error}"
    );
    let flags = ["--vertex-ai-predict-route=/health", "--vertex-ai-health-route=/health"];
    let error = start(&repository).flags(&flags).config().unwrap_err();
    assert!(error.contains("both '/health'"), "{error}");
    let error = start(&repository).variable("AIP_STORAGE_URI", "gs://bucket/models").config();
    assert!(error.unwrap_err().contains("AIP_STORAGE_URI='gs://bucket/models'"));
    // Another mode of the platform.
    let config = start(&repository).variable("AIP_MODE", "TRAINING");
    let config = config.flags(&["--model-repository", &repository.at("")]).config().unwrap();
    assert!(config.vertex_ai.is_none() && config.listeners.http.is_some());
}
