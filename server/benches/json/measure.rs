//! Two ways to do the same, measured in turns.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// How often each way is measured.
pub const ROUNDS: usize = 31;

/// Nanoseconds of processor time of each way: medians over the rounds, and the median of their ratio within a
/// round.
pub struct Compared {
    pub ours: f64,
    pub theirs: f64,
    pub ratio: f64,
}

/// Does each `times` times a round.
pub fn compare<A, B>(
    times: usize,
    mut ours: impl FnMut() -> A,
    mut theirs: impl FnMut() -> B,
) -> Compared {
    let round = |_| {
        let (ours, theirs) = (cpu(times, &mut ours), cpu(times, &mut theirs));
        (ours, theirs, ours / theirs)
    };
    // The first round is for the caches.
    let rounds: Vec<_> = (0..=ROUNDS).map(round).skip(1).collect();
    Compared {
        ours: median(rounds.iter().map(|it| it.0)),
        theirs: median(rounds.iter().map(|it| it.1)),
        ratio: median(rounds.iter().map(|it| it.2)),
    }
}

fn cpu<T>(times: usize, run: &mut impl FnMut() -> T) -> f64 {
    let started = now();
    for _ in 0..times {
        black_box(run());
    }
    (now() - started) / times as f64
}

fn now() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
