//! SavedModels of TensorFlow behind the server. `python3 backends/tensorflow/prepare.py` fetches the library that they
//! need; without it there is nothing to run: that is said aloud, and is a failure where `CI=true`. Each server is a
//! process of its own: TensorFlow is opened once in a process, and never closed.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use frontend::grpc::proto::tensorflow::{
    TensorProto, TensorShapeProto,
    serving::{ModelSpec, PredictRequest, PredictResponse},
    tensor_shape_proto::Dim,
};
use serde_json::{Value, json};
use tonic::Request;

use crate::support::{
    Form, IN_PROCESS, Process, Repository, Tensor,
    grpc::Client,
    measures::resident,
    root,
    savedmodels::{FIXTURES, flag, instead_of_tfs, library, post, serve, serve_those},
    skip, wait_for,
};

#[test]
fn a_saved_model_that_is_given_by_its_directory_is_called_as_the_directory_is() {
    let Some(library) = library() else { return };
    let repository = Repository::new().copy("my_half", &format!("{FIXTURES}/half_plus_two/1"));
    let ports = ["--http-port=0", "--grpc-port=0", "--metrics-port=0", "--sagemaker-port=0"];
    let path = repository.at("my_half");
    let mut process = Process::command(&[&["serve", &*path, &*library], &ports[..]].concat(), &[]);
    process.wait_ready();
    process.client().get("/v2/models/my_half/ready").expect(200);
}

