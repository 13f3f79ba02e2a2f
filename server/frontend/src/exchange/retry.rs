//! When a client that was refused may come back.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// Clients that are refused at one time come back within that much of each other.
const SPREAD: Duration = Duration::from_secs(3);

/// A time from `after` on, by chance: clients that were refused together do not come back together.
pub fn spread(after: Duration) -> Duration {
    // The keys of a new hasher are another number each time.
    let chance = RandomState::new().build_hasher().finish() % SPREAD.as_millis() as u64;
    after.saturating_add(Duration::from_millis(chance))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn clients_that_are_refused_together_come_back_at_different_times() {
        let after = Duration::from_secs(5);
        let times: BTreeSet<u64> = (0..1000).map(|_| spread(after).as_secs()).collect();
        assert_eq!(times, BTreeSet::from([5, 6, 7]));
        let exact: BTreeSet<Duration> = (0..1000).map(|_| spread(after)).collect();
        assert!(100 < exact.len(), "{}", exact.len());
    }
}
