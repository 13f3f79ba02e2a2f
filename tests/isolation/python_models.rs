//! Models that are Python code: requests answered each by itself, failures of the code, and what a load says.

use std::{path::Path, thread};

use tonic::Code;

use crate::support::{
    Client, Process, Reply, Repository, check_end, grpc, infer, post_head, program,
    python::{python, run},
    root, wait_for,
};

/// A model of Triton's interface that refuses, fails and dies as the first number of a request says.
const FAULTS: &str = r#"
import os, signal
import triton_python_backend_utils as pb

CODES = dict(enumerate("- INVALID_ARG NOT_FOUND UNAVAILABLE UNSUPPORTED INTERNAL UNKNOWN CANCELLED".split()))
del CODES[0]

class TritonPythonModel:
    def initialize(self, args):
        self.name = args["model_instance_name"]

    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb.get_input_tensor_by_name(request, "x").as_numpy()
            first = int(x.flat[0])
            if first in CODES:
                error = pb.TritonError("refused " + CODES[first], getattr(pb.TritonError, CODES[first]))
                answers.append(pb.InferenceResponse(error=error))
                continue
            if first == 665:
                raise ValueError("an exception")
            if first == 666:
                os.kill(os.getpid(), signal.SIGSEGV)
            said = {"id": request.request_id(), "rows": len(x), "run": len(requests), "pid": os.getpid()}
            answers.append(pb.InferenceResponse([pb.Tensor("y", x * 2)], parameters=said))
        return answers
"#;

/// Its configuration: requests wait for each other until four rows are there.
const TOGETHER: &str = r#"
backend: "python" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [ 2 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 2 ] }
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 60000000 }
"#;

/// The same, of which each request is a run.
const ALONE: &str = r#"
backend: "python" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [ 2 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 2 ] }
instance_group { count: 2 kind: KIND_CPU }
"#;

/// A server of that repository, whose models are run by an interpreter with numpy. `None` without one.
pub(super) fn serve(repository: &Repository, flags: &[&str]) -> Option<Process> {
    let interpreter = python("requirements.txt")?;
    let interpreter = format!("--python={}", interpreter.display());
    let flags: Vec<&str> = [&*interpreter].into_iter().chain(flags.iter().copied()).collect();
    let mut server = Process::start(repository, &flags, &[]);
    server.wait_ready();
    Some(server)
}

fn with_model(name: &str, code: &str, config: Option<&str>) -> Repository {
    let repository = Repository::new().file(&format!("{name}/1/model.py"), code);
    match config {
        Some(config) => repository.file(&format!("{name}/config.pbtxt"), config),
        None => repository,
    }
}

/// A request of one row that begins with that number.
fn body(id: &str, first: i32) -> String {
    format!(
        r#"{{"id":"{id}","inputs":[{{"name":"x","datatype":"FP32","shape":[1,2],"data":[{first},8]}}]}}"#
    )
}

fn ask(server: &mut Process, first: i32) -> Reply {
    server.client().post(&infer("m"), &[], body("r", first))
}

#[test]
fn what_runs_in_their_processes_passes_its_own_tests() {
    let Some(interpreter) = python("requirements.txt") else { return };
    let mut tests = std::process::Command::new(interpreter);
    tests.args(["-m", "unittest", "discover", "-s", "backends/python/runtime/tests"]);
    if let Err(said) = run(tests.current_dir(root(""))) {
        panic!("{said}");
    }
}

#[test]
fn each_request_of_a_run_has_its_own_answer_parameters_and_error() {
    let repository = with_model("m", FAULTS, Some(TOGETHER));
    let Some(mut server) = serve(&repository, &[]) else { return };
    let http = server.address("http");
    let mut clients: Vec<Client> = [10, 1, 2, 20]
        .iter()
        .map(|first| {
            let mut client = Client::connect(http);
            let text = body(&format!("id-{first}"), *first);
            let head = post_head(&infer("m"), &[], text.len());
            client.send(head + &text).unwrap();
            client
        })
        .collect();
    let replies: Vec<Reply> = clients.iter_mut().map(Client::reply).collect();
    assert_eq!(replies.iter().map(|it| it.status).collect::<Vec<_>>(), [200, 400, 404, 200]);
    for (reply, first) in [(&replies[0], 10.0), (&replies[3], 20.0)] {
        let json = reply.json();
        assert_eq!(json["outputs"][0]["data"][0], 2.0 * first);
        assert_eq!(json["parameters"]["id"], format!("id-{first}"));
        assert_eq!(
            (&json["parameters"]["rows"], &json["parameters"]["run"]),
            (&1.into(), &4.into())
        );
    }
    assert_eq!(replies[1].error(400), "refused INVALID_ARG");
    assert_eq!(replies[2].error(404), "refused NOT_FOUND");
}

