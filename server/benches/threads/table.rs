//! The findings as Markdown.

use std::fmt::Write;

use crate::{
    cell::{BASE, Cell},
    measure::{Findings, Row, cpu},
    support::{micros, short, spread::Spread},
};

/// How near the default must come to the best.
const GOAL: f64 = 0.9;

/// Every cell, the best first.
pub fn grid(findings: &Findings) -> String {
    let mut out = format!(
        "| {}: instances × intra × inter | requests/s | p50 µs | p99 µs | server CPU µs | × base | \
         1 connection: requests/s | p50 µs | p99 µs | server CPU µs | × base |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        findings.model
    );
    let base = findings.rows.iter().find(|it| it.cell == BASE);
    let mut rows: Vec<&Row> = findings.rows.iter().collect();
    rows.sort_by(|a, b| b.reports[0].throughput.total_cmp(&a.reports[0].throughput));
    for row in rows {
        let mark = if row.cell == BASE { " (base)" } else { "" };
        let _ = write!(out, "| {}{mark}", row.cell);
        if row.cell == Cell::Default {
            let _ = write!(out, " ({} × {})", row.plan.instances, row.plan.threads);
        }
        for (load, report) in row.reports.iter().enumerate() {
            let ratio = base.map_or(f64::NAN, |it| report.throughput / it.reports[load].throughput);
            let _ = write!(
                out,
                " | {} | {} | {} | {} | {ratio:.2}",
                short(report.throughput),
                short(micros(report.latency.p50)),
                short(micros(report.latency.p99)),
                short(cpu(report)),
            );
        }
        out += " |\n";
    }
    out
}

/// The default beside the best cells, and whether it is near enough to them.
pub fn duels(findings: &Findings) -> String {
    let mut out = format!(
        "| {}: the default over | requests/s, 16 connections | CPU/request | requests/s, 1 connection | \
         CPU/request |\n|---|--:|--:|--:|--:|\n",
        findings.model
    );
    for duel in &findings.duels {
        let cell = |values: &[f64]| Spread::new(values.iter().copied()).percent();
        let itself = if duel.rival == Cell::Default { " itself: noise" } else { "" };
        let _ = writeln!(
            out,
            "| {}{itself} | {} | {} | {} | {} |",
            duel.rival,
            cell(&duel.rate[0]),
            cell(&duel.cpu[0]),
            cell(&duel.rate[1]),
            cell(&duel.cpu[1]),
        );
    }
    let verdict = |load: usize| {
        let rivals = || findings.duels.iter().filter(|it| it.rival != Cell::Default);
        let median = |values: &[f64]| Spread::new(values.iter().copied()).median;
        let rate = rivals().map(|it| median(&it.rate[load])).fold(f64::INFINITY, f64::min);
        let cpu = rivals().map(|it| median(&it.cpu[load])).fold(f64::NEG_INFINITY, f64::max);
        let verdict = if GOAL <= rate { "reached" } else { "missed" };
        let (rate, cpu) = (rate * 100.0, cpu * 100.0);
        format!("{rate:.0} % of the best ({verdict}) with {cpu:.0} % of the least processor time")
    };
    let _ = writeln!(
        out,
        "\n{}: over 16 connections the default is at {}; over one at {}. Other programs used {:.0} % of the \
         machine, steal {:.1} %.\n",
        findings.model,
        verdict(0),
        verdict(1),
        findings.others * 100.0,
        findings.steal * 100.0,
    );
    out
}
