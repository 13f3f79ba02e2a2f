//! Models that are objects of Python: pickled estimators of scikit-learn that no engine reads as data, which are opened
//! on request only, and folders of MLflow's with code.

use std::{
    path::PathBuf,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use crate::support::{
    PATIENCE, Process, Repository, check_end,
    python::{python, run},
    root,
};

/// The packages of these tests.
const PACKAGES: &str = "requirements-sklearn.txt";

/// The script that makes estimators, and asks for answers.
const SCRIPT: &str = "tests/clients/sklearn_objects.py";

/// An interpreter with scikit-learn, and a repository of estimators. `None` without one.
fn estimators() -> Option<(PathBuf, Repository)> {
    let interpreter = python(PACKAGES)?;
    let repository = Repository::new();
    let mut make = Command::new(&interpreter);
    run(make.arg(root(SCRIPT)).arg("make").arg(repository.path())).unwrap();
    Some((interpreter, repository))
}

/// Waits until all models are loaded. Where processors are busy, an interpreter takes a minute for its packages.
#[track_caller]
fn wait_loaded(server: &mut Process) {
    let until = Instant::now() + 6 * PATIENCE;
    while server.client().get("/v2/health/ready").status != 200 {
        assert!(Instant::now() < until, "not ready: {}", server.log().join("\n"));
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_opens_pickles_and_folders_passes_its_own_tests() {
    let Some(interpreter) = python(PACKAGES) else { return };
    let mut tests = Command::new(interpreter);
    tests.args(["-m", "unittest", "test_estimator", "test_pyfunc"]);
    if let Err(said) = run(tests.current_dir(root("backends/python/runtime/tests"))) {
        panic!("{said}");
    }
}

#[test]
fn estimators_answer_as_scikit_learn_does_where_pickles_may_be_run() {
    let Some((interpreter, repository)) = estimators() else { return };
    let flag = format!("--python={}", interpreter.display());
    let mut server = Process::start(&repository, &[&flag, "--run-pickles=true"], &[]);
    wait_loaded(&mut server);
    let [kserve, invocations] =
        ["http", "sagemaker"].map(|it| format!("http://{}", server.address(it)));
    let mut ask = Command::new(&interpreter);
    ask.arg(root(SCRIPT)).arg("ask").arg(repository.path()).args([kserve, invocations]);
    if let Err(said) = run(&mut ask) {
        panic!("{said}{}", server.log().join("\n"));
    }
}

#[test]
fn without_a_request_nothing_of_a_pickle_is_run_and_the_refusal_says_what_would() {
    let marker = Repository::new();
    let path = marker.at("run");
    let pickle = format!("\u{80}\u{4}cbuiltins\nopen\n(V{path}\nVw\ntR.");
    let pickle: Vec<u8> = pickle.chars().map(|it| it as u8).collect();
    let repository = Repository::new().file("m/1/model.pkl", pickle);
    let expected = "start with --run-pickles=true, or write backend: \"python\" and default_model_filename: \
                    \"model.pkl\" into its config.pbtxt; but model 'm': --python: expected a Python interpreter at \
                    /nowhere/python3";
    check_end(Process::start(&repository, &["--python=/nowhere/python3"], &[]), 1, expected);
    let Some(interpreter) = python("requirements.txt") else { return };
    let flag = format!("--python={}", interpreter.display());
    let expected = format!("config.pbtxt; {} would run it", interpreter.display());
    check_end(Process::start(&repository, &[&flag], &[]), 1, &expected);
    let refused = ["--secure-mode=true", "--run-pickles=true", &flag];
    check_end(Process::start(&repository, &refused, &[]), 1, "--secure-mode");
    assert!(!std::path::Path::new(&path).exists());
    // It is the file's doing.
    check_end(Process::start(&repository, &[&flag, "--run-pickles=true"], &[]), 1, "predict");
    assert!(std::path::Path::new(&path).exists());
}

#[test]
fn a_line_of_its_configuration_has_one_pickle_opened_and_no_request_brings_that_line() {
    let Some((interpreter, repository)) = estimators() else { return };
    let config = |name: &str| {
        format!(
            "backend: \"python\" default_model_filename: \"{name}\" max_batch_size: 8 dynamic_batching {{}}"
        )
    };
    let repository = repository.file("svc/config.pbtxt", config("model.pkl"));
    let flags = [
        &*format!("--python={}", interpreter.display()),
        "--model-control-mode=explicit",
        "--load-model=svc",
    ];
    let mut server = Process::start(&repository, &flags, &[]);
    wait_loaded(&mut server);
    let mut client = server.client();
    let asked =
        r#"{"inputs":[{"name":"input__0","datatype":"FP64","shape":[1,4],"data":[1,0,0,0]}]}"#;
    let reply = client.post("/v2/models/svc/infer", &[], asked).expect(200).json();
    assert_eq!(reply["outputs"][0]["data"], serde_json::json!([7]));
    let load = |config: &str| serde_json::json!({"parameters": {"config": config}}).to_string();
    let brought = load(r#"{"backend": "python", "default_model_filename": "model.joblib"}"#);
    let error = client.post("/v2/repository/models/mixed/load", &[], brought).error(400);
    assert!(error.contains("backend 'python' runs what the file 'model.joblib' says"), "{error}");
    let error = client.post("/v2/repository/models/mixed/load", &[], "{}");
    assert!(error.text().contains("--run-pickles=true"), "{}", error.text());
}

#[test]
fn a_folder_of_mlflow_with_code_answers_as_mlflows_own_server_does() {
    const SCRIPT: &str = "tests/clients/pyfunc_models.py";
    let Some(interpreter) = python(PACKAGES) else { return };
    let repository = Repository::new();
    let mut make = Command::new(&interpreter);
    run(make.arg(root(SCRIPT)).arg("make").arg(repository.path())).unwrap();
    let flag = format!("--python={}", interpreter.display());
    let mut server = Process::start(&repository, &[&flag], &[]);
    wait_loaded(&mut server);
    let address = format!("http://{}", server.address("sagemaker"));
    let mut ask = Command::new(&interpreter);
    ask.arg(root(SCRIPT)).arg("ask").arg(repository.path()).arg(address);
    if let Err(said) = run(&mut ask) {
        panic!("{said}{}", server.log().join("\n"));
    }
    // Its traceback is for the log.
    server.wait_for_line("RuntimeError: nobody is that old");
    // The same over KServe: a body is one element.
    let body = r#"{"dataframe_records":[{"name":"Bo","age":7,"size":3.0}]}"#;
    let asked = serde_json::json!({"inputs": [
        {"name": "body", "datatype": "BYTES", "shape": [1], "data": [body]}
    ]});
    let reply = server.client().post("/v2/models/greet/infer", &[], asked.to_string()).expect(200);
    let said = r#"{"predictions": [{"said": "Hi Bo", "next": 8, "half": 1.5}]}"#;
    assert_eq!(reply.json()["outputs"][0]["data"], serde_json::json!([said]));
    drop(server);
    let refused = Process::start(&repository, &["--secure-mode=true", &flag], &[]);
    check_end(refused, 1, "the model is Python code, and --secure-mode");
}