#[test]
fn errors_have_the_statuses_of_their_codes_and_an_exception_costs_no_process() {
    let repository = with_model("m", FAULTS, Some(ALONE));
    let Some(mut server) = serve(&repository, &[]) else { return };
    let pid = |reply: Reply| reply.expect(200).json()["parameters"]["pid"].clone();
    let before = [pid(ask(&mut server, 10)), pid(ask(&mut server, 10))];
    let mut grpc = grpc::Client::connect(server.address("grpc"));
    for (first, status, code) in [
        (1, 400, Code::InvalidArgument),
        (2, 404, Code::NotFound),
        (3, 503, Code::Unavailable),
        (4, 501, Code::Unimplemented),
        (5, 500, Code::Internal),
        (6, 400, Code::Unknown),
        (7, 400, Code::Cancelled),
    ] {
        assert!(ask(&mut server, first).error(status).starts_with("refused "));
        let mut request = grpc::identity("m", &[first as f32]);
        request.inputs[0] = grpc::input("x", "FP32", &[2, 2]);
        assert!(grpc.refused(request, code).starts_with("refused "));
    }
    let error = ask(&mut server, 665).error(500);
    assert!(error.contains("ValueError: an exception"), "{error}");
    assert!(before.contains(&pid(ask(&mut server, 10))));
    // With the place in its code.
    server.wait_for_line("raise ValueError(\"an exception\")");
}

#[test]
fn a_request_that_ends_the_process_gets_an_error_and_the_next_is_answered() {
    let repository = with_model("m", FAULTS, Some(ALONE));
    let Some(mut server) = serve(&repository, &[]) else { return };
    let error = ask(&mut server, 666).error(500);
    assert!(error.contains("ended by signal 11 (SIGSEGV)"), "{error}");
    wait_for("the next process", || (ask(&mut server, 10).status == 200).then_some(()));
}

#[test]
fn instances_have_a_process_each() {
    let slow =
        FAULTS.replace("os.kill(os.getpid(), signal.SIGSEGV)", "__import__('time').sleep(0.2)");
    let repository = with_model("m", &slow, Some(ALONE));
    let Some(mut server) = serve(&repository, &[]) else { return };
    let http = server.address("http");
    let both = || {
        let asked = [(); 2].map(|()| {
            std::thread::spawn(move || {
                let reply =
                    Client::connect(http).post(&infer("m"), &[], body("r", 666)).expect(200);
                reply.json()["parameters"]["pid"].as_u64().unwrap()
            })
        });
        let [one, other] = asked.map(|it| it.join().unwrap());
        (one != other).then_some(())
    };
    wait_for("two requests at a time", both);
}

#[test]
fn code_completes_the_configuration_that_is_not_written() {
    let code = r#"
import triton_python_backend_utils as pb

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "a", "data_type": "TYPE_STRING", "dims": [1]})
        config.add_output({"name": "b", "data_type": "TYPE_STRING", "dims": [1]})
        config.set_max_batch_size(3)
        config.set_dynamic_batching()
        return config

    def execute(self, requests):
        a = [pb.get_input_tensor_by_name(it, "a").as_numpy() for it in requests]
        return [pb.InferenceResponse([pb.Tensor("b", it[:, ::-1])]) for it in a]
"#;
    let Some(mut server) = serve(&with_model("m", code, None), &[]) else { return };
    let mut client = server.client();
    let config = client.get("/v2/models/m/config").expect(200).json();
    assert_eq!((&config["max_batch_size"], &config["backend"]), (&3.into(), &"python".into()));
    assert_eq!(config["input"][0]["data_type"], "TYPE_STRING");
    assert!(config.get("dynamic_batching").is_some());
    let asked =
        r#"{"inputs":[{"name":"a","datatype":"BYTES","shape":[2,1],"data":["x","\u0000y"]}]}"#;
    let reply = client.post(&infer("m"), &[], asked).expect(200).json();
    assert_eq!(reply["outputs"][0]["data"], serde_json::json!(["x", "\u{0}y"]));
}

/// Counts what came in a sequence, by the control tensor that tells its start.
const COUNTER: &str = r#"
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        answers = []
        for request in requests:
            x, key = pb.get_input_tensor_by_name(request, "x").as_numpy(), request.correlation_id()
            start = pb.get_input_tensor_by_name(request, "START").as_numpy()
            self.sums[key] = x if start.flat[0] else self.sums.get(key, 0) + x
            answers.append(pb.InferenceResponse([pb.Tensor("y", self.sums[key])]))
        return answers
"#;

