//! What happens to a server, and what its threads do meanwhile.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use loadgen::Plan as LoadPlan;

use crate::support::{
    Outcome,
    process::{Threads, Work},
    server::Server,
    workload::{Format, Workload, answered},
};

/// Connections that are open and say nothing, and of the burst.
const QUIET: usize = 64;
const BUSY: usize = 16;

const SECOND: Duration = Duration::from_secs(1);

/// Lone requests: what is shown is the one after which most was used.
const REQUESTS: usize = 5;

/// What must not be exceeded.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// Share of one processor.
    Share(f64),
    /// Processor time.
    Time(Duration),
    None,
}

/// One line of the table.
pub struct Phase {
    pub name: String,
    pub took: Duration,
    pub goal: Goal,
    /// By the names of threads.
    pub work: BTreeMap<String, Work>,
}

impl Phase {
    pub fn total(&self) -> Work {
        let mut total = Work::default();
        self.work.values().for_each(|it| total += *it);
        total
    }
}

/// Watches the server through all of it.
pub fn measure(server: &Server, asked: &Workload, idle: Duration) -> Outcome<Vec<Phase>> {
    const STILL: Goal = Goal::Share(0.001);
    const AFTER: Goal = Goal::Time(Duration::from_millis(50));
    let watch = |name: &str, goal, wait| {
        watch(server, name, goal, || {
            thread::sleep(wait);
            Ok(())
        })
    };
    let load = asked.closed_loop(server, Format::Binary)?;
    let one = LoadPlan { count: Some(1), duration: None, ..load.clone() };
    let burst = LoadPlan { connections: BUSY, duration: Some(2 * SECOND), ..load };
    let send = |load: &LoadPlan| answered(asked.name, load).map(drop);

    // What the start has left to do is not what idleness costs.
    thread::sleep(SECOND);
    let mut phases = vec![watch("idle since its start", STILL, idle)?];
    // The first makes what is made on demand.
    send(&one)?;
    let mut after = Vec::new();
    for _ in 0..REQUESTS {
        thread::sleep(SECOND);
        let request = self::watch(server, "one request", Goal::None, || send(&one))?;
        after.push((request, watch("the second after it", AFTER, SECOND)?));
    }
    let worst = after.into_iter().max_by_key(|(_, after)| after.total().cpu);
    phases.extend(worst.into_iter().flat_map(|(request, after)| [request, after]));
    phases.push(self::watch(server, "a burst over 16 connections", Goal::None, || send(&burst))?);
    phases.push(watch("the second after it", AFTER, SECOND)?);
    phases.push(watch("idle after it", STILL, idle)?);
    let connections = connect(server)?;
    thread::sleep(SECOND);
    phases.push(watch("idle with 64 open connections", STILL, idle)?);
    drop(connections);
    Ok(phases)
}

fn watch(
    server: &Server,
    name: &str,
    goal: Goal,
    what: impl FnOnce() -> Outcome<()>,
) -> Outcome<Phase> {
    let (began, before) = (Instant::now(), Threads::read(server.pid())?);
    what()?;
    let (took, after) = (began.elapsed(), Threads::read(server.pid())?);
    Ok(Phase { name: name.to_owned(), took, goal, work: after.since(&before) })
}

/// Connections over which one request was answered.
fn connect(server: &Server) -> Outcome<Vec<TcpStream>> {
    (0..QUIET).map(|_| ask_for_health(server.address())).collect()
}

/// A connection over which the server has said that it is alive.
pub fn ask_for_health(address: SocketAddr) -> Outcome<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let mut reply = [0; 512];
    let read = stream.read(&mut reply)?;
    match reply[..read].starts_with(b"HTTP/1.1 200") {
        true => Ok(stream),
        false => Err("expected the server to be alive".into()),
    }
}
