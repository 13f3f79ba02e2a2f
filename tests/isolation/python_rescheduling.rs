//! Python models that have a request run once more, that answer requests of sequences in parts, that have no inputs,
//! and that say themselves whether they can serve.

use std::thread;

use serde_json::{Value, json};

use super::python_models::serve;
use crate::support::{Client, Repository, infer};

/// Runs each request as often as it says, and answers with the times that it has begun and been run.
const COUNTS: &str = r#"
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.runs = {}

    def execute(self, requests):
        return [self.run(it) for it in requests]

    def run(self, request):
        times = int(request.inputs()[0].as_numpy().flat[0])
        begun, runs = self.runs.get(request.correlation_id(), (0, 0))
        begun += request.flags() & pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
        self.runs[request.correlation_id()] = begun, runs + 1
        if runs + 1 < times:
            request.set_release_flags(pb.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            return None
        if times == 0:
            return pb.InferenceResponse(error=pb.TritonError("not at all", pb.TritonError.NOT_FOUND))
        return pb.InferenceResponse([pb.Tensor("said", np.array([begun, runs + 1], np.int32))])
"#;

/// A response in each run: the runs of the request that are left.
const COUNTS_DOWN: &str = r#"
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.left = {}

    def execute(self, requests):
        for request in requests:
            times = int(request.inputs()[0].as_numpy().flat[0])
            left = self.left.get(request.correlation_id(), times) - 1
            self.left[request.correlation_id()] = left
            sender = request.get_response_sender()
            said = pb.InferenceResponse([pb.Tensor("said", np.array([left], np.int32))])
            sender.send(said, pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL if left == 0 else 0)
            if 0 < left:
                request.set_release_flags(pb.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
"#;

/// Two responses to each request of a sequence: the sum of its sequence, and that it is the end of the answer.
const SUMS: &str = r#"
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        for request in requests:
            inputs = {it.name(): int(it.as_numpy().flat[0]) for it in request.inputs()}
            before = 0 if inputs["START"] else self.sums[request.correlation_id()]
            self.sums[request.correlation_id()] = before + inputs["times"]
            sender = request.get_response_sender()
            for said in (before + inputs["times"], -1):
                sender.send(pb.InferenceResponse([pb.Tensor("said", np.array([said], np.int32))]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"#;

/// Is ready until a request has come.
const NO_INPUTS: &str = r#"
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    is_gone = False

    def is_ready(self):
        return not self.is_gone

    def execute(self, requests):
        self.is_gone = True
        return [pb.InferenceResponse([pb.Tensor("said", np.array([len(it.inputs()), 7], np.int32))]) for it in requests]
"#;

const INPUT: &str = "input { name: \"times\" data_type: TYPE_INT32 dims: [ 1 ] }";
const ITERATIVE: &str = "sequence_batching { iterative_sequence: true }";
const DECOUPLED: &str = "model_transaction_policy { decoupled: true }";

fn config(more: &str) -> String {
    format!(
        "backend: \"python\" {more}
         output {{ name: \"said\" data_type: TYPE_INT32 dims: [ -1 ] }}
         instance_group {{ count: 1 kind: KIND_CPU }}"
    )
}

fn with_model(code: &str, more: &str) -> Repository {
    Repository::new().file("m/1/model.py", code).file("m/config.pbtxt", config(more))
}

fn body(times: i32) -> String {
    format!(r#"{{"inputs":[{{"name":"times","datatype":"INT32","shape":[1],"data":[{times}]}}]}}"#)
}

/// What the events of an answer say.
fn events(client: &mut Client, request: &Value) -> Vec<i64> {
    let reply = client.post("/v2/models/m/generate_stream", &[], request.to_string()).expect(200);
    let text = reply.text();
    let said = text.split_terminator("\n\n").map(|it| {
        let event: Value = serde_json::from_str(it.strip_prefix("data: ").unwrap()).unwrap();
        event["said"].as_i64().unwrap_or_else(|| panic!("{event}"))
    });
    said.collect()
}

#[test]
fn a_request_is_run_again_until_its_model_is_done_with_it_as_a_sequence_of_its_own() {
    let more = format!("{INPUT} {ITERATIVE}");
    let Some(mut server) = serve(&with_model(COUNTS, &more), &[]) else { return };
    let http = server.address("http");
    let asked = [5, 1, 3, 0, 40].map(|times| {
        thread::spawn(move || (times, Client::connect(http).post(&infer("m"), &[], body(times))))
    });
    for (times, reply) in asked.map(|it| it.join().unwrap()) {
        match times {
            0 => assert_eq!(reply.error(404), "not at all"),
            _ => assert_eq!(reply.expect(200).json()["outputs"][0]["data"], json!([1, times])),
        }
    }
    drop(server.client());
}

#[test]
fn each_run_of_a_request_may_send_parts_of_its_answer() {
    let more = format!("{INPUT} {ITERATIVE} {DECOUPLED}");
    let Some(mut server) = serve(&with_model(COUNTS_DOWN, &more), &[]) else { return };
    let mut client = server.client();
    for times in [1, 3, 100] {
        let expected: Vec<i64> = (0..times).rev().collect();
        assert_eq!(events(&mut client, &json!({ "times": times })), expected);
    }
}

#[test]
fn requests_of_a_sequence_are_answered_in_parts() {
    let start = "sequence_batching { control_input { name: \"START\" control {
        kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } } }";
    let more = format!("{INPUT} {start} {DECOUPLED}");
    let Some(mut server) = serve(&with_model(SUMS, &more), &[]) else { return };
    let mut client = server.client();
    let mut sums = |id: u32, start: bool, times: i64| {
        let end = false;
        let place = json!({"sequence_id": id, "sequence_start": start, "sequence_end": end});
        events(&mut client, &json!({ "times": times, "parameters": place }))
    };
    assert_eq!(sums(7, true, 5), [5, -1]);
    assert_eq!(sums(7, false, 3), [8, -1]);
    assert_eq!(sums(7, true, 1), [1, -1]);
}

#[test]
fn a_model_without_inputs_is_asked_and_says_itself_whether_it_can_serve() {
    let Some(mut server) = serve(&with_model(NO_INPUTS, ""), &[]) else { return };
    let mut client = server.client();
    client.get("/v2/models/m/ready").expect(200);
    let reply = client.post(&infer("m"), &[], r#"{"inputs":[]}"#).expect(200);
    assert_eq!(reply.json()["outputs"][0]["data"], json!([0, 7]));
    let refused = client.get("/v2/models/m/ready").expect(503).text();
    assert!(refused.contains("its is_ready() says no"), "{refused}");
    // It is asked where its own readiness is asked for, and there alone.
    client.get("/v2/health/ready").expect(200);
    client.post(&infer("m"), &[], r#"{"inputs":[]}"#).expect(200);
}
