//! What Python models ask of the server: requests to other models, their loading, metrics of their own.

use serde_json::{Value, json};

use super::python_models::serve;
use crate::support::{
    Client, Page, Process, Reply, Repository, ask, infer, row, wait_for, wait_queued,
};

/// A model that runs the code of its requests. What that puts into `said` is the answer, as JSON.
const ASKER: &str = r#"
import asyncio, json, os, signal, time
import numpy as np
import triton_python_backend_utils as pb

def request(model, first, **more):
    x = np.array([[first, 0, 0, 0]], np.float32)
    more = {"requested_output_names": ["OUTPUT0"], "inputs": [pb.Tensor("INPUT0", x)], **more}
    return pb.InferenceRequest(model_name=model, **more)

def said_by(response):
    if response.has_error():
        return [response.error().code(), response.error().message()]
    return float(pb.get_output_tensor_by_name(response, "OUTPUT0").as_numpy().flat[0])

def asked(model, first, **more):
    return said_by(request(model, first, **more).exec())

def caught(work):
    try:
        return work()
    except pb.TritonModelException as error:
        return str(error)

KEPT = {}

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(it) for it in requests]

    def answer(self, incoming):
        code = pb.get_input_tensor_by_name(incoming, "code").as_numpy()[0].decode()
        scope = {**globals(), "incoming": incoming, "said": None}
        exec(code, scope)
        said = np.array([json.dumps(scope["said"])], object)
        return pb.InferenceResponse([pb.Tensor("said", said)])
"#;

const ASKER_CONFIG: &str = r#"
backend: "python"
input { name: "code" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "said" data_type: TYPE_STRING dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
"#;

/// A model of the identity engine's ports that asks the model of its configuration.
const HANDS_ON: &str = r#"
import json
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.next = config["parameters"]["next"]["string_value"]

    def execute(self, requests):
        return [self.answer(it) for it in requests]

    def answer(self, incoming):
        request = pb.InferenceRequest(
            model_name=self.next, requested_output_names=["OUTPUT0"], inputs=incoming.inputs())
        response = request.exec()
        if response.has_error():
            return pb.InferenceResponse(error=response.error())
        return pb.InferenceResponse(response.output_tensors())
"#;

trait WithAskers {
    fn with_asker(self, name: &str) -> Self;
    fn with_one_that_asks(self, name: &str, next: &str) -> Self;
}

impl WithAskers for Repository {
    fn with_asker(self, name: &str) -> Repository {
        self.file(&format!("{name}/1/model.py"), ASKER)
            .file(&format!("{name}/config.pbtxt"), ASKER_CONFIG)
    }

    fn with_one_that_asks(self, name: &str, next: &str) -> Repository {
        let config = format!(
            r#"backend: "python" max_batch_size: 8
            input {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }}
            output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }}
            instance_group {{ count: 1 kind: KIND_CPU }}
            parameters {{ key: "next" value {{ string_value: "{next}" }} }}"#
        );
        self.file(&format!("{name}/1/model.py"), HANDS_ON)
            .file(&format!("{name}/config.pbtxt"), config)
    }
}

fn body(code: &str) -> String {
    let input = json!({ "name": "code", "datatype": "BYTES", "shape": [1], "data": [code] });
    json!({ "inputs": [input] }).to_string()
}

/// What the code has said.
#[track_caller]
fn run(client: &mut Client, code: &str) -> Value {
    let reply = client.post(&infer("asker"), &[], body(code)).expect(200).json();
    serde_json::from_str(reply["outputs"][0]["data"][0].as_str().unwrap()).unwrap()
}

/// The error of a request to a model that hands on what it is asked.
fn refused(client: &mut Client, model: &str) -> Reply {
    client.post(&infer(model), &[], row(7))
}

fn page(server: &mut Process) -> Page {
    Page::read(server.address("metrics"))
}

