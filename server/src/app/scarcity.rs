//! Notices that memory is nearly used up: engines then give back what they keep for later runs, and large requests are
//! refused until there is memory again. A process that asks for more than its control group has is killed, with
//! everything that it serves.

use std::{sync::Arc, time::Duration};

use inference::limits::Budget;
use machine::bytes_text;

/// How often memory is looked at: two small files.
const EVERY: Duration = Duration::from_secs(1);

/// The part of the limit that has to be left, as a divisor, and its bounds in bytes.
const RESERVE: u64 = 20;
const LEAST_RESERVE: u64 = 32 << 20;
const MOST_RESERVE: u64 = 1 << 30;

/// Memory at one moment, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// Taken by this process and those of models, without files that the system can drop.
    pub(super) taken: u64,
    /// What the machine has left; `None` where it does not say.
    pub(super) available: Option<u64>,
}

impl Usage {
    /// The memory now, where models take so many bytes in processes of their own.
    pub(super) fn read(processes: u64) -> Usage {
        let taken = machine::anonymous_bytes().saturating_add(processes);
        Usage { taken, available: machine::available_bytes() }
    }

    /// What is left of `limit` bytes.
    fn left(self, limit: u64) -> u64 {
        limit.saturating_sub(self.taken).min(self.available.unwrap_or(u64::MAX))
    }
}

/// Is memory scarce now? Where it was, twice as much has to be left before it is not.
fn is_scarce(was: bool, limit: u64, usage: Usage) -> bool {
    let reserve = (limit / RESERVE).clamp(LEAST_RESERVE, MOST_RESERVE).min(limit / 4);
    usage.left(limit) < if was { 2 * reserve } else { reserve }
}

/// Watches for ever that this process stays within `limit` bytes. `trim` gives back what is not in use; it is called
/// once each time that memory becomes scarce, and may block.
pub(super) async fn watch(
    limit: u64,
    read: impl Fn() -> Usage,
    budget: Arc<Budget>,
    trim: impl Fn() + Clone + Send + 'static,
) {
    loop {
        tokio::time::sleep(EVERY).await;
        let (was, usage) = (budget.is_scarce(), read());
        let now = is_scarce(was, limit, usage);
        if now == was {
            continue;
        }
        budget.set_scarce(now);
        if now {
            // Not waited for: an engine that is busy must not keep this from noticing that there is memory again.
            drop(tokio::task::spawn_blocking(trim.clone()));
        }
        let (left, limit) = (bytes_text(usage.left(limit)), bytes_text(limit));
        match now {
            true => {
                tracing::warn!(
                    left,
                    limit,
                    "memory is nearly used up: large requests are refused, and engines give back what they do not use"
                )
            }
            false => tracing::info!(left, limit, "there is memory again: large requests are taken"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn memory_is_scarce_with_a_twentieth_left_and_not_any_more_with_a_tenth() {
        let of = |was, taken, available| is_scarce(was, GIB, Usage { taken, available });
        assert!(!of(false, 0, None));
        assert!(!of(false, GIB / 100 * 94, None));
        assert!(of(false, GIB / 100 * 96, None));
        assert!(of(true, GIB / 100 * 91, None));
        assert!(!of(true, GIB / 100 * 89, None));
        // Others may have taken the machine's memory.
        assert!(of(false, 0, Some(40 << 20)));
        assert!(!of(false, 0, Some(GIB)));
        // More than there should be.
        assert!(of(false, 2 * GIB, None));
    }

    #[tokio::test(start_paused = true)]
    async fn large_requests_are_refused_from_the_next_look_on_until_there_is_memory() {
        let (budget, taken) = (Budget::new(1 << 30), Cell::new(0));
        let read = || Usage { taken: taken.get(), available: None };
        let watching = watch(GIB, read, budget.clone(), || {});
        let mut watching = std::pin::pin!(watching);
        let mut after = async |bytes| {
            taken.set(bytes);
            let _ = tokio::time::timeout(2 * EVERY, watching.as_mut()).await;
            budget.take(100 << 20).is_some()
        };
        assert!(after(GIB / 2).await);
        assert!(!after(GIB - 1).await);
        assert!(after(GIB / 2).await);
    }

    #[tokio::test(start_paused = true)]
    async fn engines_trim_their_memory_once_each_time_that_it_becomes_scarce() {
        let (taken, trimmed) = (Cell::new(0), Arc::<AtomicUsize>::default());
        let counter = trimmed.clone();
        let trim = move || {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let read = || Usage { taken: taken.get(), available: None };
        let mut watching = std::pin::pin!(watch(GIB, read, Budget::new(1 << 30), trim));
        for (bytes, times) in [(GIB / 2, 0), (GIB - 1, 1), (GIB - 2, 1), (0, 1), (GIB, 2)] {
            taken.set(bytes);
            let _ = tokio::time::timeout(3 * EVERY, watching.as_mut()).await;
            assert_eq!(trimmed.load(Ordering::Relaxed), times);
        }
    }
}
