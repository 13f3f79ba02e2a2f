//! The generator against a small server in the same process, which behaves as each test says.
// The lint knows test functions, not the functions they share.
#![allow(clippy::unwrap_used)]

mod answers; // checks, large bodies, the command line
mod comparison; // ratios of two servers
mod cost; // what the generator itself costs (ignored: run it in a release build)
mod failures; // refusals, hang-ups, silence
mod loops; // closed and open loop, latencies, warm-up
mod server; // the small server

use std::time::Duration;

use muster_bench::{Arrivals, Load, Method, Plan, Request};
use server::Server;

/// A closed loop of `count` requests over `connections`.
fn closed(server: &Server, connections: usize, count: u64) -> Plan {
    let request = Request::new(Method::Post, "/x").unwrap().body("ping");
    let mut plan = Plan::new(server.target(), vec![request]);
    plan.connections = connections;
    plan.duration = None;
    plan.count = Some(count);
    plan
}

/// Constant arrivals for `duration`.
fn open(server: &Server, connections: usize, rate: f64, duration: Duration) -> Plan {
    let mut plan = closed(server, connections, 1);
    plan.load = Load::Open { rate, arrivals: Arrivals::Constant };
    plan.duration = Some(duration);
    plan.count = None;
    plan
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
