//! TorchScript models and SavedModels in processes of their own that are killed: in runs, which are made again, and in
//! loads, which fail. Without the engines there is nothing to run, as in `torchscript` and `savedmodels`.

use std::{
    fs,
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use crate::support::{
    Client, Form, Process, Repository, Tensor, Traffic, is_to_come_again,
    savedmodels::{FIXTURES, library},
    torchscript::plugin,
    wait_for,
    workers::{kill, workers},
};

/// More answers than a process may have given that dies early.
const NOT_EARLY: usize = 120;

/// A pause before a request that was refused is sent again.
const COME_AGAIN: Duration = Duration::from_millis(100);

/// A server with that engine, a model `m` in a process of its own and another model, all of which are loaded by
/// request.
fn start(engine: &str, from: &str) -> (Process, Repository) {
    let repository = Repository::identity("other", &[]).copy("m", from);
    let flags = [engine, "--isolation=all", "--model-control-mode=explicit"];
    let mut process = Process::start(&repository, &flags, &[]);
    process.wait_ready();
    (process, repository)
}

fn load(client: &mut Client, model: &str) -> crate::support::Reply {
    client.post(&format!("/v2/repository/models/{model}/load"), &[], "")
}

/// The process of that model, once there is one that is not `before`.
fn process_of(server: &Process, model: &str, before: Option<u32>) -> u32 {
    let variable = format!("MUSTER_MODEL={model}");
    let is_of = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|it| *it == 0).any(|it| it == variable.as_bytes())
    };
    wait_for("a process of the model", || {
        let mut living = workers(server.id()).into_iter().filter(is_of);
        living.find(|it| Some(*it) != before)
    })
}

/// Kills the process of `m` again and again while clients ask it: all get the answer that they got before, or are told
/// to come again while a load lasts.
fn check_runs(engine: &str, from: &str, input: &Tensor) {
    let (mut server, _repository) = start(engine, from);
    let mut client = server.client();
    load(&mut client, "m").expect(200);
    load(&mut client, "other").expect(200);
    let expected = client.infer("m", from_ref(input), Form::Binary, "").expect(200);
    let expected = expected.output().numbers();
    let others = Traffic::start(server.address("http"), "other", 1);
    let (is_over, answers) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let (is_over, answers, mut client) =
                (is_over.clone(), answers.clone(), server.client());
            let (input, expected) = (input.clone(), expected.clone());
            thread::spawn(move || {
                while !is_over.load(Relaxed) {
                    let reply = client.infer("m", from_ref(&input), Form::Binary, "");
                    if is_to_come_again(&reply) {
                        assert!(reply.header("retry-after").is_some());
                        thread::sleep(COME_AGAIN);
                        continue;
                    }
                    let reply = reply.expect(200);
                    // A row of a batch may differ in the last bit.
                    let numbers = reply.output().numbers();
                    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
                    assert!(
                        numbers.len() == expected.len()
                            && numbers.iter().zip(&expected).all(is_near)
                    );
                    answers.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    let mut before = process_of(&server, "m", None);
    for _ in 0..3 {
        let seen = answers.load(Relaxed);
        wait_for("more answers", || {
            let has_failed = clients.iter().any(|it| it.is_finished());
            (has_failed || seen + 2 * NOT_EARLY < answers.load(Relaxed)).then_some(())
        });
        kill(before);
        before = process_of(&server, "m", Some(before));
    }
    let seen = answers.load(Relaxed);
    wait_for("answers of the last", || {
        let has_failed = clients.iter().any(|it| it.is_finished());
        (has_failed || seen < answers.load(Relaxed)).then_some(())
    });
    is_over.store(true, Relaxed);
    clients.into_iter().for_each(|it| it.join().unwrap());
    others.wait_for_more(1);
    others.stop();
}

/// Kills the process of `m` while it loads: that load fails, and the next one does not.
fn check_load(engine: &str, from: &str) {
    let (mut server, _repository) = start(engine, from);
    load(&mut server.client(), "other").expect(200);
    let others = Traffic::start(server.address("http"), "other", 1);
    let mut client = server.client();
    let loads = thread::spawn(move || load(&mut client, "m"));
    // Its library is not even open yet.
    kill(process_of(&server, "m", None));
    let reply = loads.join().unwrap();
    let expected = "the process of model 'm' ended by signal 9 (SIGKILL) while it was loaded";
    assert!(reply.status != 200 && reply.text().contains(expected), "{}", reply.text());
    load(&mut server.client(), "m").expect(200);
    others.wait_for_more(10);
    others.stop();
}

fn numbers() -> Tensor {
    Tensor::fp32("input", &[1, 30], &[0.5; 30])
}

#[test]
fn a_torchscript_model_whose_process_is_killed_in_runs_loses_no_request() {
    let Some(engine) = plugin() else { return };
    check_runs(&engine, "tests/fixtures/torchscript/mlp", &numbers());
}

#[test]
fn a_torchscript_model_whose_process_is_killed_while_it_loads_can_be_loaded() {
    let Some(engine) = plugin() else { return };
    check_load(&engine, "tests/fixtures/torchscript/mlp");
}

#[test]
fn a_savedmodel_whose_process_is_killed_in_runs_loses_no_request() {
    let Some(engine) = library() else { return };
    let input = Tensor::fp32("x", &[1, 1], &[5.0]);
    check_runs(&engine, &format!("{FIXTURES}/half_plus_two"), &input);
}

#[test]
fn a_savedmodel_whose_process_is_killed_while_it_loads_can_be_loaded() {
    let Some(engine) = library() else { return };
    check_load(&engine, &format!("{FIXTURES}/half_plus_two"));
}
