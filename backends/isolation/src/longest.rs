//! How long something takes, and may take, that has been done before.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// It may always take so long.
const ALWAYS: Duration = Duration::from_secs(900);

/// And so many times what it took before.
const TIMES: u32 = 3;

/// The longest that it has taken so far, and how long it took last.
#[derive(Debug, Default)]
pub(crate) struct Longest {
    /// Milliseconds, rounded up; 0 before it was done first.
    millis: AtomicU64,
    last_millis: AtomicU64,
}

impl Longest {
    /// It was done in that time.
    pub(crate) fn took(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.millis.fetch_max(millis.saturating_add(1), Relaxed);
        self.last_millis.store(millis, Relaxed);
    }

    /// How long it took when it was done last, to the millisecond; zero before it was done first.
    pub(crate) fn last(&self) -> Duration {
        Duration::from_millis(self.last_millis.load(Relaxed))
    }

    /// How long it may take. `None` before it was done first: then whoever has it done says how long he waits.
    pub(crate) fn limit(&self) -> Option<Duration> {
        let millis = Some(self.millis.load(Relaxed)).filter(|it| 0 < *it)?;
        Some(Duration::from_millis(millis).saturating_mul(TIMES).max(ALWAYS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_may_take_three_times_as_long() {
        let longest = Longest::default();
        assert_eq!(longest.limit(), None);
        longest.took(Duration::ZERO);
        assert_eq!(longest.limit(), Some(ALWAYS));
        longest.took(Duration::from_secs(3600));
        longest.took(Duration::from_secs(5));
        assert_eq!(longest.last(), Duration::from_secs(5));
        let limit = longest.limit().unwrap();
        assert!(Duration::from_secs(10_800) <= limit && limit < Duration::from_secs(10_801));
    }
}
