//! Senders of responses: before `execute` returns, with it and after it, of decoupled models and others, as coroutines
//! and as functions. The cases are those of Triton's own tests.

use std::thread;

use serde_json::{Value, json};

use super::python_models::serve;
use crate::support::{Client, Process, Repository, infer};

/// Does what a request says: responses before `execute` returns, with it, and after it, and where the final flag goes.
/// The first number of a response tells where it was sent.
const SENDS: &str = r#"
import asyncio, threading
import numpy as np
import triton_python_backend_utils as pb

FINAL = pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL

def response(number):
    return pb.InferenceResponse([pb.Tensor("at", np.array([number], np.int32))])

def send(sender, first, count, is_final):
    for at in range(count):
        sender.send(response(first + at))
    if is_final:
        sender.send(flags=FINAL)

class Base:
    def begin(self, requests):
        returned, later = [], []
        for request in requests:
            plan = pb.get_input_tensor_by_name(request, "plan").as_numpy()
            before, ends_before, returns, after, ends_after = (int(it) for it in plan)
            sender = None
            if before or ends_before or after or ends_after:
                sender = request.get_response_sender()
            if after or ends_after:
                later.append((sender, 2000, after, ends_after))
            returned.append(response(0) if returns else None)
            if before or ends_before:
                send(sender, 1000, before, ends_before)
        return returned if self.lists or any(returned) else None, later

    lists = False
"#;

const FUNCTION: &str = r#"
class TritonPythonModel(Base):
    def execute(self, requests):
        returned, later = self.begin(requests)
        released = threading.Event()
        def answer():
            released.wait(0.05)
            for it in later:
                send(*it)
        threading.Thread(target=answer, daemon=True).start()
        return returned
"#;

const COROUTINE: &str = r#"
class TritonPythonModel(Base):
    async def execute(self, requests):
        returned, later = self.begin(requests)
        async def answer():
            await asyncio.sleep(0.05)
            for it in later:
                send(*it)
        if self.lists:
            # A loop of its own runs only while the model does.
            threading.Thread(target=lambda: asyncio.run(answer()), daemon=True).start()
        else:
            self.task = asyncio.create_task(answer())
        return returned
"#;

const LISTS: &str = "    lists = True\n";

fn config(more: &str) -> String {
    format!(
        "backend: 'python' {more}
         input {{ name: 'plan' data_type: TYPE_INT32 dims: [ 5 ] }}
         output {{ name: 'at' data_type: TYPE_INT32 dims: [ 1 ] }}
         instance_group {{ count: 1 kind: KIND_CPU }}"
    )
}

fn models() -> Repository {
    let decoupled = config("model_transaction_policy { decoupled: true }");
    let one = config("");
    Repository::new()
        .file("decoupled/1/model.py", [SENDS, FUNCTION].concat())
        .file("decoupled/config.pbtxt", &decoupled)
        .file("decoupled_async/1/model.py", [SENDS, COROUTINE].concat())
        .file("decoupled_async/config.pbtxt", &decoupled)
        .file("one/1/model.py", [SENDS, FUNCTION, LISTS].concat())
        .file("one/config.pbtxt", &one)
        .file("one_async/1/model.py", [SENDS, COROUTINE, LISTS].concat())
        .file("one_async/config.pbtxt", &one)
}

/// Responses before the return, the final flag there, one with the return, responses after it, the final flag there.
type Sends = [i32; 5];

const ZERO_BEFORE: Sends = [0, 1, 0, 0, 0];
const ZERO_AFTER: Sends = [0, 0, 0, 0, 1];
const ONE_BEFORE: Sends = [1, 1, 0, 0, 0];
const ONE_AFTER: Sends = [0, 0, 0, 1, 1];
const TWO_BEFORE: Sends = [2, 1, 0, 0, 0];
const TWO_AFTER: Sends = [0, 0, 0, 2, 1];
const BEFORE_AND_AFTER: Sends = [1, 0, 0, 3, 1];
const ONE_RETURNED: Sends = [0, 0, 1, 0, 0];
const ONE_BEFORE_AND_RETURNED: Sends = [1, 1, 1, 0, 0];
const ONE_RETURNED_AND_AFTER: Sends = [0, 0, 1, 1, 1];