#[test]
fn the_first_example_of_tensorflow_servings_documentation_is_answered_on_every_protocol() {
    let Some((mut process, _repository)) = serve(&["half_plus_two"], &["--tfs-grpc-port=0"]) else {
        return;
    };
    let mut client = process.client();
    let predict = "/v1/models/half_plus_two:predict";
    // Three numbers for a signature of [-1, 1]: shapes are the graph's business there.
    let rows = post(&mut client, predict, &json!({"instances": [1.0, 2.0, 5.0]}));
    assert_eq!(rows, json!({"predictions": [2.5, 3.0, 4.5]}));
    let columns = post(&mut client, predict, &json!({"inputs": [1.0, 2.0, 5.0]}));
    assert_eq!(columns, json!({"outputs": [2.5, 3.0, 4.5]}));
    let lists = post(&mut client, predict, &json!({"instances": [[1.0], [2.0], [5.0]]}));
    assert_eq!(lists, json!({"predictions": [[2.5], [3.0], [4.5]]}));
    let headers = [("Content-Type", "application/json")];
    let sagemaker = client.post("/invocations", &headers, r#"{"instances": [1.0, 2.0, 5.0]}"#);
    assert_eq!(sagemaker.expect(200).json(), json!({"predictions": [2.5, 3.0, 4.5]}));

    let rows = Tensor::fp32("x", &[3, 1], &[1.0, 2.0, 5.0]);
    let reply = client.infer("half_plus_two", &[rows], Form::Binary, "").expect(200);
    assert_eq!((reply.output().shape, reply.output().numbers()), (vec![3, 1], vec![2.5, 3.0, 4.5]));
    let wrong = Tensor::fp32("x", &[1, 2], &[1.0, 2.0]);
    let error = client.infer("half_plus_two", &[wrong], Form::Binary, "").error(400);
    assert!(error.contains("[-1,1]") && error.contains("[1,2]"), "{error}");

    let dim = vec![Dim { size: 3, name: String::new() }];
    let tensor = TensorProto {
        dtype: 1,
        tensor_shape: Some(TensorShapeProto { dim, unknown_rank: false }),
        float_val: vec![1.0, 2.0, 5.0],
        ..TensorProto::default()
    };
    let request = PredictRequest {
        model_spec: Some(ModelSpec { name: "half_plus_two".to_owned(), ..ModelSpec::default() }),
        inputs: [("x".to_owned(), tensor)].into(),
        ..PredictRequest::default()
    };
    let mut grpc = Client::connect(process.address("tfs-grpc"));
    let call = "tensorflow.serving.PredictionService/Predict";
    let reply: PredictResponse = grpc.call_with(call, Request::new(request)).unwrap();
    let y = &reply.outputs["y"];
    let shape: Vec<i64> = y.tensor_shape.iter().flat_map(|it| &it.dim).map(|it| it.size).collect();
    assert_eq!(shape, [3]);
}

#[test]
fn types_and_shapes_are_those_of_the_signature() {
    let Some((mut process, _repository)) = serve(&["words", "counter"], &[]) else { return };
    let described = process.client().get("/v2/models/words").expect(200).json();
    assert_eq!(described["platform"], "tensorflow_savedmodel");
    assert_eq!(described["inputs"][0]["datatype"], "BYTES");
    let outputs = described["outputs"].as_array().unwrap();
    let types: Vec<String> =
        outputs.iter().map(|it| format!("{} {}", it["name"], it["datatype"])).collect();
    assert_eq!(types, [r#""id" "INT64""#, r#""length" "INT32""#, r#""twice" "BYTES""#]);
    let config = process.client().get("/v2/models/words/config").expect(200).json();
    assert_eq!(config["backend"], "tensorflow");
}

#[test]
fn strings_with_any_bytes_go_in_and_out_and_a_table_answers_from_its_asset() {
    let Some((mut process, _repository)) = serve(&["words"], &[]) else { return };
    let long = "x".repeat(300);
    let texts: [&[u8]; 4] = [b"bob", b"\0\xff", long.as_bytes(), b""];
    let input = Tensor::strings("text", &[4], &texts);
    let reply = process.client().infer("words", &[input], Form::Binary, "").expect(200);
    let outputs = reply.outputs();
    let output = |name: &str| outputs.iter().find(|it| it.name == name).unwrap();
    assert_eq!(output("id").numbers(), [1.0, -1.0, -1.0, -1.0]);
    assert_eq!(output("length").numbers(), [3.0, 2.0, 300.0, 0.0]);
    let twice: Vec<Vec<u8>> = texts.iter().map(|it| it.repeat(2)).collect();
    assert_eq!(output("twice").split(), twice);
}

#[test]
fn a_variable_that_runs_change_counts_every_request_once_and_nobody_before_the_first() {
    let repository = Repository::new().copy("counter", &format!("{FIXTURES}/counter")).file(
        "counter/config.pbtxt",
        "backend: \"tensorflow\"\ninstance_group { kind: KIND_CPU count: 4 }\n",
    );
    let Some((mut process, _repository)) = serve_those(repository, &[]) else { return };
    let mut client = process.client();
    let mut count = || {
        let body = json!({"inputs": 1});
        post(&mut client, "/v1/models/counter:predict", &body)
    };
    assert_eq!([count(), count(), count()], [1, 2, 3].map(|it| json!({"outputs": it})));
}

#[test]
fn two_versions_of_a_model_count_apart() {
    let counter = format!("{FIXTURES}/counter/1");
    let repository = Repository::new()
        .copy("counter/1", &counter)
        .copy("counter/2", &counter)
        .file("counter/config.pbtxt", "backend: \"tensorflow\" version_policy { all { } }");
    let Some((mut process, _repository)) = serve_those(repository, &[]) else { return };
    let mut client = process.client();
    let mut count = |version: u64| {
        let path = format!("/v1/models/counter/versions/{version}:predict");
        post(&mut client, &path, &json!({"inputs": 1}))["outputs"].clone()
    };
    assert_eq!([1, 1, 2, 1, 2].map(&mut count), [1, 2, 1, 3, 2]);
}

#[test]
fn a_keras_model_answers_as_keras_does_alone_and_in_company() {
    let flags = ["--default-dynamic-batching=true"];
    let Some((mut process, _repository)) = serve(&["keras"], &flags) else { return };
    let config = process.client().get("/v2/models/keras/config").expect(200).json();
    assert!(config["dynamic_batching"].is_object(), "{config}");
    let text = std::fs::read_to_string(root(&format!("{FIXTURES}/keras.json"))).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let rows = |it: &Value| -> Vec<Vec<f32>> { serde_json::from_value(it.clone()).unwrap() };
    let (given, answers) = (rows(&expected["rows"]), rows(&expected["answers"]));
    process.client().get("/v2/models/keras/ready").expect(200);
    let clients: Vec<_> = (0..8).map(|_| process.client()).collect();
    thread::scope(|scope| {
        for (at, mut client) in clients.into_iter().enumerate() {
            let (given, answer) = (&given[at % 4], &answers[at % 4]);
            scope.spawn(move || {
                for _ in 0..50 {
                    let row = Tensor::fp32("x", &[1, 8], given);
                    let reply = client.infer("keras", &[row], Form::Binary, "").expect(200);
                    let numbers = reply.output().numbers();
                    for (number, expected) in numbers.iter().zip(answer) {
                        assert!((number - f64::from(*expected)).abs() < 1e-6, "{numbers:?}");
                    }
                }
            });
        }
    });
}

#[test]
fn rows_that_depend_on_each_other_are_not_merged_where_merging_is_asked_for() {
    let flags = ["--default-dynamic-batching=true"];
    let Some((mut process, _repository)) = serve(&["mean_of_batch"], &flags) else { return };
    let clients: Vec<_> = (0..8).map(|_| process.client()).collect();
    thread::scope(|scope| {
        for (at, mut client) in clients.into_iter().enumerate() {
            scope.spawn(move || {
                let at = at as f32;
                for _ in 0..50 {
                    let rows = Tensor::fp32("x", &[2, 2], &[at, 1.0, at + 2.0, 3.0]);
                    let reply = client.infer("mean_of_batch", &[rows], Form::Binary, "");
                    assert_eq!(reply.expect(200).output().numbers(), [-1.0, -1.0, 1.0, 1.0]);
                }
            });
        }
    });
}

#[test]
fn a_rank_that_is_not_the_models_is_refused_before_a_kernel_sees_it() {
    let Some((mut process, _repository)) = serve(&["picture"], &[]) else { return };
    let mut client = process.client();
    let predict = "/v1/models/picture:predict";
    for inputs in [json!([1]), json!([]), json!([[1], [2]]), json!([[[[[1]]]]])] {
        let body = json!({"inputs": inputs}).to_string();
        client.post(predict, &[], &body).error(400);
        let headers = [("Content-Type", "application/json")];
        client.post("/invocations", &headers, &body).error(400);
    }
    // As many dimensions in other sizes are the graph's business.
    for (size, depth) in [(8, 2), (8, 3), (9, 1), (1, 7)] {
        let picture = vec![vec![vec![1.0; depth]; size]; size];
        let body = json!({"instances": [picture]}).to_string();
        let status = client.post(predict, &[], body).status;
        assert!([200, 400].contains(&status), "{status} for {size} and {depth}");
    }
    let picture = vec![vec![vec![1.0]; 8]; 8];
    let reply = post(&mut client, predict, &json!({"instances": [picture]}));
    assert_eq!(reply["predictions"][0][0], reply["predictions"][0][1]);
}

#[test]
fn inputs_and_outputs_need_not_agree_in_their_first_dimension() {
    let Some((mut process, _repository)) = serve(&["lists"], &[]) else { return };
    let mut client = process.client();
    let predict = "/v1/models/lists:predict";
    let body = json!({"inputs": {"values": [1.0, 2.0, 3.0, 4.0, 5.0], "lengths": [2, 3]}});
    let reply = post(&mut client, predict, &body);
    assert_eq!(reply, json!({"outputs": {"count": 5, "sum": [3.0, 12.0]}}));
    let body = json!({"instances": [{"values": 1.0, "lengths": 1}]}).to_string();
    let error = client.post(predict, &[], body).error(400);
    assert!(error.contains("'count'") && error.contains("'inputs'"), "{error}");
}

#[test]
fn the_default_signature_may_be_named_else_it_is_the_first() {
    let several = format!("{FIXTURES}/several");
    let named = |signature: &str| {
        format!(
            "parameters {{ key: \"TF_SIGNATURE_DEF\" value: {{ string_value: \"{signature}\" }} }}"
        )
    };
    let repository = Repository::new()
        // The first in the order of names.
        .copy("double", &several)
        .copy("either", &several)
        .file("either/config.pbtxt", named("either"))
        .copy("wrong", &several)
        .file("wrong/config.pbtxt", named("treble"));
    let flags = ["--strict-readiness=false"];
    let Some((mut process, _repository)) = serve_those(repository, &flags) else { return };
    let mut client = process.client();
    let body = json!({"instances": [[1.5, 2.0]]});
    let reply = post(&mut client, "/v1/models/double:predict", &body);
    assert_eq!(reply, json!({"predictions": [[3.0, 4.0]]}));
    let body = json!({"inputs": {"flag": [true, false], "number": [3, 4]}});
    let reply = post(&mut client, "/v1/models/either:predict", &body);
    assert_eq!(reply, json!({"outputs": {"flag": [false, true], "y": [3, 7]}}));
    let error = client.get("/v2/models/wrong/ready").error(503);
    assert!(error.contains("double, either") && error.contains("TF_SIGNATURE_DEF"), "{error}");
}

#[test]
fn what_is_broken_says_why_and_the_others_serve() {
    let half = format!("{FIXTURES}/half_plus_two");
    let file = std::fs::read(root(&format!("{half}/1/saved_model.pb"))).unwrap();
    let repository = Repository::new()
        .copy("half_plus_two", &half)
        .copy("triton/1/model.savedmodel", &format!("{half}/1"))
        .copy("cut", &half)
        .file("cut/1/saved_model.pb", &file[..file.len() / 2])
        .copy("no_variables", &half)
        .file("no_variables/1/variables/variables.index", "")
        .file("no_graph/1/saved_model.pb", "")
        .copy("tag", &half)
        .file(
            "tag/config.pbtxt",
            "parameters { key: \"TF_GRAPH_TAG\" value: { string_value: \"tpu\" } }",
        )
        .copy("gpu", &half)
        .file("gpu/config.pbtxt", "instance_group { kind: KIND_GPU }")
        .copy("threads", &half)
        .file(
            "threads/config.pbtxt",
            "parameters { key: \"TF_NUM_INTRA_THREADS\" value: { string_value: \"all\" } }",
        );
    let flags = ["--strict-readiness=false"];
    let Some((mut process, _repository)) = serve_those(repository, &flags) else { return };
    let mut client = process.client();
    for name in ["half_plus_two", "triton"] {
        let body = json!({"instances": [[1.0]]});
        let reply = post(&mut client, &format!("/v1/models/{name}:predict"), &body);
        assert_eq!(reply, json!({"predictions": [[2.5]]}));
    }
    for (name, part) in [
        ("cut", "is no SavedModel, or is cut off"),
        ("no_variables", "variables"),
        ("no_graph", "empty"),
        ("tag", "[serve]"),
        ("gpu", "GPU"),
        ("threads", "TF_NUM_INTRA_THREADS"),
    ] {
        let error = client.get(&format!("/v2/models/{name}/ready")).error(503);
        assert!(error.contains(part), "{name}: {error}");
    }
}

#[test]
fn the_command_of_tensorflow_serving_serves_a_version_with_zeros_in_front() {
    let half = format!("{FIXTURES}/half_plus_two/1");
    let repository = Repository::new().copy("half/00000123", &half);
    let base = format!("--model_base_path={}", repository.at("half"));
    let Some(mut process) = instead_of_tfs(&[&*base, "--model_name=half_plus_two"]) else { return };
    let mut client = process.client();
    let body = json!({"instances": [1.0, 2.0, 5.0]});
    let reply = post(&mut client, "/v1/models/half_plus_two/versions/123:predict", &body);
    assert_eq!(reply, json!({"predictions": [2.5, 3.0, 4.5]}));
}

#[test]
fn a_run_ends_at_its_deadline_and_its_instance_serves_the_next_request() {
    let repository = Repository::new()
        .copy("rounds", &format!("{FIXTURES}/rounds"))
        .file("rounds/config.pbtxt", "instance_group { count: 1 }");
    let Some((mut process, _repository)) = serve_those(repository, &[]) else { return };
    let mut client = process.client();
    let path = "/v1/models/rounds:predict";
    // As many rounds as take two seconds here, whatever else this machine does.
    let (mut rounds, mut whole) = (100, Duration::ZERO);
    while whole < Duration::from_secs(2) {
        rounds *= 2;
        let began = Instant::now();
        post(&mut client, path, &json!({"inputs": rounds}));
        whole = began.elapsed();
    }
    // After the deadline only the round that runs then is finished, and the answer behind the refusal would take the
    // whole run if that went on. The least of some is meant, as others may need the processors meanwhile.
    let body = json!({"inputs": 100 * rounds}).to_string();
    let timed = || {
        let began = Instant::now();
        client.post(path, &[("x-request-timeout-ms", "20")], &body).error(504);
        let refused = began.elapsed();
        let reply = post(&mut client, path, &json!({"inputs": 1}));
        assert_eq!(reply["outputs"]["rounds"], 1);
        (refused, began.elapsed())
    };
    let (refused, answered): (Vec<_>, Vec<_>) = std::iter::repeat_with(timed).take(10).unzip();
    let (refused, answered) =
        (refused.into_iter().min().unwrap(), answered.into_iter().min().unwrap());
    let (deadline, round, slack) =
        (Duration::from_millis(20), whole / rounds, Duration::from_millis(15));
    assert!(deadline <= refused, "{refused:?}");
    assert!(refused < deadline + round + slack, "{refused:?}, and a round takes {round:?}");
    assert!(answered < deadline + 3 * round + 2 * slack, "{answered:?}, a round takes {round:?}");
}

#[test]
fn folders_of_mlflow_are_served_by_the_saved_model_of_their_flavor() {
    let half = format!("{FIXTURES}/half_plus_two/1");
    let mlmodel = |entry: &str| {
        format!("flavors:\n  tensorflow:\n    code: null\n    {entry}\nmlflow_version: 3.17.2\n")
    };
    let repository = Repository::new()
        .copy("module/tf2model", &half)
        .file("module/MLmodel", mlmodel("saved_model_dir: tf2model"))
        .copy("keras/data/model", &half)
        .file("keras/MLmodel", mlmodel("data: data"));
    let Some((mut process, _repository)) = serve_those(repository, &[]) else { return };
    let mut client = process.client();
    for model in ["module", "keras"] {
        let path = format!("/v1/models/{model}:predict");
        let reply = post(&mut client, &path, &json!({"instances": [1.0, 2.0, 5.0]}));
        assert_eq!(reply, json!({"predictions": [2.5, 3.0, 4.5]}), "{model}");
    }
}

/// Threads of TensorFlow's sessions: those among operators, and those inside them, which have the name of the thread
/// that has made the session.
fn pool_threads(process: &Process) -> [usize; 2] {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    // A thread may end meanwhile.
    let name = |it: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(it.ok()?.path().join("comm")).ok()
    };
    let names: Vec<String> = tasks.filter_map(name).collect();
    ["tf_Compute", "loading"].map(|it| names.iter().filter(|name| name.trim() == it).count())
}

#[test]
fn the_tuple_of_tensorflow_servings_container_is_sessions_and_threads() {
    let half = format!("{FIXTURES}/half_plus_two");
    let repository = Repository::new().copy("four", &half).copy("own", &half).file(
        "own/config.pbtxt",
        "instance_group { count: 3 }\n\
         parameters { key: \"MAX_SESSION_SHARE_COUNT\" value: { string_value: \"2\" } }\n\
         parameters { key: \"TF_NUM_INTRA_THREADS\" value: { string_value: \"4\" } }\n\
         parameters { key: \"TF_NUM_INTER_THREADS\" value: { string_value: \"1\" } }",
    );
    if !Path::new(flag().split_once('=').unwrap().1).is_file() {
        return skip(
            "tests of SavedModels: python3 backends/tensorflow/prepare.py has not been run",
        );
    }
    let variables = [
        ("SAGEMAKER_TFS_INSTANCE_COUNT", "4"),
        ("SAGEMAKER_TFS_INTER_OP_PARALLELISM", "2"),
        ("SAGEMAKER_TFS_INTRA_OP_PARALLELISM", "1"),
    ];
    // The threads that are counted are those of this process.
    let flags = [&*flag(), "--model-control-mode=explicit", IN_PROCESS];
    let mut process = Process::start(&repository, &flags, &variables);
    process.wait_ready();
    let mut client = process.client();
    let mut after = |action: &str, model: &str, expected: [usize; 2]| {
        let path = format!("/v2/repository/models/{model}/{action}");
        client.post(&path, &[], "").expect(200);
        wait_for(&format!("{expected:?} threads after {action} of {model}"), || {
            (pool_threads(&process) == expected).then_some(())
        });
    };
    // Four sessions, as four servers had; and two for three instances, each with threads of its own.
    after("load", "four", [4 * 2, 4]);
    after("load", "own", [4 * 2 + 2, 4 + 2 * 4]);
    after("unload", "four", [2, 2 * 4]);
    let reply = post(&mut client, "/v1/models/own:predict", &json!({"instances": [1.0]}));
    assert_eq!(reply, json!({"predictions": [2.5]}));
    process.wait_for_line("it has 4 sessions, and its variables are in memory 4 times");

    let variables = [&variables[..], &[("SAGEMAKER_TFS_NUM_BATCH_THREADS", "2")]].concat();
    let text = Process::command(&["env"], &variables).wait().log.join("\n");
    for part in [
        "instances (runs at a time): 8",
        "each with its own variables and threads: 4",
        "(inter), in each session: 2",
        "(intra), in each session: 1",
    ] {
        assert!(text.contains(part), "no '{part}' in:\n{text}");
    }
}

/// A multi-model endpoint that loads, asks and unloads 160 MiB so many times: MiB before, after the first unload, and
/// after the last.
fn come_and_go(rounds: usize, flags: &[&str]) -> Option<[i64; 3]> {
    let repository = Repository::new().copy("large", &format!("{FIXTURES}/large"));
    if !Path::new(flag().split_once('=').unwrap().1).is_file() {
        skip("tests of SavedModels: python3 backends/tensorflow/prepare.py has not been run");
        return None;
    }
    let (library, root) = (flag(), format!("--sagemaker-models-root={}", repository.at("")));
    let args =
        ["--sagemaker-multi-model=true", "--sagemaker-port=0", "--http-port=0", "--grpc-port=0"];
    // The memory that is measured is that of this process.
    let args = [&args[..], &["--metrics-port=0", &root, &library, IN_PROCESS], flags].concat();
    let mut process = Process::command(&args, &[]);
    process.wait_ready();
    let address = process.address("sagemaker");
    let headers = [("Content-Type", "application/json")];
    let load = json!({"model_name": "large", "url": repository.at("large")}).to_string();
    let ask = json!({"instances": [vec![0.0; 2560]]}).to_string();
    let before = resident(&process);
    let round = || {
        let mut client = crate::support::Client::connect(address);
        client.post("/models", &headers, &load).expect(200);
        client.post("/models/large/invoke", &headers, &ask).expect(200);
        assert!(before + 160 < resident(&process), "{before} MiB before");
        client.request("DELETE", "/models/large", &[], None).expect(200);
        resident(&process)
    };
    let first = round();
    let last = (1..rounds).fold(first, |_, _| round());
    let line = process.wait_for_line("TensorFlow is open");
    assert!(line.contains("onednn="), "{line}");
    Some([before, first, last])
}

#[test]
fn without_onednn_the_memory_of_models_that_come_and_go_comes_back() {
    let Some([_, first, last]) = come_and_go(8, &[]) else { return };
    assert!(
        last <= first + first / 20,
        "{first} MiB after the first unload, {last} after the last"
    );
    // The library itself is 280 MiB.
    assert!(last < 400, "{last} MiB after the last unload");
}

#[test]
#[ignore = "takes minutes: cargo test -p muster --test tensorflow_serving -- --ignored a_hundred_loads"]
fn a_hundred_loads_of_a_large_model_leave_as_much_memory_as_the_first() {
    let Some([before, first, last]) = come_and_go(100, &[]) else { return };
    println!("{before} MiB before, {first} MiB after the first unload, {last} MiB after the last");
    assert!(
        last <= first + first / 20,
        "{first} MiB after the first unload, {last} after the last"
    );
}

#[test]
fn without_the_library_a_saved_model_says_how_to_get_it_and_the_others_serve() {
    let repository =
        Repository::of(&["mlp"]).copy("half_plus_two", &format!("{FIXTURES}/half_plus_two"));
    let nowhere = "--tensorflow-library=/nowhere/libtensorflow_cc.so.2";
    let mut process = Process::start(&repository, &[nowhere, "--strict-readiness=false"], &[]);
    process.wait_ready();
    let mut client = process.client();
    let error = client.get("/v2/models/half_plus_two/ready").error(503);
    for part in ["backends/tensorflow/prepare.py", "--tensorflow-library", "tf2onnx"] {
        assert!(error.contains(part), "{error}");
    }
    client.get("/v2/models/mlp/ready").expect(200);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.id())).unwrap();
    assert!(!maps.contains("tensorflow"), "{maps}");
}
