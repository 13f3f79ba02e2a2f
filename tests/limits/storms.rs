//! Clients that come again and again where there is no room, and memory that is nearly used up, against the real
//! binary: a refusal costs little, and what is small is still answered.

use std::{fs, thread, time::Duration};

use crate::support::{
    Client, Group, IN_PROCESS, Page, Process, Repository, ask, first_of, infer,
    measures::{busy, try_anonymous},
    row, skip, wait_for,
};

/// What so many requests take of the server's processors.
fn cost(process: &Process, client: &mut Client, model: &str, body: &str, status: u16) -> Duration {
    let before = busy(process);
    for _ in 0..2000 {
        let reply = client.post(&infer(model), &[], body);
        assert_eq!(reply.status, status, "{}", reply.text());
    }
    busy(process) - before
}

#[test]
fn to_refuse_a_request_costs_less_than_to_answer_it() {
    let slow = [("latency_alpha_us", "600000000")];
    let queue = "dynamic_batching { default_queue_policy { max_queue_size: 1 } }";
    let repository = Repository::identity("m", &[]).with_identity("slow", &slow);
    let path = repository.path().join("slow/config.pbtxt");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{config}{queue} instance_group {{ count: 1 kind: KIND_CPU }}"))
        .unwrap();
    let mut process = Process::start(&repository, &["--eager-instances=false"], &[]);
    process.wait_ready();
    let mut client = process.client();
    let body = row(1);
    // Taken are two, one that runs and one that waits. Those that came too early for that were refused.
    let address = process.address("http");
    let mut taken: Vec<Client> = Vec::new();
    while taken.len() < 2 {
        let mut client = ask(address, "slow", &body);
        let is_among = || {
            let page = Page::read(address);
            let bytes = ((taken.len() + 1) * body.len()) as f64;
            page.value("muster_bytes_in_flight") == bytes
                && page.of("slow", "muster_queue_depth") == taken.len() as f64
        };
        client.stream().set_nonblocking(true).unwrap();
        let is_taken = wait_for("a place or a refusal", || {
            // Looked at twice: one that is refused is in flight for a moment, too.
            match client.stream().peek(&mut [0]).is_ok() {
                true => Some(false),
                false => (is_among() && is_among()).then_some(true),
            }
        });
        client.stream().set_nonblocking(false).unwrap();
        match is_taken {
            true => taken.push(client),
            false => assert_eq!(client.reply().status, 503),
        }
    }
    let answered = cost(&process, &mut client, "m", &body, 200);
    let refused = cost(&process, &mut client, "slow", &body, 503);
    println!("2000 answers took {answered:?} of a processor, 2000 refusals {refused:?}");
    assert!(refused < answered * 2, "{refused:?} for refusals, {answered:?} for answers");
}

/// Floats of a request below a MiB.
const FLOATS: usize = 200_000;

/// A tensor as a binary body, and the length of its head; `number` is its first value.
fn tensor(number: u32, floats: usize) -> (String, Vec<u8>) {
    let bytes = floats * 4;
    let head = format!(
        r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[{floats}],"parameters":{{"binary_data_size":{bytes}}}}}],
            "parameters":{{"binary_data_output":true}}}}"#
    );
    let mut body = head.clone().into_bytes();
    body.extend_from_slice(&(number as f32).to_le_bytes());
    body.resize(head.len() + bytes, 0);
    (head.len().to_string(), body)
}

/// Memory that a process has for itself, in bytes.
fn anonymous(pid: u32) -> u64 {
    try_anonymous(pid).unwrap()
}

/// A model whose answers are kept.
const KEPT: &str = "backend: \"identity\" max_batch_size: 0 response_cache { enable: true }
    input { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }
    output { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }";

/// A server in that group, which keeps all answers of the model `kept`.
fn start_within(group: &Group, repository: &Repository, flags: &[&str]) -> Process {
    let flags = [&["--cache-config=local,size=300MiB"], flags].concat();
    let mut process = Process::start_within(Some(group), repository, &flags, &[]);
    process.wait_ready();
    process
}