#[test]
fn requests_of_sequences_come_in_their_order_and_a_warm_up_is_a_request() {
    let config = |rows: u32| {
        format!(
            r#"backend: "python" max_batch_size: {rows}
            input {{ name: "x" data_type: TYPE_FP32 dims: [ 2 ] }}
            output {{ name: "y" data_type: TYPE_FP32 dims: [ 2 ] }}
            instance_group {{ count: 1 kind: KIND_CPU }}
            sequence_batching {{ control_input {{ name: "START" control {{
                kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }} }} }}"#
        )
    };
    let warmed = ALONE.to_owned()
        + r#"model_warmup { name: "w" batch_size: 1 inputs { key: "x" value {
            data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } }"#;
    let repository = with_model("m", COUNTER, Some(&config(1)))
        .file("warm/1/model.py", FAULTS)
        .file("warm/config.pbtxt", &warmed)
        .file("wide/1/model.py", COUNTER)
        .file("wide/config.pbtxt", config(4));
    let Some(mut server) = serve(&repository, &[]) else { return };
    let part = |id: u32, first: i32, start: bool, end: bool| {
        format!(
            r#"{{"parameters":{{"sequence_id":{id},"sequence_start":{start},"sequence_end":{end}}},
            "inputs":[{{"name":"x","datatype":"FP32","shape":[1,2],"data":[{first},1]}}]}}"#
        )
    };
    let mut client = server.client();
    let http = server.address("http");
    // Alone, and beside others in the rows of a batch.
    for (model, ids) in [("m", 7..8), ("wide", 7..10)] {
        let sums = ids.map(|id| {
            let asked = [(1, true, false), (2, false, false), (id as i32, false, true)];
            thread::spawn(move || {
                let mut client = Client::connect(http);
                asked.map(|(first, start, end)| {
                    let body = part(id, first, start, end);
                    let reply = client.post(&infer(model), &[], body).expect(200).json();
                    reply["outputs"][0]["data"][0].as_f64().unwrap()
                })
            })
        });
        let sums: Vec<_> = sums.collect();
        for (id, sums) in (7..).zip(sums) {
            assert_eq!(sums.join().unwrap(), [1.0, 3.0, 3.0 + f64::from(id)]);
        }
    }
    assert_eq!(client.post(&infer("warm"), &[], body("r", 10)).status, 200);
}

const FIVE_LINES: &str = "import numpy as np\n\nclass Model:\n    def predict(self, x: np.ndarray) -> np.ndarray:\n        \
    return x.mean(axis=-1)\n";

#[test]
fn five_lines_are_a_model() {
    let Some(mut server) = serve(&with_model("m", FIVE_LINES, None), &[]) else { return };
    let mut client = server.client();
    let asked = r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[2,3],"data":[1,2,3,4,5,6]}]}"#;
    let reply = client.post(&infer("m"), &[], asked).expect(200).json();
    assert_eq!(reply["outputs"][0]["data"], serde_json::json!([2.0, 5.0]));
    let rows = client.post("/v1/models/m:predict", &[], r#"{"inputs":[[1,2,3],[4,5,6]]}"#);
    assert_eq!(rows.expect(200).json(), serde_json::json!({"outputs": [2.0, 5.0]}));
}

#[test]
fn what_cannot_be_loaded_is_told_with_its_place_and_others_are_served() {
    let broken = format!("import nothing_of_that_name\n{FAULTS}");
    let repository = with_model("m", &broken, Some(ALONE))
        .file("good/1/model.py", FAULTS)
        .file("good/config.pbtxt", ALONE);
    let Some(interpreter) = python("requirements.txt") else { return };
    let interpreter = format!("--python={}", interpreter.display());
    let flags = ["--exit-on-error=false", &interpreter];
    let mut server = Process::start(&repository, &flags, &[]);
    let line = server.wait_for_line("nothing_of_that_name");
    assert!(line.contains("ModuleNotFoundError"), "{line}");
    wait_for("the other model", || {
        let reply = server.client().post(&infer("good"), &[], body("r", 10));
        (reply.status == 200).then_some(())
    });
}

#[test]
fn without_an_interpreter_the_load_says_which_setting_names_one() {
    let repository = with_model("m", FAULTS, Some(ALONE));
    let missing = Path::new("/nowhere/python3").display();
    let flag = format!("--python={missing}");
    let server = Process::start(&repository, &[&flag], &[]);
    let expected = "--python: expected a Python interpreter at /nowhere/python3";
    check_end(server, 1, expected);
}

#[test]
fn explain_says_of_code_that_it_says_itself_what_it_takes() {
    let Some(interpreter) = python("requirements.txt") else { return };
    let repository = Repository::new().file("five/model.py", FIVE_LINES);
    let flag = format!("--python={}", interpreter.display());
    let mut explain = std::process::Command::new(program());
    explain.arg("explain").arg(repository.path().join("five")).arg(flag);
    let said = String::from_utf8(explain.output().unwrap().stdout).unwrap();
    assert!(said.contains("served as tensors, and not as a pipeline: it is code"), "{said}");
}
