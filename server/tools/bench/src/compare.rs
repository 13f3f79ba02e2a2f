//! Is one server faster than another? Blocks in ABBA order, ratios of neighbours, and an interval for
//! their median.

use std::time::Duration;

use serde::Serialize;

use crate::{Error, Plan, Report, random::Random};

/// Resamples of the bootstrap.
const RESAMPLES: usize = 10_000;
/// With fewer pairs all of them lie on one side of the truth more than one time in twenty, and no
/// interval between them can be one of 95 %.
const FEWEST_PAIRS: usize = 6;

/// How a comparison is laid out. The length of a block and its warm-up are those of the plans.
#[derive(Debug, Clone, Copy)]
pub struct Blocks {
    /// Pairs of blocks, run as AB, BA, AB, … so that a drift of the machine falls on both alike; 20 or more
    /// for a claim.
    pub pairs: usize,
    /// Seed of the resampling.
    pub seed: u64,
    /// A pair is dropped if more than this share of the machine's time was stolen in either of its blocks.
    pub most_steal: f64,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { pairs: 20, seed: 0, most_steal: 0.01 }
    }
}

/// A ratio B / A over all pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// Lower end of its 95 % bootstrap interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Ratio {
    /// The median of ratios with its interval; `None` without any.
    pub fn of(mut ratios: Vec<f64>, seed: u64) -> Option<Ratio> {
        ratios.retain(|it| it.is_finite());
        let median = median(&mut ratios)?;
        let mut random = Random::new(seed);
        let mut medians: Vec<f64> = Vec::with_capacity(RESAMPLES);
        let mut resample = Vec::with_capacity(ratios.len());
        for _ in 0..RESAMPLES {
            resample.clear();
            let draws = (0..ratios.len()).map(|_| random.below(ratios.len() as u64) as usize);
            resample.extend(draws.filter_map(|index| ratios.get(index).copied()));
            medians.extend(self::median(&mut resample));
        }
        medians.sort_by(f64::total_cmp);
        let low = medians.get(RESAMPLES / 40).copied()?;
        let high = medians.get(RESAMPLES - 1 - RESAMPLES / 40).copied()?;
        Some(Ratio { median, low, high })
    }

    /// Does the interval exclude 1? Only then may a difference be claimed.
    pub fn differs(&self) -> bool {
        !(self.low..=self.high).contains(&1.0)
    }
}

/// What a server did in an ordinary block: medians over the pairs that count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Typical {
    /// Replies per second.
    pub throughput: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// Latency that 99 of 100 replies do not exceed, in microseconds.
    pub p99_us: f64,
    /// Processor time of the server per reply in microseconds; `None` unless its plan names a process.
    pub server_cpu_per_request_us: Option<f64>,
    /// Processor time of the generator per reply in microseconds.
    pub generator_cpu_per_request_us: f64,
}

impl Typical {
    fn of(blocks: &[&Report]) -> Typical {
        let middle = |of: &dyn Fn(&Report) -> Option<f64>| {
            median(&mut blocks.iter().filter_map(|it| of(it)).collect::<Vec<f64>>())
        };
        let always = |of: &dyn Fn(&Report) -> f64| middle(&|it| Some(of(it))).unwrap_or(0.0);
        Typical {
            throughput: always(&|it| it.throughput),
            p50_us: always(&|it| micros(it.latency.p50)),
            p99_us: always(&|it| micros(it.latency.p99)),
            server_cpu_per_request_us: middle(&|it| it.server.map(|it| micros(it.cpu.per_request))),
            generator_cpu_per_request_us: always(&|it| micros(it.generator.per_request)),
        }
    }
}

/// Two servers, side by side.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Address of A.
    pub a: String,
    /// Address of B.
    pub b: String,
    /// Pairs that count.
    pub pairs: usize,
    /// Pairs that do not, for stolen time.
    pub dropped: usize,
    /// Replies per second, B / A like the other ratios.
    pub throughput: Ratio,
    /// Median latency.
    pub p50: Ratio,
    /// The server's processor time per request; `None` unless both plans name a process.
    pub server_cpu: Option<Ratio>,
    /// What A did.
    pub typical_a: Typical,
    /// What B did.
    pub typical_b: Typical,
    /// Reasons to doubt the ratios; those of a block begin with its server's letter and its number.
    pub warnings: Vec<String>,
    /// All blocks of A in their order, those of dropped pairs included.
    pub blocks_a: Vec<Report>,
    /// The same of B: the entries of one index are a pair.
    pub blocks_b: Vec<Report>,
}

