//! Workers that are forked from a process that has opened the engine's library: where models run is found out in them.

use std::fs;

use rustix::process::Signal;

use crate::support::{
    Process, Repository, Server, first_of, infer, row, rows,
    sandbox::check_denied,
    wait_for,
    workers::{is_gone, kill, try_signal, workers},
};

const AUTO: &str = "--isolation=auto";
const ROWS: (&str, &str) = ("columns", "4");
const SLOW: (&str, &str) = ("execute_delay_ms", "20");

/// The fields of a process's state from the third on: its parent is the second of these, its group the third.
fn state(pid: u32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().unwrap_or_default().split(' ').map(str::to_owned).collect()
}

/// The processes from which workers of that server are forked.
fn templates(server: &Process) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap();
    let pids = all.filter_map(|it| it.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let state = state(*pid);
        let (is, of) = (state.first(), state.get(1));
        name.trim_end() == "muster-template"
            && of == Some(&server.id().to_string())
            && is.is_some_and(|it| it != "Z")
    };
    pids.filter(is_one).collect()
}

/// The one of a server that starts.
fn template(server: &Process) -> u32 {
    wait_for("the process that others are forked from", || templates(server).first().copied())
}

#[test]
fn models_are_tried_in_copies_of_one_process_which_are_workers_as_any_other() {
    let fast = ["a", "b", "c", "d", "e", "f"];
    let begin = Repository::identity("slow", &[ROWS, SLOW]);
    let repository = fast.iter().fold(begin, |it, name| it.with_identity(name, &[ROWS]));
    let mut server = Process::start(&repository, &[AUTO], &[]);
    let places = state(template(&server))[23..26].to_vec();
    server.wait_ready();
    let [worker] = workers(server.id())[..] else { panic!("{:?}", server.log()) };
    // A child of the server, not of the process that it is a copy of, and of a group of its own.
    assert_eq!(state(worker)[1..3], [server.id().to_string(), worker.to_string()]);
    assert_ne!(fs::read_to_string(format!("/proc/{worker}/comm")).unwrap(), "muster-template\n");
    // Its program and its stack are where no program that was started has them by chance.
    assert_eq!(state(worker)[23..26], places);
    for model in fast.into_iter().chain(["slow"]) {
        assert_eq!(first_of(&server.client().post(&infer(model), &[], row(5))), 5.0);
    }
    wait_for("the process to end that others are forked from", || {
        templates(&server).is_empty().then_some(())
    });
    assert_eq!(first_of(&server.client().post(&infer("slow"), &[], row(6))), 6.0);
    assert_eq!(workers(server.id()), [worker]);
}

#[test]
fn the_library_of_onnx_runtime_is_opened_without_a_thread_and_shared() {
    let repository = Repository::of(&["mlp"]);
    let mut server = Process::start(&repository, &[AUTO], &[]);
    let of_engine = template(&server);
    server.wait_ready();
    // One that has more threads than one is let go of, as nothing can be forked from it.
    assert_eq!(templates(&server), [of_engine], "{:?}", server.log());
    let maps = fs::read_to_string(format!("/proc/{of_engine}/maps")).unwrap();
    assert!(maps.contains("libonnxruntime"), "{maps}");
}

#[test]
fn the_end_of_the_process_that_others_are_forked_from_harms_none_of_them() {
    let repository = Repository::identity("slow", &[ROWS, SLOW]);
    let flags = [AUTO, "--model-control-mode=explicit", "--load-model=*"];
    let mut server = Process::start(&repository, &flags, &[]);
    let template = template(&server);
    server.wait_ready();
    let [worker] = workers(server.id())[..] else { panic!("{:?}", server.log()) };
    // It may have ended by itself: nobody asks it any more.
    let _ = try_signal(template, Signal::KILL);
    wait_for("its end", || is_gone(&template).then_some(()));
    let mut client = server.client();
    assert_eq!(first_of(&client.post(&infer("slow"), &[], row(5))), 5.0);
    let repository = repository.with_identity("later", &[ROWS, SLOW]);
    client.post("/v2/repository/models/later/load", &[], "").expect(200);
    assert_eq!(first_of(&client.post(&infer("later"), &[], row(5))), 5.0);
    assert_eq!(workers(server.id()).len(), 2);
    // One that dies has a successor, which is a copy as well.
    kill(worker);
    wait_for("the next process", || {
        let reply = client.post(&infer("slow"), &[], row(7));
        (reply.status == 200).then(|| assert_eq!(first_of(&reply), 7.0))
    });
    assert_eq!(workers(server.id()).len(), 2);
    drop(repository);
}

#[test]
fn a_copy_reaches_nothing_beyond_its_model() {
    // A row alone goes well.
    let hostile = [ROWS, SLOW, ("fault", "reach"), ("fault_above_rows", "1")];
    let repository = Repository::identity("m", &hostile).with_identity("other", &[ROWS]);
    let server = Server::start(&repository, &[AUTO]);
    let config = server.get("/v2/models/m/config").expect(200).json();
    let found = config["parameters"]["muster_isolation"]["string_value"].as_str().unwrap();
    assert!(found.starts_with("process: a run takes"), "{found}");
    check_denied(&server.post(&infer("m"), rows(2, 2)).error(500));
}

#[test]
fn a_later_start_with_a_cache_tries_no_model_that_was_in_the_server() {
    let cache = Repository::new();
    let flag = format!("--model-cache-dir={}", cache.path().display());
    let repository = Repository::identity("fast", &[ROWS]).with_identity("slow", &[ROWS, SLOW]);
    let kept = || fs::read_dir(cache.path()).unwrap().count();
    let start = |repository: &Repository| {
        let mut server = Process::start(repository, &[AUTO, &flag], &[]);
        server.wait_ready();
        let tried = server.log().iter().filter(|it| it.contains("it runs in")).count();
        (server, tried)
    };
    let (first, _) = start(&repository);
    assert_eq!((workers(first.id()).len(), kept()), (1, 1));
    drop(first);
    fs::remove_dir_all(repository.path().join("slow")).unwrap();
    let (mut second, told) = start(&repository);
    assert_eq!((templates(&second).len(), workers(second.id()).len(), kept()), (0, 0, 1));
    assert_eq!(told, 1, "{:?}", second.log());
    assert_eq!(first_of(&second.client().post(&infer("fast"), &[], row(5))), 5.0);
    drop(second);
    // Another model: it is tried.
    let repository = repository.with_identity("fast", &[ROWS, SLOW]);
    let (third, _) = start(&repository);
    assert_eq!(workers(third.id()).len(), 1);
}
