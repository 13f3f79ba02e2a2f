//! A process that has loaded its model and is kept ready: it takes the place of one that is killed, counts as the
//! model's, and ends with it.

use std::fs;

use crate::support::{
    Page, Process, Repository, first_of, infer,
    measures::try_anonymous,
    row, wait_for,
    workers::{is_gone, kill, of_worker, process, workers},
};

const KEPT: &str = "a process is kept ready";
const SERVES: &str = "a process that was kept ready serves";
const WITHOUT: &str = "instance_group { count: 1 kind: KIND_CPU }";
const WITH: &str = "instance_group [ { count: 1 kind: KIND_CPU }, { passive: true } ]";

/// A model `m` with these groups, whose load lasts until that file exists.
fn config(groups: &str, gate: &str) -> String {
    format!(
        "backend: \"identity\" max_batch_size: 8 {groups}
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         parameters {{ key: \"creation_gate\" value: {{ string_value: \"{gate}\" }} }}"
    )
}

fn start(repository: &Repository) -> Process {
    process(repository, &["--model-control-mode=explicit", "--load-model=*"])
}

/// Waits until a process has been kept ready so many times; the one that serves, and the other.
fn both(server: &mut Process, times: usize) -> [u32; 2] {
    wait_for("a process that is kept ready", || {
        let lines = server.log().iter().filter(|it| it.contains(KEPT)).count();
        (times <= lines).then_some(())
    });
    let http = server.address("http");
    // One of a version before, or one that was killed, may take a moment to end.
    wait_for("one process beside the one that serves", || {
        let serves = of_worker(&Page::read(http), "m", "pid", "") as u32;
        let mut others = workers(server.id());
        others.retain(|it| *it != serves);
        match others[..] {
            [kept] => Some([serves, kept]),
            _ => None,
        }
    })
}

#[test]
fn a_process_that_is_kept_ready_takes_the_place_of_one_that_is_killed_while_the_next_loads() {
    let gate = Repository::new().file("open", "");
    let open = gate.at("open");
    let repository = Repository::new().model("m", &config(WITH, &open));
    let mut server = start(&repository);
    let [serves, kept] = both(&mut server, 1);
    // Whatever is loaded from now on is never done.
    fs::remove_file(&open).unwrap();
    kill(serves);
    assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(3))), 3.0);
    let line = server.wait_for_line(SERVES);
    assert!(line.contains(&format!("worker={kept}")), "{line}");
    let page = Page::read(server.address("http"));
    assert_eq!(of_worker(&page, "m", "pid", "") as u32, kept);
    assert_eq!(of_worker(&page, "m", "restarts_total", "reason=\"signal\""), 1.0);
    // A death of the one that serves, while there is no other, is waited for as ever.
    fs::write(&open, "").unwrap();
    let [serves, next] = both(&mut server, 2);
    assert_eq!(serves, kept);
    // One that dies while it is kept costs nobody anything, and another is loaded a while later.
    kill(next);
    server.wait_for_line("it was kept ready");
    let [still, another] = both(&mut server, 3);
    assert_eq!(still, kept);
    assert_ne!(another, next);
    server.client().post("/v2/repository/models/m/unload", &[], "").expect(200);
    wait_for("both to end", || (is_gone(&kept) && is_gone(&another)).then_some(()));
}

#[test]
fn a_process_that_is_kept_ready_counts_as_the_models_and_comes_and_goes_with_its_configuration() {
    let gate = Repository::new().file("open", "");
    let open = gate.at("open");
    let repository = Repository::new().model("m", &config(WITHOUT, &open));
    let mut server = start(&repository);
    let reload = |server: &mut Process, groups: &str| {
        fs::write(repository.path().join("m/config.pbtxt"), config(groups, &open)).unwrap();
        server.client().post("/v2/repository/models/m/load", &[], "").expect(200);
    };
    assert_eq!(workers(server.id()).len(), 1);
    reload(&mut server, WITH);
    wait_for("the process of the version before to end", || {
        (workers(server.id()).len() == 2).then_some(())
    });
    let all: u64 = both(&mut server, 1).into_iter().filter_map(try_anonymous).sum();
    let http = server.address("http");
    wait_for("the memory of both to be seen", || {
        let private = of_worker(&Page::read(http), "m", "memory_bytes", "kind=\"private\"");
        (all as f64 * 0.9 <= private).then_some(())
    });
    reload(&mut server, WITHOUT);
    wait_for("one process to be left", || (workers(server.id()).len() == 1).then_some(()));
    assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(4))), 4.0);
}
