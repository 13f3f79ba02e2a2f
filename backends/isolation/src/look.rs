//! Does it pay to look for a frame for a moment before one sleeps? To sleep and to be woken on another processor takes
//! each side tens of microseconds. A look takes a processor for as long as it lasts, where nobody else wants it.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Frames that come so soon one after the other are looked for, and for so long.
const SOON: Duration = Duration::from_micros(60);

/// Weight of the last pause in the mean.
const STEP: f64 = 0.25;

/// A long pause counts as so many short ones: after it, a few of these bring looking back.
const LONGEST: u32 = 4;

/// Decides for one side of a lane.
#[derive(Debug)]
pub(crate) struct Look {
    /// With one processor nobody else does anything while this thread looks.
    can_pay: bool,
    /// When the last frame came.
    last: Option<Instant>,
    /// Mean time from one frame to the next, in seconds.
    mean: f64,
}

impl Look {
    /// Looks where frames have lately come soon, and this process may use several processors.
    pub(crate) fn new() -> Look {
        let can_pay = thread::available_parallelism().is_ok_and(|it| 1 < it.get());
        Look { can_pay, last: None, mean: f64::MAX }
    }

    /// May it look at all?
    pub(crate) fn can_pay(&self) -> bool {
        self.can_pay
    }

    /// It does not look where the other side knows that it does not pay: a worker sees no quota of its processors.
    pub(crate) fn bound(&mut self, can_pay: bool) {
        self.can_pay &= can_pay;
    }

    /// There is no frame: until when to look for one; `None` to sleep at once.
    pub(crate) fn until(&self, now: Instant) -> Option<Instant> {
        let pays = self.can_pay && self.mean <= SOON.as_secs_f64();
        pays.then(|| now + SOON)
    }

    /// A frame has come.
    pub(crate) fn came(&mut self, now: Instant) {
        let longest = SOON * LONGEST;
        if let Some(last) = self.last.replace(now) {
            let pause = now.saturating_duration_since(last).min(longest).as_secs_f64();
            let mean = self.mean.min(longest.as_secs_f64());
            self.mean = mean + STEP * (pause - mean);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That many frames, so far from each other. Returns before how many of them somebody looks.
    fn frames(look: &mut Look, now: &mut Instant, times: usize, pause: Duration) -> usize {
        let looks = (0..times).filter(|_| {
            let looks = look.until(*now).is_some();
            *now += pause;
            look.came(*now);
            looks
        });
        looks.count()
    }

    fn look() -> (Look, Instant) {
        (Look { can_pay: true, ..Look::new() }, Instant::now())
    }

    #[test]
    fn it_looks_once_frames_have_been_coming_soon_and_stops_where_they_do_not() {
        let (mut look, mut now) = look();
        assert_eq!(frames(&mut look, &mut now, 5, SOON / 3), 0);
        assert!(90 < frames(&mut look, &mut now, 100, SOON / 3));
        // One long pause is enough.
        assert!(frames(&mut look, &mut now, 100, Duration::from_millis(1)) <= 2);
        assert_eq!(look.until(now), None);
    }

    #[test]
    fn a_look_has_an_end() {
        let (mut look, mut now) = look();
        frames(&mut look, &mut now, 100, SOON / 3);
        assert_eq!(look.until(now), Some(now + SOON));
    }

    #[test]
    fn with_one_processor_nobody_looks() {
        let (mut look, mut now) = look();
        look.bound(false);
        look.bound(true);
        assert_eq!(frames(&mut look, &mut now, 100, SOON / 3), 0);
    }
}
