//! What a model in a process of its own can reach: what is its own, and nothing else of the machine.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::{
    support::{
        Form, IN_PROCESS, Process, Reply, Repository, Server, Start, Tensor, first_of, infer,
        model_config_file::{config, start},
        root, row,
        sandbox::{attempts_in, check_denied, with_weights_of_the_system},
        savedmodels::{FIXTURES, serve_those},
        torchscript::plugin,
        wait_for,
        workers::{is_gone, process, workers},
    },
    worker_faults::{number, operator, with_operator},
};

const ALL: &str = "--isolation=all";
const STRICT: &str = "--worker-sandbox=strict";

/// What came of the attempts of the engine `identity` to reach beyond itself.
fn attempts(flags: &[&str]) -> Vec<(String, String)> {
    let server = Server::start(&Repository::identity("m", &[("fault", "reach")]), flags);
    attempts_in(&server.post(&infer("m"), row(1)).error(500))
}

#[test]
fn hostile_code_reaches_nothing_beyond_its_model() {
    for sandbox in ["--worker-sandbox=on", STRICT] {
        let repository = Repository::identity("m", &[("fault", "reach")]);
        let server = Server::start(&repository, &[ALL, sandbox]);
        check_denied(&server.post(&infer("m"), row(1)).error(500));
    }
}

#[test]
fn without_a_sandbox_it_reaches_what_the_server_does() {
    for flags in [&[ALL, "--worker-sandbox=off"][..], &[IN_PROCESS]] {
        for (what, outcome) in attempts(flags) {
            assert_eq!(outcome, "done", "{what} with {flags:?}");
        }
    }
}

#[test]
fn every_thread_of_a_worker_is_in_the_sandbox() {
    let repository = Repository::of(&["mlp"]);
    let mut server = Process::start(&repository, &[ALL], &[]);
    server.wait_ready();
    let [worker] = workers(server.id())[..] else { panic!("one worker") };
    let tasks = fs::read_dir(format!("/proc/{worker}/task")).unwrap();
    let all: Vec<PathBuf> = tasks.map(|it| it.unwrap().path()).collect();
    assert!(1 < all.len());
    for task in all {
        let status = fs::read_to_string(task.join("status")).unwrap();
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapPrm:\t00000000000000"] {
            assert!(status.contains(line), "{line} in {status}");
        }
    }
}

/// The directories of workers in that one.
fn private(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).unwrap().map(|it| it.unwrap().path());
    entries.filter(|it| it.to_string_lossy().contains("muster-worker-")).collect()
}

/// The variables of a process.
fn variables(pid: u32) -> Vec<(String, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let split =
        |it: &str| it.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.split('\0').filter_map(split).collect()
}

#[test]
fn a_worker_writes_in_a_directory_that_goes_with_it() {
    let repository = Repository::identity("m", &[]).file(".scratch/here", "");
    let scratch = repository.path().join(".scratch");
    let flags = [ALL, "--model-control-mode=explicit", "--load-model=*"];
    let environment = [("TMPDIR", scratch.to_str().unwrap()), ("HOME", "/root")];
    let mut server = Process::start(&repository, &flags, &environment);
    server.wait_ready();
    let [own] = &private(&scratch)[..] else { panic!("one directory") };
    let [worker] = workers(server.id())[..] else { panic!("one worker") };
    for name in ["TMPDIR", "HOME", "XDG_CACHE_HOME"] {
        let expected = (name.to_owned(), own.display().to_string());
        assert!(variables(worker).contains(&expected), "{name}");
    }
    server.client().post("/v2/repository/models/m/unload", &[], "").expect(200);
    wait_for("the directory to go", || private(&scratch).is_empty().then_some(()));
    server.client().post("/v2/repository/models/m/load", &[], "").expect(200);
    assert_eq!(private(&scratch).len(), 1);
    server.signal("TERM");
    server.wait();
    assert_eq!(private(&scratch), Vec::<PathBuf>::new());
}

#[test]
fn where_there_is_no_directory_for_temporary_files_a_warning_says_so_and_models_run() {
    let repository = Repository::identity("m", &[]);
    let mut server = Process::start(&repository, &[ALL], &[("TMPDIR", "/nowhere")]);
    server.wait_ready();
    let warning = server.wait_for_line("no directory in /nowhere for a worker");
    assert!(warning.contains("WARN"), "{warning}");
    assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(3))), 3.0);
    assert_eq!(workers(server.id()).len(), 1);
}

