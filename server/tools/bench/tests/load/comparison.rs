//! Ratios of two servers, measured in interleaved blocks.

use std::{
    sync::{Arc, Mutex},
    thread::sleep,
};

use muster_bench::{Blocks, Error, Plan, compare};

use crate::{
    closed, ms,
    server::{Answer, Server},
};

fn slow(milliseconds: u64) -> Server {
    Server::start(move |_| {
        sleep(ms(milliseconds));
        Answer::ok("pong")
    })
}

fn block(server: &Server) -> Plan {
    let mut plan = closed(server, 2, 1);
    (plan.duration, plan.count) = (Some(ms(100)), None);
    plan
}

/// Time is stolen where it likes, and no fact here depends on it.
fn pairs(pairs: usize) -> Blocks {
    Blocks { pairs, most_steal: 1.0, ..Blocks::default() }
}

#[test]
fn a_server_against_itself_is_no_faster() {
    let server = slow(4);
    let comparison = compare(&block(&server), &block(&server), &pairs(8)).unwrap();
    // Whether the interval covers 1 is a matter of chance one time in twenty, where it lies is not.
    for ratio in [comparison.throughput, comparison.p50] {
        assert!(ratio.low < 1.5 && ratio.high > 0.67, "{comparison}");
    }
    assert_eq!((comparison.pairs, comparison.dropped), (8, 0));
}

#[test]
fn a_slower_server_is_found_out() {
    let (a, b) = (slow(3), slow(12));
    let comparison = compare(&block(&a), &block(&b), &pairs(4)).unwrap();
    assert!(comparison.throughput.differs() && comparison.throughput.high < 0.7, "{comparison}");
    assert!(comparison.p50.differs() && comparison.p50.low > 1.5, "{comparison}");
    assert!(comparison.server_cpu.is_none());
    let (a, b) = (comparison.typical_a, comparison.typical_b);
    assert!(
        a.p50_us > 3000.0 && b.p50_us > 12_000.0 && a.throughput > b.throughput,
        "{comparison}"
    );
    assert_eq!(a.server_cpu_per_request_us, None);
    assert!(comparison.warnings.iter().any(|it| it.contains("6 pairs")), "{comparison}");
}

#[test]
fn blocks_alternate_so_that_a_drift_falls_on_both() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let server = |letter: char| {
        let order = order.clone();
        Server::start(move |_| {
            order.lock().unwrap().push(letter);
            Answer::ok("pong")
        })
    };
    let (a, b) = (server('a'), server('b'));
    compare(&closed(&a, 1, 3), &closed(&b, 1, 3), &pairs(3)).unwrap();
    let order: String = order.lock().unwrap().iter().collect();
    assert_eq!(order, "aaabbbbbbaaaaaabbb");
}

#[test]
fn nothing_is_claimed_where_no_pair_is_left() {
    let server = slow(0);
    let blocks = Blocks { most_steal: -1.0, ..pairs(1) };
    let plan = closed(&server, 1, 3);
    assert!(matches!(compare(&plan, &plan, &blocks), Err(Error::Compare(_))));
}
