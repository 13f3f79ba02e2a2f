//! Clients that come again and again where there is no room, and memory that is nearly used up, against the real
//! binary: a refusal costs little, and what is small is still answered.

use std::{fs, thread, time::Duration};

use crate::support::{
    Client, Group, Process, Repository, first_of, infer, post_head, row, skip, wait_for,
};

/// Time of processors that a process has had.
fn busy(process: &Process) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(|it| it.parse::<u64>().unwrap());
    // USER_HZ is 100 on all platforms that Linux runs on.
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

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
    let mut taken: Vec<Client> = Vec::new();
    while taken.len() < 2 {
        let mut client = process.client();
        client.send(post_head(&infer("slow"), &[], body.len()) + &body).unwrap();
        client.stream().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        match client.try_reply() {
            Ok(Some(reply)) => assert_eq!(reply.status, 503),
            _ => taken.push(client),
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

#[test]
fn near_the_limit_of_memory_large_requests_are_refused_and_small_ones_answered() {
    const MEMORY: u64 = 256 << 20;
    let Some(group) = Group::make(MEMORY) else {
        return skip("a server near the limit of its memory: no control group can be made here");
    };
    let kept = "backend: \"identity\" max_batch_size: 0 response_cache { enable: true }
        input { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }
        output { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }";
    let repository = Repository::identity("m", &[]).model("kept", kept);
    let (script, path) = (group.script(), repository.at(""));
    let muster = env!("CARGO_BIN_EXE_muster");
    let mut args = vec!["-c", &script, muster, "--model-repository", &path];
    args.extend(["--http-address=127.0.0.1", "--http-port=0", "--grpc-port=0"]);
    args.extend(["--sagemaker-port=0", "--metrics-port=0", "--cache-config=local,size=300MiB"]);
    let mut process = Process::program("/bin/sh", &args, &[]);
    process.wait_ready();
    let mut client = process.client();
    let mut post = |number, floats| {
        let (length, body) = tensor(number, floats);
        client.post(&infer("kept"), &[("inference-header-content-length", &length)], body)
    };
    let anonymous = || {
        let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    };
    assert_eq!(post(0, 2 * FLOATS).status, 200);
    // A twentieth of so little is less than what has to be left in any case.
    let enough = MEMORY - (30 << 20);
    for number in 1.. {
        if enough < anonymous() {
            break;
        }
        assert_eq!(post(number, FLOATS).status, 200);
        thread::sleep(Duration::from_millis(2));
    }
    wait_for("a large request to be refused", || {
        (post(0, 2 * FLOATS + 1).status == 503).then_some(())
    });
    assert_eq!(post(1, FLOATS).status, 200);
    assert_eq!(first_of(&process.client().post(&infer("m"), &[], row(8))), 8.0);
    process.client().get("/v2/health/live").expect(200);
    process.wait_for_line("memory is nearly used up: large requests are refused");
    process.signal("TERM");
    assert!(process.wait().status.success());
    drop(group);
}
