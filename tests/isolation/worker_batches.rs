//! Batches whose process is killed, and a system without shared memory for processes of models to lie in.

use std::{fs, process::Command};

use crate::support::{
    Client, Form, Page, Process, Repository, Tensor, ask, ask_with, first_of, row, skip, wait_for,
    wait_queued,
    workers::{BEGUN, SAYS_RUNS, kill, of_worker, process, workers},
};

/// Rows of one batch.
const ROWS: i32 = 8;

/// A model `m` that runs as soon as so many rows wait, for two seconds, as a line says when it begins, with these
/// parameters.
fn slow_batches(rows: i32, parameters: &str) -> Repository {
    let (says, so) = SAYS_RUNS;
    let config = format!(
        "backend: \"identity\" max_batch_size: {rows}
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         instance_group {{ count: 1 kind: KIND_CPU }}
         dynamic_batching {{ preferred_batch_size: {rows} max_queue_delay_microseconds: 60000000 }}
         parameters {{ key: \"execute_delay_ms\" value: {{ string_value: \"2000\" }} }}
         parameters {{ key: \"{says}\" value: {{ string_value: \"{so}\" }} }}
         {parameters}"
    );
    Repository::new().model("m", &config)
}

#[test]
fn all_eight_requests_of_a_batch_whose_process_is_killed_are_answered_by_the_next() {
    let mut server = process(&slow_batches(ROWS, ""), &[]);
    let http = server.address("http");
    let before = workers(server.id());
    let mut clients: Vec<Client> = (1..ROWS).map(|it| ask(http, "m", row(it))).collect();
    wait_queued(http, "m", clients.len());
    clients.push(ask(http, "m", row(ROWS)));
    // The eighth begins the batch. A run lasts, so that this comes before its end.
    server.wait_for_line(BEGUN);
    kill(before[0]);
    for (number, client) in (1..=ROWS).zip(&mut clients) {
        assert_eq!(first_of(&client.reply()), f64::from(number));
    }
    assert_ne!(workers(server.id()), before);
    let page = Page::read(http);
    let shown = |name: &str, label: &str| of_worker(&page, "m", name, label);
    assert_eq!(shown("restarts_total", "reason=\"signal\""), 1.0);
    assert_eq!(shown("rerun_total", "outcome=\"failed\""), 0.0);
    assert_eq!(shown("rerun_total", "outcome=\"ok\""), f64::from(ROWS));
}

#[test]
fn of_a_batch_whose_process_is_killed_only_those_whom_somebody_waits_for_run_again() {
    let gate = Repository::new().file("open", "");
    let open = gate.at("open");
    let gated =
        format!("parameters {{ key: \"creation_gate\" value: {{ string_value: \"{open}\" }} }}");
    let mut server = process(&slow_batches(3, &gated), &["--strict-readiness=false"]);
    let http = server.address("http");
    // The next process loads until the file is there again.
    fs::remove_file(&open).unwrap();
    let mut stays = ask(http, "m", row(1));
    wait_queued(http, "m", 1);
    let leaves = ask(http, "m", row(2));
    wait_queued(http, "m", 2);
    let mut is_late = ask_with(http, "m", &[("x-request-timeout-ms", "3000")], row(3));
    // The third begins the batch. A run lasts, so that this comes before its end.
    server.wait_for_line(BEGUN);
    kill(workers(server.id())[0]);
    drop(leaves);
    assert!(is_late.reply().error(504).contains("deadline"), "while the next process loads");
    wait_for("both to be counted", || {
        (Page::read(http).failures("m", "CANCELED") == 2.0).then_some(())
    });
    fs::write(&open, "").unwrap();
    assert_eq!(first_of(&stays.reply()), 1.0);
    let page = Page::read(http);
    let reruns = ["ok", "late", "failed"];
    let reruns =
        reruns.map(|it| of_worker(&page, "m", "rerun_total", &format!("outcome=\"{it}\"")));
    assert_eq!(reruns, [1.0, 2.0, 0.0]);
    assert_eq!(
        of_worker(&page, "m", "turn_overhead_us_count", ""),
        1.0,
        "runs of the next process"
    );
}

/// How a program gets file systems of its own: as root, or as somebody who is root in there. `None` where nobody may.
fn apart() -> Option<&'static str> {
    let may = |flag: &&str| {
        Command::new("unshare").args([flag, "true"]).status().is_ok_and(|it| it.success())
    };
    ["-m", "-rm"].into_iter().find(may)
}

#[test]
fn models_in_processes_of_their_own_need_nothing_of_the_systems_shared_memory() {
    const ELEMENTS: usize = 1 << 18;
    let Some(flag) = apart() else {
        return skip("a full /dev/shm of 64 KiB: no file system can be mounted here");
    };
    let any = "backend: \"identity\" max_batch_size: 8
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }";
    let repository = Repository::new().model("m", any);
    let (path, muster) = (repository.at(""), env!("CARGO_BIN_EXE_muster"));
    let script = "mount -t tmpfs -o size=64k none /dev/shm && head -c 65536 /dev/zero >/dev/shm/full && exec \"$0\" \"$@\"";
    let args = [flag, "/bin/sh", "-c", script, muster, "--model-repository", &path];
    let flags = ["--isolation=all", "--http-port=0", "--grpc-port=0", "--sagemaker-port=0"];
    let mut server =
        Process::program("unshare", &[&args[..], &flags, &["--metrics-port=0"]].concat(), &[]);
    server.wait_ready();
    let http = server.address("http");
    let ask = |number: usize| {
        let values: Vec<f32> = (0..ELEMENTS).map(|it| (it + number) as f32).collect();
        let input = Tensor::fp32("INPUT0", &[1, ELEMENTS], &values);
        let reply =
            Client::connect(http).infer("m", std::slice::from_ref(&input), Form::Binary, "");
        assert_eq!(reply.expect(200).outputs()[0].raw, input.raw);
    };
    std::thread::scope(|scope| (0..16).for_each(|it| drop(scope.spawn(move || ask(it)))));
    let left = fs::read_dir(format!("/proc/{}/root/dev/shm", server.id())).unwrap();
    let left: Vec<_> = left.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["full"]);
    // Nor does the next process need any.
    kill(workers(server.id())[0]);
    wait_for("another process", || (!workers(server.id()).is_empty()).then_some(()));
    let mut client = server.client();
    wait_for("the model to be ready", || {
        (client.get("/v2/models/m/ready").status == 200).then_some(())
    });
    ask(1);
}
