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

/// So many early deaths within [`REMEMBERED`] open the breaker: requests are refused for the longest pause.
const BREAKER: usize = 3;

/// A worker that has answered fewer runs has died early.
const EARLY: u64 = 100;

/// The deaths of late of the workers of one model version. Pure: it is told the time.
#[derive(Debug, Default)]
pub(crate) struct Life {
    deaths: VecDeque<Death>,
}

#[derive(Debug)]
struct Death {
    at: Instant,
    is_early: bool,
}

impl Life {
    /// A worker has died after so many runs.
    pub(crate) fn died(&mut self, now: Instant, answered: u64) {
        self.forget(now);
        self.deaths.push_back(Death { at: now, is_early: answered < EARLY });
    }

    /// A worker was ended, as a run of it took too long: that says nothing of other runs, and is no early death.
    pub(crate) fn was_ended(&mut self, now: Instant) {
        self.died(now, EARLY);
    }

    /// Have so many died early of late that each further one is refused time?
    pub(crate) fn is_open(&mut self, now: Instant) -> bool {
        self.forget(now);
        BREAKER <= self.deaths.iter().filter(|it| it.is_early).count()
    }

    /// How long until the next may be started.
    pub(crate) fn pause(&mut self, now: Instant) -> Duration {
        self.forget(now);
        let is_open = self.is_open(now);
        let Some(last) = self.deaths.back() else { return Duration::ZERO };
        let pause = match self.deaths.len() {
            _ if is_open => LONGEST_PAUSE,
            0 | 1 => Duration::ZERO,
            deaths => {
                let doublings = u32::try_from(deaths - 2).unwrap_or(u32::MAX);
                let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
                FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE)
            }
        };
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

    /// The pauses, in milliseconds, after deaths at these seconds of workers that had answered so many runs each.
    #[track_caller]
    fn check(deaths: &[(u64, u64)], expected: &[u128]) {
        let (mut life, start) = (Life::default(), Instant::now());
        assert_eq!(life.pause(start), Duration::ZERO);
        let pauses: Vec<u128> = deaths
            .iter()
            .map(|(at, answered)| {
                let now = start + Duration::from_secs(*at);
                life.died(now, *answered);
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
        (0..BREAKER).for_each(|_| life.was_ended(start));
        assert!(!life.is_open(start), "their runs took too long");
        assert_eq!(life.pause(start), 2 * FIRST_PAUSE);
        let (mut life, start) = (Life::default(), Instant::now());
        (0..2).for_each(|_| life.died(start, 0));
        assert!(!life.is_open(start));
        life.died(start, 0);
        assert!(life.is_open(start));
        assert_eq!(life.pause(start + Duration::from_secs(10)), Duration::from_secs(20));
        assert_eq!(life.pause(start + Duration::from_secs(30)), Duration::ZERO);
        assert!(life.is_open(start + Duration::from_secs(59)));
        assert!(!life.is_open(start + Duration::from_secs(60)));
        assert_eq!(life.pause(start + Duration::from_secs(61)), Duration::ZERO);
    }
}
