//! How long a tokenizer takes, learned from the texts that it has tokenized: short work is done by the task that asks,
//! long work elsewhere.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// Texts of more bytes in all are not tokenized by the task that asks, however fast the tokenizer is known to be.
pub const AT_ONCE: usize = 2048;

/// Other clients of a thread may wait for so long: about what a hand-off to another thread takes there and back.
const SHORT: Duration = Duration::from_micros(50);

/// What a byte takes before anything is known: as with a slow one of the usual tokenizers.
const CAUTIOUS_NS: f32 = 200.0;

/// Fewer bytes tell what a call takes rather than what a byte does.
const FEW_BYTES: usize = 64;

/// Of longer texts the end may never have come to the tokenizer.
const MANY_BYTES: usize = 16 << 10;

/// So many bytes count as much as all that was learned before.
const MEMORY_BYTES: f32 = 4096.0;

/// A text counts as at most so many times what is known: a thread that had to wait is no slow tokenizer.
const MOST_TIMES: f32 = 4.0;

/// No tokenizer takes longer for a byte.
const SLOWEST_NS: f32 = 1e9;

/// What lies so near to what is known teaches nothing, and costs other threads no line of their caches.
const NEAR: f32 = 0.125;

/// The smoothed time that a tokenizer takes for a byte.
#[derive(Debug)]
pub struct Pace {
    /// Nanoseconds, as the bits of an `f32`. Of two threads that learn at once, one may be lost.
    ns_per_byte: AtomicU32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { ns_per_byte: AtomicU32::new(CAUTIOUS_NS.to_bits()) }
    }
}

impl Pace {
    /// Do texts of so many bytes take no longer than other clients of the thread may wait?
    pub fn is_short(&self, bytes: usize) -> bool {
        bytes < AT_ONCE && self.ns_per_byte() * bytes as f32 <= SHORT.as_nanos() as f32
    }

    /// Takes in how long so many bytes took.
    pub fn learn(&self, bytes: usize, took: Duration) {
        let is_telling = match bytes {
            0 => false,
            // Also what was quick where it was taken for long: else nothing would undo that.
            1..FEW_BYTES => SHORT < took || !self.is_short(bytes),
            _ => bytes <= MANY_BYTES,
        };
        if !is_telling {
            return;
        }
        let known = self.ns_per_byte();
        let found = (took.as_nanos() as f32 / bytes as f32).clamp(1.0, known * MOST_TIMES);
        if (found - known).abs() <= known * NEAR {
            return;
        }
        let weight = bytes as f32 / (bytes as f32 + MEMORY_BYTES);
        let smoothed = (known + (found - known) * weight).min(SLOWEST_NS);
        self.ns_per_byte.store(smoothed.to_bits(), Ordering::Relaxed);
    }

    fn ns_per_byte(&self) -> f32 {
        f32::from_bits(self.ns_per_byte.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pace that has seen texts of so many bytes, each of which took as long for each byte.
    fn after(texts: usize, bytes: usize, ns_per_byte: u64) -> Pace {
        let pace = Pace::default();
        let took = Duration::from_nanos(bytes as u64 * ns_per_byte);
        (0..texts).for_each(|_| pace.learn(bytes, took));
        pace
    }

    #[track_caller]
    fn check(pace: &Pace, bytes: usize, expected: bool) {
        assert_eq!(pace.is_short(bytes), expected, "{bytes} bytes, {} ns each", pace.ns_per_byte());
    }

    #[test]
    fn a_tokenizer_that_nothing_is_known_of_is_taken_for_a_slow_one() {
        check(&Pace::default(), 250, true);
        check(&Pace::default(), 251, false);
    }

    #[test]
    fn texts_of_a_fast_tokenizer_are_short_up_to_the_bound_of_bytes() {
        let fast = after(100, 500, 10);
        check(&fast, AT_ONCE - 1, true);
        check(&fast, AT_ONCE, false);
    }

    #[test]
    fn texts_of_a_slow_tokenizer_are_long_once_it_is_known() {
        let slow = after(100, 100, 2_000);
        check(&slow, 100, false);
        check(&slow, 20, true);
    }

    #[test]
    fn one_text_whose_thread_had_to_wait_changes_little() {
        let pace = after(100, 100, 100);
        pace.learn(100, Duration::from_millis(20));
        check(&pace, 400, true);
    }

    #[test]
    fn few_bytes_teach_nothing_unless_they_took_long() {
        let quick = after(1000, 10, 3_000);
        check(&quick, 250, true);
        let slow = after(1000, 10, 30_000);
        check(&slow, 10, false);
    }

    #[test]
    fn short_texts_that_were_taken_for_long_are_found_to_be_quick_again() {
        for ns_per_byte in [25_000, u64::MAX / 40] {
            let pace = after(10_000, 40, ns_per_byte);
            check(&pace, 40, false);
            (0..5_000).for_each(|_| pace.learn(40, Duration::from_micros(10)));
            check(&pace, 40, true);
        }
    }

    #[test]
    fn texts_that_are_cut_before_they_are_tokenized_make_no_tokenizer_fast() {
        let pace = after(100, 1 << 20, 1);
        check(&pace, 251, false);
    }

    #[test]
    fn a_tokenizer_that_becomes_faster_is_found_out() {
        let pace = after(100, 500, 2_000);
        (0..100).for_each(|_| pace.learn(500, Duration::from_micros(50)));
        check(&pace, 400, true);
    }
}
