//! Faults of models in processes of their own, as often as a server has to survive them, and how soon a model is back.
//! They take long, or measure times that only a quiet machine has: `docs/contributing.md` has the command.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    Client, Page, Repository, Traffic, first_of, infer, row, wait_for,
    workers::{kill, of_worker, process, workers},
};

/// A model `m` with two instances.
fn two_instances() -> Repository {
    Repository::new().model(
        "m",
        "backend: \"identity\" max_batch_size: 8
         input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
         output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
         instance_group { count: 2 kind: KIND_CPU }",
    )
}

#[test]
#[ignore = "takes a minute; the command is in docs/contributing.md"]
fn of_a_hundred_thousand_requests_none_is_lost_while_five_processes_are_killed_a_second_apart() {
    // The pause before the next process doubles with each death of a minute: after the sixth it is longer than a
    // request waits.
    const KILLS: usize = 5;
    let mut server = process(&two_instances(), &[]);
    let traffic = Traffic::start(server.address("http"), "m", 4);
    for _ in 0..KILLS {
        thread::sleep(Duration::from_secs(1));
        workers(server.id()).into_iter().for_each(kill);
        traffic.wait_for_more(1);
    }
    while traffic.answers() < 100_000 && !traffic.has_failed() {
        traffic.wait_for_more(100);
    }
    println!("{} requests, {KILLS} processes killed, none lost", traffic.stop());
}

/// Asks until so many requests have been answered or refused: how many of each.
fn ask_in_turn(client: &mut Client, count: usize) -> [usize; 2] {
    let mut seen = [0, 0];
    for number in 0..count as i32 {
        let value = number % 1000;
        let reply = client.post(&infer("m"), &[], row(value));
        match reply.status {
            200 => assert_eq!(first_of(&reply), f64::from(value)),
            _ => assert!(!reply.error(503).is_empty() && reply.header("retry-after").is_some()),
        }
        seen[usize::from(reply.status != 200)] += 1;
    }
    seen
}

#[test]
#[ignore = "takes minutes; the command is in docs/contributing.md"]
fn a_hundred_thousand_requests_while_processes_are_killed_ten_times_a_second_are_answered_or_told_to_come_again()
 {
    const CLIENTS: usize = 4;
    let mut server = process(&two_instances(), &[]);
    let http = server.address("http");
    let seen: Vec<[usize; 2]> = thread::scope(|scope| {
        let ask = || ask_in_turn(&mut Client::connect(http), 100_000 / CLIENTS);
        let asked: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        while !asked.iter().all(|it| it.is_finished()) {
            workers(server.id()).into_iter().for_each(kill);
            thread::sleep(Duration::from_millis(100));
        }
        asked.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let last = Instant::now();
    wait_for("the model to answer again", || {
        (server.client().post(&infer("m"), &[], row(3)).status == 200).then_some(())
    });
    let (answered, refused) = seen.iter().fold((0, 0), |(a, b), it| (a + it[0], b + it[1]));
    let took = last.elapsed();
    println!("{answered} answered, {refused} refused; answers again after {took:.1?}");
    // A pause of 30 s after the last death, and the start.
    assert!(took < Duration::from_secs(35), "{took:?}");
}

#[test]
#[ignore = "takes a minute; the command is in docs/contributing.md"]
fn of_ten_thousand_requests_to_a_model_that_leaks_none_fails_and_its_memory_stays_bounded() {
    const LIMIT: &str = "200000000";
    let leak = [("fault", "leak"), ("execute_delay_ms", "5"), ("MEMORY_RECYCLE_BYTES", LIMIT)];
    let mut server = process(&Repository::identity("m", &leak), &[]);
    let (http, mut client, mut most) = (server.address("http"), server.client(), 0f64);
    for number in 0..10_000 {
        assert_eq!(first_of(&client.post(&infer("m"), &[], row(number))), f64::from(number));
        if number % 50 == 0 {
            let page = Page::read(http);
            most = most.max(of_worker(&page, "m", "memory_bytes", "kind=\"private\""));
        }
    }
    let page = Page::read(http);
    let recycled = of_worker(&page, "m", "restarts_total", "reason=\"recycle\"");
    println!("{recycled} processes replaced; at most {} MB", most / 1e6);
    assert_eq!(of_worker(&page, "m", "restarts_total", "reason=\"signal\""), 0.0);
    // Ten gigabytes were lost. A process is looked at once a second, and loses more until its successor is there.
    assert!(1.0 <= recycled && most < 1e9, "{recycled} processes, {most} bytes");
}

#[test]
#[ignore = "measures times; the command is in docs/contributing.md"]
fn a_model_whose_process_was_killed_answers_within_a_tenth_of_a_second() {
    let mut times: Vec<(Duration, f64)> = (0..5)
        .map(|_| {
            // A server of its own: only the first death of a minute has no pause behind it.
            let mut server = process(&two_instances(), &[]);
            let mut client = server.client();
            assert_eq!(first_of(&client.post(&infer("m"), &[], row(1))), 1.0);
            kill(workers(server.id())[0]);
            let killed = Instant::now();
            assert_eq!(first_of(&client.post(&infer("m"), &[], row(2))), 2.0);
            let took = killed.elapsed();
            let page = Page::read(server.address("http"));
            let shown = |name: &str| of_worker(&page, "m", name, "");
            (took, shown("start_seconds_sum") / shown("start_seconds_count"))
        })
        .collect();
    times.sort_by_key(|it| it.0);
    println!("until the next answer, and the mean start in seconds: {times:.3?}");
    assert!(times[2].0 <= Duration::from_millis(100), "{times:?}");
    assert!(times.iter().all(|it| it.1 <= 0.03), "{times:?}");
}

#[test]
#[ignore = "takes half a minute; the command is in docs/contributing.md"]
fn a_model_that_is_refused_for_its_deaths_answers_when_its_clients_were_told_to_come_again() {
    let parameters = [("fault", "abort"), ("fault_marker", "666")];
    let mut server = process(&Repository::identity("m", &parameters), &[]);
    let mut client = server.client();
    let mut number = 0;
    let refused = wait_for("the model to be refused", || {
        number += 1;
        // Other inputs each time: the same would be known.
        let body = row(666).replace("666,0,0,0", &format!("666,{number},0,0"));
        let reply = client.post(&infer("m"), &[], body);
        (reply.status == 503).then_some(reply)
    });
    let told: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    let began = Instant::now();
    assert_eq!(client.get("/v2/models/m/ready").status, 503);
    client.get("/v2/health/live").expect(200);
    thread::sleep(Duration::from_secs(told));
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(4))), 4.0);
    println!("told to come again after {told} s; answered after {:.1?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(45));
}
