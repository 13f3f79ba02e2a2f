//! Python models that answer a request by any number of responses.

use std::io::Read;

use serde_json::{Value, json};

use super::python_models::serve;
use crate::support::{Repository, infer, wait_for};

/// Sends as many responses as a request says, from a thread of its own. It dies behind the first where that is < 0.
const REPEAT: &str = r#"
import os, threading, time
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.answer, args=(request.get_response_sender(), request)).start()

    def answer(self, sender, request):
        times = int(pb.get_input_tensor_by_name(request, "times").as_numpy()[0])
        for at in range(abs(times)):
            sender.send(pb.InferenceResponse([pb.Tensor("at", np.array([at], np.int32))]))
            if times < 0:
                time.sleep(0.2)
                os._exit(3)
            if sender.is_cancelled():
                print("nobody waits any more", flush=True)
                break
        sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"#;

const REPEAT_CONFIG: &str = r#"
backend: "python"
model_transaction_policy { decoupled: true }
input { name: "times" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "at" data_type: TYPE_INT32 dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
"#;

/// A part for each letter.
const YIELDS: &str = r#"
class Model:
    def predict(self, text: str) -> str:
        for letter in text:
            yield letter
"#;

fn models() -> Repository {
    Repository::new()
        .file("repeat/1/model.py", REPEAT)
        .file("repeat/config.pbtxt", REPEAT_CONFIG)
        .file("letters/1/model.py", YIELDS)
}

/// What each event says.
fn events(text: &str) -> Vec<Value> {
    let events = text.split_terminator("\n\n");
    events.map(|it| serde_json::from_str(it.strip_prefix("data: ").unwrap()).unwrap()).collect()
}

#[test]
fn each_response_is_an_event_and_calls_that_take_one_answer_are_refused() {
    let repository = models();
    let Some(mut server) = serve(&repository, &[]) else { return };
    let mut client = server.client();
    let path = "/v2/models/repeat/generate_stream";
    for times in [3, 0, 200] {
        let reply = client.post(path, &[], json!({ "times": times }).to_string()).expect(200);
        let said: Vec<Value> = events(&reply.text()).iter().map(|it| it["at"].clone()).collect();
        assert_eq!(said, (0..times).map(|it| json!(it)).collect::<Vec<_>>());
    }
    let path = "/v2/models/letters/generate_stream";
    let reply = client.post(path, &[], r#"{"text": "abc"}"#).expect(200);
    let said: Vec<Value> = events(&reply.text()).iter().map(|it| it["output"].clone()).collect();
    assert_eq!(said, ["a", "b", "c"]);
    let body = r#"{"inputs":[{"name":"times","datatype":"INT32","shape":[1],"data":[2]}]}"#;
    let refused = client.post(&infer("repeat"), &[], body).expect(501);
    assert!(refused.text().contains("decoupled transaction policy"), "{}", refused.text());
}

#[test]
fn a_process_that_dies_behind_the_first_response_ends_the_answer_with_an_error_and_serves_again() {
    let repository = models();
    let Some(mut server) = serve(&repository, &[]) else { return };
    let mut client = server.client();
    let path = "/v2/models/repeat/generate_stream";
    let said = events(&client.post(path, &[], r#"{"times": -2}"#).expect(200).text());
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[0]["at"], json!(0));
    assert!(said[1]["error"].as_str().unwrap().contains("exit code 3"), "{said:?}");
    wait_for("another process", || {
        let reply = client.post(path, &[], r#"{"times": 1}"#);
        (reply.status == 200 && events(&reply.text()).len() == 1).then_some(())
    });
}

#[test]
fn a_model_hears_that_its_client_has_left_in_the_middle() {
    let repository = models();
    let Some(mut server) = serve(&repository, &[]) else { return };
    let mut client = server.client();
    let body = r#"{"times": 100000000}"#;
    let head = crate::support::post_head("/v2/models/repeat/generate_stream", &[], body.len());
    client.send(head + body).unwrap();
    let mut seen = [0; 256];
    let mut stream = client.stream();
    assert!(0 < stream.read(&mut seen).unwrap());
    drop(client);
    server.wait_for_line("nobody waits any more");
    let mut client = server.client();
    let path = "/v2/models/repeat/generate_stream";
    let reply = client.post(path, &[], r#"{"times": 2}"#).expect(200);
    assert_eq!(events(&reply.text()).len(), 2);
}
