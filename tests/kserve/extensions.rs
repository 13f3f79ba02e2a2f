//! Triton's extensions of KServe v2 that show and change the server, and its whole table of addresses.

use serde_json::{Value, json};

use crate::support::{Repository, Server, row};

fn copy() -> (Repository, Server) {
    let repository =
        Repository::identity("copy", &[]).copy("corrupt", "tests/fixtures/broken/corrupt");
    let server = Server::start(&repository, &[]);
    (repository, server)
}

#[test]
fn every_extension_of_the_table_is_named() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    let extensions = server.get("/v2").expect(200).json()["extensions"].clone();
    let expected = json!([
        "classification",
        "sequence",
        "model_repository",
        "model_repository(unload_dependents)",
        "schedule_policy",
        "model_configuration",
        "system_shared_memory",
        "cuda_shared_memory",
        "binary_tensor_data",
        "parameters",
        "statistics",
        "trace",
        "logging"
    ]);
    assert_eq!(extensions, expected);
}

#[test]
fn statistics_have_every_field_and_count_requests() {
    let repository = Repository::identity("copy", &[]).with_identity("other", &[]);
    let server = Server::start(&repository, &[]);
    for _ in 0..3 {
        server.post("/v2/models/copy/infer", row(1)).expect(200);
    }
    let all = server.get("/v2/models/stats").expect(200).json();
    let models = all["model_stats"].as_array().unwrap();
    let names: Vec<&Value> = models.iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["copy", "other"]);
    for path in
        ["/v2/models/copy/stats", "/v2/models/copy/versions/1/stats?x=1", "/v2/models/copy/stats/"]
    {
        let one = server.get(path).expect(200).json();
        assert_eq!(one["model_stats"].as_array().unwrap().len(), 1, "{path}");
        assert_eq!(one["model_stats"][0]["inference_stats"]["success"]["count"], 3);
    }
    let copy = &models[0];
    let keys: Vec<&String> = copy.as_object().unwrap().keys().collect();
    let expected = [
        "name",
        "version",
        "last_inference",
        "inference_count",
        "execution_count",
        "inference_stats",
        "response_stats",
        "batch_stats",
        "memory_usage",
    ];
    assert_eq!(keys, expected);
    assert_eq!((&copy["version"], &copy["inference_count"]), (&json!("1"), &json!(3)));
    let durations: Vec<&String> = copy["inference_stats"].as_object().unwrap().keys().collect();
    let expected = [
        "success",
        "fail",
        "queue",
        "compute_input",
        "compute_infer",
        "compute_output",
        "cache_hit",
        "cache_miss",
    ];
    assert_eq!(durations, expected);
    assert_eq!(models[1]["inference_count"], 0);
}

#[test]
fn statistics_of_what_is_not_ready_are_a_mistake_of_the_client() {
    let (_repository, server) = copy();
    for path in ["copi/stats", "copy/versions/9/stats", "corrupt/stats", "copy/versions/x/stats"] {
        server.get(&format!("/v2/models/{path}")).error(400);
    }
    let text = server.get("/v2/models/copi/stats").error(400);
    assert!(text.contains("did you mean 'copy'?"), "{text}");
    server.post("/v2/models/stats", "").error(405);
}

