//! Models in processes of their own, whose native code crashes, floods the log or is killed again and again; and stops
//! and ends of the server in the middle of that. `fixtures/fragile_operator.c` is the native code.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::OnceLock,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::support::{
    Client, Group, Page, Process, Repository, Traffic, ask, first_of, infer, root, row, skip,
    wait_for,
    workers::{
        ask_again, is_gone, kill, of_worker, process, signal, try_signal, wait_not_ready, workers,
    },
};

/// The library of the operator, with what the compiler is told.
pub fn operator(name: &str, flags: &[&str]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("operators");
    fs::create_dir_all(&folder).unwrap();
    // Under a name of its own first: another process may be looking at it.
    let (new, library) =
        (folder.join(format!("{name}-{}", std::process::id())), folder.join(format!("{name}.so")));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-shared", "-fPIC", "-o"]).arg(&new).args(flags);
    assert!(compiler.arg(root("tests/fixtures/fragile_operator.c")).status().unwrap().success());
    fs::rename(&new, &library).unwrap();
    library
}

/// One that does its damage in runs.
fn fragile() -> &'static str {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| operator("fragile", &[])).to_str().unwrap()
}

/// A graph of one node, `input` → `output`, which is of that operator instead of `Identity`.
fn graph() -> Vec<u8> {
    const DOMAIN: &[u8] = b"\x3a\x07fragile";
    let mut graph = fs::read(root("tests/fixtures/models/type_fp32/1/model.onnx")).unwrap();
    let node = graph.windows(10).position(|it| it == b"\x22\x08Identity").unwrap();
    graph.splice(node + 2..node + 10, [b"Fragile_", DOMAIN].concat());
    // The lengths of the graph and of its node.
    let (of_graph, of_node) = (node - 26, node - 24);
    assert_eq!((graph[of_graph - 1], graph[of_node - 1]), (0x3a, 0x0a));
    graph[of_graph] += DOMAIN.len() as u8;
    graph[of_node] += DOMAIN.len() as u8;
    graph.extend(b"\x42\x0b\x0a\x07fragile\x10\x01");
    graph
}

