//! Models whose place is decided at their load: in the server, or in a process of their own.

use std::{fs, path::Path};

use crate::{
    sandbox::with_optimized,
    support::{
        Client, Process, Repository, Server, Start, first_of, gpus, infer, row, wait_for,
        workers::workers,
    },
};

const AUTO: &str = "--isolation=auto";
const MLP: &str = "tests/fixtures/models/mlp/1/model.onnx";

/// Makes a model's file one of 40 MiB, of which the graph has no use.
fn large(model: &Path) {
    const BYTES: usize = 40 << 20;
    let mut content = fs::read(model).unwrap();
    // A text about the model: field 6, and its length.
    content.extend([6 << 3 | 2, 0x80, 0x80, 0x80, 20]);
    content.resize(content.len() + BYTES, b' ');
    fs::write(model, content).unwrap();
}

/// Lines of the log that say where a model runs.
fn places_told(server: &Process) -> usize {
    let tells = |it: &String| {
        it.contains("it runs in the server's process")
            || it.contains("it runs in a process of its own")
    };
    server.log().iter().filter(|it| tells(it)).count()
}

#[test]
fn with_auto_a_slow_model_is_in_a_process_of_its_own_and_others_are_in_the_server() {
    let rows = ("columns", "4");
    let slow = [rows, ("execute_delay_ms", "20")];
    let repository = Repository::identity("fast", &[rows])
        .with_identity("slow", &slow)
        .with_identity("plain", &[])
        .with_identity("bounded", &[rows, ("MEMORY_LIMIT_BYTES", "1000000000")])
        .with_identity("said", &[rows, ("ISOLATION", "process")])
        .with_identity("within", &[("execute_delay_ms", "20"), rows, ("ISOLATION", "in_process")]);
    let flags = [AUTO, "--model-control-mode=explicit", "--load-model=*"];
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    let http = server.address("http");
    let mut client = server.client();
    let models = ["fast", "slow", "plain", "bounded", "said", "within"];
    let has_process = |model: &str| {
        let label = format!("model=\"{model}\"");
        let page = Client::connect(http).get("/metrics").expect(200).text();
        page.lines().any(|it| it.starts_with("muster_worker_up") && it.contains(&label))
    };
    let apart = models.map(has_process);
    assert_eq!(apart, [false, true, false, true, true, false], "{:?}", server.log());
    assert_eq!(workers(server.id()).len(), 3);
    for model in models {
        assert_eq!(first_of(&client.post(&infer(model), &[], row(5))), 5.0);
    }
    assert_eq!(places_told(&server), 4);
    let shown = |model: &str| {
        let config = Client::connect(http).get(&format!("/v2/models/{model}/config")).expect(200);
        let found = &config.json()["parameters"]["muster_isolation"]["string_value"];
        found.as_str().unwrap_or_default().to_owned()
    };
    for (model, begin, end) in [
        ("fast", "in_process: its runs read weights of 0.0 MiB", ", less than 32.0 MiB"),
        ("slow", "process: a run is told to take ", "20.0ms"),
        ("plain", "in_process: its runs read weights of 0.0 MiB", ", less than 32.0 MiB"),
        ("bounded", "process: its configuration bounds what", "its process may take"),
        ("said", "", ""),
        ("within", "", ""),
    ] {
        let found = shown(model);
        assert!(found.starts_with(begin) && found.ends_with(end), "{model}: {found}");
        assert_eq!(found.is_empty(), begin.is_empty(), "{model}: {found}");
    }
    // Decided once: the next load of what is the same heeds it.
    for model in ["fast", "slow"] {
        for verb in ["unload", "load"] {
            let path = format!("/v2/repository/models/{model}/{verb}");
            client.post(&path, &[], "").expect(200);
        }
    }
    assert_eq!(["fast", "slow"].map(has_process), [false, true]);
    assert!(shown("fast").starts_with("in_process: "), "{}", shown("fast"));
    assert_eq!(places_told(&server), 4);
    let repository = repository.with_identity("fast", &slow);
    client.post("/v2/repository/models/fast/load", &[], "").expect(200);
    assert!(has_process("fast"));
    assert_eq!(places_told(&server), 5);
    assert_eq!(first_of(&client.post(&infer("fast"), &[], row(6))), 6.0);
    drop(repository);
}

