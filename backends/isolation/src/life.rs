//! When a worker that has died is started again: at once, later, or not before others have had time to look at it.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Deaths are remembered for so long.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The pause before the second restart; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Pauses are longer or shorter by chance, up to this part of them: many models that died together, as where memory ran
/// out, do not load at the same moment.
const SPREAD: f64 = 0.2;

/// By so much the longest pause is longer at most.
const LONGEST_SPREAD: f64 = 0.1;

/// So many early deaths within [`REMEMBERED`] open the breaker: requests are refused for the longest pause, and then
/// until a worker has shown that it can make a run.
const BREAKER: usize = 3;

/// A worker that has answered fewer runs has died early.
const EARLY: u64 = 100;

/// The deaths of late of the workers of one model version. Pure: it is told the time, and what chance says.
#[derive(Debug, Default)]
pub(crate) struct Life {
    deaths: VecDeque<Death>,
    /// Is the breaker open?
    is_open: bool,
}

#[derive(Debug)]
struct Death {
    at: Instant,
    is_early: bool,
    /// From 0 up to 1: where in its spread the pause after it is.
    chance: f64,
}

impl Life {
    /// A worker has died after so many runs. `chance`: from 0 up to 1.
    pub(crate) fn died(&mut self, now: Instant, answered: u64, chance: f64) {
        self.forget(now);
        self.deaths.push_back(Death { at: now, is_early: answered < EARLY, chance });
        self.is_open |= BREAKER <= self.deaths.iter().filter(|it| it.is_early).count();
    }

    /// A worker was ended, as a run of it took too long: that says nothing of other runs, and is no early death.
    pub(crate) fn was_ended(&mut self, now: Instant, chance: f64) {
        self.died(now, EARLY, chance);
    }

    /// Have so many died early that each further one is refused time? Until one has made a run.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// A worker has made a run: the next early death is one of a minute's again.
    pub(crate) fn has_run(&mut self) {
        self.is_open = false;
    }

    /// How long until the next may be started.
    pub(crate) fn pause(&mut self, now: Instant) -> Duration {
        self.forget(now);
        let Some(last) = self.deaths.back() else { return Duration::ZERO };
        let pause = match self.deaths.len() {
            _ if self.is_open => LONGEST_PAUSE,
            0 | 1 => Duration::ZERO,
            deaths => {
                let doublings = u32::try_from(deaths - 2).unwrap_or(u32::MAX);
                let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
                FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE)
            }
        };
        let longer = if pause < LONGEST_PAUSE { SPREAD } else { LONGEST_SPREAD };
        let pause = pause.mul_f64(1.0 - SPREAD + last.chance * (SPREAD + longer));
        (last.at + pause).saturating_duration_since(now)
    }

    fn forget(&mut self, now: Instant) {
        let is_old = |it: &Death| REMEMBERED <= now.saturating_duration_since(it.at);
        while self.deaths.front().is_some_and(is_old) {
            self.deaths.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What chance says so that a pause is neither longer nor shorter.
    const EVEN: f64 = 0.5;

    /// The same for the longest pause.
    const EVEN_OF_LONGEST: f64 = 2.0 / 3.0;

    /// The pauses, in milliseconds, after deaths at these seconds of workers that had answered so many runs each.
    #[track_caller]
    fn check(deaths: &[(u64, u64)], expected: &[u128]) {
        let (mut life, start) = (Life::default(), Instant::now());
        assert_eq!(life.pause(start), Duration::ZERO);
        let pauses: Vec<u128> = deaths
            .iter()
            .zip(expected)
            .map(|((at, answered), expected)| {
                let now = start + Duration::from_secs(*at);
                let chance = if *expected < 30_000 { EVEN } else { EVEN_OF_LONGEST };
                life.died(now, *answered, chance);
                life.pause(now).as_millis()
            })
            .collect();
        assert_eq!(pauses, expected);
    }

    #[test]
    fn pauses_grow_with_each_death_of_a_minute() {
        check(
            &[(0, 500); 12],
            &[0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000],
        );
        check(&[(0, 500), (60, 500), (121, 500)], &[0, 0, 0]);
    }

    #[test]
    fn three_early_deaths_of_a_minute_open_the_breaker() {
        check(&[(0, 0), (1, 99), (2, 0)], &[0, 100, 30_000]);
        check(&[(0, 0), (1, 100), (2, 0)], &[0, 100, 200]);
        let (mut life, start) = (Life::default(), Instant::now());
        (0..BREAKER).for_each(|_| life.was_ended(start, EVEN));
        assert!(!life.is_open(), "their runs took too long");
        assert_eq!(life.pause(start), 2 * FIRST_PAUSE);
    }

    /// One whose breaker has opened at that moment.
    fn opened(start: Instant) -> Life {
        let mut life = Life::default();
        (0..2).for_each(|_| life.died(start, 0, EVEN_OF_LONGEST));
        assert!(!life.is_open());
        life.died(start, 0, EVEN_OF_LONGEST);
        assert!(life.is_open());
        life
    }

    #[test]
    fn the_breaker_closes_with_a_run_and_with_nothing_else() {
        let start = Instant::now();
        let mut life = opened(start);
        assert_eq!(life.pause(start + Duration::from_secs(10)), Duration::from_secs(20));
        assert_eq!(life.pause(start + Duration::from_secs(30)), Duration::ZERO);
        // Deaths are forgotten, and no worker has made a run yet.
        let later = start + Duration::from_secs(100);
        assert_eq!(life.pause(later), Duration::ZERO);
        assert!(life.is_open());
        life.died(later, 0, EVEN_OF_LONGEST);
        assert_eq!(life.pause(later), LONGEST_PAUSE);
        life.has_run();
        assert!(!life.is_open());
        assert_eq!(life.pause(later), Duration::ZERO, "one death of this minute");
        let mut life = opened(start);
        life.has_run();
        life.died(start + Duration::from_secs(50), 0, EVEN);
        assert!(life.is_open(), "a fourth death of that minute");
    }

    #[test]
    fn pauses_are_spread_by_chance() {
        let pause = |deaths, chance| {
            let (mut life, now) = (Life::default(), Instant::now());
            (0..deaths).for_each(|_| life.died(now, EARLY, chance));
            life.pause(now).as_secs_f64()
        };
        for (deaths, shortest, longest) in [(2, 0.08, 0.12), (4, 0.32, 0.48), (20, 24.0, 33.0)] {
            assert!((pause(deaths, 0.0) - shortest).abs() < 1e-6);
            assert!((pause(deaths, 1.0) - longest).abs() < 1e-6);
        }
        assert_eq!(pause(1, 1.0), 0.0, "the first is at once");
    }
}
