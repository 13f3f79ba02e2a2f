//! Stopping: what was accepted is answered, what is idle is closed, and the process ends in time.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    Client, Page, Process, Repository, Server, ask, control::EXPLICIT, first_of, infer, post_head,
    row, wait_for, wait_queued,
};

/// Flags of a server on ports of its own that stops at once.
const LOCAL: [&str; 6] = [
    "--http-port=0",
    "--grpc-port=0",
    "--sagemaker-port=0",
    "--metrics-port=0",
    "--http-address=127.0.0.1",
    "--drain-delay-secs=0",
];

/// A model `m` whose batches of up to 8 take 50 ms.
fn slow() -> Repository {
    let config = "backend: \"identity\" max_batch_size: 8 dynamic_batching { }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        parameters { key: \"latency_alpha_us\" value: { string_value: \"50000\" } }";
    Repository::new().model("m", config)
}

#[test]
fn every_request_in_flight_at_sigterm_is_answered() {
    const REQUESTS: usize = 240;
    // Nothing runs before the signal: all of them are in flight when it comes.
    let hold = format!("--scheduler-hold={}", REQUESTS + 1);
    let repository = slow();
    let mut server = Process::start(&repository, &["--max-queue-wait-ms=0", &hold], &[]);
    server.wait_ready();
    let address = server.address("http");
    let mut clients: Vec<Client> =
        (0..REQUESTS).map(|it| ask(address, "m", row(it as i32))).collect();
    wait_queued(address, "m", REQUESTS);
    let mut idle = Client::connect(address);
    idle.get("/v2/health/live").expect(200);

    server.signal("TERM");
    for (number, client) in clients.iter_mut().enumerate() {
        let reply = client.reply();
        assert_eq!(first_of(&reply), number as f64);
        assert_eq!(reply.header("connection"), Some("close"));
    }
    assert!(idle.is_closed());
    let finished = server.wait();
    assert_eq!(finished.status.code(), Some(0), "{:#?}", finished.log);
    assert!(finished.last().contains("stopped"), "{:#?}", finished.log);
}

#[test]
fn a_body_that_is_still_coming_at_sigterm_is_waited_for() {
    let repository = slow();
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    let address = server.address("http");
    let body = row(5);
    let mut client = Client::connect(address);
    client.send(post_head(&infer("m"), &[], body.len())).unwrap();
    wait_for("the body to be waited for", || {
        let page = Page::read(address);
        (page.value("muster_bytes_in_flight") == body.len() as f64).then_some(())
    });
    server.signal("TERM");
    server.wait_for_line("nothing new is accepted");
    client.send(body).unwrap();
    assert_eq!(first_of(&client.reply()), 5.0);
    assert_eq!(server.wait().status.code(), Some(0));
}

#[test]
fn clients_that_do_as_told_see_no_error_across_sigterm() {
    const CLIENTS: usize = 16;
    let repository = slow();
    // Within it each of them has to get an answer that tells it so.
    let mut server = Process::start(&repository, &["--drain-delay-secs=2"], &[]);
    server.wait_ready();
    let address = server.address("http");
    let (answers, told_to_close) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (answers, told_to_close) = (&answers, &told_to_close);
            scope.spawn(move || {
                let mut client = Client::connect(address);
                // A client uses its connection for as long as the server does not ask it to stop.
                loop {
                    let reply = client.post(&infer("m"), &[], row(number as i32));
                    assert_eq!(first_of(&reply), number as f64);
                    answers.fetch_add(1, Ordering::Relaxed);
                    if reply.header("connection") == Some("close") {
                        told_to_close.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                }
            });
        }
        wait_for("some answers", || (answers.load(Ordering::Relaxed) > 100).then_some(()));
        server.signal("TERM");
    });
    assert_eq!(told_to_close.into_inner(), CLIENTS);
    let finished = server.wait();
    assert_eq!(finished.status.code(), Some(0), "{:#?}", finished.log);
}

