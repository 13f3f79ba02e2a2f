//! Models in processes of their own with instances on several devices: a process for each, whose end is no matter of
//! the others. The GPUs are those of `gpus`, which are not there.

use std::{fs, net::SocketAddr};

use crate::support::{
    Page, Repository, Traffic, ask, first_of,
    gpus::start,
    infer, row, rows, wait_for,
    workers::{SAYS_RUNS, ask_again, begun, kill, wait_not_ready, workers},
};

/// A model of the engine `identity` in processes of its own, with these groups and parameters.
fn model(groups: &str, parameters: &[(&str, &str)]) -> Repository {
    let parameter = |(key, value): (&str, &str)| {
        format!("parameters {{ key: \"{key}\" value {{ string_value: \"{value}\" }} }} ")
    };
    let own = [("ISOLATION", "process")].into_iter().chain(parameters.iter().copied());
    let parameters: String = own.map(parameter).collect();
    let config = format!(
        "backend: \"identity\" max_batch_size: 8
        input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
        output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }} {groups} {parameters}"
    );
    Repository::new().model("m", &config)
}

const TWO_GPUS: &str = "instance_group { kind: KIND_GPU gpus: [ 0, 1 ] }";

/// What the metrics say of the model's process on that device, or `None` where they do not know it.
fn shown(page: &Page, device: &str, name: &str, label: &str) -> Option<f64> {
    let device = format!("device=\"{device}\"");
    let mut labels = [device.as_str(), "model=\"m\"", "version=\"1\"", label];
    labels.sort_unstable();
    let labels: Vec<&str> = labels.into_iter().filter(|it| !it.is_empty()).collect();
    let series = format!("muster_worker_{name}{{{}}}", labels.join(","));
    page.has(&series).then(|| page.value(&series))
}

/// The process on that device; 0 where there is none.
fn process_on(http: SocketAddr, device: &str) -> u32 {
    shown(&Page::read(http), device, "pid", "").expect("a process on that device") as u32
}

fn restarts(page: &Page, device: &str) -> f64 {
    shown(page, device, "restarts_total", "reason=\"signal\"").unwrap()
}

/// Runs that the process on that device has answered.
fn runs(page: &Page, device: &str) -> f64 {
    shown(page, device, "turn_overhead_us_count", "").unwrap()
}

/// Kills the process on that device; the one that takes its place.
fn replace(http: SocketAddr, device: &str) -> u32 {
    let before = process_on(http, device);
    kill(before);
    wait_for("another process", || {
        Some(process_on(http, device)).filter(|it| ![0, before].contains(it))
    })
}

/// Kills processes on that device until none is started at once: three that have answered little.
fn exhaust(http: SocketAddr, device: &str) {
    replace(http, device);
    kill(replace(http, device));
    wait_for("no process on that device", || (process_on(http, device) == 0).then_some(()));
}

#[test]
fn a_model_has_a_process_on_each_device_and_their_metrics_are_told_apart() {
    let groups = format!("{TWO_GPUS} instance_group {{ kind: KIND_CPU }}");
    let mut server = start(&model(&groups, &[]), &[], &[]);
    let http = server.address("http");
    let mut shown_processes = ["cpu", "gpu:0", "gpu:1"].map(|it| process_on(http, it));
    let mut there = workers(server.id());
    shown_processes.sort_unstable();
    there.sort_unstable();
    assert_eq!(there, shown_processes);
    let page = Page::read(http);
    assert_eq!(["cpu", "gpu:0", "gpu:1"].map(|it| shown(&page, it, "up", "")), [Some(1.0); 3]);
    assert_eq!(shown(&page, "gpu:2", "up", ""), None);
    assert!(!page.has("muster_worker_up{model=\"m\",version=\"1\"}"));
    assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(7))), 7.0);
}

#[test]
fn a_process_that_is_killed_on_one_device_loses_no_request_and_leaves_the_other_device_alone() {
    kill_one_of_two(&[("execute_delay_ms", "2")]);
}

#[test]
fn the_other_device_answers_while_the_next_process_loads_for_long_and_that_gets_runs_again() {
    kill_one_of_two(&[("execute_delay_ms", "2"), ("creation_delay_sec", "2")]);
}

