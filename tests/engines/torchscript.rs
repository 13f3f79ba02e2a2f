//! TorchScript models behind the server. `python3 backends/pytorch/prepare.py` makes the engine that they need; without
//! it there is nothing to run: that is said aloud, and is a failure where `CI=true`. What the engine itself does is
//! tested in its own package.

use crate::{
    engines::check_as,
    support::{
        Form, IN_PROCESS, Process, Repository, Server, Tensor,
        torchscript::{flag, plugin},
    },
};

const NETWORKS: [&str; 3] = ["mlp", "convnet", "transformer"];
const MODELS: &str = "backends/pytorch/plugin/tests/models";

/// A server with the engine; `None` where there is none.
fn serve(repository: &Repository) -> Option<Server> {
    let flag = plugin()?;
    Some(Server::start(repository, &[&flag, "--backend-config=default-max-batch-size=8"]))
}

/// A model that is nothing but its file.
fn bare(repository: Repository, name: &str, file: &str) -> Repository {
    repository.copy(&format!("{name}/1/model.pt"), file)
}

#[test]
fn a_model_exported_both_ways_gives_the_same_answers() {
    let both = |it: Repository, name: &&str| {
        let torchscript = format!("tests/fixtures/torchscript/{name}");
        it.fixture(&format!("{name}_onnx"), name).copy(&format!("{name}_torchscript"), &torchscript)
    };
    let repository = NETWORKS.iter().fold(Repository::new(), both);
    let Some(server) = serve(&repository) else { return };
    let mut client = server.client();
    for name in NETWORKS {
        check_as(&mut client, &format!("{name}_onnx"), name);
        check_as(&mut client, &format!("{name}_torchscript"), name);
    }
}

#[test]
fn a_file_alone_is_a_model_whose_inputs_and_outputs_were_found_out() {
    let mlp = "tests/fixtures/torchscript/mlp/1/model.pt";
    let words = format!("{MODELS}/words.pt");
    let repository = bare(bare(Repository::new(), "mlp", mlp), "words", &words);
    let Some(server) = serve(&repository) else { return };
    let mut client = server.client();
    let described = client.get("/v2/models/mlp").expect(200).json();
    assert_eq!(described["platform"], "pytorch_libtorch");
    let port = |it: &serde_json::Value| {
        (it["name"].clone(), it["datatype"].clone(), it["shape"].to_string())
    };
    let float = |name: &str, shape: &str| (name.into(), "FP32".into(), shape.to_owned());
    assert_eq!(port(&described["inputs"][0]), float("input", "[-1,30]"));
    assert_eq!(port(&described["outputs"][0]), float("OUTPUT__0", "[-1,2]"));
    let described = client.get("/v2/models/words").expect(200).json();
    assert_eq!(described["inputs"][0]["datatype"], "INT64");
    // It batches, as an ONNX model with an open first dimension does.
    let config = client.get("/v2/models/mlp/config").expect(200).json();
    assert_eq!((&config["backend"], &config["max_batch_size"]), (&"pytorch".into(), &8.into()));
    let rows = Tensor::fp32("input", &[4, 30], &[0.5; 120]);
    let reply = client.infer("mlp", &[rows], Form::Binary, "");
    assert_eq!(reply.output().shape, [4, 2]);
    // And to /invocations it is as any other.
    let row = vec!["0.5"; 30].join(",");
    let headers = [("Content-Type", "text/csv"), ("X-Amzn-SageMaker-Target-Model", "mlp")];
    let reply = client.post("/invocations", &headers, row).expect(200);
    assert_eq!(reply.text().trim().split(',').count(), 2, "{}", reply.text());
}