/// The responses of a decoupled model, or the texts of errors.
fn stream(server: &mut Process, model: &str, sends: Sends) -> Vec<Value> {
    let path = format!("/v2/models/{model}/generate_stream");
    let reply = server.client().post(&path, &[], json!({ "plan": sends }).to_string());
    let text = reply.text();
    let events = text.split_terminator("\n\n").map(|it| {
        let event: Value = serde_json::from_str(it.strip_prefix("data: ").unwrap()).unwrap();
        [&event["at"], &event["error"]].into_iter().find(|it| !it.is_null()).unwrap().clone()
    });
    events.collect()
}

/// The response of a model that gives one, or the text of its error.
fn one(server: &mut Process, model: &str, sends: Sends) -> Value {
    let input = json!({ "name": "plan", "datatype": "INT32", "shape": [5], "data": sends });
    let body = json!({ "inputs": [input] }).to_string();
    let reply = server.client().post(&infer(model), &[], body).json();
    let data = &reply["outputs"][0]["data"][0];
    if data.is_null() { reply["error"].clone() } else { data.clone() }
}

#[track_caller]
fn contains(said: &[Value], text: &str) {
    assert!(matches!(said, [Value::String(it)] if it.contains(text)), "{said:?}");
}

#[test]
fn a_decoupled_model_sends_before_and_after_it_returns() {
    let repository = models();
    let Some(mut server) = serve(&repository, &[]) else { return };
    for model in ["decoupled", "decoupled_async"] {
        for (sends, expected) in [
            (ZERO_BEFORE, &[][..]),
            (ZERO_AFTER, &[]),
            (ONE_BEFORE, &[1000]),
            (ONE_AFTER, &[2000]),
            (TWO_BEFORE, &[1000, 1001]),
            (TWO_AFTER, &[2000, 2001]),
            (BEFORE_AND_AFTER, &[1000, 2000, 2001, 2002]),
        ] {
            let said = stream(&mut server, model, sends);
            assert_eq!(json!(said), json!(expected), "{model} {sends:?}");
        }
    }
    // Responses to many requests at once are each one's own.
    let address = server.address("http");
    let all = [ZERO_BEFORE, ZERO_AFTER, ONE_BEFORE, ONE_AFTER, TWO_BEFORE, BEFORE_AND_AFTER];
    let asked = all.map(|sends| {
        thread::spawn(move || {
            let mut client = Client::connect(address);
            let path = "/v2/models/decoupled/generate_stream";
            let reply = client.post(path, &[], json!({ "plan": sends }).to_string()).expect(200);
            reply.text().matches("\"at\"").count()
        })
    });
    assert_eq!(asked.map(|it| it.join().unwrap()), [0, 0, 1, 1, 2, 4]);
}

#[test]
fn a_decoupled_model_that_returns_a_response_is_told_so_unless_it_has_answered() {
    let repository = models();
    let Some(mut server) = serve(&repository, &[]) else { return };
    let text = "is using the decoupled mode and the execute function must return None";
    contains(&stream(&mut server, "decoupled", ONE_RETURNED), text);
    contains(&stream(&mut server, "decoupled", ONE_RETURNED_AND_AFTER), text);
    let said = stream(&mut server, "decoupled", ONE_BEFORE_AND_RETURNED);
    assert_eq!(said, [1000]);
    // It serves as before.
    assert_eq!(stream(&mut server, "decoupled", ONE_BEFORE), [1000]);
}

#[test]
fn a_model_that_gives_one_answer_may_send_it_and_the_first_one_counts() {
    let repository = models();
    let Some(mut server) = serve(&repository, &[]) else { return };
    for model in ["one", "one_async"] {
        for (sends, expected) in [
            (ONE_RETURNED, 0),
            (ONE_BEFORE, 1000),
            (ONE_AFTER, 2000),
            (TWO_BEFORE, 1000),
            (TWO_AFTER, 2000),
            (ONE_BEFORE_AND_RETURNED, 1000),
            (ONE_RETURNED_AND_AFTER, 0),
        ] {
            assert_eq!(one(&mut server, model, sends), expected, "{model} {sends:?}");
        }
        let text = "cannot send complete final before sending a response";
        contains(&[one(&mut server, model, ZERO_BEFORE)], text);
    }
    // Triton would wait for ever.
    contains(&[one(&mut server, "one", ZERO_AFTER)], "no response was sent");
}
