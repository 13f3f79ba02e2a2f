//! Models that are made of other models: what loads, what runs and when, what fails and how that is counted.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{NamedTensor, Shape, Tensor};
use inference::{
    error::{Error, Kind},
    request::{InferenceRequest, InferenceResponse, Sequence, SequenceId},
};
use serde_json::{Value, json};
use serving::{ServedModel, infer::Inference};

use crate::support::{
    Models, Page, Process, Repository, Server, ask,
    control::{EXPLICIT, index},
    infer, wait_for, wait_queued,
};

/// A step: the model, what it reads and what it writes, each the member's name and the ensemble's.
type Step<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)]);

/// The configuration of an ensemble whose inputs and outputs are FP32 of `[ 4 ]`.
fn ensemble(inputs: &[&str], outputs: &[&str], steps: &[Step<'_>]) -> String {
    let ports = |what: &str, names: &[&str]| {
        let port =
            |it: &&str| format!("{what} {{ name: \"{it}\" data_type: TYPE_FP32 dims: [ 4 ] }}\n");
        names.iter().map(port).collect::<String>()
    };
    let map = |what: &str, pairs: &[(&str, &str)]| {
        let entry = |(key, value): &(&str, &str)| {
            format!("{what} {{ key: \"{key}\" value: \"{value}\" }} ")
        };
        pairs.iter().map(entry).collect::<String>()
    };
    let steps = steps.iter().map(|(model, inputs, outputs)| {
        let (inputs, outputs) = (map("input_map", inputs), map("output_map", outputs));
        format!("step {{ model_name: \"{model}\" model_version: -1 {inputs} {outputs} }}\n")
    });
    format!(
        "platform: \"ensemble\"\nmax_batch_size: 8\n{}{}ensemble_scheduling {{ {} }}\n",
        ports("input", inputs),
        ports("output", outputs),
        steps.collect::<String>()
    )
}

/// x → a → t → b → y
fn chain(a: &str, b: &str) -> String {
    let steps: [Step<'_>; 2] = [
        (a, &[("INPUT0", "x")], &[("OUTPUT0", "t")]),
        (b, &[("INPUT0", "t")], &[("OUTPUT0", "y")]),
    ];
    ensemble(&["x"], &["y"], &steps)
}

/// x → a → y and x → b → z
fn fork(a: &str, b: &str) -> String {
    let steps: [Step<'_>; 2] = [
        (a, &[("INPUT0", "x")], &[("OUTPUT0", "y")]),
        (b, &[("INPUT0", "x")], &[("OUTPUT0", "z")]),
    ];
    ensemble(&["x"], &["y", "z"], &steps)
}

/// One row that begins with `first`.
fn body(first: i32) -> String {
    json!({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [first, 2, 3, 4]}]})
        .to_string()
}

fn output<'a>(reply: &'a Value, name: &str) -> &'a Value {
    let outputs = reply["outputs"].as_array().unwrap();
    outputs.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("no {name}: {reply}"))
}

fn two(parameters: &[(&str, &str)]) -> Repository {
    Repository::identity("a", parameters).with_identity("b", &[])
}

#[test]
fn tensors_go_from_step_to_step_and_everybody_is_counted() {
    let server = Server::start(&two(&[]).model("e", &chain("a", "b")), &[]);
    let reply = server.post(&infer("e"), body(7)).expect(200).json();
    assert_eq!(reply["model_name"], "e");
    assert_eq!(output(&reply, "y")["data"], json!([7.0, 2.0, 3.0, 4.0]));
    let page = Page::read(server.http());
    for model in ["e", "a", "b"] {
        for family in
            ["nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count"]
        {
            assert_eq!(page.of(model, family), 1.0, "{family} of {model}");
        }
    }
    let metadata = server.get("/v2/models/e").expect(200).json();
    assert_eq!(metadata["platform"], "ensemble");
    assert_eq!(metadata["inputs"][0]["shape"], json!([-1, 4]));
    let config = server.get("/v2/models/e/config").expect(200).json();
    assert_eq!(config["ensemble_scheduling"]["step"][1]["model_name"], "b");
    assert!(config.get("instance_group").is_none_or(|it| it == &json!([])), "{config}");
}

