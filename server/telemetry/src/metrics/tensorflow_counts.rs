//! What is counted besides where metrics are shown with TensorFlow Serving's names: its histograms have bounds of their
//! own, and cannot be made from others.

use super::{histogram::Histogram, lanes::Lanes};

/// What one thread has counted of one model version. Times are in nanoseconds.
pub(super) struct TensorFlowCounts {
    /// From acceptance to the response.
    pub(super) request: Histogram,
    /// The run of the engine, once for each request in the batch.
    pub(super) runtime: Histogram,
    /// In the queue.
    pub(super) queue: Histogram,
    /// Rows of requests, with the bounds of their counts of examples.
    pub(super) examples: Histogram,
    /// Rows of requests, with the bounds of batches.
    pub(super) input_rows: Histogram,
    /// Rows of executed batches.
    pub(super) batch_rows: Histogram,
}

/// One for each thread that has counted.
pub(super) type TensorFlowLanes = Lanes<TensorFlowCounts>;

impl TensorFlowCounts {
    pub(super) fn new() -> TensorFlowCounts {
        let latency = || Histogram::new(exponential(10_000, 1.8, 33));
        TensorFlowCounts {
            request: latency(),
            runtime: latency(),
            queue: Histogram::new(exponential(100_000, 1.2, 52)),
            examples: Histogram::new(exponential(1, 2.0, 15)),
            input_rows: Histogram::new(exponential(1, 2.0, 14)),
            batch_rows: Histogram::new(exponential(1, 2.0, 14)),
        }
    }

    /// Counts one request that was answered with a result; the times are in nanoseconds.
    pub(super) fn success(&self, rows: usize, [total, queue, infer]: [u64; 3]) {
        let rows = rows as u64;
        self.request.observe(total);
        self.runtime.observe(infer);
        self.queue.observe(queue);
        self.examples.observe(rows);
        self.input_rows.observe(rows);
    }

    /// Counts one execution of a batch of so many rows.
    pub(super) fn execution(&self, batch_rows: usize) {
        self.batch_rows.observe(batch_rows as u64);
    }

    /// Adds all that another one has counted.
    pub(super) fn absorb(&self, other: &TensorFlowCounts) {
        for (histogram, more) in self.histograms().into_iter().zip(other.histograms()) {
            histogram.absorb(more);
        }
    }

    fn histograms(&self) -> [&Histogram; 6] {
        [
            &self.request,
            &self.runtime,
            &self.queue,
            &self.examples,
            &self.input_rows,
            &self.batch_rows,
        ]
    }
}

/// So many bounds, each that many times the one before.
fn exponential(first: u64, growth: f64, count: i32) -> Vec<u64> {
    (0..count).map(|it| (first as f64 * growth.powi(it)).round() as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_of_tensorflow_serving() {
        let latency = exponential(10_000, 1.8, 33);
        assert_eq!((latency.len(), &latency[..4]), (33, &[10_000, 18_000, 32_400, 58_320][..]));
        let queue = exponential(100_000, 1.2, 52);
        assert_eq!((queue.len(), queue[1], queue[2]), (52, 120_000, 144_000));
        assert_eq!(exponential(1, 2.0, 15).last(), Some(&16384));
        assert!(latency.is_sorted_by(|a, b| a < b) && queue.is_sorted_by(|a, b| a < b));
    }
}
