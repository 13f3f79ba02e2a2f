//! What everybody else asks while the faults are made.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::support::{Client, first_of, infer, row};

/// Clients: each asks both canaries by turns.
pub const CLIENTS: u32 = 4;

/// A client asks so often at most: more is the load generator's load, not the server's.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(4);

/// What others were answered meanwhile.
#[derive(Default)]
pub struct Seen {
    pub latencies: Vec<Duration>,
    pub wrong: Vec<String>,
}

impl Seen {
    /// The latency that one in a hundred exceeds.
    pub fn p99(&mut self) -> Duration {
        self.latencies.sort_unstable();
        let at = self.latencies.len() * 99 / 100;
        self.latencies.get(at).copied().unwrap_or_default()
    }
}

/// Clients that ask by a timetable, whether the server keeps up or not, and one that asks whether it lives.
pub struct Background {
    is_over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Seen>>,
    prober: JoinHandle<Seen>,
}

impl Background {
    /// Each client asks once in that interval.
    pub fn start(http: SocketAddr, interval: Duration) -> Background {
        let is_over = Arc::<AtomicBool>::default();
        let start = Instant::now();
        let clients = (0..CLIENTS).map(|number| {
            let is_over = is_over.clone();
            thread::spawn(move || {
                let (mut client, mut seen) = (Client::connect(http), Seen::default());
                for turn in 0u32.. {
                    if is_over.load(Relaxed) {
                        break;
                    }
                    let due = start + interval * turn + interval * number / CLIENTS;
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    let model = ["canary", "canary_apart"][turn as usize % 2];
                    let value = (turn * CLIENTS + number) as i32 % 1_000_000 + 1000;
                    check_answer(&mut client, http, model, value, &mut seen.wrong);
                    seen.latencies.push(due.elapsed());
                }
                seen
            })
        });
        let clients = clients.collect();
        let over = is_over.clone();
        let prober = thread::spawn(move || {
            let mut seen = Seen::default();
            while !over.load(Relaxed) {
                let asked = Instant::now();
                let reply = Client::try_connect(http)
                    .and_then(|mut it| it.try_request("GET", "/v2/health/live", &[], None));
                match reply {
                    Ok(Some(reply)) if reply.status == 200 => {}
                    Ok(other) => seen.wrong.push(format!("{:?}", other.map(|it| it.status))),
                    Err(error) => seen.wrong.push(error.to_string()),
                }
                seen.latencies.push(asked.elapsed());
                thread::sleep(Duration::from_millis(20));
            }
            seen
        });
        Background { is_over, clients, prober }
    }

    /// What clients have seen, and what the prober has.
    pub fn stop(self) -> (Seen, Seen) {
        self.is_over.store(true, Relaxed);
        let mut all = Seen::default();
        for client in self.clients {
            let seen = client.join().unwrap();
            all.latencies.extend(seen.latencies);
            all.wrong.extend(seen.wrong);
        }
        (all, self.prober.join().unwrap())
    }
}

fn check_answer(
    client: &mut Client,
    http: SocketAddr,
    model: &str,
    value: i32,
    wrong: &mut Vec<String>,
) {
    let id = format!("r{value}");
    let body = format!("{{\"id\":\"{id}\",{}", &row(value)[1..]);
    match client.try_request("POST", &infer(model), &[], Some(body.as_bytes())) {
        Ok(Some(reply)) if reply.status == 200 => {
            let reply = reply.json();
            let is_right = reply["id"] == *id && reply["outputs"][0]["data"][0] == f64::from(value);
            if !is_right {
                wrong.push(format!("{model}, {value}: {reply}"));
            }
        }
        other => {
            let told = match other {
                Ok(Some(reply)) => format!("{} {}", reply.status, reply.text()),
                Ok(None) => "closed".to_owned(),
                Err(error) => error.to_string(),
            };
            wrong.push(format!("{model}, {value}: {told}"));
            *client = Client::connect(http);
        }
    }
}

/// The time between two requests of a client at half of what all of them get answered one after the other.
pub fn half_load(http: SocketAddr) -> Duration {
    let mut client = Client::connect(http);
    let began = Instant::now();
    let mut asked = 0;
    while began.elapsed() < Duration::from_secs(1) {
        let model = ["canary", "canary_apart"][asked % 2];
        assert_eq!(first_of(&client.post(&infer(model), &[], row(3))), 3.0);
        asked += 1;
    }
    let one = began.elapsed() / asked as u32;
    (one * 2 * CLIENTS).max(SHORTEST_INTERVAL)
}
