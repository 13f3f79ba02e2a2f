//! Python models that answer a request by any number of responses.

use std::io::Read;

use serde_json::{Value, json};

use super::python_models::serve;
use crate::support::{
    Client, Repository, infer, wait_for,
    websocket::{PATH, Socket},
};

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

/// Sends one response, and then nothing while somebody waits.
const QUIET: &str = r#"
import time
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            sender.send(pb.InferenceResponse([pb.Tensor("at", np.array([1], np.int32))]))
            while not sender.is_cancelled():
                time.sleep(0.002)
            print("nobody waits for a quiet model", flush=True)
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
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
        .file("quiet/1/model.py", QUIET)
        .file("quiet/config.pbtxt", REPEAT_CONFIG)
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
    for (model, line) in
        [("repeat", "nobody waits any more"), ("quiet", "nobody waits for a quiet model")]
    {
        let body = r#"{"times": 100000000}"#;
        let path = format!("/v2/models/{model}/generate_stream");
        client.send(crate::support::post_head(&path, &[], body.len()) + body).unwrap();
        let mut seen = [0; 1024];
        let mut length = 0;
        while !String::from_utf8_lossy(&seen[..length]).contains("data: ") {
            let read = client.stream().read(&mut seen[length..]).unwrap();
            assert!(0 < read);
            length += read;
        }
        drop(client);
        server.wait_for_line(line);
        client = server.client();
    }
    let path = "/v2/models/repeat/generate_stream";
    let reply = client.post(path, &[], r#"{"times": 2}"#).expect(200);
    assert_eq!(events(&reply.text()).len(), 2);
}

/// Bytes of UTF-8 become text. What is left of a letter waits for the next bytes of its conversation.
const DECODER: &str = r#"
import codecs
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.decoders = {}

    def execute(self, requests):
        return [self.answer(it) for it in requests]

    def answer(self, request):
        def given(name):
            return pb.get_input_tensor_by_name(request, name).as_numpy().reshape(-1)

        name = given("CORRID")[0]
        if given("START")[0]:
            self.decoders[name] = codecs.getincrementaldecoder("utf-8")()
        text = self.decoders[name].decode(given("data").tobytes())
        return pb.InferenceResponse([pb.Tensor("text", np.array([text.encode()], dtype=np.object_))])
"#;

const DECODER_CONFIG: &str = r#"
backend: "python"
sequence_batching { oldest { max_candidate_sequences: 4 } control_input [
    { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
    { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } } ] }
input { name: "data" data_type: TYPE_UINT8 dims: [ -1 ] }
output { name: "text" data_type: TYPE_STRING dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
"#;

#[test]
fn an_incremental_decoder_keeps_its_conversations_apart_over_websockets_with_sessions() {
    let repository = Repository::new()
        .file("decoder/1/model.py", DECODER)
        .file("decoder/config.pbtxt", DECODER_CONFIG);
    let Some(mut server) = serve(&repository, &["--sessions=true"]) else { return };
    let address = server.address("sagemaker");
    const SESSION: &str = "x-amzn-sagemaker-session-id";
    let open = || {
        let (body, headers) = (r#"{"requestType":"NEW_SESSION"}"#, [(SESSION, "NEW_SESSION")]);
        let reply = Client::connect(address).post("/invocations", &headers, body).expect(200);
        let id = reply.header(SESSION).unwrap().split(';').next().unwrap().to_owned();
        Socket::connect(address, PATH, &[(SESSION, &id)])
    };
    let mut sockets = [open(), open()];
    let mut text = |socket: usize, data: &[u8]| {
        let input =
            json!({ "name": "data", "datatype": "UINT8", "shape": [data.len()], "data": data });
        let said = sockets[socket].ask(&json!({ "inputs": [input] }).to_string());
        let answer: Value = serde_json::from_str(&said).unwrap();
        answer["outputs"][0]["data"][0].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    // The umlaut is cut in two, and another conversation comes between.
    let word = "gr\u{fc}n".as_bytes();
    assert_eq!(text(0, &word[..3]), "gr");
    assert_eq!(text(1, b"ab"), "ab");
    assert_eq!(text(0, &word[3..]), "\u{fc}n");
    assert_eq!(text(1, &word[..3]), "gr");
    assert_eq!(text(1, &word[3..]), "\u{fc}n");
}