/// A model of ONNX Runtime's with that operator, `[-1, 3]` of FP32, which runs as soon as `rows` rows are there.
pub fn with_operator(repository: Repository, name: &str, library: &str, rows: usize) -> Repository {
    let config = format!(
        "backend: \"onnxruntime\" max_batch_size: {rows}
         model_operations {{ op_library_filename: \"{library}\" }}
         instance_group {{ count: 1 kind: KIND_CPU }}
         dynamic_batching {{ preferred_batch_size: {rows} max_queue_delay_microseconds: 3000000 }}"
    );
    repository
        .file(&format!("{name}/config.pbtxt"), config)
        .file(&format!("{name}/1/model.onnx"), graph())
}

pub fn number(number: i32) -> String {
    format!(
        r#"{{"inputs":[{{"name":"input","datatype":"FP32","shape":[1,3],"data":[{number},0,0]}}]}}"#
    )
}

/// Nobody is refused because others wait, however slow a busy machine is.
const PATIENT: &str = "--max-queue-wait-ms=0";

/// A server with one such model, `m`.
fn serve(rows: usize) -> (Process, Repository) {
    let repository = with_operator(Repository::new(), "m", fragile(), rows);
    (process(&repository, &[]), repository)
}

fn resident(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Sixteen requests of one batch, of which one has that number. It takes two processes along, which end for that
/// `reason` of the metrics.
#[track_caller]
fn check_one_of_a_batch(deadly: i32, how: &str, reason: &str) {
    let (mut server, _repository) = serve(16);
    let address = server.address("http");
    let numbers: Vec<i32> = (1..16).chain([deadly]).collect();
    let mut clients: Vec<Client> =
        numbers.iter().map(|it| ask(address, "m", number(*it))).collect();
    for (number, client) in numbers.iter().zip(&mut clients) {
        let reply = client.reply();
        if *number == deadly {
            let error = reply.error(500);
            assert!(error.contains(&format!("the process of model 'm' ended {how}")), "{error}");
        } else {
            assert_eq!(first_of(&reply), f64::from(*number));
        }
    }
    server.client().get("/v2/health/live").expect(200);
    let reason = format!("reason=\"{reason}\"");
    wait_for("both ends to be counted", || {
        let ends = of_worker(&Page::read(address), "m", "restarts_total", &reason);
        (ends == 2.0).then_some(())
    });
}

#[test]
fn a_segmentation_fault_in_an_operator_fails_its_request_and_none_of_the_batch() {
    check_one_of_a_batch(666, "by signal 11 (SIGSEGV)", "signal");
}

#[test]
fn an_operator_that_aborts_fails_its_request_and_none_of_the_batch() {
    check_one_of_a_batch(777, "by signal 6 (SIGABRT)", "signal");
}

#[test]
fn an_operator_that_ends_its_process_in_order_fails_its_request_and_none_of_the_batch() {
    check_one_of_a_batch(888, "with exit code 3", "exit");
}

#[test]
fn an_operator_that_aborts_as_it_is_loaded_is_an_error_of_that_model() {
    let library = operator("fragile_at_load", &["-DAT_LOAD"]);
    let repository = Repository::identity("good", &[]);
    let repository = with_operator(repository, "bad", library.to_str().unwrap(), 1);
    let mut server = process(&repository, &["--strict-readiness=false"]);
    let error = server.client().post(&infer("bad"), &[], number(1)).error(503);
    let expected = "the process of model 'bad' ended by signal 6 (SIGABRT) while it was loaded";
    assert!(error.contains(expected), "{error}");
    assert_eq!(first_of(&server.client().post(&infer("good"), &[], row(1))), 1.0);
    assert_eq!(workers(server.id()).len(), 1);
}

#[test]
fn a_library_of_operators_that_has_changed_is_loaded_by_a_load_though_the_model_is_the_same() {
    let library = operator("fragile_that_changes", &[]);
    let repository = with_operator(Repository::new(), "m", library.to_str().unwrap(), 1);
    let flags = ["--model-control-mode=explicit", "--load-model=*", "--strict-readiness=false"];
    let mut server = process(&repository, &flags);
    let mut client = server.client();
    assert_eq!(first_of(&client.post(&infer("m"), &[], number(1))), 1.0);
    assert_eq!(operator("fragile_that_changes", &[]), library);
    kill(workers(server.id())[0]);
    wait_not_ready(&mut client, "m", "fragile_that_changes.so' has changed");
    client.post("/v2/repository/models/m/load", &[], "").expect(200);
    client.get("/v2/models/m/ready").expect(200);
    assert_eq!(first_of(&client.post(&infer("m"), &[], number(2))), 2.0);
}

#[test]
fn a_model_whose_library_of_operators_has_changed_is_loaded_again_by_polling() {
    let library = operator("fragile_that_changes_meanwhile", &[]);
    let repository = with_operator(Repository::new(), "m", library.to_str().unwrap(), 1);
    let flags = ["--model-control-mode=poll", "--repository-poll-secs=1"];
    let mut server = process(&repository, &flags);
    let mut client = server.client();
    assert_eq!(first_of(&client.post(&infer("m"), &[], number(1))), 1.0);
    assert_eq!(operator("fragile_that_changes_meanwhile", &[]), library);
    kill(workers(server.id())[0]);
    server.wait_for_line("fragile_that_changes_meanwhile.so' has changed");
    // It may be ready for a moment after that line still, and refuse who comes.
    let reply = wait_for("the model to answer", || {
        let reply = client.post(&infer("m"), &[], number(2));
        (reply.status == 200).then_some(reply)
    });
    assert_eq!(first_of(&reply), 2.0);
    client.get("/v2/models/m/ready").expect(200);
}

#[test]
fn a_flood_of_output_is_read_cut_and_counted_and_its_request_is_answered() {
    let (mut server, _repository) = serve(1);
    let mut client = server.client();
    let mut ask = |it: i32| {
        assert_eq!(first_of(&client.post(&infer("m"), &[], number(it))), f64::from(it));
    };
    ask(1);
    let (before, began) = (resident(&server), Instant::now());
    ask(555);
    // What was dropped in a second is told with the first line of the next.
    wait_for("a line that tells how many were dropped", || {
        ask(556);
        server
            .log()
            .iter()
            .any(|it| it.contains("lines of a model's process are dropped"))
            .then_some(())
    });
    let after = resident(&server);
    assert!(after < before + (8 << 20), "{before} bytes before the flood, {after} after it");
    let page = Page::read(server.address("http"));
    assert!(0.0 < of_worker(&page, "m", "log_dropped_total", "unit=\"lines\""));
    let log = server.log();
    let (lines, bytes) = (log.len(), log.iter().map(String::len).sum::<usize>());
    // Of each second, ten thousand lines and a MiB are in the log, where a line begins with what it is.
    let seconds = began.elapsed().as_secs() as usize + 2;
    let (most_lines, most_bytes) = (11_000 * seconds, (4 << 20) * seconds);
    assert!(
        lines < most_lines && bytes < most_bytes,
        "{lines} lines, {bytes} bytes in {seconds} s"
    );
}

#[test]
fn a_process_that_closes_its_output_serves_on_and_has_a_successor_when_it_dies() {
    let (mut server, _repository) = serve(1);
    let mut client = server.client();
    for it in [557, 1, 556, 2] {
        assert_eq!(first_of(&client.post(&infer("m"), &[], number(it))), f64::from(it));
    }
    kill(workers(server.id())[0]);
    server.wait_for_line("a new process serves");
    assert_eq!(first_of(&ask_again(&mut client, "m", number(3))), 3.0);
}

#[test]
fn processes_that_are_killed_again_and_again_under_load_lose_no_request() {
    let repository = Repository::identity("m", &[]);
    let path = repository.path().join("m/config.pbtxt");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{config} instance_group {{ count: 2 kind: KIND_CPU }}")).unwrap();
    let mut server = process(&repository, &[PATIENT]);
    let traffic = Traffic::patient(server.address("http"), "m", 4);
    for _ in 0..4 {
        // Each has answered so much that its death is no early one. A run has at most four requests.
        traffic.wait_for_more(450);
        let before = workers(server.id());
        assert_eq!(before.len(), 1);
        kill(before[0]);
        wait_for("another process", || {
            let after = workers(server.id());
            (after.len() == 1 && after != before).then_some(())
        });
    }
    traffic.wait_for_more(10);
    assert!(1800 < traffic.stop());
}

#[test]
fn whoever_comes_while_a_process_is_killed_too_often_gets_an_answer_or_is_told_when_to_come_again()
{
    let repository = Repository::identity("m", &[]).with_identity("other", &[]);
    let mut server = process(&repository, &["--isolation=m", PATIENT]);
    let address = server.address("http");
    let others = Traffic::start(address, "other", 16);
    let mut client = server.client();
    // Whatever is there is killed at once, until three early deaths have the model's requests refused.
    wait_for("requests to be refused", || {
        // One that was killed before may be gone by now.
        workers(server.id()).into_iter().for_each(|it| drop(try_signal(it, Signal::KILL)));
        let reply = client.post(&infer("m"), &[], row(5));
        match reply.status {
            200 => assert_eq!(first_of(&reply), 5.0),
            _ => assert!(!reply.error(503).is_empty() && reply.header("retry-after").is_some()),
        }
        server.client().get("/v2/health/live").expect(200);
        reply.text().contains("died too often of late").then_some(())
    });
    others.wait_for_more(50);
    others.stop();
}

#[test]
fn where_memory_runs_out_a_worker_goes_before_the_server() {
    let mut server = process(&Repository::identity("m", &[]), &[]);
    let score = |pid: u32| -> i32 {
        fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim().parse().unwrap()
    };
    let (own, of_worker) = (score(server.id()), score(workers(server.id())[0]));
    assert_eq!(of_worker, (own + 500).min(1000));
    assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(1))), 1.0);
}

