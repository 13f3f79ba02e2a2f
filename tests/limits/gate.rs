//! The gate: faults of the catalogue in `docs/contributing/reliability.md`, one after the other against one server.
//! Others ask that server all the time, at half of what it can do. It must be alive throughout, nobody else may get an
//! error or a wrong answer, and memory, descriptors, threads and processes must be what they were before. The command
//! is in the catalogue, too.

mod background; // what everybody else asks meanwhile
mod machine; // faults of the machine, and the end of the server
mod models; // faults of models, and more requests than they can answer
mod processes; // faults of models in processes of their own
mod server; // the server, and what its process holds
mod wire; // faults of what clients send

use std::{
    thread,
    time::{Duration, Instant},
};

use self::{
    background::{Background, CLIENTS, half_load},
    server::{Gate, Holdings},
};
use crate::support::{infer, post_head, row};

/// All faults are made so often first, which fills pools and buffers.
const FIRST: usize = 4;

/// And so often then, over which nothing may grow.
const ROUNDS: usize = 4;

/// Memory may be so many bytes more after all of those rounds, for what the allocator makes of it. A round has some
/// 20,000 requests.
const GROWTH: u64 = 512 << 10;

/// A p99 beside faults is to be no more than so many times that without. A goal: whether it is met is told, as a
/// machine with other work says little of it.
const GOAL: u32 = 2;

/// Memory is the least of so many looks: requests of others come and go.
const LOOKS: usize = 20;

/// One row of the catalogue.
struct Step {
    row: u32,
    run: fn(&Gate),
}

