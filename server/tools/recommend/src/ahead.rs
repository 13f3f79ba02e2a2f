//! What is ahead of a job, and about how long it will take. Pure.

use std::time::Duration;

use crate::step::Length;

/// The tests that a job has still to do.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// How many of a length, and how long the load of one takes.
    tests: Vec<(Length, usize, Duration)>,
    /// What tests took besides their load, such as the start of a server, and how many these were.
    besides: (Duration, u32),
}

impl Ahead {
    /// So many tests of this length are ahead; `load` is the longest time that the load of one takes.
    pub(crate) fn set(&mut self, length: Length, count: usize, load: Duration) {
        self.tests.retain(|it| it.0 != length);
        self.tests.push((length, count, load));
    }

    /// So many more.
    pub(crate) fn add(&mut self, length: Length, count: usize, load: Duration) {
        let earlier = self.tests.iter().find(|it| it.0 == length).map_or(0, |it| it.1);
        self.set(length, earlier.saturating_add(count), load);
    }

    /// One of this length is over, after so long; `None` where it is an earlier program's.
    pub(crate) fn over(&mut self, length: Length, took: Option<Duration>) {
        let Some(test) = self.tests.iter_mut().find(|it| it.0 == length) else { return };
        test.1 = test.1.saturating_sub(1);
        if let Some(took) = took {
            // One that ends early has no time besides its load.
            self.besides.0 = self.besides.0.saturating_add(took.saturating_sub(test.2));
            self.besides.1 = self.besides.1.saturating_add(1);
        }
    }

    /// How long all of them take where none ends early, by what others took besides their load.
    pub(crate) fn longest(&self) -> Duration {
        let besides = self.besides.0 / self.besides.1.max(1);
        let each = |it: &(Length, usize, Duration)| {
            let count = u32::try_from(it.1).unwrap_or(u32::MAX);
            it.2.saturating_add(besides).saturating_mul(count)
        };
        self.tests.iter().map(each).fold(Duration::ZERO, Duration::saturating_add)
    }
}

/// A time for people: seconds, or minutes where they are many.
pub(crate) fn roughly(time: Duration) -> String {
    match time.as_secs_f64().ceil() {
        seconds @ ..=120.0 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds / 60.0).ceil()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_ahead_takes_its_loads_and_as_long_besides_as_what_is_over() {
        let mut ahead = Ahead::default();
        assert_eq!(ahead.longest(), Duration::ZERO);
        ahead.add(Length::Probe, 2, 3 * SECOND);
        ahead.add(Length::Probe, 2, 3 * SECOND);
        ahead.add(Length::Full, 1, 30 * SECOND);
        assert_eq!(ahead.longest(), 42 * SECOND);
        ahead.over(Length::Probe, Some(5 * SECOND));
        assert_eq!(ahead.longest(), (3 * 5 + 32) * SECOND);
        // It ended early.
        ahead.over(Length::Probe, Some(SECOND));
        assert_eq!(ahead.longest(), (2 * 4 + 31) * SECOND);
        // An earlier program's says nothing of the time.
        ahead.over(Length::Probe, None);
        ahead.set(Length::Full, 0, 30 * SECOND);
        assert_eq!(ahead.longest(), 4 * SECOND);
        ahead.over(Length::Round, Some(SECOND));
        ahead.over(Length::Full, None);
        assert_eq!(ahead.longest(), 4 * SECOND);
        ahead.add(Length::Full, usize::MAX, Duration::MAX);
        assert_eq!(ahead.longest(), Duration::MAX);
    }

    #[test]
    fn a_time_is_said_in_seconds_or_in_minutes() {
        let said = [0, 119, 120, 121, 600].map(|it| roughly(it * SECOND));
        assert_eq!(said, ["0 s", "119 s", "120 s", "3 min", "10 min"]);
    }
}
