//! Clients that send their next text when they have the answer to the last one, and one instance.

use crate::{
    recorded::{BEST, costs},
    rules::Rule,
    texts::{Lengths, Texts},
};

/// Texts that are answered in one simulation, of which the first are not counted.
const ANSWERED: usize = 20_000;
const FIRST: usize = 2_000;

/// What came out.
pub struct Outcome {
    /// Per cent of what perfect packing would do: every token at the best price, and no padding.
    pub part: f64,
    /// Texts a second.
    pub rate: f64,
    /// Milliseconds that 99 of 100 texts stay below.
    pub p99: f64,
    /// Per cent of the tokens of runs that are padding.
    pub padding: f64,
}

pub fn simulate(rule: Rule, texts: Texts, clients: usize) -> Outcome {
    let costs = costs();
    let mut lengths = Lengths::new(texts);
    let mut waiting: Vec<(f64, usize)> = (0..clients).map(|_| (0.0, lengths.next())).collect();
    let (mut now, mut answered, mut began) = (0.0, 0, None);
    let (mut tokens, mut padded, mut stays) = (0, 0, Vec::new());
    while answered < ANSWERED {
        if FIRST <= answered && began.is_none() {
            began = Some((now, answered));
            (tokens, padded) = (0, 0);
            stays.clear();
        }
        let of: Vec<usize> = waiting.iter().map(|it| it.1).collect();
        let run = rule.next_run(&of, &costs);
        let longest = run.iter().map(|it| of[*it]).max().unwrap_or(0);
        now += f64::from(costs.seconds(run.len(), longest));
        for at in run.iter().rev() {
            let (came, length) = waiting.remove(*at);
            stays.push(now - came);
            tokens += length;
        }
        padded += run.len() * longest;
        answered += run.len();
        waiting.extend(run.iter().map(|_| (now, lengths.next())));
    }
    let (since, before) = began.unwrap_or((0.0, 0));
    let took = now - since;
    stays.sort_unstable_by(f64::total_cmp);
    Outcome {
        part: 100.0 * tokens as f64 * BEST / 1e6 / took,
        rate: (answered - before) as f64 / took,
        p99: 1e3 * stays[stays.len() * 99 / 100],
        padding: 100.0 * (padded - tokens) as f64 / padded as f64,
    }
}