/// Runs two plans in interleaved blocks. Blocks for the time of all of them.
///
/// # Errors
/// Those of [`Plan::run`]; and when no pair is left, or a server answered nothing.
pub fn compare(a: &Plan, b: &Plan, blocks: &Blocks) -> Result<Comparison, Error> {
    let mut blocks_a = Vec::with_capacity(blocks.pairs);
    let mut blocks_b = Vec::with_capacity(blocks.pairs);
    for pair in 0..blocks.pairs {
        if pair % 2 == 0 {
            blocks_a.push(a.run()?);
            blocks_b.push(b.run()?);
        } else {
            blocks_b.push(b.run()?);
            blocks_a.push(a.run()?);
        }
    }
    summarise(blocks_a, blocks_b, blocks)
}

fn summarise(
    blocks_a: Vec<Report>,
    blocks_b: Vec<Report>,
    blocks: &Blocks,
) -> Result<Comparison, Error> {
    let quiet = |it: &Report| it.steal <= blocks.most_steal;
    let pairs: Vec<(&Report, &Report)> =
        blocks_a.iter().zip(&blocks_b).filter(|(a, b)| quiet(a) && quiet(b)).collect();
    let [(first_a, first_b), ..] = pairs.as_slice() else {
        return Err(Error::Compare(format!(
            "no pair of blocks is left: in each of {} more than {} % of the time was stolen",
            blocks_a.len(),
            blocks.most_steal * 100.0
        )));
    };
    let ratio = |of: &dyn Fn(&Report) -> f64| {
        Ratio::of(pairs.iter().map(|(a, b)| of(b) / of(a)).collect(), blocks.seed)
    };
    let silent = || Error::Compare("a server answered no request with a 2xx status".to_owned());
    let (of_a, of_b): (Vec<&Report>, Vec<&Report>) = pairs.iter().copied().unzip();
    let server_cpu = ratio(&|it| it.server.map_or(f64::NAN, |it| micros(it.cpu.per_request)));
    Ok(Comparison {
        a: first_a.target.clone(),
        b: first_b.target.clone(),
        pairs: pairs.len(),
        dropped: blocks_a.len() - pairs.len(),
        throughput: ratio(&|it| it.throughput).ok_or_else(silent)?,
        p50: ratio(&|it| micros(it.latency.p50)).ok_or_else(silent)?,
        server_cpu,
        typical_a: Typical::of(&of_a),
        typical_b: Typical::of(&of_b),
        warnings: warnings(&blocks_a, &blocks_b, pairs.len()),
        blocks_a,
        blocks_b,
    })
}

fn warnings(blocks_a: &[Report], blocks_b: &[Report], pairs: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    if pairs < FEWEST_PAIRS {
        warnings.push(format!(
            "an interval of 95 % needs {FEWEST_PAIRS} pairs or more, given {pairs}: these are too narrow"
        ));
    }
    for (letter, blocks) in [("A", blocks_a), ("B", blocks_b)] {
        for (block, report) in blocks.iter().enumerate() {
            warnings.extend(report.warnings.iter().map(|it| format!("{letter}{block}: {it}")));
        }
    }
    warnings
}

fn micros(value: Duration) -> f64 {
    value.as_nanos() as f64 / 1e3
}

/// Sorts. The mean of the middle two where there is no middle; `None` for nothing.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    match values.len() % 2 {
        0 => Some((*values.get(middle - 1)? + upper) / 2.0),
        _ => Some(upper),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(centre: f64, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..20).map(|_| centre * (1.0 + 0.1 * (random.unit() - 0.5))).collect()
    }

    #[test]
    fn noise_alone_is_no_difference_and_a_shift_is_one() {
        let same = Ratio::of(noisy(1.0, 1), 0).unwrap();
        assert!(!same.differs(), "{same:?}");
        let faster = Ratio::of(noisy(1.1, 1), 0).unwrap();
        assert!(faster.differs() && faster.low > 1.0, "{faster:?}");
        assert!(faster.low <= faster.median && faster.median <= faster.high);
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        let covered = (0..40).filter(|&seed| !Ratio::of(noisy(1.0, seed), 0).unwrap().differs());
        let covered = covered.count();
        assert!((34..=40).contains(&covered), "{covered} of 40");
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        assert_eq!(Ratio::of(noisy(1.0, 1), 5), Ratio::of(noisy(1.0, 1), 5));
        assert_eq!(Ratio::of(vec![f64::NAN], 5), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
    }
}