#[test]
fn what_a_server_leaves_that_is_killed_is_removed_by_the_next_one() {
    let repository = Repository::identity("m", &[]).file(".scratch/here", "");
    let scratch = repository.path().join(".scratch");
    let environment = [("TMPDIR", scratch.to_str().unwrap())];
    let start = || Process::start(&repository, &[ALL], &environment);
    let mut server = start();
    server.wait_ready();
    let left = private(&scratch);
    assert_eq!(left.len(), 1);
    let worker = workers(server.id())[0];
    server.signal("KILL");
    server.wait();
    wait_for("its worker to end", || is_gone(&worker).then_some(()));
    assert_eq!(private(&scratch), left);
    let mut server = start();
    server.wait_ready();
    let own = private(&scratch);
    assert!(own.len() == 1 && own != left, "{own:?}");
}

#[test]
fn secrets_of_the_server_are_none_of_its_workers_and_a_strict_one_has_a_list() {
    let environment = [
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("SOME_TOKEN", "secret"),
        ("SOME_SETTING", "plain"),
        ("OMP_NUM_THREADS", "2"),
    ];
    for (flag, has_setting) in [("--worker-sandbox=on", true), (STRICT, false)] {
        let repository = Repository::identity("m", &[]);
        let mut server = Process::start(&repository, &[ALL, flag], &environment);
        server.wait_ready();
        let [worker] = workers(server.id())[..] else { panic!("one worker") };
        let variables = variables(worker);
        let has = |name: &str| variables.iter().any(|it| it.0 == name);
        assert!(variables.iter().all(|it| it.1 != "secret"), "{variables:?}");
        assert!(has("OMP_NUM_THREADS") && has("MUSTER_MODEL"));
        assert_eq!(has("SOME_SETTING"), has_setting);
    }
}

#[test]
fn files_that_the_server_has_inherited_are_not_open_in_a_worker() {
    let repository = Repository::identity("m", &[]).file("secret", "text");
    let secret = repository.path().join("secret");
    let script = format!("exec 9<'{}'; exec \"$0\" \"$@\"", secret.display());
    let (path, muster) = (repository.at(""), env!("CARGO_BIN_EXE_muster"));
    let args = ["-c", &script, muster, "--model-repository", &path, ALL, "--http-port=0"];
    let ports = ["--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"];
    let mut server = Process::program("/bin/sh", &[&args[..], &ports].concat(), &[]);
    server.wait_ready();
    let opens = |pid: u32| {
        let all = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        all.filter_map(|it| fs::read_link(it.unwrap().path()).ok()).any(|it| it == secret)
    };
    let [worker] = workers(server.id())[..] else { panic!("one worker") };
    assert!(opens(server.id()) && !opens(worker));
}

