//! The findings as Markdown: medians over the rounds, and how far the rounds lie apart.

use std::fmt::Write;

use crate::{
    measure::{Measured, Round},
    support::{micros, short, spread::Spread},
};

/// Throughput, latency and processor time over HTTP.
pub fn served(rows: &[Measured]) -> String {
    let mut out = String::from(
        "| Served | connections | requests/s | ± | p50 µs | p99 µs | longest ms | server CPU µs | \
         generator CPU µs | generator | steal |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let rate = row.of(|it| it.served.throughput);
        let _ = writeln!(
            out,
            "| {} | {} | {:.0} | {:.0} % | {} | {} | {:.1} | {:.1} | {:.1} | {:.0} % | {:.1} % |",
            row.name(),
            row.case.connections,
            rate.median,
            rate.half_width() * 100.0,
            short(row.of(|it| micros(it.served.latency.p50)).median),
            short(row.of(|it| micros(it.served.latency.p99)).median),
            row.of(|it| micros(it.served.latency.max)).high / 1e3,
            row.of(server_cpu).median,
            row.of(|it| micros(it.served.generator.per_request)).median,
            row.of(|it| it.served.generator.cores).median * 100.0,
            row.steal * 100.0,
        );
    }
    out
}

/// The server against the loop, in rows per second and in rows per second of processor time.
pub fn beside_the_loop(rows: &[Measured]) -> String {
    let mut out = String::from(
        "| Beside the bare loop | connections | instances × threads | rows/run | loops | \
         1 row/run: rows/s | CPU µs | as batched: rows/s | CPU µs | served/bare | … per CPU-second |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        // What was not run in batches has no second pair of numbers.
        let batched = row.rounds.iter().all(|it| it.batched.is_some()).then(|| {
            let pace = |it: &Round| it.batched.unwrap_or(it.single);
            let rate = row.of(|it| pace(it).rows).median;
            (rate, row.of(|it| micros(pace(it).cpu_per_row)).median)
        });
        let (batched_rows, batched_cpu) = batched.map_or_else(
            || ("–".to_owned(), "–".to_owned()),
            |(rows, cpu)| (format!("{rows:.0}"), short(cpu)),
        );
        let _ = writeln!(
            out,
            "| {} | {} | {} × {} | {:.1} | {} | {:.0} | {} | {batched_rows} | {batched_cpu} | {} | {} |",
            row.name(),
            row.case.connections,
            row.plan.instances,
            row.plan.threads,
            row.of(|it| it.rows_per_run).median,
            row.loops,
            row.of(|it| it.single.rows).median,
            short(row.of(|it| micros(it.single.cpu_per_row)).median),
            row.of(|it| it.served.throughput / best_rate(it)).percent(),
            row.of(|it| least_cpu(it) / server_cpu(it)).percent(),
        );
    }
    out
}

/// Where the server's processor time goes, per request.
pub fn split(rows: &[Measured]) -> String {
    let mut out = String::from(
        "| Split | connections | user µs | system µs | waits | preempted |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let usage = |of: fn(&loadgen::ServerUsage) -> f64| {
            row.of(|it| it.served.server.as_ref().map_or(f64::NAN, of)).median
        };
        let _ = writeln!(
            out,
            "| {} | {} | {:.1} | {:.1} | {:.2} | {:.2} |",
            row.name(),
            row.case.connections,
            usage(|it| micros(it.cpu.per_request) - micros(it.system_per_request)),
            usage(|it| micros(it.system_per_request)),
            usage(|it| it.voluntary_switches_per_request),
            usage(|it| it.involuntary_switches_per_request),
        );
    }
    out
}

impl Measured {
    fn name(&self) -> String {
        format!("{}, {}", self.case.model, self.case.format)
    }

    fn of(&self, value: impl Fn(&Round) -> f64) -> Spread {
        Spread::new(self.rounds.iter().map(value))
    }
}

/// Per request; not a number where the kernel did not say.
fn server_cpu(round: &Round) -> f64 {
    round.served.server.map_or(f64::NAN, |it| micros(it.cpu.per_request))
}

/// Of the loop in whichever way it is faster: the server could have run the model so, too.
fn best_rate(round: &Round) -> f64 {
    round.batched.map_or(round.single.rows, |it| it.rows.max(round.single.rows))
}

/// Of the loop in whichever way it is cheaper, per row.
fn least_cpu(round: &Round) -> f64 {
    let single = micros(round.single.cpu_per_row);
    round.batched.map_or(single, |it| micros(it.cpu_per_row).min(single))
}