/// Sends the model `kept` a tensor of so many floats, of which `number` is the first.
fn post(client: &mut Client, number: u32, floats: usize) -> u16 {
    let (length, body) = tensor(number, floats);
    client.post(&infer("kept"), &[("inference-header-content-length", &length)], body).status
}

/// Answers are kept until `taken` says that there are no more than 30 MiB of so much memory left. A twentieth of so
/// little is less than what has to be left in any case.
fn fill(client: &mut Client, memory: u64, taken: impl Fn() -> u64) {
    for number in 1.. {
        if memory - (30 << 20) < taken() {
            break;
        }
        assert_eq!(post(client, number, FLOATS), 200);
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn near_the_limit_of_memory_large_requests_are_refused_and_small_ones_answered() {
    const MEMORY: u64 = 256 << 20;
    let Some(group) = Group::make(MEMORY) else {
        return skip("a server near the limit of its memory: no control group can be made here");
    };
    let repository = Repository::identity("m", &[]).model("kept", KEPT);
    let mut process = start_within(&group, &repository, &[]);
    let mut client = process.client();
    assert_eq!(post(&mut client, 0, 2 * FLOATS), 200);
    fill(&mut client, MEMORY, || anonymous(process.id()));
    wait_for("a large request to be refused", || {
        (post(&mut client, 0, 2 * FLOATS + 1) == 503).then_some(())
    });
    assert_eq!(post(&mut client, 1, FLOATS), 200);
    assert_eq!(first_of(&process.client().post(&infer("m"), &[], row(8))), 8.0);
    process.client().get("/v2/health/live").expect(200);
    process.wait_for_line("memory is nearly used up: large requests are refused");
    process.signal("TERM");
    assert!(process.wait().status.success());
    drop(group);
}

/// Rows of a run whose layers take 61 MiB each.
const ROWS: usize = 62_500;

/// So many rows for the model `large`, as a binary body, and the length of its head.
fn rows(rows: usize) -> (String, Vec<u8>) {
    let bytes = rows * 30 * 4;
    let head = format!(
        r#"{{"inputs":[{{"name":"input","datatype":"FP32","shape":[{rows},30],"parameters":{{"binary_data_size":{bytes}}}}}],
            "parameters":{{"binary_data_output":true}}}}"#
    );
    let mut body = head.clone().into_bytes();
    body.resize(head.len() + bytes, 0);
    (head.len().to_string(), body)
}

/// What a large run has left in the process of its model goes with its output, before memory is scarce. `process_of`
/// says which process that is.
fn gives_back(flags: &[&str], process_of: impl Fn(&Process) -> u32) {
    const MEMORY: u64 = 384 << 20;
    let Some(group) = Group::make(MEMORY) else {
        return skip("an engine near the limit of memory: no control group can be made here");
    };
    let config = format!("max_batch_size: {ROWS} instance_group {{ count: 1 kind: KIND_CPU }}");
    let repository = Repository::new().fixture("large", "mlp").file("large/config.pbtxt", config);
    let mut process = start_within(&group, &repository, flags);
    let engine = process_of(&process);
    let mut client = process.client();
    let run = |client: &mut Client, count| {
        let (length, body) = rows(count);
        let head = [("inference-header-content-length", length.as_str())];
        assert_eq!(client.post(&infer("large"), &head, body).status, 200);
    };
    run(&mut client, 1);
    let before = anonymous(engine);
    run(&mut client, ROWS);
    run(&mut client, 1);
    // A layer of the run took twice as much.
    wait_for("what the large run has left to be given back", || {
        run(&mut client, 1);
        (anonymous(engine) < before + (32 << 20)).then_some(())
    });
    assert!(!process.log().iter().any(|it| it.contains("memory is nearly used up")));
    process.signal("TERM");
    assert!(process.wait().status.success());
    drop(group);
}

#[test]
fn an_engine_gives_back_what_a_large_run_has_left_before_memory_is_scarce() {
    gives_back(&[IN_PROCESS], Process::id);
}

#[cfg(feature = "isolation")]
#[test]
fn an_engine_in_a_process_of_its_own_gives_it_back_too() {
    gives_back(&["--isolation=large"], |it| crate::support::workers::workers(it.id())[0]);
}
