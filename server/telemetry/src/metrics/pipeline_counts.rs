//! What models that take texts count beside others.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::histogram::{DURATION_BOUNDS, Histogram, ROW_BOUNDS};

/// Upper bounds for tokens.
const TOKEN_BOUNDS: [u64; 15] =
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];

/// What stands around the graph of a text model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextStep {
    /// From texts to the rows of the graph: reading them, tokens.
    Prepare,
    /// From what is kept of the rows to the answer.
    Finish,
}

impl TextStep {
    pub(super) const ALL: [TextStep; 2] = [TextStep::Prepare, TextStep::Finish];

    /// The value of the label `step`.
    pub(super) fn name(self) -> &'static str {
        match self {
            TextStep::Prepare => "prepare",
            TextStep::Finish => "finish",
        }
    }
}

/// Why texts are refused before anything runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRefusal {
    /// A text has more bytes, characters or tokens than are taken.
    TooLong,
    /// A parameter is none of the task, or has a value that it cannot have.
    Parameter,
    /// The tokenizer gave up.
    Tokenizer,
    /// Anything else: the number of texts, their form.
    Input,
}

impl TextRefusal {
    pub(super) const ALL: [TextRefusal; 4] =
        [TextRefusal::TooLong, TextRefusal::Parameter, TextRefusal::Tokenizer, TextRefusal::Input];

    /// The value of the label `reason`.
    pub(super) fn name(self) -> &'static str {
        match self {
            TextRefusal::TooLong => "too_long",
            TextRefusal::Parameter => "parameter",
            TextRefusal::Tokenizer => "tokenizer",
            TextRefusal::Input => "input",
        }
    }
}

/// Rows of runs, and what they are made of.
pub(super) struct PipelineCounts {
    /// Tokens of rows that were answered.
    text: AtomicU64,
    /// Inputs that were cut.
    pub(super) truncated: AtomicU64,
    /// Requests by why they were refused, in the order of [`TextRefusal::ALL`].
    pub(super) refused: [AtomicU64; TextRefusal::ALL.len()],
    pub(super) rows: Histogram,
    /// Tokens of runs, padding included.
    pub(super) padded: Histogram,
    /// Tokens of inputs, as the graph gets them.
    pub(super) input: Histogram,
    /// Nanoseconds of each request, in the order of [`TextStep::ALL`].
    pub(super) steps: [Histogram; TextStep::ALL.len()],
}

impl PipelineCounts {
    pub(super) fn new() -> PipelineCounts {
        let tokens = || Histogram::new(TOKEN_BOUNDS.as_slice());
        PipelineCounts {
            text: AtomicU64::new(0),
            truncated: AtomicU64::new(0),
            refused: Default::default(),
            rows: Histogram::new(ROW_BOUNDS.as_slice()),
            padded: tokens(),
            input: tokens(),
            steps: std::array::from_fn(|_| Histogram::new(DURATION_BOUNDS.as_slice())),
        }
    }

    /// One run of so many rows, padded to that length.
    pub(super) fn run(&self, rows: usize, length: usize) {
        self.rows.observe(rows as u64);
        self.padded.observe(rows.saturating_mul(length) as u64);
    }

    /// One row that was answered.
    pub(super) fn row(&self, tokens: usize) {
        self.text.fetch_add(tokens as u64, Relaxed);
    }

    /// One input that is ready to run.
    pub(super) fn input(&self, tokens: usize, is_truncated: bool) {
        self.input.observe(tokens as u64);
        self.truncated.fetch_add(is_truncated.into(), Relaxed);
    }

    /// Tokens by their kind.
    pub(super) fn tokens(&self) -> [(&'static str, u64); 2] {
        let (text, padded) = (self.text.load(Relaxed), self.padded.sum());
        // Rows that were not answered are in runs as well.
        [("text", text), ("padding", padded.saturating_sub(text))]
    }

    fn numbers(&self) -> impl Iterator<Item = &AtomicU64> {
        [&self.text, &self.truncated].into_iter().chain(&self.refused)
    }

    pub(super) fn absorb(&self, other: &PipelineCounts) {
        for (number, more) in self.numbers().zip(other.numbers()) {
            number.fetch_add(more.load(Relaxed), Relaxed);
        }
        self.rows.absorb(&other.rows);
        self.padded.absorb(&other.padded);
        self.input.absorb(&other.input);
        for (histogram, more) in self.steps.iter().zip(&other.steps) {
            histogram.absorb(more);
        }
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

    #[test]
    fn a_sum_has_all_that_was_counted() {
        let counts = PipelineCounts::new();
        counts.input(9, true);
        counts.input(4, false);
        counts.refused[TextRefusal::Parameter as usize].fetch_add(1, Relaxed);
        counts.steps[TextStep::Finish as usize].observe(70);
        let sum = PipelineCounts::new();
        sum.absorb(&counts);
        assert_eq!((sum.input.count(), sum.input.sum()), (2, 13));
        assert_eq!(sum.truncated.load(Relaxed), 1);
        assert_eq!(sum.refused.each_ref().map(|it| it.load(Relaxed)), [0, 1, 0, 0]);
        assert_eq!(sum.steps.each_ref().map(Histogram::sum), [0, 70]);
    }
}
