//! The time of one decision.

use std::{hint::black_box, time::Instant};

use crate::{
    recorded::costs,
    rules::Rule,
    texts::{Lengths, Texts},
};

/// Queues of which the median is shown.
const QUEUES: usize = 2_000;

/// Rows that wait, and the goal in microseconds.
const SIZES: [(usize, f64); 3] = [(8, f64::INFINITY), (64, 10.0), (256, 60.0)];

/// Prints a table; the goals that are missed.
pub fn print() -> Vec<String> {
    println!("Median of {QUEUES} queues; wall time of one thread.\n");
    println!("| Rows that wait | Texts | µs a decision | Goal |");
    println!("|---|---|---|---|");
    let (costs, mut missed) = (costs(), Vec::new());
    for (rows, goal) in SIZES {
        for texts in [Texts::Queries, Texts::Passages, Texts::Mixed] {
            let mut lengths = Lengths::new(texts);
            let mut times: Vec<f64> = (0..QUEUES)
                .map(|_| {
                    let queue: Vec<usize> = (0..rows).map(|_| lengths.next()).collect();
                    let started = Instant::now();
                    black_box(Rule::Pack.next_run(black_box(&queue), &costs));
                    started.elapsed().as_secs_f64() * 1e6
                })
                .collect();
            times.sort_unstable_by(f64::total_cmp);
            let (name, median) = (texts.name(), times[QUEUES / 2]);
            if goal < median {
                missed.push(format!(
                    "{name}, {rows} rows that wait: {median:.1} µs a decision, {goal:.0} wanted"
                ));
            }
            let goal = if goal.is_finite() { format!("{goal:.0}") } else { String::new() };
            println!("| {rows} | {name} | {median:.1} | {goal} |");
        }
    }
    missed
}