#[test]
fn code_asks_other_models_one_after_the_other_and_side_by_side() {
    let repository = Repository::identity("echo", &[]).with_asker("asker");
    let Some(mut server) = serve(&repository, &[]) else { return };
    let mut client = server.client();
    let code = "said = [asked('echo', 7), asked('echo', 8, model_version=1, request_id='a')]";
    assert_eq!(run(&mut client, code), json!([7.0, 8.0]));
    let code = "
async def all_of_them():
    return await asyncio.gather(*(request('echo', it).async_exec() for it in range(20)))
said = [said_by(it) for it in asyncio.run(all_of_them())]";
    let expected: Vec<f64> = (0..20).map(f64::from).collect();
    assert_eq!(run(&mut client, code), json!(expected));
    // They are requests as of clients.
    let page = page(&mut server);
    assert_eq!(page.of("echo", "nv_inference_request_success"), 22.0);
    assert_eq!(page.of("asker", "nv_inference_request_success"), 2.0);
    let code = "said = list(map(said_by, request('echo', 9).exec(decoupled=True)))";
    assert_eq!(run(&mut client, code), json!([9.0]));
}

/// Answers by two responses. The second one is the last, or the end comes by itself, as the request says.
const TWICE: &str = r#"
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender, x = request.get_response_sender(), request.inputs()[0].as_numpy()
            for flags in (0, int(x.flat[0])):
                sender.send(pb.InferenceResponse([pb.Tensor("OUTPUT0", x)]), flags)
            if flags == 0:
                sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"#;

#[test]
fn an_end_that_comes_by_itself_is_a_response_without_outputs() {
    let config = r#"backend: "python" model_transaction_policy { decoupled: true }
        input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1, 4 ] }
        output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1, 4 ] }"#;
    let twice = Repository::new().file("twice/1/model.py", TWICE);
    let repository = twice.file("twice/config.pbtxt", config).with_asker("asker");
    let Some(mut server) = serve(&repository, &[]) else { return };
    for (flags, expected) in [(0, json!([1, 1, 0])), (1, json!([1, 1]))] {
        let code = format!(
            "said = [len(it.output_tensors()) for it in request('twice', {flags}).exec(decoupled=True)]"
        );
        assert_eq!(run(&mut server.client(), &code), expected);
    }
}

#[test]
fn what_other_models_cannot_answer_is_an_error_with_the_text_that_clients_get() {
    let repository = Repository::identity("echo", &[]).with_asker("asker");
    let Some(mut server) = serve(&repository, &["--max-inflight-bytes=8388608"]) else { return };
    let mut client = server.client();
    let missing = client.post(&infer("missing"), &[], row(1));
    let text = missing.json()["error"].as_str().unwrap().to_owned();
    let not_found = 2;
    assert_eq!(run(&mut client, "said = asked('missing', 1)"), json!([not_found, text]));
    let invalid = 3;
    let wide = "said = said_by(request('echo', 1, requested_output_names=['other']).exec())";
    let said = run(&mut client, wide);
    assert_eq!(said[0], invalid);
    assert!(said[1].as_str().unwrap().contains("'other'"), "{said}");
    let large = "
x = pb.Tensor('INPUT0', np.zeros([1, 4_000_000], np.float32))
said = said_by(request('echo', 1, inputs=[x]).exec())";
    let said = run(&mut client, large);
    assert!(said[1].as_str().unwrap().contains("--max-inflight-bytes"), "{said}");
    let late = "said = said_by(request('echo', 1, timeout=1_000_000).exec())";
    assert_eq!(run(&mut client, late), json!(1.0));
}

#[test]
fn a_request_that_takes_longer_than_it_may_is_an_error() {
    let delay = [("execute_delay_ms", "3600000")];
    let repository = Repository::identity("slow", &delay).with_asker("asker");
    let Some(mut server) = serve(&repository, &[]) else { return };
    let said = run(&mut server.client(), "said = asked('slow', 1, timeout=1000)");
    let unavailable = 4;
    assert_eq!(said[0], unavailable);
    assert!(said[1].as_str().unwrap().starts_with("Request timeout expired"), "{said}");
}