/// Why a server with these models, of which there is one, serves none; nothing, where it serves it.
fn problem(repository: &Repository, flags: &[&str]) -> String {
    match Start::new(repository).flags(flags).try_run() {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_link_out_of_a_models_directory_is_followed_but_in_a_strict_sandbox() {
    let repository = Repository::of(&["mlp"]).file(".elsewhere/here", "");
    let (graph, elsewhere) =
        (repository.path().join("mlp/1/model.onnx"), repository.path().join(".elsewhere/graph"));
    fs::rename(&graph, &elsewhere).unwrap();
    symlink(elsewhere, graph).unwrap();
    assert_eq!(problem(&repository, &[ALL]), "");
    let error = problem(&repository, &[ALL, STRICT]);
    assert!(error.contains("mlp/1/model.onnx"), "{error}");
}

#[test]
fn weights_of_a_model_do_not_come_from_the_system() {
    let repository = with_weights_of_the_system(Repository::new());
    for flags in [&[ALL][..], &[ALL, STRICT]] {
        let error = problem(&repository, flags);
        assert!(error.contains("external data"), "{error}");
    }
}

/// The model `mlp`, which ONNX Runtime is to write to that file once it has optimised it.
pub fn with_optimized(repository: Repository, file: &Path) -> Repository {
    let config = format!(
        "backend: \"onnxruntime\"\nparameters {{ key: \"session.optimized_model_filepath\" value {{ string_value: \
         \"{}\" }} }}\n",
        file.display()
    );
    repository.file("mlp/config.pbtxt", config)
}

#[test]
fn a_file_that_a_setting_names_is_written_but_in_a_strict_sandbox() {
    let repository = Repository::of(&["mlp"]).file("mlp/1/.out/here", "");
    let out = repository.path().join("mlp/1/.out/optimized.onnx");
    let repository = with_optimized(repository, &out);
    let error = problem(&repository, &[ALL, STRICT]);
    assert!(error.contains("optimized.onnx\" failed: Permission denied"), "{error}");
    assert!(!out.exists());
    assert_eq!(problem(&repository, &[ALL]), "");
    assert!(out.exists());
}

#[test]
fn a_setting_that_names_a_place_of_the_system_or_of_others_is_refused_and_opens_nothing() {
    let elsewhere = Repository::new().file("out/here", "");
    let linked = elsewhere.path().join("out/link");
    symlink("/etc", &linked).unwrap();
    for (file, reason) in [
        ("/etc/muster-optimized.onnx".into(), "/etc is the system's"),
        ("/etc/passwd".into(), "/etc is the system's"),
        (linked.join("muster-optimized.onnx"), "/etc is the system's"),
        ("/tmp/../etc/muster-optimized.onnx".into(), "/etc is the system's"),
        ("/tmp/muster-optimized.onnx".into(), "others have files there too"),
    ] {
        let error = problem(&with_optimized(Repository::of(&["mlp"]), &file), &[ALL]);
        let named =
            format!("parameter session.optimized_model_filepath names '{}'", file.display());
        for part in [&named, reason, "--worker-sandbox=off"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    let repository = Repository::of(&["mlp"]).file(".other/here", "");
    let other = repository.path().join(".other/optimized.onnx");
    let error = problem(&with_optimized(repository, &other), &[ALL]);
    assert!(error.contains("other models are there"), "{error}");
    assert!(!Path::new("/etc/muster-optimized.onnx").exists() && !other.exists());
    let free = elsewhere.path().join("out/optimized.onnx");
    assert_eq!(problem(&with_optimized(Repository::of(&["mlp"]), &free), &[ALL]), "");
    assert!(free.exists());
}

#[test]
fn a_setting_that_names_the_directory_of_a_model_that_is_named_is_refused_and_opens_nothing() {
    for (file, reason) in [
        ("other/1/optimized.onnx", "other models are there"),
        ("models.config", "is the server's own"),
    ] {
        let repository = Repository::of(&["mlp"]).fixture("other", "mlp");
        let file = repository.path().join(file);
        let models = config(&repository, &[("mlp", "mlp", ""), ("other", "other", "")]);
        let repository = with_optimized(repository, &file).file("models.config", models);
        let before = fs::read(&file).ok();
        let server = start(&repository, &[ALL, "--strict-readiness=false"]).run();
        let index = server.post("/v2/repository/index", "").text();
        for part in ["session.optimized_model_filepath", reason] {
            assert!(index.contains(part), "{part}: {index}");
        }
        assert_eq!(fs::read(&file).ok(), before);
        server.get("/v2/models/other/ready").expect(200);
    }
}

#[test]
fn a_link_to_a_file_of_the_system_is_not_followed() {
    let repository = Repository::identity("m", &[("fault", "reach")]).file("m/1/here", "");
    symlink("/etc", repository.path().join("m/1/etc")).unwrap();
    let mut server = process(&repository, &[]);
    let warning = server.wait_for_line("'/etc' is not opened");
    assert!(warning.contains("WARN") && warning.contains("model=m"), "{warning}");
    check_denied(&server.client().post(&infer("m"), &[], row(1)).error(500));
}

#[test]
fn a_model_does_not_leave_a_strict_sandbox_by_its_own_word() {
    let repository = Repository::identity("m", &[("ISOLATION", "in_process")]);
    assert_eq!(problem(&repository, &[ALL]), "");
    let error = problem(&repository, &[ALL, STRICT]);
    assert!(error.contains("'ISOLATION'") && error.contains("--worker-sandbox=strict"), "{error}");
}

#[test]
fn a_graph_that_writes_files_writes_none_of_the_system() {
    let written = Path::new("/tmp/written");
    let models = || Repository::new().copy("writes", &format!("{FIXTURES}/writes"));
    let Some((mut process, _repository)) = serve_those(models(), &[ALL]) else { return };
    let before = fs::read(written).ok();
    let input = Tensor::strings("text", &[], &[b"from a model in a sandbox"]);
    let error = process.client().infer("writes", &[input], Form::Binary, "").error(500);
    assert!(error.contains("/tmp/written"), "{error}");
    assert_eq!(fs::read(written).ok(), before);
}

/// The attempts of `fixtures/reaching_library.c`, a library of operators that makes them as it is opened.
const REACHES: [&str; 10] = [
    "read a file of the system",
    "read the server's variables",
    "write the server's memory",
    "write a file",
    "make a TCP socket",
    "make a Unix socket",
    "signal the server",
    "look into a process",
    "start a process",
    "start a program",
];

/// The model `m` with that library in its directory, which a strict sandbox opens, too.
fn with_library(name: &str, flags: &[&str]) -> Repository {
    let source = root("tests/fixtures/reaching_library.c");
    let flags = [&[source.to_str().unwrap()], flags].concat();
    let repository = with_operator(Repository::identity("other", &[]), "m", "reaching.so", 1);
    fs::copy(operator(name, &flags), repository.path().join("m/reaching.so")).unwrap();
    repository
}

#[test]
fn a_library_of_operators_reaches_nothing_as_it_is_opened_and_its_model_serves() {
    let repository = with_library("reaching", &[]);
    let words = |flags: &[&str]| {
        let mut server = process(&repository, flags);
        let told = REACHES.map(|what| {
            let line = server.wait_for_line(&format!("reach {what}: "));
            line.split_once(&format!("reach {what}: ")).unwrap().1.to_owned()
        });
        assert_eq!(first_of(&server.client().post(&infer("m"), &[], number(3))), 3.0);
        told
    };
    for flags in [&[][..], &[STRICT]] {
        for (what, outcome) in REACHES.iter().zip(words(flags)) {
            let refused = ["Operation not permitted", "Permission denied"];
            assert!(refused.iter().any(|it| outcome.starts_with(it)), "{what}: {outcome}");
        }
    }
    for (what, outcome) in REACHES.iter().zip(words(&["--worker-sandbox=off"])) {
        assert!(outcome.starts_with("done"), "{what}: {outcome}");
    }
}

#[test]
fn a_library_that_starts_threads_without_end_is_bounded_and_harms_nobody_else() {
    let repository = with_library("bomb", &["-DBOMB"]);
    let mut server = process(&repository, &[]);
    let line = server.wait_for_line(" threads, and then: ");
    let (_, told) = line.split_once("reach ").unwrap();
    let (count, outcome) = told.split_once(" threads, and then: ").unwrap();
    assert!(outcome.starts_with("Resource temporarily unavailable"), "{line}");
    let count: u32 = count.parse().unwrap();
    assert!((4000..4096).contains(&count), "{line}");
    server.wait_for_line("threads and may start no more");
    // Its engine needs some, too: ONNX Runtime says so, or crashes where that comes at a bad moment.
    let error = server.client().post(&infer("m"), &[], number(3)).error(503);
    let ends = ["pthread_create failed", "ended by signal"];
    assert!(ends.iter().any(|it| error.contains(it)), "{error}");
    assert_eq!(first_of(&server.client().post(&infer("other"), &[], row(1))), 1.0);
}

/// A TorchScript model that names a file where it computes, and what an answer of it is: of the load where that fails.
fn of_torchscript(name: &str, flags: &[&str]) -> Option<Result<Reply, String>> {
    let config = "input { name: \"x\" data_type: TYPE_FP32 dims: [ 1 ] }\n\
        output { name: \"OUTPUT__0\" data_type: TYPE_UINT8 dims: [ 4 ] }\n";
    let file = format!("backends/pytorch/plugin/tests/models/{name}.pt");
    let repository = Repository::new().copy("m/1/model.pt", &file).file("m/config.pbtxt", config);
    let plugin = plugin()?;
    let flags = [&[&*plugin, ALL], flags].concat();
    let server = Start::new(&repository).flags(&flags).try_run();
    let x = Tensor::fp32("x", &[1], &[1.0]);
    let infer = |server: Server| server.client().infer("m", &[x], Form::Binary, "");
    Some(server.map(infer).map_err(|it| it.to_string()))
}

#[test]
fn a_torchscript_model_that_names_files_of_the_system_reads_and_writes_none() {
    for sandbox in ["--worker-sandbox=on", STRICT] {
        for (name, file) in
            [("reads_file", "/etc/passwd"), ("writes_file", "/var/tmp/muster-torchscript")]
        {
            let Some(outcome) = of_torchscript(name, &[sandbox]) else { return };
            let error = match outcome {
                Ok(reply) => reply.error(500),
                Err(error) => error,
            };
            assert!(error.contains(file) && error.contains("ermission denied"), "{error}");
        }
        assert!(!Path::new("/var/tmp/muster-torchscript").exists());
    }
    let without = of_torchscript("reads_file", &["--worker-sandbox=off"]).unwrap().unwrap();
    assert_eq!(without.expect(200).output().raw, fs::read("/etc/passwd").unwrap()[..4]);
}

#[test]
fn another_word_than_the_three_is_refused_with_them() {
    let repository = Repository::identity("m", &[]);
    let finished = Process::start(&repository, &[ALL, "--worker-sandbox=loose"], &[]).wait();
    assert!(!finished.status.success());
    let log = finished.log.join("\n");
    assert!(log.contains("worker-sandbox") && log.contains("off, on or strict"), "{log}");
}
