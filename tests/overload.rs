//! More work than the server can do: what it does is useful, what it refuses it refuses quickly, and health
//! checks do not wait for either.
//!
//! A test binary of its own: what is measured here must not compete with other tests.
// The lint knows test functions, not the functions they share.
#![allow(clippy::unwrap_used)]

use std::{
    net::SocketAddr,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use test_support::{Client, Page, Process, Repository, first_of, infer, row, wait_for};

/// One request of an open loop.
struct Outcome {
    status: u16,
    retry_after: bool,
    /// From the start of the loop to the moment at which the request should have been sent.
    scheduled: Duration,
    /// The same, to the moment at which it was.
    sent: Duration,
    /// The same, to its answer.
    answered: Duration,
}

/// Sends `rate` requests a second, evenly, whether or not earlier ones have been answered, until `length` is
/// over.
fn open_loop(address: SocketAddr, rate: u32, length: Duration) -> Vec<Outcome> {
    // More than can be waiting for an answer at one time, so that there is always a free one.
    const CONNECTIONS: usize = 64;
    let requests = (length.as_secs_f64() * f64::from(rate)) as u32;
    let next = AtomicU32::new(0);
    let outcomes = Mutex::new(Vec::new());
    let body = row(1);
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| Client::connect(address)).collect();
    let start = Instant::now();
    thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                let client = client;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if requests <= number {
                        return;
                    }
                    let scheduled = Duration::from_secs(1) * number / rate;
                    thread::sleep(scheduled.saturating_sub(start.elapsed()));
                    let sent = start.elapsed();
                    let reply = client.post(&infer("m"), &[], &body);
                    outcomes.lock().unwrap().push(Outcome {
                        status: reply.status,
                        retry_after: reply.header("retry-after").is_some(),
                        scheduled,
                        sent,
                        answered: start.elapsed(),
                    });
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// The time that so many of a hundred stay below.
fn percentile(percent: usize, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * percent / 100]
}

/// The time that 99 in 100 health checks stay below.
fn p99_of_health(address: SocketAddr, path: &str, checks: usize) -> Duration {
    let mut client = Client::connect(address);
    let times = (0..checks).map(|_| {
        let began = Instant::now();
        client.get(path).expect(200);
        began.elapsed()
    });
    percentile(99, times.collect())
}

/// What a measurement says, from the first of a few attempts that says so. Whatever else runs on the machine
/// can only make the numbers worse; what is wrong with the server is wrong every time.
#[track_caller]
fn check_measured(mut attempt: impl FnMut() -> Result<(), String>) {
    const ATTEMPTS: usize = 4;
    let mut failures = Vec::new();
    for _ in 0..ATTEMPTS {
        match attempt() {
            Ok(()) => return,
            Err(failure) => failures.push(failure),
        }
    }
    panic!("every time: {failures:#?}");
}

fn ensure(holds: bool, text: String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text) }
}

#[test]
fn at_ten_times_its_capacity_the_server_answers_nearly_as_many_in_time_as_it_could() {
    // One run takes 50 ms, one instance, nothing is merged: 20 requests a second.
    const CAPACITY: f64 = 20.0;
    const LENGTH: Duration = Duration::from_secs(4);
    let config =
        "backend: \"identity\" max_batch_size: 1 instance_group { count: 1 kind: KIND_CPU }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        parameters { key: \"latency_alpha_us\" value: { string_value: \"50000\" } }";
    let repository = Repository::new().model("m", config);
    let mut server = Process::start(&repository, &["--max-queue-wait-ms=1000"], &[]);
    server.wait_ready();
    let address = server.address("http");
    check_measured(|| {
        let refused_before = Page::read(address).failures("m", "REJECTED");
        // What this machine takes for next to nothing, with everything else that runs on it.
        let noise = p99_of_health(address, "/v2/health/live", 200);
        let outcomes = open_loop(address, 200, LENGTH);
        let in_time = |it: &&Outcome| {
            let took = it.answered - it.scheduled;
            it.status == 200 && it.answered < LENGTH && took <= Duration::from_secs(1)
        };
        let per_second = |count: usize| count as f64 / LENGTH.as_secs_f64();
        let good = per_second(outcomes.iter().filter(in_time).count());
        // On a machine with much else to do a run takes longer than it says.
        let answered = |it: &&Outcome| it.status == 200 && it.answered < LENGTH;
        let possible = per_second(outcomes.iter().filter(answered).count());
        let refused: Vec<&Outcome> = outcomes.iter().filter(|it| it.status != 200).collect();
        let times = || refused.iter().map(|it| it.answered - it.sent).collect();
        let (median, p99) = (percentile(50, times()), percentile(99, times()));
        eprintln!(
            "{good} good answers a second, {possible} in all, of {CAPACITY}; refused in {median:?}, \
             {p99:?} (p99)"
        );
        assert!(refused.iter().all(|it| it.status == 503 && it.retry_after));
        assert!(refused.len() > 500, "{}", refused.len());
        let counted = Page::read(address).failures("m", "REJECTED") - refused_before;
        assert_eq!(counted, refused.len() as f64);

        // And then it is over at once.
        let began = Instant::now();
        assert_eq!(first_of(&Client::connect(address).post(&infer("m"), &[], row(7))), 7.0);
        let after = began.elapsed();
        // The server has no pauses, and nothing that it does is too late.
        ensure(possible >= 0.8 * CAPACITY, format!("{possible} answers a second"))?;
        ensure(good >= 0.925 * possible, format!("{good} good answers a second of {possible}"))?;
        let milliseconds = |it| Duration::from_millis(it) + noise;
        ensure(median < milliseconds(5), format!("refused in {median:?} (median)"))?;
        ensure(p99 < milliseconds(100), format!("refused in {p99:?} (p99)"))?;
        ensure(after < Duration::from_millis(200) + noise, format!("{after:?} after the load"))
    });
}

#[test]
fn health_checks_are_answered_while_every_core_computes() {
    let config =
        "backend: \"identity\" max_batch_size: 1 instance_group { count: 4 kind: KIND_CPU }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        parameters { key: \"latency_alpha_us\" value: { string_value: \"300000\" } }
        parameters { key: \"latency_mode\" value: { string_value: \"burn\" } }";
    let repository = Repository::new().model("m", config);
    let mut server = Process::start(&repository, &["--max-queue-wait-ms=0"], &[]);
    server.wait_ready();
    let (http, ping) = (server.address("http"), server.address("sagemaker"));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut client = Client::connect(http);
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(first_of(&client.post(&infer("m"), &[], row(1))), 1.0);
                }
            });
        }
        let _done = AtEnd(&done);
        wait_busy(http);
        check_measured(|| {
            let p99 = p99_of_health(ping, "/ping", 300);
            eprintln!("/ping while every core computes: {p99:?} (p99)");
            ensure(p99 < Duration::from_millis(100), format!("/ping: {p99:?}"))
        });
    });
}

/// Ends the load of a test, also of one that fails.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until more is asked of the model than its instances can do at once.
#[track_caller]
fn wait_busy(address: SocketAddr) {
    wait_for("every instance to be busy", || {
        let depth = Page::read(address).of("m", "muster_queue_depth");
        (0.0 < depth).then_some(())
    });
}
