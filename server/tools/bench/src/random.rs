//! Random numbers that are the same on every machine for the same seed. Good enough for arrivals, test
//! data and resampling; not for secrets.

/// A SplitMix64 generator (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in `[0, 1)`, with 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..bound`; the bias is below `bound / 2^64`. Zero for a bound of zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Exponentially distributed with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_published_sequence() {
        let mut random = Random::new(1234567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn means_are_where_they_should_be() {
        let mut random = Random::new(7);
        let mean = |mut draw: Box<dyn FnMut() -> f64>| {
            (0..100_000).map(|_| draw()).sum::<f64>() / 100_000.0
        };
        let mut other = random.clone();
        assert!((mean(Box::new(move || other.unit())) - 0.5).abs() < 0.01);
        let mut other = random.clone();
        assert!((mean(Box::new(move || other.exponential())) - 1.0).abs() < 0.02);
        assert!((mean(Box::new(move || random.below(11) as f64)) - 5.0).abs() < 0.05);
    }
}
