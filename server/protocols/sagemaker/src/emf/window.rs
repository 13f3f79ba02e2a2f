//! The counts of one model's invocations since the last lines were written. Pure.

use std::time::Duration;

/// Most values that one metric of a line may have.
pub(super) const MOST_VALUES: usize = 100;

/// Counts, and a fair sample of the times.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Window {
    pub(super) invocations: u64,
    /// Invocations with a status from 400 to 499.
    pub(super) client_errors: u64,
    /// Invocations with a status of 500 and above.
    pub(super) server_errors: u64,
    /// Invocations without success, including those without any answer.
    pub(super) model_errors: u64,
    /// Invocations in flight now, and the most at one time since the last lines.
    pub(super) in_flight: u64,
    pub(super) most_in_flight: u64,
    pub(super) latency: Reservoir,
}

impl Window {
    pub(super) fn begin(&mut self) {
        self.invocations += 1;
        self.in_flight += 1;
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
    }

    /// `status` is `None` where the client got no answer.
    pub(super) fn end(&mut self, status: Option<u16>, latency: Duration) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match status {
            Some(400..500) => self.client_errors += 1,
            Some(500..) => self.server_errors += 1,
            Some(_) | None => {}
        }
        if !status.is_some_and(|it| (200..300).contains(&it)) {
            self.model_errors += 1;
        }
        self.latency.add(latency.as_micros().try_into().unwrap_or(u64::MAX));
    }

    /// Takes the counts, and begins anew.
    pub(super) fn take(&mut self) -> Window {
        let in_flight = self.in_flight;
        let next = Window { in_flight, most_in_flight: in_flight, ..Window::default() };
        std::mem::replace(self, next)
    }

    /// Was nothing counted, and is nothing in flight?
    pub(super) fn is_idle(&self) -> bool {
        self.invocations == 0 && self.in_flight == 0 && self.latency.seen == 0
    }
}

/// A sample of [`MOST_VALUES`] among all values, each with the same chance. Source: Vitter, "Random Sampling with a
/// Reservoir", 1985, algorithm R.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Reservoir {
    pub(super) values: Vec<u64>,
    seen: u64,
    /// The state of a generator that must be even, but need not be unpredictable.
    state: u64,
}

impl Reservoir {
    pub(super) fn add(&mut self, value: u64) {
        self.seen += 1;
        if self.values.len() < MOST_VALUES {
            return self.values.push(value);
        }
        let at = self.next() % self.seen;
        let slot = usize::try_from(at).ok().and_then(|it| self.values.get_mut(it));
        if let Some(slot) = slot {
            *slot = value;
        }
    }

    /// SplitMix64, by Steele, Lea and Flood.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_an_invocation_is_counted_once() {
        let mut window = Window::default();
        for status in [Some(200), Some(404), Some(503), None] {
            window.begin();
            window.end(status, Duration::from_micros(5));
        }
        assert_eq!((window.invocations, window.client_errors, window.server_errors), (4, 1, 1));
        assert_eq!((window.model_errors, window.in_flight, window.most_in_flight), (3, 0, 1));
        assert_eq!(window.latency.values, [5; 4]);
    }

    #[test]
    fn what_is_in_flight_goes_on_in_the_next_window() {
        let mut window = Window::default();
        window.begin();
        window.begin();
        window.end(Some(200), Duration::ZERO);
        let first = window.take();
        assert_eq!((first.invocations, first.most_in_flight), (2, 2));
        assert_eq!((window.invocations, window.in_flight, window.most_in_flight), (0, 1, 1));
        assert!(!window.is_idle());
        window.end(Some(200), Duration::ZERO);
        let _ = window.take();
        assert!(window.is_idle());
    }

    #[test]
    fn a_hundred_values_stand_for_all() {
        let mut reservoir = Reservoir::default();
        (0..100_000).for_each(|it| reservoir.add(it));
        assert_eq!(reservoir.values.len(), MOST_VALUES);
        let mean = reservoir.values.iter().sum::<u64>() / MOST_VALUES as u64;
        assert!((40_000..60_000).contains(&mean), "{mean}");
    }
}
