//! Memory that nobody holds and the allocator keeps: glibc has a heap for each few threads, and each keeps what was
//! freed between pieces that are in use. It is told by what this process takes beyond the ledger, and given back.

use std::{
    mem::take,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

/// So much may lie there, as a part of the memory, and at least.
const OF_MEMORY: u64 = 64;
const LEAST: u64 = 16 << 20;

/// The shortest time from one time to the next: other threads may wait for the allocator meanwhile.
const PAUSE: Duration = Duration::from_millis(250);

/// The longest: it is doubled up to this where one time follows another at once, as what was given back is taken again
/// by a load that goes on.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What this process takes beyond the ledger, as it has been seen.
pub(super) struct Retained {
    allowed: u64,
    /// The least since memory was given back for the last time: models, and what else is no part of the ledger.
    least: Option<u64>,
    given_back: Option<Instant>,
    pause: Duration,
    /// Is what is seen next what is left?
    is_new: bool,
    /// Is it being given back?
    is_busy: Arc<AtomicBool>,
}

impl Retained {
    /// Of a process that may take `limit` bytes.
    pub(super) fn within(limit: u64) -> Retained {
        let allowed = (limit / OF_MEMORY).max(LEAST);
        let is_busy = Arc::default();
        let (least, given_back, pause) = (None, None, PAUSE);
        Retained { allowed, least, given_back, pause, is_new: false, is_busy }
    }

    /// So many bytes are taken beyond the ledger now. Has more of them to be given back than may lie there? Then that
    /// is done on a thread of its own.
    pub(super) fn look(&mut self, beyond: u64, give_back: impl FnOnce() + Send + 'static) {
        if self.is_busy.load(Relaxed) || !self.is_due(beyond, Instant::now()) {
            return;
        }
        let is_busy = self.is_busy.clone();
        is_busy.store(true, Relaxed);
        drop(tokio::task::spawn_blocking(move || {
            give_back();
            is_busy.store(false, Relaxed);
        }));
    }

    fn is_due(&mut self, beyond: u64, now: Instant) -> bool {
        // What has not been given back is in use.
        let known = self.least.filter(|_| !take(&mut self.is_new)).unwrap_or(beyond);
        let least = known.min(beyond);
        self.least = Some(least);
        let passed = self.given_back.map(|it| now.saturating_duration_since(it));
        let is_soon = passed.is_some_and(|it| it < self.pause);
        let is_due = !is_soon && least.saturating_add(self.allowed) < beyond;
        if is_due {
            self.pause = match passed.is_some_and(|it| it < 2 * self.pause) {
                true => (2 * self.pause).min(LONGEST_PAUSE),
                false => PAUSE,
            };
            self.given_back = Some(now);
            self.is_new = true;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_is_kept_is_given_back_and_what_is_in_use_is_not_asked_for_again() {
        let mut retained = Retained::within(1 << 30);
        let begin = Instant::now();
        let mut is_due =
            |beyond, millis| retained.is_due(beyond * MIB, begin + Duration::from_millis(millis));
        assert!(!is_due(100, 0) && !is_due(116, 20));
        assert!(is_due(117, 40));
        // All of it could be given back.
        assert!(!is_due(100, 60));
        assert!(!is_due(300, 80), "not so soon");
        assert!(is_due(300, 300));
        // Nothing could: a model was loaded.
        assert!(!is_due(300, 600) && !is_due(316, 900));
        assert!(is_due(317, 920));
        // It has followed at once twice.
        assert!(!is_due(250, 1200) && !is_due(267, 1900) && is_due(267, 1930));
        // After some rest it is as it was.
        assert!(!is_due(100, 6000) && is_due(200, 9000));
        assert!(!is_due(100, 9100) && !is_due(200, 9240) && is_due(200, 9260));
    }

    #[test]
    fn a_small_process_may_keep_some_too() {
        let mut retained = Retained::within(64 << 20);
        let now = Instant::now();
        assert!(!retained.is_due(0, now) && !retained.is_due(LEAST, now));
        assert!(retained.is_due(LEAST + 1, now));
    }
}
