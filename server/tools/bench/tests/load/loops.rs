//! Closed and open loop, latencies, warm-up.

use std::{
    sync::{Arc, Mutex},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    closed, ms, open,
    server::{Answer, Server},
};
use muster_bench::{Arrivals, Load, Phase, Progress, Stairs, Traffic};

/// A server that takes 1 ms per request and once, at request 100, stands still for 1500 ms, for everybody.
fn freezing() -> Server {
    let gate = Mutex::new(());
    Server::start(move |seen| {
        {
            let _gate = gate.lock().unwrap();
            if seen.number == 100 {
                sleep(ms(1500));
            }
        }
        sleep(ms(1));
        Answer::ok("pong")
    })
}

#[test]
fn a_freeze_shows_in_the_open_loop_and_hides_in_the_closed_one() {
    let server = freezing();
    let report = open(&server, 8, 500.0, ms(2000)).run().unwrap();
    assert!(report.latency.p99 > ms(1000), "{report}");
    assert!(report.latency.p50 > ms(250), "{report}");

    let server = freezing();
    let report = closed(&server, 4, 1000).run().unwrap();
    assert!(report.latency.p99 < ms(1000), "{report}");
    assert!(report.latency.max >= ms(1500), "{report}");
}

#[test]
fn percentiles_are_where_the_delays_put_them() {
    let server = Server::start(|seen| {
        sleep(ms(if seen.number % 10 == 9 { 600 } else { 6 }));
        Answer::ok("pong")
    });
    let report = closed(&server, 4, 100).run().unwrap();
    let latency = report.latency;
    assert!(latency.p50 >= ms(6) && latency.p50 < ms(500), "{report}");
    assert!(latency.p95 >= ms(600) && latency.p99 >= ms(600), "{report}");
    assert!(latency.mean > ms(60) && latency.mean < ms(500), "{report}");
    assert!(latency.p50 <= latency.p90 && latency.p90 <= latency.p95);
    assert!(latency.p99 <= latency.p99_9 && latency.p99_9 <= latency.max);
}

#[test]
fn a_closed_loop_keeps_one_request_on_its_way_per_connection() {
    let server = Server::start(|_| {
        sleep(ms(10));
        Answer::ok("pong")
    });
    let mut plan = closed(&server, 5, 1);
    plan.count = None;
    plan.duration = Some(ms(500));
    let report = plan.run().unwrap();
    // Five connections at no more than 100 requests/s each.
    assert!(report.requests >= 5 && report.throughput <= 510.0, "{report}");
    assert_eq!(report.elapsed.as_millis(), 500, "{report}");
    assert_eq!(report.requests, report.ok);
    assert_eq!(server.connections(), 5);
}

#[test]
fn an_open_loop_sends_at_its_rate() {
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let server = Server::start(|_| Answer::ok("pong"));
        let mut plan = open(&server, 16, 400.0, ms(1000));
        plan.load = Load::Open { rate: 400.0, arrivals };
        let report = plan.run().unwrap();
        let due = report.requests + report.unsent;
        match arrivals {
            // Those at the ends belong to the run or not.
            Arrivals::Constant => assert!((399..=400).contains(&due), "{report}"),
            // Three and a half standard deviations.
            Arrivals::Poisson => assert!((330..=470).contains(&due), "{report}"),
        }
        assert_eq!(server.requests(), report.requests);
    }
}

#[test]
fn a_rate_that_cannot_be_met_is_said_to_be_so() {
    let server = Server::start(|_| {
        sleep(ms(20));
        Answer::ok("pong")
    });
    let report = open(&server, 1, 200.0, ms(1000)).run().unwrap();
    assert!((190..=200).contains(&(report.requests + report.unsent)), "{report}");
    assert!(report.requests <= 51 && report.unsent >= 149, "{report}");
    assert!(report.waited + 2 >= report.requests, "{report}");
    // What was sent last had waited for three quarters of a second.
    assert!(report.latency.max > ms(400), "{report}");
    assert!(report.warnings.iter().any(|it| it.contains("never sent")), "{report}");
}

#[test]
fn the_warm_up_is_not_counted() {
    let start = Instant::now();
    let server = Server::start(move |_| {
        if start.elapsed() < ms(200) {
            sleep(ms(2000));
        }
        Answer::ok("pong")
    });
    let mut plan = closed(&server, 2, 50);
    plan.warm_up = ms(2500);
    let report = plan.run().unwrap();
    assert_eq!(report.requests, 50);
    assert!(server.requests() > 50);
    assert!(report.latency.max < ms(2000), "{report}");
}