#[test]
fn the_kernel_takes_a_worker_and_not_the_server_where_the_memory_of_their_group_runs_out() {
    const LIMIT: u64 = 400 << 20;
    let Some(group) = Group::make(LIMIT) else {
        return skip("a worker that takes all memory: no control group can be made here");
    };
    let repository = Repository::identity("m", &[("fault", "leak"), ("execute_delay_ms", "1")]);
    let repository = repository.with_identity("other", &[("ISOLATION", "in_process")]);
    let mut server = Process::start_within(Some(&group), &repository, &["--isolation=all"], &[]);
    server.wait_ready();
    let mut client = server.client();
    let mut runs = 0;
    // Each run loses 1 MiB. The one in which the process goes is made again in the next.
    wait_for("the kernel to end the process", || {
        runs += 1;
        match client.try_request("POST", &infer("m"), &[], Some(row(runs).as_bytes())) {
            Ok(Some(reply)) => assert_eq!(first_of(&reply), runs as f64),
            other => panic!("{:?} {}: {:#?}", other.err(), server.state(), server.log()),
        }
        let is_told = |it: &String| it.contains("out of memory (killed by the kernel)");
        server.log().iter().any(is_told).then_some(())
    });
    assert_eq!(first_of(&client.post(&infer("other"), &[], row(4))), 4.0);
    drop(server);
    drop(group);
}

