//! The findings as Markdown.

use std::fmt::Write;

use crate::{
    FLOATS, Row,
    counters::{Count, Site},
    symbols::Symbols,
};

/// Of one direction, in bytes.
const PAYLOAD: f64 = (4 * FLOATS) as f64;

/// Most places that are named for one line of the table.
const PLACES: usize = 6;

/// Bytes per request as multiples of the tensor that goes in, and that comes out.
pub fn counts(rows: &[Row]) -> String {
    let mut out = String::from(
        "| 1 MiB in, 1 MiB out | connections | rows/run | copied | cleared | kernel: received | sent | \
         reads | writes |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let times = |count: Count| times(row, count);
        let calls = |count: Count| count.calls as f64 / row.requests as f64;
        let counts = &row.counts;
        let _ = writeln!(
            out,
            "| {}{} | {} | {:.1} | {:.2} × | {:.2} × | {:.2} × | {:.2} × | {:.1} | {:.1} |",
            row.model,
            row.place,
            row.connections,
            row.rows_per_run,
            times(counts.copied),
            times(counts.cleared),
            times(counts.received),
            times(counts.sent),
            calls(counts.received),
            calls(counts.sent),
        );
    }
    out
}

/// Bytes for each request as a multiple of the tensor.
fn times(row: &Row, count: Count) -> f64 {
    count.bytes as f64 / row.requests as f64 / PAYLOAD
}

/// What a process of its own may copy beside what a model in the server does: neither inputs, nor outputs of 64 KiB and
/// more. A part of the payload is for what else is counted.
const MOST_ADDED: f64 = 0.1;

/// Goals that are missed, in words.
pub fn missed(rows: &[Row]) -> Vec<String> {
    let missed = rows.iter().filter(|it| !it.place.is_empty()).filter_map(|apart| {
        let same = |it: &&Row| {
            it.place.is_empty() && (it.model, it.connections) == (apart.model, apart.connections)
        };
        let of = |it: &Row| times(it, it.counts.copied);
        let added = of(apart) - of(rows.iter().find(same)?);
        (MOST_ADDED < added).then(|| {
            let Row { model, place, connections, .. } = apart;
            format!("{model}{place} over {connections}: {added:.2} × copied besides, 0 wanted")
        })
    });
    missed.collect()
}

/// Who copies, with the way there.
pub fn sites(rows: &[Row], symbols: &Symbols) -> String {
    let mut out = String::new();
    for row in rows {
        let _ = writeln!(out, "{} over {}:\n", row.model, row.connections);
        for site in row.counts.sites().into_iter().take(PLACES) {
            let times = site.count.bytes as f64 / row.requests as f64 / PAYLOAD;
            let what = if site.cleared { "cleared" } else { "copied" };
            let calls = site.count.calls as f64 / row.requests as f64;
            let _ =
                writeln!(out, "- {times:.2} × {what} in {calls:.2} calls: {}", way(site, symbols));
        }
        out += "\n";
    }
    out
}

/// The names from the copy outwards; those of the standard library say nothing about the place.
fn way(site: &Site, symbols: &Symbols) -> String {
    const FOREIGN: [&str; 4] = ["core::", "alloc::", "std::", "<"];
    let names = site.frames.iter().flat_map(|&it| symbols.names(it));
    let ours = names.filter(|name| !FOREIGN.iter().any(|it| name.starts_with(it)));
    let mut names: Vec<_> = ours.map(|it| format!("`{it}`")).collect();
    names.dedup();
    names.truncate(6);
    names.join(" ← ")
}