#[test]
fn numbers_that_forward_takes_are_tensors_of_one_element() {
    let scaled = format!("{MODELS}/scaled.pt");
    let config = "input [ { name: \"x\" }, { name: \"times\" data_type: TYPE_INT64 dims: [ 1, 1 ] },\n\
        { name: \"offset\" data_type: TYPE_FP32 dims: [ 1, 1 ] },\n\
        { name: \"negated\" data_type: TYPE_BOOL dims: [ 1 ] optional: true } ]\n";
    let repository = bare(bare(Repository::new(), "bare", &scaled), "configured", &scaled)
        .file("configured/config.pbtxt", config);
    let repository = bare(repository, "batch", &scaled)
        .file("batch/config.pbtxt", format!("max_batch_size: 8 {config}"));
    let Some(server) = serve(&repository) else { return };
    let mut client = server.client();
    let described = client.get("/v2/models/bare").expect(200).json();
    let shapes: Vec<String> = described["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{} {} {}", it["name"], it["datatype"], it["shape"]).replace('"', ""))
        .collect();
    assert_eq!(shapes, ["x FP32 [-1,4]", "times INT64 [1]", "offset FP64 [1]"]);
    // Requests have numbers of their own, and are not merged.
    let config = client.get("/v2/models/bare/config").expect(200).json();
    assert_eq!(config["max_batch_size"], 0);

    let mut infer = |model: &str, shape: &str, times: &str, others: &str| {
        let body = format!(
            "{{\"inputs\": [{{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [1, 4], \
             \"data\": [1, 1, 1, 1]}}, \
             {{\"name\": \"times\", \"datatype\": \"INT64\", \"shape\": {shape}, \"data\": {times}}}{others}]}}"
        );
        client.post(&format!("/v2/models/{model}/infer"), &[], body)
    };
    let other = |name: &str, dtype: &str, value: &str| {
        format!(
            ", {{\"name\": \"{name}\", \"datatype\": \"{dtype}\", \"shape\": [1], \"data\": [{value}]}}"
        )
    };
    let offset = other("offset", "FP64", "0.5");
    let mut answer = |model: &str, shape: &str, times: i64, others: &str| -> Vec<f64> {
        let reply = infer(model, shape, &format!("[{times}]"), others).expect(200).json();
        let data = reply["outputs"][0]["data"].as_array().unwrap();
        data.iter().map(|it| it.as_f64().unwrap()).collect()
    };
    assert_eq!(answer("bare", "[1]", 0, &offset), [0.5, 0.5]);
    let twice = answer("bare", "[1]", 2, &offset);
    assert!(twice.iter().all(|it| (it - 0.5).abs() > 1e-3), "{twice:?}");
    for shape in ["[]", "[1,1]"] {
        assert_eq!(answer("bare", shape, 2, &offset), twice, "{shape}");
    }
    let offset32 = other("offset", "FP32", "0.5");
    for shape in ["[]", "[1]", "[1,1]"] {
        assert_eq!(answer("configured", shape, 2, &offset32), twice, "{shape}");
    }
    let negated = offset32 + &other("negated", "BOOL", "true");
    let negative: Vec<f64> = twice.iter().map(|it| -it).collect();
    assert_eq!(answer("configured", "[1]", 2, &negated), negative);
    let error = infer("bare", "[2]", "[1, 2]", &offset).error(400);
    assert!(error.contains("times"), "{error}");
    let error = client.get("/v2/models/batch/ready").error(503);
    assert!(error.contains("cannot batch") && error.contains("max_batch_size: 0"), "{error}");
}

