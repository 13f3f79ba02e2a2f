//! Refusals, hang-ups, silence: each is counted as what it is, and the counts add up.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread::sleep,
};

use crate::{
    closed, ms, open,
    server::{Answer, Server},
};
use muster_bench::{Error, Failures, Method, Plan, Request};

#[test]
fn every_request_is_counted_once_as_what_became_of_it() {
    let server = Server::start(|seen| match seen.number % 10 {
        0 => Answer::Plain(503, b"busy".to_vec()),
        1 => Answer::Raw(""),
        2 => Answer::Raw("SSH-2.0-server\r\n"),
        3 => Answer::Chunked(vec!["po", "ng"]),
        4 => Answer::Last("pong"),
        5 => Answer::Raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npong"),
        6 => Answer::Raw("HTTP/1.1 200 OK\r\n\r\nuntil the end"),
        _ => Answer::ok("pong"),
    });
    let report = closed(&server, 8, 400).run().unwrap();
    assert_eq!(report.statuses.get(&200), Some(&240), "{report}");
    assert_eq!(report.statuses.get(&503), Some(&40), "{report}");
    // Of each status that is no success the first body is shown.
    assert_eq!(report.refusals.keys().collect::<Vec<_>>(), [&503]);
    assert!(report.to_string().contains("first 503   busy"), "{report}");
    let failures = Failures { connect: 0, reset: 80, timeout: 0, malformed: 40 };
    assert_eq!(report.failures, failures, "{report}");
    let first = report.first_bad.clone().unwrap();
    assert!(first.at <= report.elapsed && (first.users, first.request) == (8, 0), "{first:?}");
    assert!(report.to_string().contains(" s, with 8 users, request "), "{report}");
    let problems: Vec<_> = report.problems.iter().map(|(kind, it)| (*kind, it.as_str())).collect();
    let closed = "the connection was closed before the reply was complete";
    let foreign = "what came is not HTTP/1: 'SSH-2.0-server'";
    assert_eq!(problems, [("malformed", foreign), ("reset", closed)]);
    assert_eq!((report.requests, server.requests()), (400, 400));
    assert_eq!((report.ok, report.good), (240, 240));
    assert!(report.refusal_latency.is_some());
    // Those of which the connection ended, but for the last of each connection.
    assert!((200 - 8..=200).contains(&report.reconnects), "{report}");
    assert_eq!(server.connections(), 8 + report.reconnects);
    let wire = "POST /x HTTP/1.1\r\nHost: \r\nContent-Length: 4\r\n\r\nping".len()
        + server.target().to_string().len()
        - "http://".len();
    assert_eq!(report.bytes_sent, 400 * wire as u64);
}

