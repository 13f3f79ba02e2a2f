//! Is it worth asking? After several failures in a row no request asks for a while, then one does. Pure.

use std::time::{Duration, Instant};

/// After so many failures in a row no request asks.
const FAILURES: u32 = 3;

/// The first pause; each following one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What is known of the other side.
#[derive(Debug, Default)]
pub(super) struct Circuit {
    /// In a row.
    failures: u32,
    /// While it does not work.
    pause: Option<Pause>,
}

#[derive(Debug)]
struct Pause {
    /// Nobody asks before.
    until: Instant,
    length: Duration,
    /// Somebody has asked since the last pause, and has no answer yet.
    is_tried: bool,
}

impl Circuit {
    /// Does it work, as far as is known?
    pub(super) fn is_closed(&self) -> bool {
        self.pause.is_none()
    }

    /// May a request ask now? At the end of a pause one may, and the others wait for what comes of it.
    pub(super) fn lets_through(&mut self, now: Instant) -> bool {
        match &mut self.pause {
            None => true,
            Some(pause) if now < pause.until => false,
            Some(pause) => {
                pause.until = now + pause.length;
                pause.is_tried = true;
                true
            }
        }
    }

    /// It answered. True if it had not before.
    pub(super) fn succeeded(&mut self) -> bool {
        self.failures = 0;
        self.pause.take().is_some()
    }

    /// It did not answer. True if that begins a pause.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        match &mut self.pause {
            // Whoever had asked before the pause says nothing new.
            Some(pause) if !pause.is_tried => false,
            Some(pause) => {
                let length = (pause.length * 2).min(LONGEST_PAUSE);
                *pause = Pause { until: now + length, length, is_tried: false };
                false
            }
            None => {
                self.failures += 1;
                if self.failures < FAILURES {
                    return false;
                }
                let (until, length) = (now + FIRST_PAUSE, FIRST_PAUSE);
                self.pause = Some(Pause { until, length, is_tried: false });
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_failures_are_no_reason_to_stop_asking() {
        let (mut circuit, now) = (Circuit::default(), Instant::now());
        assert!(!circuit.failed(now) && !circuit.failed(now));
        assert!(!circuit.succeeded());
        assert!(!circuit.failed(now) && circuit.lets_through(now));
    }

    #[test]
    fn after_several_failures_the_circuit_is_open_until_one_trial() {
        let (mut circuit, now) = (Circuit::default(), Instant::now());
        assert_eq!([0; 3].map(|_| circuit.failed(now)), [false, false, true]);
        assert!(!circuit.lets_through(now) && !circuit.is_closed());
        let later = now + FIRST_PAUSE;
        assert!(circuit.lets_through(later));
        assert!(!circuit.lets_through(later));
        assert!(circuit.succeeded() && circuit.is_closed());
    }

    #[test]
    fn pauses_grow_and_have_an_end() {
        let (mut circuit, mut now) = (Circuit::default(), Instant::now());
        let begun = (0..3).filter(|_| circuit.failed(now)).count();
        assert_eq!(begun, 1);
        let mut tries = 0;
        let end = now + Duration::from_secs(120);
        while now < end {
            if circuit.lets_through(now) {
                tries += 1;
                assert!(!circuit.failed(now));
            }
            now += Duration::from_millis(100);
        }
        // After 1, 2, 4, 8 and 16 s, then every 30 s.
        assert_eq!(tries, 1 + 1 + 1 + 1 + 1 + 2);
    }
}
