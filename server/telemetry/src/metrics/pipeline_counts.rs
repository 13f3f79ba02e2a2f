//! What pipelines count beside other models, by what their inputs are.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use inference::task::Medium;

use super::histogram::{DURATION_BOUNDS, Histogram, ROW_BOUNDS};

/// Upper bounds for tokens.
const TOKEN_BOUNDS: [u64; 15] =
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];

/// What stands around the graph of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineStep {
    /// From inputs to the rows of the graph: tokens, pixels or samples.
    Prepare,
    /// From what is kept of the rows to the answer.
    Finish,
}

impl PipelineStep {
    pub(super) const ALL: [PipelineStep; 2] = [PipelineStep::Prepare, PipelineStep::Finish];

    /// The value of the label `step`.
    pub(super) fn name(self) -> &'static str {
        match self {
            PipelineStep::Prepare => "prepare",
            PipelineStep::Finish => "finish",
        }
    }
}

/// Why inputs are refused before anything runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputRefusal {
    /// A text has more bytes, characters or tokens than are taken.
    TooLong,
    /// A parameter is none of the task, or has a value that it cannot have.
    Parameter,
    /// The tokenizer gave up.
    Tokenizer,
    /// Anything else: the number of inputs, their form, what is in a file.
    Input,
}

impl InputRefusal {
    pub(super) const ALL: [InputRefusal; 4] = [
        InputRefusal::TooLong,
        InputRefusal::Parameter,
        InputRefusal::Tokenizer,
        InputRefusal::Input,
    ];

    /// The value of the label `reason`.
    pub(super) fn name(self) -> &'static str {
        match self {
            InputRefusal::TooLong => "too_long",
            InputRefusal::Parameter => "parameter",
            InputRefusal::Tokenizer => "tokenizer",
            InputRefusal::Input => "input",
        }
    }
}

/// What the inputs of pipelines are.
const MEDIA: [Medium; 3] = [Medium::Text, Medium::Image, Medium::Audio];

/// Rows of runs, and what they are made of.
pub(super) struct PipelineCounts {
    /// Tokens of rows that were answered.
    text: AtomicU64,
    /// Texts that were cut.
    pub(super) truncated: AtomicU64,
    /// Inputs that were ready to run, in the order of [`MEDIA`].
    inputs: [AtomicU64; MEDIA.len()],
    /// Requests for tasks of each, in the order of [`MEDIA`].
    requests: [AtomicU64; MEDIA.len()],
    /// Requests by why they were refused, in the order of [`InputRefusal::ALL`].
    pub(super) refused: [AtomicU64; InputRefusal::ALL.len()],
    pub(super) rows: Histogram,
    /// Tokens of runs, padding included.
    pub(super) padded: Histogram,
    /// Tokens of texts, as the graph gets them.
    pub(super) input: Histogram,
    /// Nanoseconds of each request, in the order of [`PipelineStep::ALL`].
    pub(super) steps: [Histogram; PipelineStep::ALL.len()],
}

impl PipelineCounts {
    pub(super) fn new() -> PipelineCounts {
        let tokens = || Histogram::new(TOKEN_BOUNDS.as_slice());
        PipelineCounts {
            text: AtomicU64::new(0),
            truncated: AtomicU64::new(0),
            inputs: Default::default(),
            requests: Default::default(),
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

    /// So many inputs that are ready to run.
    pub(super) fn ready(&self, medium: Medium, count: usize) {
        add(&self.inputs, medium, count as u64);
    }

    /// One text that is ready to run.
    pub(super) fn text_input(&self, tokens: usize, is_truncated: bool) {
        self.input.observe(tokens as u64);
        self.truncated.fetch_add(is_truncated.into(), Relaxed);
    }

    /// One step of a request.
    pub(super) fn step(&self, medium: Medium, step: PipelineStep, nanoseconds: u64) {
        if step == PipelineStep::Prepare {
            add(&self.requests, medium, 1);
        }
        if let Some(histogram) = self.steps.get(step as usize) {
            histogram.observe(nanoseconds);
        }
    }

    /// Inputs that were ready to run, by what they are; of what the model has never been asked with nothing.
    pub(super) fn inputs(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = MEDIA.iter().zip(&self.inputs).zip(&self.requests);
        all.filter_map(|((medium, count), requests)| {
            let count = count.load(Relaxed);
            (0 < count || 0 < requests.load(Relaxed)).then(|| (medium.name(), count))
        })
    }

    /// Is the model for texts, and neither for images nor for sounds?
    pub(super) fn is_of_texts(&self) -> bool {
        let [_, files @ ..] = &self.requests;
        files.iter().all(|it| it.load(Relaxed) == 0)
    }

    /// Tokens by their kind.
    pub(super) fn tokens(&self) -> [(&'static str, u64); 2] {
        let (text, padded) = (self.text.load(Relaxed), self.padded.sum());
        // Rows that were not answered are in runs as well.
        [("text", text), ("padding", padded.saturating_sub(text))]
    }

    fn numbers(&self) -> impl Iterator<Item = &AtomicU64> {
        let alone = [&self.text, &self.truncated].into_iter();
        alone.chain(&self.inputs).chain(&self.requests).chain(&self.refused)
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

fn add(counts: &[AtomicU64; MEDIA.len()], medium: Medium, more: u64) {
    for (count, _) in counts.iter().zip(MEDIA).filter(|(_, it)| *it == medium) {
        count.fetch_add(more, Relaxed);
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
        counts.ready(Medium::Text, 2);
        counts.text_input(9, true);
        counts.text_input(4, false);
        counts.refused[InputRefusal::Parameter as usize].fetch_add(1, Relaxed);
        counts.step(Medium::Text, PipelineStep::Prepare, 30);
        counts.step(Medium::Text, PipelineStep::Finish, 70);
        let sum = PipelineCounts::new();
        sum.absorb(&counts);
        assert_eq!((sum.input.count(), sum.input.sum()), (2, 13));
        assert_eq!(sum.truncated.load(Relaxed), 1);
        assert_eq!(sum.refused.each_ref().map(|it| it.load(Relaxed)), [0, 1, 0, 0]);
        assert_eq!(sum.steps.each_ref().map(Histogram::sum), [30, 70]);
        assert!(sum.inputs().eq([("text", 2)]) && sum.is_of_texts());
    }

    #[test]
    fn images_are_counted_as_images() {
        let counts = PipelineCounts::new();
        counts.step(Medium::Image, PipelineStep::Prepare, 30);
        counts.ready(Medium::Image, 3);
        let sum = PipelineCounts::new();
        sum.absorb(&counts);
        assert!(sum.inputs().eq([("image", 3)]) && !sum.is_of_texts());
    }
}
