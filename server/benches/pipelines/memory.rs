//! What one long text among short ones does: to what the server holds, and to the latency of the short ones.

use std::fs;

use loadgen::Plan as LoadPlan;

use crate::{
    folder::{Folder, MINILM},
    support::{Outcome, TemporaryFolder, server::Start, workload::answered},
    texts::{LONGEST, Mix},
    throughput::requests,
};

const CONNECTIONS: usize = 16;

/// Short texts for each long one.
const SHORT: usize = 500;

/// Most that the server may hold afterwards, as a multiple of before.
const MOST_GROWTH: f64 = 1.3;

/// Prints what was found; the goals that are missed.
pub fn measure(quick: bool) -> Outcome<Vec<String>> {
    let repository = TemporaryFolder::new()?;
    let folder = Folder::install(MINILM, repository.path())?;
    let server = Start::new(repository.path()).start()?;
    let count = if quick { 1_000 } else { 10_000 };
    let mut lengths = Mix::Queries.lengths(SHORT);
    eprintln!("short texts, then a long one among {SHORT} ..");
    let load = |lengths: &[usize]| -> Outcome<LoadPlan> {
        let load = requests(&server, &folder, lengths)?;
        Ok(LoadPlan { connections: CONNECTIONS, count: Some(count), duration: None, ..load })
    };
    let short = answered("short texts", &load(&lengths)?)?;
    let before = resident(server.pid())?;
    lengths.push(LONGEST);
    let mixed = answered("mixed texts", &load(&lengths)?)?;
    let after = resident(server.pid())?;
    server.stop()?;
    let growth = after / before;
    let [p99, p99_mixed] = [&short, &mixed].map(|it| it.latency.p99.as_secs_f64() * 1e3);
    println!(
        "\n{count} texts over {CONNECTIONS} connections: {before:.0} MiB, p99 {p99:.0} ms. With one of {LONGEST} tokens \
         after every {SHORT}: {after:.0} MiB ({growth:.2} times), p99 {p99_mixed:.0} ms ({:.2} times).",
        p99_mixed / p99
    );
    Ok(match growth > MOST_GROWTH {
        true => vec![format!("memory: {growth:.2} times, the goal is {MOST_GROWTH} times")],
        false => Vec::new(),
    })
}

/// MiB that the process holds.
fn resident(pid: u32) -> Outcome<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|it| it.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes = line.split_whitespace().nth(1).ok_or("no number in VmRSS")?;
    Ok(kilobytes.parse::<f64>()? / 1024.0)
}
