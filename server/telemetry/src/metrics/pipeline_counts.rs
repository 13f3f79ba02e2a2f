//! What models that take texts count beside others.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::histogram::{Histogram, ROW_BOUNDS};

/// Rows of runs, and what they are made of.
pub(super) struct PipelineCounts {
    /// Tokens of rows that were answered.
    text: AtomicU64,
    /// Tokens of all runs, padding included.
    padded: AtomicU64,
    pub(super) rows: Histogram,
}

impl PipelineCounts {
    pub(super) fn new() -> PipelineCounts {
        let rows = Histogram::new(ROW_BOUNDS.as_slice());
        PipelineCounts { text: AtomicU64::new(0), padded: AtomicU64::new(0), rows }
    }

    /// One run of so many rows, padded to that length.
    pub(super) fn run(&self, rows: usize, length: usize) {
        self.rows.observe(rows as u64);
        self.padded.fetch_add(rows.saturating_mul(length) as u64, Relaxed);
    }

    /// One row that was answered.
    pub(super) fn row(&self, tokens: usize) {
        self.text.fetch_add(tokens as u64, Relaxed);
    }

    /// Tokens by their kind.
    pub(super) fn tokens(&self) -> [(&'static str, u64); 2] {
        let (text, padded) = (self.text.load(Relaxed), self.padded.load(Relaxed));
        // Rows that were not answered are in runs as well.
        [("text", text), ("padding", padded.saturating_sub(text))]
    }

    pub(super) fn absorb(&self, other: &PipelineCounts) {
        self.text.fetch_add(other.text.load(Relaxed), Relaxed);
        self.padded.fetch_add(other.padded.load(Relaxed), Relaxed);
        self.rows.absorb(&other.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_what_is_no_text() {
        let counts = PipelineCounts::new();
        counts.run(3, 8);
        [8, 5, 4].into_iter().for_each(|it| counts.row(it));
        let sum = PipelineCounts::new();
        sum.absorb(&counts);
        sum.absorb(&counts);
        assert_eq!(sum.tokens(), [("text", 34), ("padding", 14)]);
        assert_eq!((sum.rows.count(), sum.rows.sum()), (2, 6));
    }
}