#[test]
fn after_sigterm_health_fails_at_once_while_requests_are_still_served() {
    let repository = slow();
    let mut server = Process::start(&repository, &["--drain-delay-secs=20"], &[]);
    server.wait_ready();
    let mut client = server.client();
    client.get("/v2/health/ready").expect(200);
    let ping = server.address("sagemaker");
    server.signal("TERM");
    wait_for("readiness to fail", || {
        (server.client().get("/v2/health/ready").status == 503).then_some(())
    });
    Client::connect(ping).get("/ping").expect(503);
    server.client().get("/v2/health/live").expect(503);
    let reply = server.client().post(&infer("m"), &[], row(1));
    assert_eq!(first_of(&reply), 1.0);
    // A client that is told so is gone before the port closes.
    assert_eq!(reply.header("connection"), Some("close"));

    // A second signal does not wait for the rest of the twenty seconds. It is a second one only after a while.
    thread::sleep(Duration::from_millis(1100));
    let began = Instant::now();
    server.signal("TERM");
    let finished = server.wait();
    assert_eq!(finished.status.code(), Some(1), "{:#?}", finished.log);
    assert!(began.elapsed() < Duration::from_secs(15));
    assert!(finished.log.iter().any(|it| it.contains("a second time")), "{:#?}", finished.log);
}

#[test]
fn other_signals_stop_as_sigterm_does() {
    for name in ["INT", "HUP", "QUIT"] {
        let repository = slow();
        let models = format!("--model-repository={}", repository.at(""));
        // The tests themselves may run under `nohup`.
        let program =
            ["--default-signal=HUP,QUIT,INT", env!("CARGO_BIN_EXE_muster"), "serve", &models];
        let args = [&program[..], &LOCAL].concat();
        let mut server = Process::program("env", &args, &[]);
        server.wait_ready();
        server.signal(name);
        let finished = server.wait();
        assert_eq!(finished.status.code(), Some(0), "{name}: {:#?}", finished.log);
        assert!(finished.last().contains("stopped"), "{name}: {:#?}", finished.log);
    }
}

#[test]
fn a_signal_that_comes_twice_at_once_is_one_signal() {
    const AT_ONCE: Duration = Duration::from_millis(500);
    let repository = slow();
    let mut ends = (0..4).map(|_| {
        let mut server = Process::start(&repository, &["--drain-delay-secs=1"], &[]);
        server.wait_ready();
        let began = Instant::now();
        server.signal("TERM");
        server.wait_for_line("not ready any more");
        server.signal("TERM");
        let was_at_once = began.elapsed() < AT_ONCE;
        (was_at_once, server.wait())
    });
    // A busy machine may need so long for both that they are two.
    let (_, finished) = ends.find(|it| it.0).expect("two signals at once, of four attempts");
    assert_eq!(finished.status.code(), Some(0), "{:#?}", finished.log);
}

#[test]
fn children_that_were_left_to_the_server_are_reaped() {
    let repository = slow();
    // The shell becomes the server, which then has the shell's child.
    let script = format!(
        "sleep 1 & exec {} serve --model-repository={} {}",
        env!("CARGO_BIN_EXE_muster"),
        repository.at(""),
        LOCAL.join(" ")
    );
    let mut server = Process::program("sh", &["-c", &script], &[]);
    server.wait_ready();
    let children = format!("/proc/{0}/task/{0}/children", server.id());
    let is_shells = |pid: &str| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|it| it.trim() == "sleep")
    };
    wait_for("the child to be gone", || {
        let children = std::fs::read_to_string(&children).unwrap();
        (!children.split_whitespace().any(is_shells)).then_some(())
    });
    server.signal("TERM");
    assert_eq!(server.wait().status.code(), Some(0));
}

