//! Does it pay to look for the next job for a moment instead of going to sleep? To sleep and be woken on
//! another processor takes tens of microseconds; to look takes a processor for as long as it lasts.

use std::time::{Duration, Instant};

/// Decides for one worker. It looks only while work has lately come within the limit, so that an idle model
/// costs nothing.
#[derive(Debug)]
pub struct Spin {
    /// Longest look; zero for none.
    limit: Duration,
    /// Mean time from running out of work until there was more, in seconds.
    gap: f64,
    /// When it ran out of work last.
    since: Option<Instant>,
}

/// Weight of the last gap in the mean.
const STEP: f64 = 0.25;

/// A long gap counts as so many limits: after it, some ten short ones bring looking back.
const LONGEST: u32 = 8;

impl Spin {
    /// Looks for no longer than `limit`, and not before it has seen that this is enough.
    pub fn new(limit: Duration) -> Spin {
        Spin { limit, gap: f64::MAX, since: None }
    }

    /// There is no work: until when to look for some; `None` to sleep at once.
    pub fn spin_until(&mut self, now: Instant) -> Option<Instant> {
        let since = *self.since.get_or_insert(now);
        let until = since + self.limit;
        (self.gap <= self.limit.as_secs_f64() && now < until).then_some(until)
    }

    /// There is work.
    pub fn found(&mut self, now: Instant) {
        let Some(since) = self.since.take() else { return };
        let gap = now.saturating_duration_since(since).min(self.limit * LONGEST).as_secs_f64();
        let mean = self.gap.min((self.limit * LONGEST).as_secs_f64());
        self.gap = mean + STEP * (gap - mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);

    /// Runs out of work `times` times, for `gap` each. Returns how often it looked.
    fn gaps(spin: &mut Spin, times: usize, gap: Duration) -> usize {
        let start = Instant::now();
        (0..times)
            .filter(|_| {
                let looks = spin.spin_until(start).is_some();
                spin.found(start + gap);
                looks
            })
            .count()
    }

    #[test]
    fn it_looks_once_work_has_been_coming_soon_and_stops_when_it_does_not() {
        let mut spin = Spin::new(LIMIT);
        assert_eq!(gaps(&mut spin, 5, Duration::from_micros(20)), 0);
        assert!(90 < gaps(&mut spin, 100, Duration::from_micros(20)));
        // One long gap is enough: the next look is not before work has been coming soon again.
        assert!(gaps(&mut spin, 100, Duration::from_secs(1)) <= 2);
    }

    #[test]
    fn a_look_has_an_end() {
        let mut spin = Spin::new(LIMIT);
        gaps(&mut spin, 100, Duration::from_micros(20));
        let now = Instant::now();
        assert_eq!(spin.spin_until(now), Some(now + LIMIT));
        assert_eq!(spin.spin_until(now + LIMIT), None);
    }

    #[test]
    fn without_a_limit_it_never_looks() {
        let mut spin = Spin::new(Duration::ZERO);
        assert_eq!(gaps(&mut spin, 100, Duration::from_nanos(1)), 0);
    }
}
