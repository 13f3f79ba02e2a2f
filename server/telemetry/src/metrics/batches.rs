//! Executions by the exact size of their batch: few sizes as a rule, a bounded number always.

use std::{
    collections::BTreeMap,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use inference::timings::Timings;

use super::{
    histogram::nanoseconds,
    statistics::{BatchStatistics, Total},
};

/// Sizes that are made room for at a time.
const CHUNK: usize = 8;

/// Chunks of one table. Executions of a size that finds no place are not counted by size.
const MOST_CHUNKS: usize = 16;

/// The table of one lane. It finds a known size without a lock and makes room for a new one without a lock.
#[derive(Default)]
pub(super) struct Batches {
    sizes: [Size; CHUNK],
    more: OnceLock<Box<Batches>>,
}

#[derive(Default)]
struct Size {
    /// The rows and one; 0 while the place is free.
    key: AtomicU64,
    count: AtomicU64,
    /// Nanoseconds.
    input: AtomicU64,
    infer: AtomicU64,
    output: AtomicU64,
}

impl Batches {
    /// Counts one execution.
    pub(super) fn count(&self, timings: &Timings) {
        let times = [timings.input, timings.infer, timings.output].map(nanoseconds);
        self.add(timings.batch_rows as u64, 1, times);
    }

    /// Adds all that another table has counted.
    pub(super) fn absorb(&self, other: &Batches) {
        for size in other.sizes() {
            let times = [&size.input, &size.infer, &size.output].map(|it| it.load(Relaxed));
            self.add(size.key.load(Relaxed) - 1, size.count.load(Relaxed), times);
        }
    }

    /// What has been counted, by rows, ascending.
    pub(super) fn statistics(&self) -> Vec<BatchStatistics> {
        let mut by_rows = BTreeMap::new();
        for size in self.sizes() {
            let count = size.count.load(Relaxed);
            let total = |ns: &AtomicU64| Total { count, ns: ns.load(Relaxed) };
            let rows = size.key.load(Relaxed) - 1;
            let (compute_input, compute_infer) = (total(&size.input), total(&size.infer));
            let compute_output = total(&size.output);
            let of_size = BatchStatistics { rows, compute_input, compute_infer, compute_output };
            by_rows.insert(rows, of_size);
        }
        by_rows.into_values().collect()
    }

    fn add(&self, rows: u64, count: u64, [input, infer, output]: [u64; 3]) {
        let Some(size) = self.size(rows.saturating_add(1)) else { return };
        size.count.fetch_add(count, Relaxed);
        size.input.fetch_add(input, Relaxed);
        size.infer.fetch_add(infer, Relaxed);
        size.output.fetch_add(output, Relaxed);
    }

    /// The place of a size, which is taken for it where it has none.
    fn size(&self, key: u64) -> Option<&Size> {
        let mut table = self;
        for _ in 0..MOST_CHUNKS {
            for size in &table.sizes {
                // Whoever comes second to a free place sees whose it has become.
                let seen = match size.key.load(Relaxed) {
                    0 => {
                        size.key.compare_exchange(0, key, Relaxed, Relaxed).unwrap_or_else(|it| it)
                    }
                    taken => taken,
                };
                if seen == 0 || seen == key {
                    return Some(size);
                }
            }
            table = table.more.get_or_init(Box::default);
        }
        None
    }

    /// The places that are taken.
    fn sizes(&self) -> impl Iterator<Item = &Size> {
        let tables = std::iter::successors(Some(self), |it| it.more.get().map(Box::as_ref));
        tables.flat_map(|it| &it.sizes).take_while(|it| it.key.load(Relaxed) != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        thread,
        time::{Duration, Instant},
    };

    use super::*;

    fn execution(rows: usize) -> Timings {
        let time = Duration::from_nanos(rows as u64);
        let started = Timings::starting_at(Instant::now());
        Timings { batch_rows: rows, input: time, infer: time, output: time, ..started }
    }

    #[test]
    fn each_size_has_its_own_numbers_in_order() {
        let batches = Batches::default();
        for rows in (0..20).rev().chain([7]) {
            batches.count(&execution(rows));
        }
        let statistics = batches.statistics();
        let rows: Vec<u64> = statistics.iter().map(|it| it.rows).collect();
        assert_eq!(rows, (0..20).collect::<Vec<u64>>());
        assert_eq!(statistics[7].compute_infer, Total { count: 2, ns: 14 });
        assert_eq!(statistics[8].compute_output, Total { count: 1, ns: 8 });
    }

    #[test]
    fn the_number_of_sizes_is_bounded() {
        let batches = Batches::default();
        (0..10_000).for_each(|it| batches.count(&execution(it)));
        assert_eq!(batches.statistics().len(), CHUNK * MOST_CHUNKS);
        batches.count(&execution(3));
        assert_eq!(batches.statistics()[3].compute_infer.count, 2);
    }

    #[test]
    fn threads_that_find_the_same_new_size_share_its_place() {
        let batches = Batches::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|it| batches.count(&execution(it % 30))));
            }
        });
        let counts =
            batches.statistics().iter().map(|it| it.compute_infer.count).collect::<Vec<_>>();
        assert_eq!((counts.len(), counts.iter().sum()), (30, 4000));
    }
}