#[test]
fn with_auto_an_onnx_model_with_many_weights_is_in_a_process_of_its_own() {
    let repository = Repository::of(&["mlp"]).copy("small/1/model.onnx", MLP);
    large(&repository.path().join("mlp/1/model.onnx"));
    let server = Server::start(&repository, &[AUTO]);
    for (model, found) in [
        ("mlp", "process: its runs read weights of 40.2 MiB, no less than 32.0 MiB"),
        ("small", "in_process: its runs read weights of 0.2 MiB, less than 32.0 MiB"),
    ] {
        let config = server.get(&format!("/v2/models/{model}/config")).expect(200).json();
        assert_eq!(config["parameters"]["muster_isolation"]["string_value"], found);
    }
}

#[test]
fn a_load_that_ends_its_process_is_an_error_of_that_model_with_auto_too() {
    let repository =
        Repository::identity("bad", &[("load_fault", "abort")]).with_identity("good", &[]);
    let server = Server::start(&repository, &[AUTO]);
    let error = server.post(&infer("bad"), row(1)).error(503);
    assert!(error.contains("ended by signal 6 (SIGABRT) while it was loaded"), "{error}");
    assert_eq!(first_of(&server.post(&infer("good"), row(1))), 1.0);
}

#[test]
fn a_model_that_no_process_of_its_own_may_load_is_in_the_server_with_auto() {
    // A setting opens nothing there to a process, as others have files there too.
    let file = std::env::temp_dir().join(format!("muster-places-{}.onnx", std::process::id()));
    let repository = with_optimized(Repository::of(&["mlp"]), &file);
    large(&repository.path().join("mlp/1/model.onnx"));
    let mut server = Process::start(&repository, &[AUTO], &[]);
    server.wait_ready();
    let told = server.wait_for_line("it is loaded in the server's process, as one of its own");
    assert!(told.contains("WARN") && told.contains("others have files there too"), "{told}");
    assert_eq!(workers(server.id()), [0; 0]);
    server.client().get("/v2/models/mlp/ready").expect(200);
    fs::remove_file(&file).expect("it was written");
    // Where its process is bounded, that holds.
    let bound = "parameters { key: \"MEMORY_LIMIT_BYTES\" value { string_value: \"1000000000\" } }";
    let config = fs::read_to_string(repository.path().join("mlp/config.pbtxt")).unwrap();
    let repository = repository.file("mlp/config.pbtxt", config + bound);
    let error = Start::new(&repository).flags(&[AUTO]).try_run().map(drop).unwrap_err();
    assert!(error.to_string().contains("others have files there too"), "{error}");
    assert!(!file.exists());
}