#[test]
fn models_that_are_no_torchscript_say_what_they_are_and_the_others_serve() {
    let contradiction = "max_batch_size: 8\n\
        input { name: \"input\" data_type: TYPE_FP32 dims: [ 4 ] }\n\
        output { name: \"output\" data_type: TYPE_FP32 dims: [ 2 ] }\n";
    let broken: [(&str, &[&str]); 8] = [
        ("cut", &["cut short"]),
        ("state_dict", &["state dict", "torch.jit.script"]),
        ("pickled", &["pickled module", "torch.jit.script"]),
        ("legacy", &["torch.save", "torch.jit.script"]),
        ("custom", &["mine::twice"]),
        ("tanh", &["config.pbtxt", "input { name: \"x\" data_type: .. dims: [ .. ] }"]),
        ("contradiction", &["input 'input'", "dims give the shape [ -1, 4 ]", "[ -1, 30 ]"]),
        ("too_many", &["forward", "input"]),
    ];
    let mlp = "tests/fixtures/torchscript/mlp/1/model.pt";
    let mut repository = bare(Repository::new(), "good", mlp)
        .file("README.txt", "junk")
        .file("good/1/notes.txt", "junk")
        .file("good/1/.model.pt.swp", "junk")
        .file("good/good.tar.gz", "junk")
        .file(".hidden/1/model.pt", "junk");
    for (name, _) in broken {
        let file = format!("{MODELS}/{name}.pt");
        repository = match name {
            "contradiction" | "too_many" => bare(repository, name, mlp),
            _ => bare(repository, name, &file),
        };
    }
    let one_more =
        format!("{contradiction}input {{ name: \"y\" data_type: TYPE_FP32 dims: [ 4 ] }}");
    let repository = repository
        .file("contradiction/config.pbtxt", contradiction)
        .file("too_many/config.pbtxt", one_more);
    let Some(server) = serve(&repository) else { return };
    let mut client = server.client();
    let index = client.post("/v2/repository/index", &[], "").expect(200).json();
    for (name, parts) in broken {
        let entry = index.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
        assert_eq!(entry["state"], "UNAVAILABLE", "{entry}");
        let reason = entry["reason"].as_str().unwrap();
        parts.iter().for_each(|it| assert!(reason.contains(it), "{name}: {reason}"));
        assert!(!reason.contains("Traceback") && !reason.contains(".cpp"), "{name}: {reason}");
    }
    let row = Tensor::fp32("input", &[1, 30], &[0.5; 30]);
    client.infer("good", &[row], Form::Binary, "").expect(200);
}

#[test]
fn a_deep_graph_is_compiled_on_whichever_thread_runs_it_first() {
    // It has state, so that each instance has a module of its own, which is compiled when that is run.
    let config = |trials: &str| {
        format!(
            "max_batch_size: 0 instance_group {{ count: 2 }}\n\
             input {{ name: \"x\" data_type: TYPE_FP32 dims: [ -1, 2 ] }}\n\
             output {{ name: \"y\" data_type: TYPE_FP32 dims: [ -1, 2 ] }}\n\
             parameters {{ key: \"TRIAL_RUNS\" value: {{ string_value: \"{trials}\" }} }}\n"
        )
    };
    let deep = format!("{MODELS}/deep.pt");
    let repository = ["tried", "untried"].iter().fold(Repository::new(), |it, name| {
        bare(it, name, &deep)
            .file(&format!("{name}/config.pbtxt"), config(&(*name == "tried").to_string()))
    });
    let Some(server) = serve(&repository) else { return };
    let mut client = server.client();
    for name in ["tried", "untried"] {
        let row = Tensor::fp32("x", &[1, 2], &[0.5; 2]);
        let reply = client.infer(name, &[row], Form::Binary, "").expect(200);
        assert_eq!(reply.output().shape, [1, 2]);
    }
}

#[test]
fn without_the_engine_a_torchscript_model_says_how_to_get_it_and_the_others_serve() {
    let mlp = "tests/fixtures/torchscript/mlp";
    let repository = Repository::identity("copy", &[]).copy("torchscript", mlp);
    // A process of its own: another test may have opened the engine in this one.
    let nowhere = "--pytorch-plugin=/nowhere/libmuster_pytorch.so";
    let mut process = Process::start(&repository, &[nowhere, "--strict-readiness=false"], &[]);
    process.wait_ready();
    let mut client = process.client();
    let error = client.get("/v2/models/torchscript/ready").error(503);
    let parts = ["/nowhere/libmuster_pytorch.so", "backends/pytorch/prepare.py"];
    parts.iter().for_each(|it| assert!(error.contains(it), "{error}"));
    client.get("/v2/models/copy/ready").expect(200);
}

#[test]
fn a_process_without_torchscript_models_does_not_open_the_engine() {
    let repository = Repository::of(&["mlp"]);
    let mut process = Process::start(&repository, &[&flag(), IN_PROCESS], &[]);
    process.wait_ready();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", process.id())).unwrap();
    assert!(maps.contains("libonnxruntime") && !maps.contains("torch"), "{maps}");
}
