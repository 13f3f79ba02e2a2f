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
        let times = |count: Count| count.bytes as f64 / row.requests as f64 / PAYLOAD;
        let calls = |count: Count| count.calls as f64 / row.requests as f64;
        let counts = &row.counts;
        let _ = writeln!(
            out,
            "| {} | {} | {:.1} | {:.2} × | {:.2} × | {:.2} × | {:.2} × | {:.1} | {:.1} |",
            row.model,
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