/// Kills the process on one of two GPUs under load.
fn kill_one_of_two(parameters: &[(&str, &str)]) {
    let mut server = start(&model(TWO_GPUS, parameters), &["--max-queue-wait-ms=0"], &[]);
    let http = server.address("http");
    let [first, second] = ["gpu:0", "gpu:1"].map(|it| process_on(http, it));
    let traffic = Traffic::start(http, "m", 6);
    wait_for("runs on both devices", || {
        let page = Page::read(http);
        let runs = ["gpu:0", "gpu:1"].map(|it| runs(&page, it));
        runs.iter().all(|it| 10.0 < *it).then_some(())
    });
    let next = replace(http, "gpu:1");
    assert_ne!(next, second);
    // It is given runs again.
    let page = Page::read(http);
    wait_for("runs in it", || {
        (runs(&page, "gpu:1") + 10.0 < runs(&Page::read(http), "gpu:1")).then_some(())
    });
    traffic.stop();
    assert_eq!(["gpu:0", "gpu:1"].map(|it| process_on(http, it)), [first, next]);
    let page = Page::read(http);
    assert_eq!(["gpu:0", "gpu:1"].map(|it| restarts(&page, it)), [0.0, 1.0]);
    server.wait_for_line("the process of model 'm' on GPU 1 ended by signal 9 (SIGKILL)");
}

#[test]
fn a_device_whose_process_dies_too_often_is_left_alone_and_the_other_answers() {
    let mut server = start(&model(TWO_GPUS, &[]), &[], &[]);
    let http = server.address("http");
    let first = process_on(http, "gpu:0");
    exhaust(http, "gpu:1");
    let mut client = server.client();
    client.get("/v2/models/m/ready").expect(200);
    client.get("/v2/health/ready").expect(200);
    let before = Page::read(http);
    let traffic = Traffic::start(http, "m", 4);
    // So many that a death of that process is no early one, whatever ran together.
    wait_for("runs in the first", || (150.0 < runs(&Page::read(http), "gpu:0")).then_some(()));
    assert!(150 < traffic.stop());
    let page = Page::read(http);
    assert_eq!(
        [shown(&page, "gpu:0", "up", ""), shown(&page, "gpu:1", "up", "")],
        [Some(1.0), Some(0.0)]
    );
    assert_eq!(runs(&page, "gpu:1"), runs(&before, "gpu:1"));
    assert_eq!(process_on(http, "gpu:0"), first);
    // Where no device is left the model is refused. The first process there has answered much.
    replace(http, "gpu:0");
    exhaust(http, "gpu:0");
    wait_not_ready(&mut client, "m", "has died too often of late");
    let refused = client.post(&infer("m"), &[], row(1));
    assert!(refused.error(503).contains("too often of late"), "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
}

#[test]
fn what_runs_on_a_device_whose_process_dies_is_answered_by_the_other_and_waits_for_no_load() {
    let gate = Repository::new().file("open", "");
    let open = gate.at("open");
    // A run lasts, so that the process is killed before its end.
    let slow = [("creation_gate", open.as_str()), ("execute_delay_ms", "3000"), SAYS_RUNS];
    let mut server = start(&model(TWO_GPUS, &slow), &[], &[]);
    let http = server.address("http");
    // Later processes load for ever.
    fs::remove_file(&open).unwrap();
    let second = process_on(http, "gpu:1");
    // Each fills a run.
    let mut clients = [2, 3].map(|it| ask(http, "m", rows(it, 8)));
    wait_for("both requests to run", || (begun(&server) == 2).then_some(()));
    kill(second);
    for (client, number) in clients.iter_mut().zip([2.0, 3.0]) {
        assert_eq!(first_of(&client.reply()), number);
    }
    assert_eq!(process_on(http, "gpu:1"), 0, "its process still loads the model");
    assert_eq!(["ok", "failed", "late"].map(|it| reruns(http, it)), [1.0, 0.0, 0.0]);
    server.client().get("/v2/models/m/ready").expect(200);
}

#[test]
fn a_request_that_ends_its_process_ends_two_whatever_devices_they_are_of() {
    let fault = [("fault", "abort"), ("fault_marker", "666")];
    let mut server = start(&model(TWO_GPUS, &fault), &[], &[]);
    let http = server.address("http");
    let mut client = server.client();
    let error = client.post(&infer("m"), &[], row(666)).error(500);
    assert!(error.contains("ended by signal 6 (SIGABRT)"), "{error}");
    for _ in 0..10 {
        let error = client.post(&infer("m"), &[], row(666)).error(500);
        assert!(error.contains("a request with these inputs has done that twice"), "{error}");
    }
    wait_for("both to be replaced", || (restarts_of_both(http) == 2.0).then_some(()));
    assert_eq!(first_of(&ask_again(&mut client, "m", row(7))), 7.0);
    assert_eq!(["ok", "failed", "late"].map(|it| reruns(http, it)), [0.0, 1.0, 0.0]);
}

/// Requests that were run again, by what became of them.
fn reruns(http: SocketAddr, outcome: &str) -> f64 {
    let labels = format!("model=\"m\",outcome=\"{outcome}\",version=\"1\"");
    Page::read(http).value(&format!("muster_worker_rerun_total{{{labels}}}"))
}

/// Processes that were started in the place of others, on both GPUs.
fn restarts_of_both(http: SocketAddr) -> f64 {
    let page = Page::read(http);
    restarts(&page, "gpu:0") + restarts(&page, "gpu:1")
}