#[test]
fn models_that_ask_each_other_in_a_circle_are_told_so_and_serve_on() {
    let ensemble = r#"
        platform: "ensemble" max_batch_size: 8
        input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
        ensemble_scheduling { step { model_name: "through" model_version: -1
            input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } } }"#;
    let repository = Repository::identity("echo", &[])
        .with_one_that_asks("self", "self")
        .with_one_that_asks("a", "b")
        .with_one_that_asks("b", "c")
        .with_one_that_asks("c", "a")
        .with_one_that_asks("through", "whole")
        .with_one_that_asks("straight", "echo")
        .model("whole", ensemble);
    let Some(mut server) = serve(&repository, &[]) else { return };
    let mut client = server.client();
    for (model, chain) in [
        ("self", "'self' -> 'self'"),
        ("a", "'a' -> 'b' -> 'c' -> 'a'"),
        ("c", "'c' -> 'a' -> 'b' -> 'c'"),
        ("through", "'through' -> 'whole' -> 'through'"),
    ] {
        let error = refused(&mut client, model).error(400);
        assert!(error.contains(chain), "{error}");
    }
    assert_eq!(refused(&mut client, "straight").expect(200).json()["outputs"][0]["data"][0], 7.0);
}

#[test]
fn many_requests_at_once_wait_for_their_turn() {
    let repository = Repository::identity("echo", &[]).with_asker("asker");
    let Some(mut server) = serve(&repository, &[]) else { return };
    let code = "
async def all_of_them():
    return await asyncio.gather(*(request('echo', it).async_exec() for it in range(300)))
said = sum(said_by(it) for it in asyncio.run(all_of_them()))";
    assert_eq!(run(&mut server.client(), code), json!(299.0 * 300.0 / 2.0));
}

#[test]
fn a_client_that_leaves_takes_the_requests_along_that_were_made_for_it() {
    let slow = r#"backend: "identity"
        input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1, 4 ] }
        output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1, 4 ] }
        parameters { key: "execute_delay_ms" value: { string_value: "3600000" } }
        instance_group { count: 1 kind: KIND_CPU }"#;
    let repository = Repository::new().model("slow", slow).with_asker("asker");
    let Some(mut server) = serve(&repository, &[]) else { return };
    let http = server.address("http");
    // One of the two has to wait for the other.
    let staying = ask(http, "slow", row(2));
    let leaving = ask(http, "asker", body("print('it asks', flush=True); said = asked('slow', 1)"));
    // Before that the other one may be the one that is queued.
    server.wait_for_line("it asks");
    wait_queued(server.address("metrics"), "slow", 1);
    drop(leaving);
    wait_for("its end", || (page(&mut server).failures("slow", "CANCELED") == 1.0).then_some(()));
    // The instance is free again.
    assert_eq!(run(&mut server.client(), "said = 1"), json!(1));
    drop(staying);
}

#[test]
fn code_loads_unloads_and_asks_for_models_by_the_rules_of_the_server() {
    let repository = Repository::identity("echo", &[]).with_asker("asker");
    let explicit = ["--model-control-mode=explicit", "--load-model=asker"];
    let load = "
said = [pb.is_model_ready('echo'), caught(lambda: pb.load_model('echo')), pb.is_model_ready('echo', '1')]
said += [asked('echo', 5), pb.unload_model('echo'), pb.is_model_ready('echo'), asked('echo', 5)[0]]";
    let Some(mut server) = serve(&repository, &explicit) else { return };
    let mut client = server.client();
    let expected = json!([false, null, true, 5.0, null, false, 2]);
    assert_eq!(run(&mut client, load), expected);
    let given = "
config = json.dumps({'backend': 'identity', 'max_batch_size': 8, 'input': [{'name': 'INPUT0', 'data_type': 'TYPE_FP32',
    'dims': [4]}], 'output': [{'name': 'OUTPUT0', 'data_type': 'TYPE_FP32', 'dims': [4]}]})
said = [pb.load_model('new', config, {'file:1/some': b'bytes'}), asked('new', 3)]
said += [caught(lambda: pb.load_model('new', config, {'1/some': b''})), caught(lambda: pb.load_model('none'))]";
    let said = run(&mut client, given);
    assert_eq!((&said[0], &said[1]), (&Value::Null, &json!(3.0)));
    assert!(said[2].as_str().unwrap().contains("file:1/model.onnx"), "{said}");
    assert!(said[3].as_str().unwrap().contains("none"), "{said}");
    let Some(mut server) = serve(&repository, &[]) else { return };
    let code =
        "said = [caught(lambda: pb.load_model('echo')), caught(lambda: pb.unload_model('echo'))]";
    let said = run(&mut server.client(), code);
    for said in said.as_array().unwrap() {
        let text = said.as_str().unwrap();
        assert!(text.contains("explicit model load / unload is not allowed"), "{text}");
    }
}

