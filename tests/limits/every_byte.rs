//! Whatever clients send, in any protocol and of any size, the server lives and takes no more memory than it says. What
//! is sent is drawn at random from a seed, which is printed.

mod attacks; // what clients do
mod frames; // bytes of HTTP/2 and of WebSocket
mod random; // numbers from a seed
mod streams; // streams of gRPC, in whole messages
mod texts; // bodies with texts

use std::{
    fs, thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::support::{
    Client, Group, IN_PROCESS, Process, Repository, infer, pipelines::add_folders, row, wait_for,
};
use attacks::{Answered, Attacker, Ports};
use random::Random;
use streams::Streams;
use texts::Question;

/// The memory of the server, and the part of it that bodies have.
const MEMORY: u64 = 1 << 30;
const BUDGET: u64 = 256 << 20;

/// What the server may take beside what it takes without clients and beside the budget.
const MARGIN: u64 = 128 << 20;

/// How many clients there are at the same time.
const CLIENTS: u64 = 6;

/// Seconds that the test runs, and its seed, where they are not to be the usual ones.
const SECONDS: &str = "MUSTER_EVERY_BYTE_SECS";
const SEED: &str = "MUSTER_EVERY_BYTE_SEED";

/// One-dimensional floats of any number.
const FLOATS: &str = "backend: \"identity\" max_batch_size: 0
    input { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }
    output { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }";

/// The same of texts.
const TEXTS: &str = "backend: \"identity\" max_batch_size: 0
    input { name: \"x\" data_type: TYPE_STRING dims: [ -1 ] }
    output { name: \"x\" data_type: TYPE_STRING dims: [ -1 ] }";

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: expected a number, given '{text}'")))
}

/// A line of `/proc/<pid>/status`, in bytes.
fn status(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|it| it.strip_prefix(name));
    let kib: Option<u64> = line.and_then(|it| it.trim().trim_end_matches(" kB").parse().ok());
    kib.expect("the server lives, and the system says what it takes") << 10
}

/// What small requests were answered.
#[derive(Debug, Default)]
struct Honest {
    answered: u32,
    refused: u32,
    /// New connections that ended without an answer.
    lost: u32,
    /// The same of connections that had been used before: their client asks again on another one.
    closed: u32,
}

/// Sends small requests until then, one after the other.
fn honest(ports: Ports, until: Instant) -> Honest {
    let mut seen = Honest::default();
    let (mut client, mut is_new) = (None, true);
    while Instant::now() < until {
        let Some(it) = client.as_mut() else {
            (client, is_new) = (Client::try_connect(ports.http).ok(), true);
            continue;
        };
        match Client::try_request(it, "POST", &infer("m"), &[], Some(row(1).as_bytes())) {
            Ok(Some(reply)) if reply.status == 200 => {
                seen.answered += 1;
                is_new = false;
            }
            other => {
                match other {
                    Ok(Some(_)) => seen.refused += 1,
                    Ok(None) | Err(_) if is_new => seen.lost += 1,
                    Ok(None) | Err(_) => seen.closed += 1,
                }
                client = None;
            }
        }
        // The load of one client.
        thread::sleep(Duration::from_millis(10));
    }
    seen
}

/// Asks once in each form in which attackers ask whole requests.
fn each_form_is_answered(ports: Ports) {
    Client::connect(ports.http).post(&infer("m"), &[], row(1)).expect(200);
    for question in Question::ALL {
        for path in [question.path(false), question.path(true)] {
            let body = question.body(&["so happy", "a film"]);
            Client::connect(ports.http).post(&path, &[], body).expect(200);
        }
    }
    let mut streams = Streams::new(ports.grpc);
    for request in [
        streams::floats(3),
        streams::texts("texts", "x", vec![1, 0], false),
        streams::texts(texts::VECTORS, "text", vec![5, 9], true),
    ] {
        assert_eq!(streams.ask(request, 3).unwrap(), 3);
    }
}

#[test]
fn the_server_lives_and_stays_within_its_memory_whatever_clients_send() {
    let seconds = number(SECONDS).unwrap_or(20);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number(SEED).unwrap_or(u64::from(now.subsec_nanos()));
    println!("{SEED}={seed} {SECONDS}={seconds}");
    // Elsewhere the server is told how much memory it has, and what it takes is looked at all the same.
    let group = Group::make(MEMORY);
    let repository = Repository::identity("m", &[]).model("floats", FLOATS).model("texts", TEXTS);
    let repository = add_folders(repository, &[texts::VECTORS, texts::RANKS]);
    let budget = format!("--max-inflight-bytes={BUDGET}");
    let timeouts = ["--idle-timeout-secs=20", "--body-grace-secs=5"];
    let flags = [IN_PROCESS, &budget, timeouts[0], timeouts[1], "--max-client-batch-size=8192"];
    let mut process = Process::start_within(group.as_ref(), &repository, &flags, &[]);
    process.wait_ready();
    let ports = Ports {
        http: process.address("http"),
        grpc: process.address("grpc"),
        sagemaker: process.address("sagemaker"),
    };
    each_form_is_answered(ports);
    let base = status(process.id(), "VmRSS:");
    let until = Instant::now() + Duration::from_secs(seconds);
    let (seen, answered) = thread::scope(|scope| {
        let attack = |number: u64| {
            let mut attacker = Attacker::new(ports, Random::new(seed.wrapping_add(number)));
            scope.spawn(move || {
                while Instant::now() < until {
                    attacker.act();
                }
                attacker.answered()
            })
        };
        let attackers: Vec<_> = (0..CLIENTS).map(attack).collect();
        let seen = scope.spawn(|| honest(ports, until)).join().unwrap();
        let answered = attackers.into_iter().map(|it| it.join().unwrap());
        (seen, answered.fold(Answered::default(), Answered::and))
    });
    let peak = status(process.id(), "VmHWM:");
    println!(
        "base {base}, peak {peak}: {} MiB beside the budget; {seen:?}; {answered:?}",
        peak.saturating_sub(base + BUDGET) >> 20
    );
    for line in process.log().iter().filter(|it| it.contains("memory")) {
        println!("{line}");
    }
    assert!(peak <= base + BUDGET + MARGIN, "base {base}, peak {peak}, seed {seed}");
    // Everybody has left: everything is as it was.
    wait_for("a small and a large request to be answered", || {
        let small = Client::try_connect(ports.http).ok()?;
        let mut small = small;
        let reply = small.try_request("POST", &infer("m"), &[], Some(row(1).as_bytes())).ok()??;
        let spaces = format!("{}{}", " ".repeat(3 << 20), row(1));
        let mut large = Client::try_connect(ports.http).ok()?;
        let other = large.try_request("POST", &infer("m"), &[], Some(spaces.as_bytes())).ok()??;
        (reply.status == 200 && other.status == 200).then_some(())
    });
    assert!((seen.refused + seen.lost) * 20 <= seen.answered, "{seen:?}, seed {seed}");
    process.signal("TERM");
    assert!(process.wait().status.success());
    drop(group);
}