#[test]
fn a_real_model_can_follow_another() {
    // What the digit model thinks of images that went through another model first.
    let same = "backend: \"identity\" max_batch_size: 4
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 1, 8, 8 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 1, 8, 8 ] }";
    let config = "platform: \"ensemble\" max_batch_size: 4
        input { name: \"scan\" data_type: TYPE_FP32 dims: [ 1, 8, 8 ] }
        output { name: \"digit\" data_type: TYPE_FP32 dims: [ 10 ] }
        ensemble_scheduling { step [
          { model_name: \"same\" model_version: -1
            input_map { key: \"INPUT0\" value: \"scan\" } output_map { key: \"OUTPUT0\" value: \"image\" } },
          { model_name: \"digits\" model_version: 1
            input_map { key: \"image\" value: \"image\" }
            output_map { key: \"probabilities\" value: \"digit\" } } ] }";
    let repository = Repository::new()
        .copy("digits", "model_repository/digits")
        .model("same", same)
        .model("read", config);
    let server = Server::start(&repository, &[]);
    let data: Vec<u32> = (0..64).map(|it| it % 17).collect();
    let ask = |model: &str, input: &str| {
        let body = json!({"inputs": [
            {"name": input, "shape": [1, 1, 8, 8], "datatype": "FP32", "data": data}]});
        server.post(&infer(model), body.to_string()).expect(200).json()["outputs"][0]["data"]
            .clone()
    };
    assert_eq!(ask("read", "scan"), ask("digits", "image"));
}

#[test]
fn members_load_first_whatever_their_names() {
    let repository = Repository::identity("z", &[("creation_delay_sec", "1")])
        .with_identity("y", &[])
        .model("inner", &chain("z", "y"))
        .model("a", &chain("y", "z"))
        .model(
            "nested",
            &ensemble(
                &["x"],
                &["out"],
                &[
                    ("inner", &[("x", "x")], &[("y", "middle")]),
                    ("a", &[("x", "middle")], &[("y", "out")]),
                ],
            ),
        );
    let server = Server::start(&repository, &[]);
    let reply = server.post(&infer("nested"), body(3)).expect(200).json();
    assert_eq!(output(&reply, "out")["data"][0], 3.0);
    let page = Page::read(server.http());
    assert_eq!(page.of("z", "nv_inference_request_success"), 2.0);
    assert_eq!(page.of("inner", "nv_inference_request_success"), 1.0);
}

#[test]
fn branches_run_at_the_same_time() {
    let repository = two(&[]).model("e", &fork("a", "b"));
    let server = Server::start(&repository, &["--scheduler-hold=2"]);
    let mut first = ask(server.http(), "e", body(1));
    // Each member waits for a second request, so that both branches of the first are under way.
    for member in ["a", "b"] {
        wait_queued(server.http(), member, 1);
    }
    server.post(&infer("e"), body(2)).expect(200);
    first.reply().expect(200);
}

#[test]
fn only_steps_that_are_needed_for_the_wanted_outputs_run() {
    let server = Server::start(&two(&[("fault", "fail")]).model("e", &fork("a", "b")), &[]);
    let mut asked: Value = serde_json::from_str(&body(5)).unwrap();
    asked["outputs"] = json!([{"name": "z"}]);
    let reply = server.post(&infer("e"), asked.to_string()).expect(200).json();
    assert_eq!(reply["outputs"].as_array().unwrap().len(), 1);
    assert_eq!(Page::read(server.http()).of("a", "nv_inference_exec_count"), 0.0);
    server.post(&infer("e"), body(5)).error(500);
}

#[test]
fn a_failure_names_step_and_model_and_is_counted_once_for_each() {
    let server = Server::start(
        &two(&[]).with_identity("b", &[("fault", "fail")]).model("e", &chain("a", "b")),
        &[],
    );
    let error = server.post(&infer("e"), body(1)).error(500);
    assert_eq!(error, "in ensemble 'e', told to fail by 'fault' (step[1], model 'b')");
    let page = Page::read(server.http());
    assert_eq!(page.failures("e", "OTHER"), 1.0);
    assert_eq!(page.failures("b", "BACKEND"), 1.0);
    assert_eq!(page.of("a", "nv_inference_request_success"), 1.0);
    assert_eq!(page.of("e", "nv_inference_request_success"), 0.0);
}

#[test]
fn a_request_that_does_not_fit_is_refused_as_by_any_model() {
    let server = Server::start(&two(&[]).model("e", &chain("a", "b")), &[]);
    let error = server.post(&infer("e"), body(1).replace("\"x\"", "\"w\"")).error(400);
    assert!(
        error.contains("unexpected inference input 'w' for model 'e'; did you mean 'x'?"),
        "{error}"
    );
    assert_eq!(Page::read(server.http()).failures("e", "OTHER"), 0.0);
}

#[test]
fn an_ensemble_without_a_member_says_which_and_why() {
    let repository = Repository::identity("a", &[("load_fault", "fail")])
        .with_identity("b", &[])
        .model("e", &chain("a", "b"))
        .model("f", &chain("b", "bb"))
        .model("g", &chain("b", "f"));
    let server = Server::start(&repository, &[]);
    let reason = |model: &str| {
        let index = server.post("/v2/repository/index", "").expect(200).json();
        let entry = index.as_array().unwrap().iter().find(|it| it["name"] == model).unwrap();
        entry["reason"].as_str().unwrap().to_owned()
    };
    let told = reason("e");
    assert!(told.contains("its member 'a': "), "{told}");
    assert!(told.contains("told to fail by 'load_fault'"), "{told}");
    let told = reason("f");
    assert!(
        told.contains("its member 'bb': failed to load 'bb', failed to poll from model repository"),
        "{told}"
    );
    assert!(reason("g").contains("its member 'f': "), "{}", reason("g"));
    let error = server.post(&infer("e"), body(1)).error(503);
    assert!(error.contains("its member 'a': "), "{error}");
}

#[test]
fn ensembles_that_are_made_of_each_other_do_not_load_and_keep_nothing_else_from_it() {
    let repository =
        Repository::identity("m", &[]).model("e", &chain("m", "f")).model("f", &chain("e", "m"));
    let server = Server::start(&repository, &[]);
    let index = server.post("/v2/repository/index", "").expect(200).text();
    for circle in ["'e' -> 'f' -> 'e'", "'f' -> 'e' -> 'f'"] {
        assert!(
            index.contains(&format!("the ensembles are made of each other: {circle}")),
            "{index}"
        );
    }
    assert_eq!(index.matches("UNAVAILABLE").count(), 2, "{index}");
    server.post(&infer("m"), body(1).replace("\"x\"", "\"INPUT0\"")).expect(200);
}

#[test]
fn a_client_that_leaves_ends_the_steps() {
    let repository = two(&[("execute_delay_ms", "60000")]).model("e", &chain("a", "b"));
    let server = Server::start(&repository, &[]);
    let client = ask(server.http(), "e", body(1));
    wait_for("the first step to be asked", || {
        let page = Page::read(server.http());
        // It is not queued any more, but has left for an instance.
        (page.value("muster_bytes_in_flight") > 0.0).then_some(())
    });
    drop(client);
    for model in ["e", "a"] {
        wait_for("the request to be counted as canceled", || {
            (Page::read(server.http()).failures(model, "CANCELED") == 1.0).then_some(())
        });
    }
    assert_eq!(Page::read(server.http()).failures("e", "OTHER"), 0.0);
}

#[test]
fn a_deadline_holds_for_all_steps_together() {
    // So long that the first step has ended by the deadline, whatever else a machine has to do.
    let slow = [("execute_delay_ms", "2000")];
    let repository =
        Repository::identity("a", &slow).with_identity("b", &slow).model("e", &chain("a", "b"));
    let server = Server::start(&repository, &["--request-timeout-ms=3500"]);
    let reply = server.post(&infer("e"), body(1));
    let text = reply.text();
    assert!(
        text.contains(
            "in ensemble 'e', Deadline Exceeded: the deadline of the request to model 'b' passed"
        ),
        "{text}"
    );
    let page = Page::read(server.http());
    assert_eq!(page.failures("b", "CANCELED"), 1.0);
    // It was the ensemble's own deadline.
    assert_eq!((page.failures("e", "CANCELED"), page.failures("e", "OTHER")), (1.0, 0.0));
}

#[test]
fn as_many_requests_are_in_a_step_as_it_allows() {
    let config = chain("a", "b")
        .replace("ensemble_scheduling {", "ensemble_scheduling { max_inflight_requests: 1 ");
    // Two instances could run two at the same time.
    let repository = two(&[("execute_delay_ms", "200")]).model("e", &config);
    let server = Server::start(&repository, &[]);
    let started = Instant::now();
    let clients: Vec<_> = (0..3).map(|it| ask(server.http(), "e", body(it))).collect();
    for mut client in clients {
        client.reply().expect(200);
    }
    assert!(Duration::from_millis(590) < started.elapsed(), "{:?}", started.elapsed());
}

#[test]
fn an_ensemble_without_a_batch_dimension_may_have_members_with_one() {
    let config = chain("a", "b").replace("max_batch_size: 8\n", "");
    let server = Server::start(&two(&[]).model("e", &config), &[]);
    let asked = body(9).replace("[1,4]", "[4]");
    let reply = server.post(&infer("e"), asked).expect(200).json();
    assert_eq!(output(&reply, "y")["shape"], json!([4]));
    assert_eq!(output(&reply, "y")["data"][0], 9.0);
}

#[test]
fn what_an_ensemble_reshapes_for_its_members_has_the_clients_shape_in_the_answer() {
    let config = chain("a", "b").replace("dims: [ 4 ]", "dims: [ 2, 2 ] reshape { shape: [ 4 ] }");
    let server = Server::start(&two(&[]).model("e", &config), &[]);
    let asked = body(9).replace("[1,4]", "[1,2,2]");
    let reply = server.post(&infer("e"), asked).expect(200).json();
    assert_eq!(output(&reply, "y")["shape"], json!([1, 2, 2]));
    assert_eq!(output(&reply, "y")["data"], json!([9.0, 2.0, 3.0, 4.0]));
}

#[test]
fn requests_of_several_clients_share_the_batches_of_members() {
    let merging = "backend: \"identity\" max_batch_size: 8
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        dynamic_batching { max_queue_delay_microseconds: 30000000 preferred_batch_size: [ 4 ] }";
    let repository =
        Repository::identity("a", &[]).model("b", merging).model("e", &chain("a", "b"));
    let server = Server::start(&repository, &[]);
    let clients: Vec<_> = (0..4).map(|it| ask(server.http(), "e", body(it))).collect();
    for (number, mut client) in clients.into_iter().enumerate() {
        let reply = client.reply().expect(200).json();
        assert_eq!(output(&reply, "y")["data"][0], number as f64);
    }
    assert_eq!(Page::read(server.http()).of("b", "nv_inference_exec_count"), 1.0);
}

/// A request for a row that begins with `first`, to the ensemble `e`.
async fn ask_e(models: &Models, first: f32) -> Result<InferenceResponse, Error> {
    let sequence = Sequence { id: SequenceId::Number(1), start: true, end: false };
    ask_in(models.manager.get("e", None).unwrap(), first, sequence).await
}

/// The same to that model, in that place of a sequence.
async fn ask_in(
    model: Arc<ServedModel>,
    first: f32,
    sequence: Sequence,
) -> Result<InferenceResponse, Error> {
    let tensor = Tensor::from_vec(Shape::new(&[1, 4]), vec![first, 2.0, 3.0, 4.0]).unwrap();
    let inputs = vec![NamedTensor { name: "x".into(), tensor }];
    let request = InferenceRequest { inputs, sequence: Some(sequence), ..Default::default() };
    Inference::default().run(&model, request).await
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn member(dims: usize, parameters: &str) -> String {
    format!(
        "backend: \"identity\" max_batch_size: 8 {parameters}
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ {dims} ] }}
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ {dims} ] }}"
    )
}

#[test]
fn requests_of_a_sequence_enter_a_member_in_the_order_in_which_they_came() {
    // Of the two instances of the first member one is eight times as slow, so that later requests are done earlier.
    let uneven = "instance_group [ { count: 2 } ]
        parameters { key: \"execute_delay_ms\" value { string_value: \"20\" } }
        parameters { key: \"instance_wise_delay_multiplier\" value { string_value: \"8\" } }";
    let uneven = member(4, uneven).replace("max_batch_size: 8", "max_batch_size: 1");
    let around: [Step<'_>; 2] =
        [("a", &[("INPUT0", "x")], &[("OUTPUT0", "t")]), ("inner", &[("x", "t")], &[("y", "y")])];
    let models = Models::load(
        Repository::identity("c", &[])
            .model("a", &uneven)
            .model("b", &member(4, "sequence_batching { }"))
            .model("inner", &chain("c", "b"))
            .model("e", &chain("a", "b"))
            .model("f", &ensemble(&["x"], &["y"], &around)),
    );
    let model = |name: &str| models.manager.get(name, None).unwrap();
    for name in ["e", "f"] {
        runtime().block_on(async {
            let asked = (0..6).map(|at| {
                let sequence = Sequence { id: SequenceId::Number(7), start: at == 0, end: at == 5 };
                tokio::spawn(ask_in(model(name), at as f32, sequence))
            });
            for (at, answer) in asked.collect::<Vec<_>>().into_iter().enumerate() {
                let answer = answer.await.unwrap();
                assert!(answer.is_ok(), "{name}, request {at}: {}", answer.unwrap_err());
            }
        });
    }
    assert_eq!(model("b").metrics.statistics().execution_count, 12);
}

#[test]
fn a_reload_of_a_member_breaks_no_request_and_the_next_one_has_the_new_member() {
    let slow = [("execute_delay_ms", "300")];
    let repository = Repository::identity("a", &[]).with_identity("b", &slow);
    let models = Models::load(repository.model("e", &chain("a", "b")));
    let model = models.manager.get("e", None).unwrap();
    runtime().block_on(async {
        let tensor = Tensor::zeros(backend::DataType::Fp32, Shape::new(&[1, 4])).unwrap();
        let inputs = vec![NamedTensor { name: "x".into(), tensor }];
        let request = InferenceRequest { inputs, ..Default::default() };
        let running = tokio::spawn(async move { Inference::default().run(&model, request).await });
        // It is in the second step once the first one has been run.
        while models.manager.get("a", None).unwrap().metrics.statistics().execution_count == 0 {
            tokio::task::yield_now().await;
        }
        let failing = "parameters { key: \"fault\" value { string_value: \"fail\" } }";
        models.reload("b", &member(4, failing));
        running.await.unwrap().unwrap();
        let error = ask_e(&models, 1.0).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "in ensemble 'e', told to fail by 'fault' (step[1], model 'b')"
        );
    });
}

#[test]
fn a_new_member_that_does_not_fit_is_told_until_one_fits_again() {
    let repository = two(&[]).model("e", &chain("a", "b"));
    let models = Models::load(repository);
    runtime().block_on(async {
        ask_e(&models, 1.0).await.unwrap();
        models.reload("b", &member(5, ""));
        let error = ask_e(&models, 1.0).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        let text = error.to_string();
        for part in [
            "Request for unknown model: 'e' version 1 is not at ready state: ",
            "input 'INPUT0' of step[1] ('b') takes FP32 [-1,5], but tensor 't', output 'OUTPUT0' of step[0] ('a'), \
             is FP32 [-1,4]",
        ] {
            assert!(text.contains(part), "{text}");
        }
        models.reload("b", &member(4, ""));
        let outputs = ask_e(&models, 6.0).await.unwrap().outputs;
        assert_eq!(outputs[0].tensor.as_slice_of::<f32>().unwrap()[0], 6.0);
    });
}

#[test]
fn tensors_are_not_copied_on_their_way() {
    let models = Models::load(two(&[]).model("e", &chain("a", "b")));
    runtime().block_on(async {
        let tensor = Tensor::from_vec(Shape::new(&[1, 4]), vec![1f32; 4]).unwrap();
        let given = tensor.contiguous().unwrap().as_ptr();
        let inputs = vec![NamedTensor { name: "x".into(), tensor }];
        let request = InferenceRequest { inputs, ..Default::default() };
        let model = models.manager.get("e", None).unwrap();
        let response = Inference::default().run(&model, request).await.unwrap();
        assert_eq!(response.outputs[0].tensor.contiguous().unwrap().as_ptr(), given);
    });
}

#[test]
fn the_log_says_of_which_models_an_ensemble_is_made() {
    let repository = two(&[]).model("e", &chain("a", "b"));
    let mut server = Process::start(&repository, &[], &[]);
    let line = server.wait_for_line("why=\"made of a, b\"");
    assert!(line.contains("model=e") && line.contains("engine=ensemble"), "{line}");
}

#[test]
fn an_optional_input_may_be_left_out_all_the_way() {
    let member = "backend: \"identity\" max_batch_size: 8
        input [ { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] },
                { name: \"INPUT1\" data_type: TYPE_FP32 dims: [ 4 ] optional: true } ]
        output [ { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] } ]";
    let both: &[(&str, &str)] = &[("INPUT0", "x"), ("INPUT1", "w")];
    let config = ensemble(&["x", "w"], &["y"], &[("m", both, &[("OUTPUT0", "y")])]);
    let optional = config.replace("name: \"w\"", "optional: true name: \"w\"");
    let server = Server::start(&Repository::new().model("m", member).model("e", &optional), &[]);
    let reply = server.post(&infer("e"), body(4)).expect(200).json();
    assert_eq!(output(&reply, "y")["data"][0], 4.0);
    server.post(&infer("m"), body(4).replace("\"x\"", "\"INPUT0\"")).expect(200);
}

#[test]
fn a_step_may_name_a_version() {
    let config = chain("a", "b")
        .replace("model_name: \"a\" model_version: -1", "model_name: \"a\" model_version: 2");
    let policy = "version_policy { specific { versions: [ 1, 2 ] } }";
    let repository = Repository::identity("b", &[])
        .model("a", &format!("{}\n{policy}", member(4, "")))
        .file("a/2/.keep", "")
        .model("e", &config)
        .model("f", &config.replace("model_version: 2", "model_version: 7"));
    let server = Server::start(&repository, &[]);
    server.post(&infer("e"), body(1)).expect(200);
    let page = Page::read(server.http());
    assert_eq!(page.value("nv_inference_request_success{model=\"a\",version=\"2\"}"), 1.0);
    let error = server.post(&infer("f"), body(1)).error(503);
    assert!(error.contains("step[0] ('a'): "), "{error}");
}

#[test]
fn with_namespaces_an_ensemble_has_the_members_of_its_own_repository() {
    let one = two(&[]).model("e", &chain("a", "b"));
    let other = Repository::identity("a", &[("fault", "fail")]);
    let second = format!("--model-repository={}", other.at(""));
    let flags = [EXPLICIT, "--load-model=*", &second, "--model-namespacing=true"];
    let server = Server::start(&one, &flags);
    let reply = server.post(&infer("e"), body(7)).expect(200).json();
    assert_eq!(output(&reply, "y")["data"][0], 7.0);
    let dependents = r#"{"parameters":{"unload_dependents":true}}"#;
    server.post("/v2/repository/models/e/unload", dependents).expect(200);
    let gone = "UNAVAILABLE (unloaded)";
    // The namesake of a member stays.
    wait_for("the ensemble and its members to be gone", || {
        let mut lines = index(&server);
        lines.sort();
        let left = ["a:1 READY".to_owned()].into_iter();
        let gone = ["a", "b", "e"].map(|it| format!("{it}:1 {gone}"));
        (lines == left.chain(gone).collect::<Vec<_>>()).then_some(())
    });
}

#[test]
fn classes_have_the_labels_of_the_member_that_makes_the_output() {
    let labelled = |file: &str| {
        let ports = "input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
                     output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] ";
        format!("backend: \"identity\"\nmax_batch_size: 8\n{ports} label_filename: \"{file}\" }}")
    };
    let repository = Repository::identity("a", &[])
        .model("b", &labelled("labels.txt"))
        // An editor's byte order mark is no part of the first label.
        .file("b/labels.txt", "\u{feff}north\neast\nsouth\nwest\n")
        .model("e", &chain("a", "b"))
        .model(
            "f",
            &chain("a", "e")
                .replace("INPUT0\" value: \"t", "x\" value: \"t")
                .replace("OUTPUT0\" value: \"y", "y\" value: \"y"),
        );
    let server = Server::start(&repository, &[]);
    let body = |x: [u8; 4]| {
        json!({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": x}],
               "outputs": [{"name": "y", "parameters": {"classification": 1}}]})
    };
    for model in ["e", "f"] {
        for (x, class) in [([1, 2, 9, 4], "9.000000:2:south"), ([9, 2, 3, 4], "9.000000:0:north")] {
            let reply = server.post(&infer(model), body(x).to_string()).expect(200).json();
            assert_eq!(output(&reply, "y")["data"], json!([class]), "{model}");
        }
    }
}

#[test]
fn an_ensemble_is_not_ready_while_a_member_is_unloaded() {
    let repository = two(&[]).model("e", &chain("a", "b"));
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=*"]);
    let line = || index(&server).into_iter().find(|it| it.starts_with("e:")).unwrap();
    assert_eq!(line(), "e:1 READY");
    server.get("/v2/models/e/ready").expect(200);
    server.post("/v2/repository/models/b/unload", "").expect(200);
    wait_for("the member to be gone", || {
        let error = server.post(&infer("e"), body(1));
        (error.status == 503).then_some(())
    });
    assert!(line().starts_with("e:1 UNAVAILABLE (step[1] ('b'): "), "{}", line());
    server.get("/v2/models/e/ready").error(503);
    server.get("/v2/models/e").error(503);
    let status = server.get("/v1/models/e").expect(200).json();
    assert_eq!(status["model_version_status"][0]["state"], "END");
    server.post("/v2/repository/models/b/load", "").expect(200);
    assert_eq!(line(), "e:1 READY");
    server.post(&infer("e"), body(1)).expect(200);
}

#[test]
fn a_load_of_an_ensemble_brings_back_a_member_that_was_unloaded() {
    let repository = two(&[]).model("e", &chain("a", "b"));
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=e"]);
    server.post("/v2/repository/models/b/unload", "").expect(200);
    server.get("/v2/models/e/ready").error(503);
    server.post("/v2/repository/models/e/load", "").expect(200);
    server.get("/v2/models/e/ready").expect(200);
    server.post(&infer("e"), body(1)).expect(200);
}