#[test]
fn goodput_counts_answers_within_the_deadline() {
    let server = Server::start(|seen| {
        sleep(ms(if seen.number % 4 == 0 { 600 } else { 0 }));
        Answer::ok("pong")
    });
    let mut plan = closed(&server, 1, 20);
    plan.deadline = Some(ms(500));
    let report = plan.run().unwrap();
    assert_eq!(report.ok, 20);
    // One of those that are quick may meet a moment in which the machine does something else.
    assert!((14..=15).contains(&report.good), "{report}");
    let ratio = report.goodput / report.throughput;
    assert!((ratio - report.good as f64 / 20.0).abs() < 1e-9);
}

#[test]
fn requests_are_sent_in_turn() {
    let lines = std::sync::Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    let server = Server::start(move |seen| {
        kept.lock().unwrap().push(seen.line.clone());
        Answer::ok("pong")
    });
    let mut plan = closed(&server, 1, 5);
    plan.requests = ["/a", "/b"]
        .map(|path| muster_bench::Request::new(muster_bench::Method::Get, path).unwrap())
        .to_vec();
    plan.run().unwrap();
    assert_eq!(*lines.lock().unwrap(), ["GET /a", "GET /b", "GET /a", "GET /b", "GET /a"]);
}

/// What this thread has had of a processor.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn the_generator_and_the_server_are_charged_for_their_time() {
    let server = Server::start(|_| {
        let start = processor_time();
        while processor_time() - start < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        Answer::ok("pong")
    });
    let mut plan = closed(&server, 1, 200);
    // The server lives in this process; so do the other tests, which only add to it.
    plan.pid = Some(std::process::id());
    let report = plan.run().unwrap();
    let usage = report.server.unwrap();
    assert!(usage.cpu.per_request >= Duration::from_micros(1500), "{report}");
    let own = report.generator;
    assert!(!own.cpu.is_zero() && own.cpu < usage.cpu.cpu && own.cores < 0.9, "{report}");
}

#[test]
fn the_progress_of_several_runs_adds_up_to_their_reports() {
    let server = Server::start(|seen| match seen.number % 5 {
        0 => Answer::Plain(503, b"busy".to_vec()),
        1 => Answer::Raw(""),
        _ => Answer::ok("pong"),
    });
    let progress = Arc::new(Progress::default());
    let mut plan = closed(&server, 2, 50);
    plan.progress = Some(progress.clone());
    let reports = [plan.run().unwrap(), plan.run().unwrap()];
    assert_eq!(progress.ended(), 100);
    assert_eq!(progress.ended() - progress.bad(), reports.iter().map(|it| it.ok).sum::<u64>());
}

#[test]
fn users_come_and_go_over_connections_of_their_own() {
    let server = Server::start(|_| {
        sleep(ms(5));
        Answer::ok("pong")
    });
    let phase = |initial_users, spawn_rate, duration| Phase { initial_users, spawn_rate, duration };
    // One user, a second after 200 ms, a third after 400 ms; then one again, then five.
    let phases = vec![phase(1, 300.0, ms(600)), phase(1, 0.0, ms(400)), phase(5, 0.0, ms(400))];
    let mut plan = closed(&server, 1, 1);
    plan.count = None;
    plan.load = Load::Users(Traffic::Phases(phases));
    let report = plan.run().unwrap();
    let users: Vec<usize> = report.windows.iter().map(|it| it.users).collect();
    assert_eq!(users, [1, 2, 3, 1, 5], "{report}");
    assert_eq!((server.connections(), report.reconnects), (5, 0), "{report}");
    assert_eq!(server.requests(), report.requests);
    // No user has more than one request on its way.
    for window in &report.windows {
        assert!(window.throughput <= 200.0 * window.users as f64 + 20.0, "{window:?}");
        assert_eq!(window.errors, 0, "{window:?}");
    }
    let counted: u64 = report.samples.iter().map(|it| it.requests).sum();
    assert!((report.requests - 5..=report.requests).contains(&counted), "{report}");
}

#[test]
fn a_run_ends_when_its_windows_are_enough() {
    let server = Server::start(|_| Answer::ok("pong"));
    let mut plan = closed(&server, 1, 1);
    plan.count = None;
    let stairs = Stairs { users_per_step: 1, steps: 500, duration: ms(100) };
    plan.load = Load::Users(Traffic::Stairs(stairs));
    plan.enough = Some(Arc::new(|windows| windows.len() >= 3));
    let report = plan.run().unwrap();
    let users: Vec<usize> = report.windows.iter().map(|it| it.users).collect();
    assert!(users.starts_with(&[1, 2, 3]) && users.len() < 100, "{report}");
    assert!(report.elapsed >= ms(300), "{report}");
}