#[test]
fn code_asks_the_models_of_its_own_repository() {
    let echo = |version: u32| Repository::new().file(&format!("echo/{version}/none"), "");
    let config = r#"backend: "identity" max_batch_size: 8
        input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }"#;
    let one = echo(1).file("echo/config.pbtxt", config).with_asker("asker");
    let other = echo(2).file("echo/config.pbtxt", config);
    let second = format!("--model-repository={}", other.path().display());
    let Some(mut server) = serve(&one, &[&second, "--model-namespacing=true"]) else { return };
    let code = "said = [asked('echo', 7), asked('echo', 7, model_version=1)]
said += [asked('echo', 7, model_version=2)[0], pb.is_model_ready('echo', '1'), pb.is_model_ready('echo', '2')]";
    let not_found = 2;
    assert_eq!(run(&mut server.client(), code), json!([7.0, 7.0, not_found, true, false]));
}

#[test]
fn metrics_of_a_model_are_on_the_page_until_it_is_gone() {
    let repository = Repository::identity("echo", &[]).with_asker("asker");
    let flags = ["--model-control-mode=explicit", "--load-model=*"];
    let Some(mut server) = serve(&repository, &flags) else { return };
    let mut client = server.client();
    let make = "
family = pb.MetricFamily('asked_for', 'what was asked for', pb.MetricFamily.COUNTER)
KEPT['m'] = family.Metric(labels={'what': 'echo'})
KEPT['m'].increment(2)
said = KEPT['m'].value()";
    assert_eq!(run(&mut client, make), json!(2.0));
    let series = "asked_for{what=\"echo\"}";
    assert_eq!(page(&mut server).value(series), 2.0);
    // What is not waited for is there when the run is over.
    assert_eq!(run(&mut client, "KEPT['m'].increment(0.5)"), Value::Null);
    assert_eq!(page(&mut server).value(series), 2.5);
    let other_kind = "said = caught(lambda: pb.MetricFamily('asked_for', 'what was asked for', pb.MetricFamily.GAUGE))";
    let said = run(&mut client, other_kind);
    assert!(said.as_str().unwrap().contains("'asked_for' is there already"), "{said}");
    let many = "
family = pb.MetricFamily('many', 'one too many', pb.MetricFamily.GAUGE)
def make():
    KEPT['many'] = [family.Metric(labels={'n': str(it)}) for it in range(1001)]
said = caught(make)";
    let said = run(&mut client, many);
    assert!(said.as_str().unwrap().contains("has 1000 metrics already"), "{said}");
    // The process dies, and the next one goes on where the page stands.
    let killed = client.post(&infer("asker"), &[], body("os.kill(os.getpid(), signal.SIGKILL)"));
    assert_ne!(killed.status, 200);
    let again = wait_for("the next process", || {
        let reply = server.client().post(&infer("asker"), &[], body(make));
        (reply.status == 200).then_some(reply)
    });
    assert_eq!(again.json()["outputs"][0]["data"][0], "4.5");
    server.client().post("/v2/repository/models/asker/unload", &[], "").expect(200);
    wait_for("the end of the series", || (!page(&mut server).has(series)).then_some(()));
}