#[test]
fn models_with_instances_on_gpus_are_in_the_server_with_auto() {
    let on = |parameter: &str| {
        format!(
            "backend: \"identity\" max_batch_size: 8
            input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
            output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
            instance_group {{ kind: KIND_GPU gpus: 0 }}
            parameters {{ key: \"execute_delay_ms\" value {{ string_value: \"20\" }} }}
            parameters {{ key: \"columns\" value {{ string_value: \"4\" }} }} {parameter}"
        )
    };
    let own = "parameters { key: \"ISOLATION\" value { string_value: \"process\" } }";
    let repository = Repository::new().model("m", &on("")).model("own", &on(own));
    let mut server = gpus::start(&repository, &[AUTO], &[]);
    assert_eq!(workers(server.id()).len(), 1);
    assert_eq!(places_told(&server), 0);
    for model in ["m", "own"] {
        assert_eq!(first_of(&server.client().post(&infer(model), &[], row(5))), 5.0);
    }
}

#[test]
fn a_forest_is_in_the_server_with_auto_unless_its_process_is_bounded() {
    let bounded = "backend: \"trees\" parameters { key: \"MEMORY_LIMIT_BYTES\" value { string_value: \"1000000000\" } }";
    let forest = "tests/fixtures/forests/xgboost-3.4.1/logistic.json";
    let repository = Repository::new()
        .copy("plain/1/xgboost.json", forest)
        .copy("bounded/1/xgboost.json", forest)
        .file("bounded/config.pbtxt", bounded);
    let mut server = Process::start(&repository, &[AUTO], &[]);
    server.wait_ready();
    // Of the other nothing is decided: nothing in it can crash.
    assert_eq!((workers(server.id()).len(), places_told(&server)), (1, 1), "{:?}", server.log());
    for model in ["plain", "bounded"] {
        server.client().get(&format!("/v2/models/{model}/ready")).expect(200);
    }
}

#[test]
fn a_model_whose_process_dies_in_the_runs_of_its_load_never_comes_to_the_server_with_auto() {
    let abort = ("fault", "abort");
    let repository = Repository::identity("any", &[("columns", "4"), abort])
        // One row is fast, and goes well.
        .with_identity("rows", &[("columns", "4"), abort, ("fault_above_rows", "1")])
        .with_identity("good", &[("columns", "4")]);
    let server = Server::start(&repository, &[AUTO, "--strict-readiness=false"]);
    assert_eq!(first_of(&server.post(&infer("good"), row(1))), 1.0);
    assert_eq!(first_of(&server.post(&infer("rows"), row(2))), 2.0);
    let config = server.get("/v2/models/rows/config").expect(200).json();
    let found = config["parameters"]["muster_isolation"]["string_value"].as_str().unwrap();
    assert_eq!(found, "process: a run is told to end its process");
    let reply = server.post(&infer("any"), row(3));
    assert!(reply.status == 503, "{} {}", reply.status, reply.text());
    server.get("/v2/health/live").expect(200);
}

#[test]
fn a_server_whose_files_may_not_be_large_has_models_in_processes_of_their_own_all_the_same() {
    let slow = [("columns", "4"), ("execute_delay_ms", "20")];
    let repository = Repository::identity("m", &slow);
    // Blocks of half a KiB.
    let script = "ulimit -f 200000 && exec \"$0\" \"$@\"";
    let mut server = Process::start_by(script, &repository, &[AUTO], &[]);
    server.wait_ready();
    assert_eq!(workers(server.id()).len(), 1);
    assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(5))), 5.0);
}

#[test]
fn a_model_that_was_being_loaded_when_the_server_ended_has_a_process_of_its_own_at_the_next_start()
{
    let (cache, gate) = (Repository::new(), Repository::new());
    let flag = format!("--model-cache-dir={}", cache.path().display());
    let gate = gate.path().join("open");
    let waits = [("columns", "4"), ("creation_gate", gate.to_str().unwrap())];
    let repository = Repository::identity("m", &waits).with_identity("other", &[("columns", "4")]);
    let marks = || {
        let names = fs::read_dir(cache.path()).unwrap().map(|it| it.unwrap().file_name());
        names.filter(|it| it.to_string_lossy().starts_with("loading-")).count()
    };
    let mut first = Process::start(&repository, &[AUTO, &flag], &[]);
    first.wait_for_line("model is ready");
    wait_for("the load of the other model to begin", || (marks() == 1).then_some(()));
    drop(first);
    assert_eq!(marks(), 1);
    fs::write(&gate, "").unwrap();
    for (workers_now, begin) in [
        (1, "process: it was being loaded, or made its first run, when the server ended last"),
        (0, "in_process: its runs read weights of"),
    ] {
        let mut server = Process::start(&repository, &[AUTO, &flag], &[]);
        server.wait_ready();
        assert_eq!((workers(server.id()).len(), marks()), (workers_now, 0), "{:?}", server.log());
        let config = server.client().get("/v2/models/m/config").expect(200).json();
        let found = config["parameters"]["muster_isolation"]["string_value"].as_str().unwrap();
        assert!(found.starts_with(begin), "{found}");
        assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(5))), 5.0);
    }
}
