//! How many rows of a model one run may have, since the memory did not suffice for more. Pure.

use std::time::{Duration, Instant};

/// How long a bound stays as it is. Then twice as many rows are tried: what took the memory may be gone.
const BEFORE_MORE: Duration = Duration::from_secs(60);

/// Most rows of one run, as far as the memory has bounded them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryBound {
    known: Option<KnownBound>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KnownBound {
    rows: usize,
    since: Instant,
}

impl MemoryBound {
    /// The bound; `None` where the memory has always sufficed.
    pub fn rows(self) -> Option<usize> {
        self.known.map(|it| it.rows)
    }

    /// The bound after a run of so many rows for which the memory did not suffice, and whose halves have succeeded.
    pub fn after_failure(self, rows: usize, now: Instant) -> MemoryBound {
        let half = (rows / 2).max(1);
        let rows = self.rows().map_or(half, |it| it.min(half));
        MemoryBound { known: Some(KnownBound { rows, since: now }) }
    }

    /// The bound after a run that has succeeded, of a model whose runs have at most `most` rows.
    pub fn after_success(self, most: usize, now: Instant) -> MemoryBound {
        match self.known {
            Some(KnownBound { rows, since })
                if BEFORE_MORE <= now.saturating_duration_since(since) =>
            {
                let rows = rows.saturating_mul(2);
                let known = (rows < most).then_some(KnownBound { rows, since: now });
                MemoryBound { known }
            }
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_half_of_what_did_not_fit_and_only_time_raises_it() {
        let now = Instant::now();
        let free = MemoryBound::default();
        assert_eq!(free.after_success(8, now).rows(), None);
        let bound = free.after_failure(8, now);
        assert_eq!(bound.rows(), Some(4));
        // A larger run that began before does not raise it.
        assert_eq!(bound.after_failure(16, now).rows(), Some(4));
        let bound = bound.after_failure(4, now);
        assert_eq!(bound.rows(), Some(2));
        assert_eq!(bound.after_failure(1, now).rows(), Some(1));
        assert_eq!(bound.after_success(8, now + BEFORE_MORE / 2).rows(), Some(2));
        let later = now + BEFORE_MORE;
        let bound = bound.after_success(8, later);
        assert_eq!(bound.rows(), Some(4));
        assert_eq!(bound.after_success(8, later).rows(), Some(4));
        assert_eq!(bound.after_success(8, later + BEFORE_MORE).rows(), None);
    }
}