#[test]
fn settings_of_traces_and_of_the_log_are_shown() {
    let (_repository, server) = copy();
    for path in ["/v2/trace/setting", "/v2/models/copy/trace/setting", "/v2/logging"] {
        assert!(server.get(path).expect(200).json().is_object(), "{path}");
        // Nothing to change.
        let reply = server.post(path, r#"{"x":[[]]}"#).error(400);
        assert!(reply.starts_with('x'), "{reply}");
        let reply = server.client().request("DELETE", path, &[], None);
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, POST")), "{path}");
    }
    let unknown = server.get("/v2/models/none/trace/setting").error(404);
    assert!(unknown.starts_with("Request for unknown model : none"), "{unknown}");
    // The settings of a model that is not ready are there all the same, over gRPC as well.
    assert!(server.get("/v2/models/corrupt/trace/setting").expect(200).json().is_object());
    let rate = r#"{"trace_rate":"7"}"#;
    let set = server.post("/v2/models/corrupt/trace/setting", rate).expect(200).json();
    assert_eq!(set["trace_rate"], "7");
}

#[test]
fn the_table_of_addresses_is_complete() {
    let (_repository, server) = copy();
    for (method, path, status) in [
        ("GET", "/v2", 200),
        ("GET", "/v2/", 200),
        ("GET", "/v2?verbose=1", 200),
        ("GET", "/v2/health/live", 200),
        ("GET", "/v2/health/ready", 400),
        ("GET", "/v2/models/copy", 200),
        ("GET", "/v2/models/c%6Fpy/versions/1", 200),
        ("GET", "/v2/models/copy/ready", 200),
        ("GET", "/v2/models/copy/versions/2/ready", 404),
        ("GET", "/v2/models/corrupt/ready", 503),
        ("GET", "/v2/models/none/ready", 404),
        ("GET", "/v2/models/copy/config", 200),
        ("GET", "/v2/models/copy/stats", 200),
        ("GET", "/v2/models/stats", 200),
        ("POST", "/v2/models/copy/infer", 400),
        ("POST", "/v2/models/copy/versions/1/generate", 400),
        ("POST", "/v2/models/copy/generate_stream", 400),
        ("POST", "/v2/repository/index", 200),
        ("POST", "/v2/repository/any/index/", 200),
        ("POST", "/v2/repository/models/copy/load", 503),
        ("POST", "/v2/repository/models/copy/unload", 503),
        ("POST", "/v2/repository/any/models/copy/load", 501),
        ("POST", "/v2/repository/any/models/copy/unload", 501),
        ("GET", "/v2/systemsharedmemory/status", 200),
        ("GET", "/v2/cudasharedmemory/status", 200),
        ("GET", "/v2/trace/setting", 200),
        ("GET", "/v2/models/copy/trace/setting", 200),
        ("GET", "/v2/logging", 200),
        ("GET", "/v2/models/copy/infer", 405),
        // Of a text model it would be answered in the form of Hugging Face's hub.
        ("POST", "/v2/models/copy", 400),
        ("GET", "/v2/repository/index", 405),
        ("GET", "/v3", 404),
        ("GET", "/v2/models/copy/other", 404),
    ] {
        let body = (method == "POST").then_some(&b""[..]);
        let reply = server.client().request(method, path, &[], body);
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.text());
    }
}

#[test]
fn parameters_that_mean_nothing_to_a_model_are_taken_and_not_repeated() {
    let (_repository, server) = copy();
    let plain = server.post("/v2/models/copy/infer", row(1)).expect(200).json();
    let parameters = r#""parameters":{"sequence_id":7,"sequence_start":true,"sequence_end":false,"priority":0,
        "timeout":0,"mine":"x","count":-3,"share":0.5,"on":true},"model_name":"other","#;
    let body = row(1).replacen('{', &format!("{{{parameters}"), 1);
    assert_eq!(server.post("/v2/models/copy/infer", body).expect(200).json(), plain);
    for (parameter, text) in [
        (r#""sequence_id":1.5"#, "parameters.sequence_id"),
        (r#""sequence_id":-1"#, "parameters.sequence_id"),
        (r#""sequence_end":"yes""#, "parameters.sequence_end"),
        (r#""priority":"high""#, "parameters.priority"),
        (r#""timeout":-1"#, "parameters.timeout"),
        (r#""triton_final":true"#, "parameters.triton_final"),
        (r#""mine":{}"#, "parameters.mine"),
    ] {
        let body = row(1).replacen('{', &format!("{{\"parameters\":{{{parameter}}},"), 1);
        let error = server.post("/v2/models/copy/infer", body).error(400);
        assert!(error.starts_with(text), "{error}");
    }
}
