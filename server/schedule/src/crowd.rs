//! Do more clients ask for a model than wait for their own answers? Few clients that each send their next request when
//! they have an answer are told from an overload by how many wait: their queue has an end. Plain data.

use std::time::{Duration, Instant};

/// So many requests of a model may always wait, where nobody has said how long a request may: as many clients that each
/// wait for an answer before they ask again make no longer queue, however slow the model is.
pub(crate) const FEW: usize = 128;

/// So long after more than few have waited the bound on waiting holds for all. Twice as long each time that they are
/// found again right after, up to the longest.
const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);

/// Whether more than few wait, of late.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Crowd {
    until: Option<Instant>,
    length: Duration,
}

impl Crowd {
    /// May a request join so many that wait, though it would wait for longer than the bound?
    pub(crate) fn admits(&mut self, waiting: usize, now: Instant) -> bool {
        if self.until.is_some_and(|it| now < it) {
            return false;
        }
        if waiting < FEW {
            return true;
        }
        self.length = match self.until.is_some_and(|it| now < it + self.length) {
            true => (2 * self.length).min(LONGEST),
            false => FIRST,
        };
        self.until = Some(now + self.length);
        false
    }

    /// A request has found room: nobody waits any more.
    pub(crate) fn has_gone(&mut self) {
        *self = Crowd::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_always_wait_and_more_than_few_only_within_the_bound() {
        let (mut crowd, now) = (Crowd::default(), Instant::now());
        assert!((0..FEW).all(|waiting| crowd.admits(waiting, now)));
        assert!(!crowd.admits(FEW, now));
        // Those that wait by then are no reason to take more, until the crowd is gone.
        assert!(!crowd.admits(0, now + FIRST / 2));
        assert!(crowd.admits(FEW - 1, now + FIRST));
    }

    #[test]
    fn a_crowd_that_is_still_there_is_given_room_ever_more_rarely() {
        let (mut crowd, start) = (Crowd::default(), Instant::now());
        let mut now = start;
        let mut trials = Vec::new();
        for _ in 0..3600 {
            if crowd.admits(FEW - 1, now) {
                trials.push((now - start).as_secs());
                assert!(!crowd.admits(FEW, now));
            }
            now += Duration::from_secs(1);
        }
        assert_eq!(trials, [0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030]);
    }

    #[test]
    fn where_nobody_waits_any_more_few_may_wait_at_once() {
        let (mut crowd, now) = (Crowd::default(), Instant::now());
        assert!(!crowd.admits(FEW, now));
        crowd.has_gone();
        assert!(crowd.admits(0, now));
    }
}
