//! Do two settings differ, or is it the noise? Rounds in turns, and an interval for their ratio.

use std::fmt;

use loadgen::Ratio;

use crate::ranking::Row;

/// With fewer pairs of rounds no interval between them can be one of 95 %.
const FEWEST_ROUNDS: usize = 6;

/// How many times as much a setting does as another one, of pairs of rounds that followed one another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Difference {
    /// Pairs of rounds.
    pub(crate) rounds: usize,
    /// Requests per minute.
    pub(crate) throughput: Ratio,
    /// Latency.
    pub(crate) latency: Ratio,
}

impl Difference {
    /// Of the rounds of one setting to those of another; `None` where they were not measured in turns.
    pub(crate) fn of(rounds: &[Row], base: &[Row]) -> Option<Difference> {
        if rounds.len() != base.len() {
            return None;
        }
        let ratio = |of: &dyn Fn(&Row) -> f64| {
            let pairs = rounds.iter().zip(base);
            Ratio::of(pairs.map(|(a, b)| of(a) / of(b)).collect(), 0)
        };
        Some(Difference {
            rounds: rounds.len(),
            throughput: ratio(&|it| it.max_invocations as f64)?,
            latency: ratio(&|it| it.model_latency as f64)?,
        })
    }

    /// Are there enough rounds to say whether there is one?
    pub(crate) fn is_decided(&self) -> bool {
        self.rounds >= FEWEST_ROUNDS
    }

    /// Is it no more than that by which a setting seems to differ from itself?
    pub(crate) fn is_within(&self, noise: &Difference) -> bool {
        let is_less = |ratio: Ratio, noise: Ratio| {
            let most = noise.low.ln().abs().max(noise.high.ln().abs());
            ratio.median.ln().abs() <= most
        };
        is_less(self.throughput, noise.throughput) && is_less(self.latency, noise.latency)
    }

    /// Is there one, of enough rounds?
    pub(crate) fn is_shown(&self) -> bool {
        self.is_decided() && (self.throughput.differs() || self.latency.differs())
    }
}

impl fmt::Display for Difference {
    /// The ratio with its interval, and what can be said of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ratio { median, low, high } = self.throughput;
        write!(f, "{median:.2} ({low:.2} to {high:.2} in {} rounds", self.rounds)?;
        match (self.is_decided(), self.throughput.differs()) {
            (false, _) => f.write_str(", too few to be sure)"),
            (true, false) => f.write_str(", no difference shown)"),
            (true, true) => f.write_str(")"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(rates: &[f64]) -> Vec<Row> {
        let round = |it: &f64| Row {
            meets: true,
            max_invocations: (it * 60.0) as u64,
            model_latency: 5,
            price: 1.0,
            cpu: 100.0,
        };
        rates.iter().map(round).collect()
    }

    #[test]
    fn a_ratio_is_of_rounds_that_followed_one_another() {
        // The machine becomes slower, and the second setting is a tenth faster all the time.
        let base = rounds(&[100.0, 95.0, 90.0, 85.0, 80.0, 75.0]);
        let faster = rounds(&[110.0, 104.5, 99.0, 93.5, 88.0, 82.5]);
        let difference = Difference::of(&faster, &base).unwrap();
        assert!(difference.is_shown(), "{difference:?}");
        assert_eq!(difference.to_string(), "1.10 (1.10 to 1.10 in 6 rounds)");
        let noisy = rounds(&[101.0, 94.0, 91.0, 84.0, 81.0, 74.0]);
        let difference = Difference::of(&noisy, &base).unwrap();
        assert!(!difference.is_shown());
        assert!(difference.to_string().ends_with("no difference shown)"), "{difference}");
        let difference = Difference::of(&rounds(&[2.0, 2.0]), &rounds(&[1.0, 1.0])).unwrap();
        assert!(!difference.is_shown() && difference.to_string().contains("too few"));
        assert_eq!(Difference::of(&rounds(&[1.0]), &base), None);
    }
}