#[test]
fn a_model_that_is_unloaded_while_it_runs_answers_and_leaves_no_process() {
    let repository = Repository::identity("m", &[("execute_delay_ms", "500")]);
    let mut server = process(&repository, &["--model-control-mode=explicit", "--load-model=*"]);
    let http = server.address("http");
    let mut running = ask(http, "m", row(3));
    // What a run takes in is in the memory that is shared with its process: a page of inputs and one of its frame,
    // beside that of the thread that waits for one.
    wait_for("the request to run", || {
        let arena = of_worker(&Page::read(http), "m", "memory_bytes", "kind=\"arena\"");
        (8192.0 < arena).then_some(())
    });
    server.client().post("/v2/repository/models/m/unload", &[], "").expect(200);
    assert_eq!(first_of(&running.reply()), 3.0);
    wait_for("its process to end", || workers(server.id()).is_empty().then_some(()));
}

#[test]
fn a_stop_waits_neither_for_a_process_that_was_killed_nor_for_one_that_loads() {
    let repository =
        Repository::identity("slow", &[("creation_delay_sec", "600")]).with_identity("m", &[]);
    let server = Process::start(&repository, &["--isolation=all", "--exit-timeout-secs=5"], &[]);
    let both = wait_for("both processes", || Some(workers(server.id())).filter(|it| it.len() == 2));
    kill(both[0]);
    let began = Instant::now();
    server.signal("TERM");
    let ended = server.wait();
    // The time that a stop has, and not that of the load.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(ended.status.code().is_some(), "{}", ended.status);
    wait_for("both processes to end", || both.iter().all(is_gone).then_some(()));
}

#[test]
fn processes_that_run_hang_and_load_end_with_a_server_that_is_killed() {
    let repository = Repository::identity("deaf", &[("fault", "deaf"), ("fault_marker", "888")])
        .with_identity("slow", &[("creation_delay_sec", "600")])
        .with_identity("m", &[]);
    let mut server = Process::start(&repository, &["--isolation=all"], &[]);
    let all = wait_for("all processes", || Some(workers(server.id())).filter(|it| it.len() == 3));
    let address = server.address("http");
    wait_for("the first to be ready", || {
        (server.client().post(&infer("deaf"), &[], row(1)).status == 200).then_some(())
    });
    let hanging = ask(address, "deaf", row(888));
    // One that is stopped does not see that its server is gone.
    signal(all[2], Signal::STOP);
    server.signal("KILL");
    server.wait();
    let began = Instant::now();
    wait_for("all processes to end", || all.iter().all(is_gone).then_some(()));
    // Sooner than a load or a run ends.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    drop(hanging);
}
