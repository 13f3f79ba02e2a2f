//! How the synthetic latency depends on settings, on chance and on time, so that the best settings of a model are known
//! before they are looked for.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How many times as long what lies behind a cliff takes, unless a parameter says so.
pub(crate) const CLIFF_FACTOR: f64 = 20.0;

/// What the parameters say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Landscape {
    /// With t threads an execution takes `t` to the power of `-thread_gain` of its time.
    pub(crate) thread_gain: f64,
    /// All instances share so many; as many as they have threads where none is said.
    pub(crate) processors: Option<u64>,
    /// More threads of an instance than this are too many.
    pub(crate) cliff_threads: Option<u64>,
    /// More instances than this are too many.
    pub(crate) cliff_instances: Option<u64>,
    /// How many times as long executions take where there are too many.
    pub(crate) cliff_factor: f64,
    /// Each execution takes from 1 less this to 1 more this of its time, by chance.
    pub(crate) noise: f64,
    /// Each minute adds this share.
    pub(crate) drift_per_minute: f64,
    /// Minutes count from here, as time since 1970.
    pub(crate) drift_since: Duration,
}

/// The landscape at the settings of one model.
#[derive(Debug)]
pub(crate) struct LandscapeModel {
    landscape: Landscape,
    /// What does not change while the model is loaded.
    fixed: f64,
    /// Executions so far.
    drawn: AtomicU64,
}

impl Landscape {
    /// The place of a model with so many instances of so many threads each.
    pub(crate) fn at(self, instances: usize, threads: usize) -> LandscapeModel {
        let too_many = |count: usize, most: Option<u64>| most.is_some_and(|it| count as u64 > it);
        let is_behind =
            too_many(threads, self.cliff_threads) || too_many(instances, self.cliff_instances);
        let cliff = if is_behind { self.cliff_factor } else { 1.0 };
        let here = self.processors.map_or(f64::INFINITY, |it| it as f64 / instances.max(1) as f64);
        // Threads without a processor wait for one.
        let working = here.min(threads as f64);
        let slowness = if working < 1.0 { 1.0 / working } else { working.powf(-self.thread_gain) };
        let fixed = slowness * cliff;
        LandscapeModel { landscape: self, fixed, drawn: AtomicU64::new(0) }
    }
}

impl LandscapeModel {
    /// How many times as long as in a flat landscape the next execution takes.
    pub(crate) fn factor(&self) -> f64 {
        let drifts = self.landscape.drift_per_minute != 0.0;
        // The clock is not read in vain.
        self.factor_at(if drifts { SystemTime::now() } else { UNIX_EPOCH })
    }

    fn factor_at(&self, now: SystemTime) -> f64 {
        let Landscape { noise, drift_per_minute, drift_since, .. } = self.landscape;
        let chance = match noise > 0.0 {
            true => 1.0 + noise * (2.0 * share(self.drawn.fetch_add(1, Ordering::Relaxed)) - 1.0),
            false => 1.0,
        };
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(drift_since);
        let drift = 1.0 + drift_per_minute * since.as_secs_f64() / 60.0;
        self.fixed * chance * drift.max(0.0)
    }
}

/// A number from 0 to 1 that depends on the number of the draw alone.
fn share(draw: u64) -> f64 {
    let mut mixed = draw.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All settings are equal.
    const FLAT: Landscape = Landscape {
        thread_gain: 0.0,
        processors: None,
        cliff_threads: None,
        cliff_instances: None,
        cliff_factor: CLIFF_FACTOR,
        noise: 0.0,
        drift_per_minute: 0.0,
        drift_since: Duration::ZERO,
    };

    fn factor(landscape: Landscape, instances: usize, threads: usize) -> f64 {
        landscape.at(instances, threads).factor_at(UNIX_EPOCH)
    }

    #[test]
    fn threads_shorten_and_cliffs_lengthen() {
        assert_eq!(factor(FLAT, 3, 4), 1.0);
        let linear = Landscape { thread_gain: 1.0, ..FLAT };
        assert_eq!(factor(linear, 1, 4), 0.25);
        let steep = Landscape { cliff_threads: Some(2), cliff_instances: Some(3), ..linear };
        assert_eq!(factor(steep, 3, 2), 0.5);
        assert_eq!(factor(steep, 1, 4), 0.25 * CLIFF_FACTOR);
        assert_eq!(factor(steep, 4, 1), CLIFF_FACTOR);
    }

    #[test]
    fn threads_beyond_the_processors_gain_nothing() {
        let linear = Landscape { thread_gain: 1.0, processors: Some(4), ..FLAT };
        // Two instances of one thread, of two, and of more than there are processors for.
        assert_eq!([1, 2, 8].map(|it| factor(linear, 2, it)), [1.0, 0.5, 0.5]);
        assert_eq!(factor(linear, 8, 1), 2.0);
        assert_eq!(factor(linear, 1, 8), 0.25);
    }

    #[test]
    fn chance_stays_within_its_bounds_and_uses_them() {
        let place = Landscape { noise: 0.1, ..FLAT }.at(1, 1);
        let factors: Vec<f64> = (0..1000).map(|_| place.factor_at(UNIX_EPOCH)).collect();
        assert!(factors.iter().all(|it| (0.9..=1.1).contains(it)));
        assert!(factors.iter().any(|it| *it < 0.92) && factors.iter().any(|it| *it > 1.08));
        assert!((factors.iter().sum::<f64>() / 1000.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_machine_that_becomes_slower_does_so_by_the_clock() {
        let drift_since = Duration::from_secs(600);
        let landscape = Landscape { drift_per_minute: 0.5, drift_since, ..FLAT };
        let place = landscape.at(1, 1);
        let at = |seconds| place.factor_at(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!([at(0), at(600), at(720)], [1.0, 1.0, 2.0]);
    }
}
