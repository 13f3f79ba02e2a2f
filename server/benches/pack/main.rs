//! How long does it take to decide which rows run together, and what does that gain? The time of a decision, and a
//! simulation on recorded run times, beside other rules: `cargo bench -p muster --bench pack`. With `-- --check` it
//! ends with 1 where a goal is missed: of a decision on this machine, of the rest on the recorded times.
//! docs/background/performance.md explains.

mod decision;
mod recorded;
mod rules;
mod simulation;
mod texts;

use std::process::ExitCode;

use rules::Rule;
use simulation::{Outcome, simulate};
use texts::Texts;

/// Clients of the closed loop.
const CLIENTS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Of which these are compared with goals.
const MANY: usize = 64;

/// Texts, the least part of perfect packing in per cent, and the least gain over arrival order.
const GOALS: [(Texts, f64, f64); 3] =
    [(Texts::Queries, 75.0, 1.5), (Texts::Passages, 85.0, 2.2), (Texts::Mixed, 82.0, 2.8)];

/// By so much, in per cent, `pack` may be slower than another rule.
const SLOWER: f64 = 3.0;

/// By so much, in per cent, its slowest texts may be later than in order of arrival: what sorting by length costs a
/// text that fits no other.
const LATER: f64 = 10.0;

fn main() -> ExitCode {
    let mut missed = decision::print();
    for (texts, least_part, least_gain) in GOALS {
        println!("\n{}: {}", texts.name(), texts.description());
        println!("\n| Clients | Rule | Per cent of perfect | Texts/s | p99 ms | Padding % |");
        println!("|---|---|---|---|---|---|");
        for clients in CLIENTS {
            let outcomes = Rule::ALL.map(|rule| (rule, simulate(rule, texts, clients)));
            for (rule, outcome) in &outcomes {
                let Outcome { part, rate, p99, padding } = outcome;
                println!(
                    "| {clients} | {} | {part:.0} | {rate:.0} | {p99:.0} | {padding:.0} |",
                    rule.name()
                );
            }
            let [(_, pack), others @ ..] = &outcomes;
            for (rule, other) in others {
                if pack.rate * (1.0 + SLOWER / 100.0) < other.rate {
                    missed.push(format!(
                        "{}, {clients} clients: {:.0} texts/s, and {:.0} by {}",
                        texts.name(),
                        pack.rate,
                        other.rate,
                        rule.name()
                    ));
                }
            }
            if clients != MANY {
                continue;
            }
            if pack.part < least_part {
                missed.push(format!(
                    "{}: {:.0} % of perfect packing, {least_part:.0} wanted",
                    texts.name(),
                    pack.part
                ));
            }
            for (rule, other) in others {
                let (gain, slower) = (pack.rate / other.rate, pack.p99 / other.p99);
                let name = rule.name();
                println!("| | pack ÷ {name} | | {gain:.2} × | {slower:.2} × | |");
                if *rule != Rule::Arrival {
                    continue;
                }
                if gain < least_gain {
                    missed.push(format!(
                        "{}: {gain:.2} × as many texts/s as {name}, {least_gain} wanted",
                        texts.name()
                    ));
                }
                if 1.0 + LATER / 100.0 < slower {
                    missed.push(format!("{}: p99 is {slower:.2} × that of {name}", texts.name()));
                }
            }
        }
    }
    let is_checked = std::env::args().any(|it| it == "--check");
    println!();
    missed.iter().for_each(|it| println!("missed: {it}"));
    if missed.is_empty() {
        println!("every goal is met");
    }
    match is_checked && !missed.is_empty() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
