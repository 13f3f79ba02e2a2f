//! Counters that threads do not share: each adds in a lane of its own, and a reader sums the lanes.
//!
//! Two threads that add to one counter in turns pass its cache line to and fro, which costs more than the
//! request's other work in the server does together.

use std::{
    hash::{Hash, Hasher},
    sync::OnceLock,
    thread,
};

use crossbeam::utils::CachePadded;

/// Threads with lanes of their own. With more threads some share a lane, which is slower and just as right.
const LANES: usize = 16;

/// One `T` for each thread that has counted.
pub(super) struct Lanes<T>([OnceLock<Box<CachePadded<T>>>; LANES]);

impl<T> Lanes<T> {
    /// No thread has counted yet.
    pub(super) fn new() -> Lanes<T> {
        Lanes([const { OnceLock::new() }; LANES])
    }

    /// The one of this thread; `make` makes an empty one for the first time.
    pub(super) fn mine(&self, make: impl FnOnce() -> T) -> &T {
        let mut number = Number(0);
        thread::current().id().hash(&mut number);
        let lane = &self.0[number.0 as usize % LANES];
        lane.get_or_init(|| Box::new(CachePadded::new(make())))
    }

    /// All that have been counted into.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(OnceLock::get).map(|it| &***it)
    }
}

/// Takes the number out of a `ThreadId`, which has no other way to it: threads that are started one after the
/// other have numbers, and so lanes, side by side.
struct Number(u64);

impl Hasher for Number {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.wrapping_mul(31).wrapping_add(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    #[test]
    fn nothing_is_lost_however_many_threads_count() {
        let lanes = Lanes::<AtomicU64>::new();
        thread::scope(|scope| {
            for _ in 0..LANES * 2 {
                scope.spawn(|| {
                    (0..1000).for_each(|_| {
                        lanes.mine(AtomicU64::default).fetch_add(1, Relaxed);
                    });
                });
            }
        });
        let sum: u64 = lanes.all().map(|it| it.load(Relaxed)).sum();
        assert_eq!(sum, 1000 * 2 * LANES as u64);
    }

    #[test]
    fn two_threads_started_together_count_apart() {
        let lanes = Lanes::<AtomicU64>::new();
        thread::scope(|scope| {
            let count = || lanes.mine(AtomicU64::default).store(1, Relaxed);
            // Both alive at once: the second has the next number.
            scope.spawn(count);
            scope.spawn(count);
        });
        assert_eq!(lanes.all().count(), 2);
    }
}
