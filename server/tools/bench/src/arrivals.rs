//! When requests of an open loop are due. A generator, not a queue: what is due and has not been sent
//! costs no memory, however far the server falls behind. Pure.

use std::time::{Duration, Instant};

use crate::{plan::Arrivals, random::Random};

/// The moments at which requests are due, in order.
#[derive(Debug)]
pub(crate) struct Schedule {
    next: Instant,
    /// Mean distance of two arrivals.
    gap: Duration,
    /// `None` for arrivals at equal distances.
    random: Option<Random>,
}

impl Schedule {
    /// Arrivals after `start`, with a mean distance of `gap`.
    pub(crate) fn new(arrivals: Arrivals, gap: Duration, start: Instant, seed: u64) -> Schedule {
        let random = match arrivals {
            Arrivals::Poisson => Some(Random::new(seed)),
            Arrivals::Constant => None,
        };
        let mut schedule = Schedule { next: start, gap, random };
        schedule.advance();
        schedule
    }

    /// The first moment that has not been taken.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Takes it.
    pub(crate) fn advance(&mut self) {
        self.next += match &mut self.random {
            Some(random) => self.gap.mul_f64(random.exponential()),
            None => self.gap,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(arrivals: Arrivals) -> Vec<f64> {
        let mut last = Instant::now();
        let mut schedule = Schedule::new(arrivals, Duration::from_millis(2), last, 3);
        let mut gap = || {
            let gap = schedule.next() - last;
            last = schedule.next();
            schedule.advance();
            gap.as_secs_f64() * 1e3
        };
        (0..20_000).map(|_| gap()).collect()
    }

    #[test]
    fn constant_arrivals_are_equally_spaced() {
        assert!(gaps(Arrivals::Constant).iter().all(|&it| it == 2.0));
    }

    #[test]
    fn poisson_arrivals_have_that_mean_and_as_large_a_deviation() {
        let gaps = gaps(Arrivals::Poisson);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 2.0).abs() < 0.06, "{mean}");
        assert!((variance.sqrt() - 2.0).abs() < 0.1, "{variance}");
    }
}
