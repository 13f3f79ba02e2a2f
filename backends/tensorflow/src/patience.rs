//! How long a run of a signature may take. TensorFlow cannot be stopped, but ends a run between two nodes when its time
//! is over. It hands such a run to another thread, which costs as much as a small run: those that are known to be short
//! go without.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// A shorter run is not worth bounding.
const SHORT: Duration = Duration::from_millis(1);

/// Beginnings of the names of operations that run others as often as their inputs say, run one or another of them, or
/// make as much as their inputs say: inputs of one size may take any time.
const BY_VALUE: [&str; 18] = [
    "While",
    "StatelessWhile",
    "Enter",
    "RefEnter",
    "MapDefun",
    "If",
    "StatelessIf",
    "Case",
    "StatelessCase",
    "Switch",
    "RefSwitch",
    "ReduceDataset",
    "Range",
    "RaggedRange",
    "LinSpace",
    "Fill",
    "Tile",
    "BroadcastTo",
];

/// Beginnings of the names of those of them that run others as often as values say, or one or another of them.
const OF_ANY_TIME: [&str; 12] = [
    "While",
    "StatelessWhile",
    "Enter",
    "RefEnter",
    "MapDefun",
    "If",
    "StatelessIf",
    "Case",
    "StatelessCase",
    "Switch",
    "RefSwitch",
    "ReduceDataset",
];

/// What is known of the runs of a signature.
#[derive(Debug)]
pub(crate) struct Patience {
    follows_values: bool,
    may_take_any_time: bool,
    /// Bytes of inputs of the largest run that was short, and 1 more; 0 where there was none. At most those of the last
    /// run that was long.
    short: AtomicUsize,
}

impl Patience {
    /// Of a signature that runs those operations.
    pub(crate) fn of(operations: &BTreeSet<String>) -> Patience {
        let has = |names: &[&str]| {
            operations.iter().any(|it| names.iter().any(|name| it.starts_with(name)))
        };
        Patience {
            follows_values: has(&BY_VALUE),
            may_take_any_time: has(&OF_ANY_TIME),
            short: AtomicUsize::new(0),
        }
    }

    /// May runs on inputs of the same shapes take any time, as values say what is run?
    pub(crate) fn may_take_any_time(&self) -> bool {
        self.may_take_any_time
    }

    /// The time that a run on so many bytes gets; `None` for any.
    pub(crate) fn limit(
        &self,
        bytes: usize,
        ends_by: Option<Instant>,
        now: Instant,
    ) -> Option<Duration> {
        let is_short = !self.follows_values && bytes < self.short.load(Ordering::Relaxed);
        ends_by.filter(|_| !is_short).map(|it| it.saturating_duration_since(now))
    }

    /// A run on so many bytes has taken so long.
    pub(crate) fn learn(&self, bytes: usize, took: Duration) {
        let short = self.short.load(Ordering::Relaxed);
        if took < SHORT && short <= bytes {
            self.short.store(bytes.saturating_add(1), Ordering::Relaxed);
        } else if SHORT <= took && bytes < short {
            self.short.store(bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience(operation: &str) -> Patience {
        Patience::of(&[operation.to_owned()].into())
    }

    #[test]
    fn runs_up_to_the_size_of_one_that_was_short_are_not_bounded() {
        let (patience, now) = (patience("MatMul"), Instant::now());
        let limit = |bytes| patience.limit(bytes, Some(now + SHORT), now);
        assert_eq!(limit(0), Some(SHORT));
        patience.learn(100, SHORT / 2);
        patience.learn(10, SHORT / 2);
        patience.learn(200, SHORT);
        assert_eq!([limit(100), limit(101)], [None, Some(SHORT)]);
        assert_eq!(patience.limit(101, None, now), None);
        assert_eq!(patience.limit(101, Some(now), now + SHORT), Some(Duration::ZERO));
    }

    #[test]
    fn a_run_that_was_long_has_others_of_its_size_bounded_again() {
        let (patience, now) = (patience("MatMul"), Instant::now());
        let limit = |bytes| patience.limit(bytes, Some(now + SHORT), now);
        patience.learn(100, SHORT / 2);
        patience.learn(50, SHORT);
        assert_eq!([limit(49), limit(50), limit(100)], [None, Some(SHORT), Some(SHORT)]);
    }

    #[test]
    fn runs_whose_time_follows_values_are_always_bounded() {
        for operation in ["StatelessWhile", "If", "Fill", "Range", "RangeDataset", "TileGrad"] {
            let (patience, now) = (patience(operation), Instant::now());
            patience.learn(8, Duration::ZERO);
            assert_eq!(patience.limit(8, Some(now + SHORT), now), Some(SHORT), "{operation}");
        }
    }

    #[test]
    fn loops_and_branches_may_take_any_time_and_operations_that_make_as_much_as_values_say_do_not()
    {
        for operation in ["StatelessWhile", "If", "Enter", "Switch", "MapDefun"] {
            assert!(patience(operation).may_take_any_time(), "{operation}");
        }
        for operation in ["MatMul", "Fill", "TileGrad"] {
            assert!(!patience(operation).may_take_any_time(), "{operation}");
        }
    }
}
