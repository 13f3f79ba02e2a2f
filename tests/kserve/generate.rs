//! Triton's generate extension: a flat object in, a flat object or one event out.

use serde_json::json;

use crate::support::{Repository, Server};

/// `text`, one string per row, and `scores`, any number of floats, both given back.
const TEXTS: &str = r#"
    backend: "identity"
    max_batch_size: 4
    input { name: "text" data_type: TYPE_STRING dims: [ 1 ] }
    input { name: "scores" data_type: TYPE_FP32 dims: [ -1 ] }
    output { name: "text" data_type: TYPE_STRING dims: [ 1 ] }
    output { name: "scores" data_type: TYPE_FP32 dims: [ -1 ] }"#;

fn texts() -> (Repository, Server) {
    let repository = Repository::new().model("texts", TEXTS);
    let server = Server::start(&repository, &[]);
    (repository, server)
}

#[test]
fn keys_that_name_inputs_are_tensors_and_outputs_come_back_flat() {
    let (_repository, server) = texts();
    let body = r#"{"id":"7","text":"hello","parameters":{"scores":[1,2.5],"temperature":0.3},"stream":false}"#;
    let expected = json!({
        "id": "7", "model_name": "texts", "model_version": "1", "text": "hello", "scores": [1.0, 2.5],
    });
    let path = "/v2/models/texts/generate";
    let reply = server.post(path, body).expect(200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.json(), expected);
    let reply = server.post("/v2/models/texts/versions/1/generate?x=1", body).expect(200);
    assert_eq!(reply.json(), expected);
}

#[test]
fn a_stream_is_one_event_with_the_same_object() {
    let (_repository, server) = texts();
    let body = r#"{"text":"a\nb","scores":1}"#;
    let reply = server.post("/v2/models/texts/generate_stream", body).expect(200);
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let text = reply.text();
    let event = text.strip_prefix("data: ").and_then(|it| it.strip_suffix("\n\n")).unwrap();
    assert!(!event.contains('\n'), "{event}");
    let event: serde_json::Value = serde_json::from_str(event).unwrap();
    assert_eq!((&event["text"], &event["scores"]), (&json!("a\nb"), &json!(1.0)));
}

#[test]
fn an_error_has_the_status_of_its_cause_on_both_addresses() {
    let (_repository, server) = texts();
    for address in ["generate", "generate_stream"] {
        let path = format!("/v2/models/texts/{address}");
        let error = |body: &str, status| server.post(&path, body).error(status);
        let text = error(r#"{"id":"7","text":[["a"]],"scores":1}"#, 400);
        assert!(text.starts_with("text: expected one value or a flat array"), "{text}");
        let text = error(r#"{"text":"a"}"#, 400);
        assert!(text.contains("missing required input(s) ['scores']"), "{text}");
        let text = error(r#"{"text":"a","scores":1,"prompt":{}}"#, 400);
        assert!(
            text.starts_with(
                "prompt: parameter 'prompt' has invalid type: expected a string, a number"
            ),
            "{text}"
        );
        server.post(&format!("/v2/models/none/{address}"), "{}").error(404);
        server.get(&path).error(405);
    }
}