const STEPS: &[Step] = &[
    Step {
        row: 1,
        run: |it| it.refused("canary", br#"{"inputs":[{"name":"INPUT0","shape":"x""#, &[400]),
    },
    Step { row: 2, run: |it| it.input("INPUT0", "[1,3]", "FP32", "1,2,3", &[400]) },
    Step { row: 3, run: |it| it.input("INPUT0", "[4294967296,4294967296,4]", "FP32", "1", &[400]) },
    Step { row: 4, run: |it| it.binary("canary", "FP32", 4, &[0; 15], 400) },
    Step { row: 5, run: |it| it.binary("text", "BYTES", 1, b"\xff\xff\xff\xffab", 400) },
    Step { row: 6, run: |it| it.refused("canary", &b"[".repeat(1_000_000), &[400]) },
    Step { row: 7, run: |it| it.input("INPUT0", "[1,4]", "FP32", "1e400,0,0,0", &[400]) },
    Step {
        row: 8,
        run: |it| it.refused("canary", b"{\"inputs\":[{\"name\":\"\xff\xfe\"}]}", &[400]),
    },
    Step { row: 9, run: Gate::not_numbers },
    Step { row: 10, run: |it| it.raw(&post_head(&infer("canary"), &[], 1 << 40), &[413]) },
    Step {
        row: 11,
        run: |it| {
            it.raw("POST /v2 HTTP/1.1\r\nhost: x\r\ncontent-length: 5, 6\r\n\r\nhello", &[400])
        },
    },
    Step {
        row: 12,
        run: |it| {
            it.raw(&format!("GET /v2 HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(1 << 20)), &[431])
        },
    },
    Step { row: 13, run: Gate::slow_clients },
    Step { row: 14, run: Gate::bomb },
    Step { row: 15, run: Gate::floods },
    Step { row: 16, run: Gate::messages_that_are_refused },
    Step { row: 17, run: Gate::calls_that_are_given_up },
    Step { row: 18, run: |it| it.clients_that_leave("slow", 6) },
    Step { row: 19, run: |it| it.clients_that_leave("slow", 1) },
    Step { row: 20, run: |it| it.clients_that_leave("canary", 20) },
    Step { row: 21, run: |it| it.refused("nobody", row(1).as_bytes(), &[404]) },
    Step { row: 22, run: |it| it.load_fails("corrupt", "model.onnx") },
    Step { row: 23, run: |it| it.load_fails("typo", "max_batch_sise") },
    Step { row: 24, run: |it| it.load_fails("operators", "/nowhere/libops.so cannot be used") },
    Step { row: 25, run: Gate::crashes },
    Step { row: 26, run: |it| it.refused("fails", row(1).as_bytes(), &[500]) },
    Step { row: 27, run: Gate::hangs },
    Step { row: 28, run: Gate::leaks },
    Step { row: 30, run: |it| it.refused("no_memory", row(1).as_bytes(), &[503, 507]) },
    Step { row: 31, run: Gate::loses_its_gpu },
    Step { row: 32, run: |it| it.refused("wrong_rows", row(1).as_bytes(), &[500]) },
    Step { row: 33, run: Gate::rows_that_mix },
    Step { row: 34, run: Gate::poisoned_batch },
    Step { row: 35, run: Gate::unequal_shapes },
    Step { row: 36, run: Gate::reloads },
    Step { row: 37, run: Gate::uploads },
    Step { row: 38, run: Gate::unloads_in_a_run },
    Step { row: 39, run: Gate::full_disk },
    Step { row: 40, run: Gate::unread_log },
    Step { row: 43, run: |it| assert_eq!(it.zombies(), 0) },
    Step { row: 44, run: Gate::idle_connections },
    Step { row: 45, run: Gate::no_descriptors },
    Step { row: 46, run: Gate::ports_in_use },
    Step { row: 48, run: Gate::too_many },
    Step { row: 49, run: Gate::come_again_at_once },
    Step { row: 50, run: Gate::one_is_asked_more },
    Step { row: 51, run: Gate::busy_processors },
    Step {
        row: 52,
        run: |it| (0..100).for_each(|_| drop(it.client().get("/metrics").expect(200))),
    },
    Step {
        row: 53,
        run: |it| it.raw(&post_head(&infer(&"m".repeat(1 << 20)), &[], 0), &[404, 414, 431]),
    },
    // The memory that the first takes runs out in the second.
    Step { row: 55, run: Gate::little_memory },
    Step { row: 29, run: Gate::no_memory_left },
    Step { row: 56, run: Gate::other_protocols },
    Step { row: 57, run: Gate::cut_memory },
    Step { row: 58, run: Gate::ids_that_repeat },
    Step { row: 59, run: Gate::bytes_of_others },
    Step { row: 60, run: |it| it.refused("panics", row(1).as_bytes(), &[500]) },
    Step { row: 61, run: Gate::stands_still },
    Step { row: 62, run: Gate::hostile_code },
];

/// Those that take too long for each round: they are made in the first one and in the first of those that are compared.
const RARE: &[Step] = &[Step { row: 54, run: Gate::fewer_processors }];

/// Descriptors and threads of what was done a moment ago may take that moment to go. A model that goes has the server
/// give back what it has freed.
fn settled(gate: &Gate, expected: Holdings) -> Holdings {
    let until = Instant::now() + Duration::from_secs(20);
    let look = || {
        thread::sleep(Duration::from_millis(100));
        gate.holdings()
    };
    gate.load_again("other");
    let mut holds = look();
    while holds.is_more_than(&expected) && Instant::now() < until {
        holds = look();
    }
    let memory = (0..LOOKS).map(|_| look().memory).fold(holds.memory, u64::min);
    Holdings { memory, ..holds }
}

/// Makes all faults once; how long each took is told.
fn make_all(gate: &Gate, round: usize) {
    let began = Instant::now();
    let rare = if round % FIRST == 1 { RARE } else { &[] };
    for step in STEPS.iter().chain(rare) {
        let began = Instant::now();
        (step.run)(gate);
        println!("| {round} | {} | {} |", step.row, began.elapsed().as_millis());
    }
    println!("round {round}: {:.1?}, {:?}", began.elapsed(), gate.holdings());
}

#[test]
#[ignore = "takes minutes; the command is in docs/contributing/reliability.md"]
fn faults_of_the_catalogue_one_after_the_other_against_one_server() {
    let gate = Gate::start();
    let interval = half_load(gate.http);
    let quiet = Background::start(gate.http, interval);
    thread::sleep(Duration::from_secs(5));
    let (mut quiet, _) = quiet.stop();
    let background = Background::start(gate.http, interval);
    println!("| round | row | ms |\n|---|---|---|");
    (1..=FIRST).for_each(|round| make_all(&gate, round));
    let first = settled(&gate, gate.holdings());
    (1..=ROUNDS).for_each(|round| make_all(&gate, FIRST + round));
    let last = settled(&gate, first);
    let (mut seen, mut alive) = background.stop();
    let load = f64::from(CLIENTS) / interval.as_secs_f64();
    let (beside, without) = (seen.p99(), quiet.p99());
    println!(
        "{} requests of others at {load:.0}/s: {} wrong or refused; p99 {beside:.1?}, {without:.1?} without faults",
        seen.latencies.len(),
        seen.wrong.len(),
    );
    let is_met = if beside <= without * GOAL { "met" } else { "missed" };
    println!("goal: a p99 beside faults of at most {GOAL} times that without: {is_met}");
    println!(
        "asked {} times whether it lives: {} times no; p99 {:.1?}",
        alive.latencies.len(),
        alive.wrong.len(),
        alive.p99()
    );
    let growth = last.memory.saturating_sub(first.memory);
    println!("memory: {growth} bytes more after {ROUNDS} rounds; {first:?}, then {last:?}");
    assert_eq!(seen.wrong, [""; 0]);
    assert_eq!(alive.wrong, [""; 0]);
    assert!(!last.is_more_than(&first), "{first:?}, then {last:?}");
    assert!(growth <= GROWTH, "{first:?}, then {last:?}");
    assert_eq!(gate.zombies(), 0);
    gate.ends_in_order();
}
