//! What lengths do to memory: one long text among short ones, which also wait for it, and texts of all lengths for
//! minutes.

use std::time::Duration;

use loadgen::Plan as LoadPlan;

use crate::{
    folder::{Folder, MINILM},
    support::{Outcome, TemporaryFolder, process::resident, server::Start, workload::answered},
    texts::{LONGEST, Mix},
    throughput::requests,
};

const CONNECTIONS: usize = 16;

/// Short texts for each long one.
const SHORT: usize = 500;

/// Most that the server may hold afterwards, as a multiple of before.
const MOST_GROWTH: f64 = 1.3;

/// Most that the 99th of a hundred texts may wait, in runs: the rest of one, one that goes first, and its own.
const MOST_RUNS: f64 = 3.0;

/// Prints what was found; the goals that are missed. `flags` are further ones of the server.
pub fn measure(flags: &[&str], quick: bool) -> Outcome<Vec<String>> {
    let repository = TemporaryFolder::new()?;
    let folder = Folder::install(MINILM, repository.path())?;
    let server = Start { flags, ..Start::new(repository.path()) }.start()?;
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
    let counts = server.counts(MINILM.name)?;
    let mixed = answered("mixed texts", &load(&lengths)?)?;
    let run = server.counts(MINILM.name)?.run_of_row_since(&counts);
    let after = resident(server.pid())?;
    server.stop()?;
    let growth = after / before;
    let [p99, p99_mixed] = [&short, &mixed].map(|it| it.latency.p99.as_secs_f64() * 1e3);
    println!(
        "\n{count} texts over {CONNECTIONS} connections: {before:.0} MiB, p99 {p99:.0} ms. With one of {LONGEST} tokens \
         after every {SHORT}: {after:.0} MiB ({growth:.2} times), p99 {p99_mixed:.0} ms ({:.2} times).",
        p99_mixed / p99
    );
    // Fewer than one text in a hundred is long, so that short ones wait no longer than the p99 of all.
    let runs = mixed.latency.p99.as_secs_f64() / run.as_secs_f64().max(f64::MIN_POSITIVE);
    println!(
        "A run takes {:.1} ms in the mean of its texts, and the p99 is {runs:.1} runs.",
        run.as_secs_f64() * 1e3
    );
    let mut missed = Vec::new();
    if growth > MOST_GROWTH {
        missed.push(format!("memory: {growth:.2} times, the goal is {MOST_GROWTH} times"));
    }
    if runs > MOST_RUNS {
        missed.push(format!("p99 of short texts: {runs:.1} runs, the goal is {MOST_RUNS} runs"));
    }
    Ok(missed)
}

/// Texts of all lengths for so long: prints how what is held grows after the first minute; the goal, where it is
/// missed. `flags` are further ones of the server.
pub fn grow(flags: &[&str], minutes: u64) -> Outcome<Vec<String>> {
    let repository = TemporaryFolder::new()?;
    let folder = Folder::install(MINILM, repository.path())?;
    let server = Start { flags, ..Start::new(repository.path()) }.start()?;
    let lengths = Mix::Mixed.lengths(2 * SHORT);
    let minute = Duration::from_secs(60);
    let load = requests(&server, &folder, &lengths)?;
    let load = LoadPlan { connections: CONNECTIONS, duration: Some(minute), ..load };
    println!("\n| Minute | Texts/s | MiB | Of the first minute |\n|---|--:|--:|--:|");
    let mut held = Vec::new();
    for number in 1..=minutes {
        let report = answered("mixed lengths", &load)?;
        held.push(resident(server.pid())?);
        let (now, first) = (held[held.len() - 1], held[0]);
        println!("| {number} | {:.0} | {now:.0} | {:.2} |", report.throughput, now / first);
    }
    server.stop()?;
    let growth = held.iter().copied().fold(0.0, f64::max) / held.first().copied().unwrap_or(1.0);
    Ok(match growth > MOST_GROWTH {
        true => vec![format!("mixed lengths: {growth:.2} times, the goal is {MOST_GROWTH} times")],
        false => Vec::new(),
    })
}