#[test]
fn the_first_failure_is_told_with_its_number_and_what_came_instead() {
    let first = |server: Server, more: &dyn Fn(&mut Plan)| {
        let mut plan = closed(&server, 1, 8);
        more(&mut plan);
        let bad = plan.run().unwrap().first_bad.unwrap();
        (bad.number, bad.problem)
    };
    let failing = |from: u64, answer: fn() -> Answer| {
        Server::start(move |seen| if seen.number < from { Answer::ok("pong") } else { answer() })
    };
    // The connection that ends with the reply takes nothing of it along.
    let refusing = failing(3, || {
        Answer::Raw("HTTP/1.1 503 X\r\nContent-Type: text/html; a=b\r\n\r\n<p>busy\n</p>")
    });
    let told = (4, "status 503, text/html; a=b, <p>busy </p>".to_owned());
    assert_eq!(first(refusing, &|_| ()), told);
    let long = failing(0, || Answer::Plain(400, "\u{e4}".repeat(500).into_bytes()));
    let told = (1, format!("status 400, {}", "\u{e4}".repeat(300)));
    assert_eq!(first(long, &|_| ()), told);
    // It answers this one never: until the test is over, which lets go of the end that it waits at.
    let (_over, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let silent = Server::start(move |seen| {
        if seen.number > 0 {
            let _ = wait.lock().unwrap().recv();
        }
        Answer::ok("pong")
    });
    let mut plan = closed(&silent, 1, 2);
    plan.timeout = ms(2000);
    let bad = plan.run().unwrap().first_bad.unwrap();
    assert_eq!((bad.number, bad.problem.as_str()), (2, "no reply within 2 s"));
}

#[test]
fn a_server_that_closes_after_each_reply_is_followed() {
    let server = Server::start(|_| Answer::Last("pong"));
    let report = closed(&server, 4, 100).run().unwrap();
    assert_eq!((report.ok, report.failures.total()), (100, 0), "{report}");
    assert_eq!(server.connections(), 4 + report.reconnects);
    let report = open(&server, 4, 200.0, ms(300)).run().unwrap();
    assert_eq!((report.ok, report.failures.total()), (report.requests, 0), "{report}");
}

#[test]
fn a_reply_that_does_not_come_is_a_timeout_and_the_run_goes_on() {
    let server = Server::start(|seen| {
        if seen.number == 3 {
            sleep(ms(3000));
        }
        Answer::ok("pong")
    });
    let mut plan = closed(&server, 1, 20);
    plan.timeout = ms(1500);
    let report = plan.run().unwrap();
    assert_eq!((report.failures.timeout, report.ok), (1, 19), "{report}");
    assert_eq!((report.reconnects, report.requests), (1, 20), "{report}");
}

#[test]
fn requests_on_their_way_at_the_end_are_waited_for() {
    let server = Server::start(|_| {
        sleep(ms(300));
        Answer::ok("pong")
    });
    let report = open(&server, 50, 100.0, ms(200)).run().unwrap();
    assert!((18..=20).contains(&report.ok), "{report}");
    assert_eq!((report.failures.total(), report.unsent), (0, 0), "{report}");
    assert!(report.latency.p50 >= ms(300), "{report}");
}

#[test]
fn a_server_that_goes_away_is_a_failure_to_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        let _ = stream.read(&mut [0; 1024]).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
    });
    let request = Request::new(Method::Get, "/").unwrap();
    let mut plan = Plan::new(address.into(), vec![request]);
    (plan.duration, plan.count) = (None, Some(3));
    let report = plan.run().unwrap();
    server.join().unwrap();
    assert_eq!((report.ok, report.failures.connect), (1, 2), "{report}");
    let problem = report.first_bad.unwrap().problem;
    assert!(problem.starts_with("Connection refused (os error"), "{problem}");
}

#[test]
fn a_server_that_is_not_there_is_an_error_and_no_report() {
    let server = Server::start(|_| Answer::ok("pong"));
    let mut plan = closed(&server, 2, 1);
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    plan.target = free.local_addr().unwrap().into();
    drop(free);
    assert!(matches!(plan.run(), Err(Error::Connect { number: 1, of: 2, .. })));
}

#[test]
fn a_plan_without_sense_is_refused_by_the_name_of_the_setting() {
    let server = Server::start(|_| Answer::ok("pong"));
    #[track_caller]
    fn check(mut plan: Plan, change: impl FnOnce(&mut Plan), expect: &str) {
        change(&mut plan);
        let error = plan.run().unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
    }
    check(closed(&server, 1, 1), |it| it.connections = 0, "connections:");
    check(closed(&server, 1, 1), |it| it.count = None, "duration:");
    check(closed(&server, 1, 1), |it| it.count = Some(0), "count:");
    check(closed(&server, 1, 1), |it| it.requests.clear(), "requests:");
    check(open(&server, 1, 0.0, ms(1)), |_| (), "rate:");
    check(open(&server, 1, f64::NAN, ms(1)), |_| (), "rate:");
}

#[test]
fn a_server_that_refuses_before_it_has_read_the_body_is_heard() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 100]).unwrap();
        stream.write_all(b"HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n").unwrap();
        // Open until the client leaves: it must not wait for its own body to be taken.
        while stream.read(&mut [0; 65536]).is_ok_and(|it| it > 0) {
            sleep(ms(5));
        }
    });
    let request = Request::new(Method::Post, "/").unwrap().body(vec![b'x'; 64 << 20]);
    let mut plan = Plan::new(address.into(), vec![request]);
    (plan.duration, plan.count) = (None, Some(1));
    let report = plan.run().unwrap();
    assert_eq!(report.statuses.get(&413), Some(&1), "{report}");
    server.join().unwrap();
}