#[test]
fn a_request_whose_head_is_still_coming_when_idle_connections_close_is_answered() {
    let repository = slow();
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    let address = server.address("http");
    let mut client = Client::connect(address);
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(1))), 1.0);
    let body = row(5);
    let head = post_head(&infer("m"), &[], body.len());
    let (begin, rest) = head.split_at(head.len() / 2);
    client.send(begin).unwrap();
    server.signal("TERM");
    server.wait_for_line("nothing new is accepted");
    // Idle connections are closed after a tenth of a second.
    thread::sleep(Duration::from_millis(300));
    client.send(rest).unwrap();
    client.send(body).unwrap();
    let reply = client.reply();
    assert_eq!(first_of(&reply), 5.0);
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(server.wait().status.code(), Some(0));
}

#[test]
fn a_part_of_a_head_that_never_ends_delays_no_stop_whether_the_connection_was_at_rest_or_not() {
    let repository = slow();
    let flags = ["--header-timeout-secs=600", "--idle-timeout-secs=600", "--exit-timeout-secs=60"];
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        client.get("/v2/health/live").expect(200);
    }
    // Longer than until an idle connection is at rest.
    thread::sleep(Duration::from_millis(1500));
    clients[0].send("GET /v2 HTTP/1.1\r\nhost").unwrap();
    clients[1].send("\r\n").unwrap();
    clients[2].get("/v2/health/live").expect(200);
    clients[2].send("GET /v2 HTTP/1.1\r\nhost").unwrap();
    server.signal("TERM");
    for client in &mut clients {
        assert!(client.is_closed());
    }
    let finished = server.wait();
    assert_eq!(finished.status.code(), Some(0), "{:#?}", finished.log);
}

#[test]
fn a_signal_while_models_load_ends_the_process_in_order() {
    let repository = Repository::identity("m", &[("creation_delay_sec", "60")]);
    let mut server = Process::start(&repository, &[], &[]);
    let mut client = server.client();
    client.get("/v2/health/live").expect(200);
    server.signal("TERM");
    assert!(client.is_closed());
    let finished = server.wait();
    assert_eq!(finished.status.code(), Some(0), "{:#?}", finished.log);
}

#[test]
fn a_run_that_does_not_end_is_left_behind_when_the_time_is_up() {
    let repository = Repository::identity("m", &[("fault", "hang"), ("fault_marker", "66")]);
    let mut server = Process::start(&repository, &["--exit-timeout-secs=1"], &[]);
    server.wait_ready();
    let address = server.address("http");
    let _hanging = ask(address, "m", row(66));
    wait_for("the request to be read", || {
        let page = Page::read(address);
        (page.value("muster_bytes_in_flight") > 0.0).then_some(())
    });
    server.signal("TERM");
    let finished = server.wait();
    assert_eq!(finished.status.code(), Some(1), "{:#?}", finished.log);
    assert!(finished.last().contains("were still busy"), "{:#?}", finished.log);
}

#[test]
fn a_load_whose_client_has_left_keeps_the_process_no_longer_than_it_may_take() {
    let repository = slow().with_identity("late", &[("creation_delay_sec", "600")]);
    let flags = [EXPLICIT, "--load-model=m", "--exit-timeout-secs=5"];
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    let mut client = server.client();
    client.send(post_head("/v2/repository/models/late/load", &[], 0)).unwrap();
    wait_for("the load to begin", || {
        let index = server.client().post("/v2/repository/index", &[], "").text();
        index.contains("LOADING").then_some(())
    });
    drop(client);
    server.signal("TERM");
    let began = Instant::now();
    let finished = server.wait();
    assert_eq!(finished.status.code(), Some(0), "{:#?}", finished.log);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn what_waits_for_company_runs_when_the_server_stops() {
    let config = "backend: \"identity\" max_batch_size: 8
        dynamic_batching { max_queue_delay_microseconds: 60000000 }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";
    let mut server = Server::start(&Repository::new().model("m", config), &[]);
    let mut client = ask(server.http(), "m", row(7));
    wait_queued(server.http(), "m", 1);
    server.begin_stop();
    assert_eq!(first_of(&client.reply()), 7.0);
    server.wait().unwrap();
}
