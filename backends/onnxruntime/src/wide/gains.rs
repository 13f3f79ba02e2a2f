//! Which runs gain by more threads, and give the same bytes with them: learned from pairs of runs on the same inputs,
//! one of each session. Pure.
//!
//! How a product of matrices is divided among threads decides in which order it is summed, and follows from shapes. So
//! runs of one shape that differ do so for nearly all inputs; and where several inputs with several outputs give the
//! same bytes, all do.

use std::{collections::HashMap, time::Duration};

/// Before a size of inputs is judged it takes so many pairs.
const FIRST_PAIRS: u32 = 3;

/// From then on one in so many runs of the size is a pair: what else the machine does may change.
const AGAIN: u32 = 256;

/// At most one in so many runs of a size is a pair, but for the first ones.
const PART_OF_RUNS: u32 = 8;

/// Older pairs count less: sums are halved once they are of so many.
const MOST_PAIRS: u32 = 16;

/// More threads cost more processor time, so they are to take no longer than this part of the time.
const WORTHWHILE: f64 = 0.9;

/// After so many pairs that show no gain at any size, none is looked for.
const FRUITLESS: u32 = 32;

/// A shape is trusted when inputs with so many different outputs have given the same bytes either way.
const TRUSTED: usize = 8;

/// A shape that is not after so many pairs never will be: its outputs hardly depend on its inputs.
const MOST_TRIES: u32 = 64;

/// So many shapes are known at most; others are never run with more threads.
const MOST_SHAPES: usize = 4096;

/// What is known of a model's runs.
#[derive(Debug)]
pub(super) struct Gains {
    shapes: HashMap<u64, Shape>,
    /// By the binary logarithm of the number of elements.
    sizes: [Size; 64],
    /// Pairs in all.
    pairs: u32,
}

/// What is known of runs of one shape.
#[derive(Debug)]
struct Shape {
    size: usize,
    trust: Trust,
    /// Seconds of a narrow run, of late.
    narrow: f64,
    /// Has a wide run taken longer than that?
    is_in_doubt: bool,
}

/// Does a wide run give the same bytes?
#[derive(Debug)]
enum Trust {
    /// For these inputs, of which each has other outputs; pairs so far.
    Inputs(Vec<Outcome>, u32),
    Always,
    Never,
}

/// The hashes of a run's inputs and of its outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) inputs: u128,
    pub(super) outputs: u128,
}

/// What is known of runs of inputs of about the same size.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    /// Seconds of either kind, of as many pairs.
    narrow: f64,
    wide: f64,
    pairs: u32,
    /// Those of which it was seen whether they are pairs, and pairs in all.
    runs: u32,
    compared: u32,
}

/// The shapes of a run's inputs with the outputs that are wanted, and about how large they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shapes {
    pub(super) key: u64,
    /// Elements of all inputs.
    pub(super) elements: usize,
}

/// How a run is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// With the threads of any run.
    Narrow,
    /// With more.
    Wide,
    /// Both ways, to compare them. Wide first, now and then, where its outputs are trusted: who is second finds warm
    /// caches.
    Pair { wide_first: bool },
}

impl Shapes {
    fn size(self) -> usize {
        self.elements.checked_ilog2().unwrap_or(0) as usize
    }
}

impl Gains {
    /// Nothing is known.
    pub(super) fn new() -> Gains {
        Gains { shapes: HashMap::new(), sizes: [Size::default(); 64], pairs: 0 }
    }

    /// How the run that comes is to be made. `inputs` gives the hash of its inputs, if that is of interest.
    pub(super) fn choose(&mut self, shapes: Shapes, inputs: impl FnOnce() -> u128) -> Choice {
        let is_full = MOST_SHAPES <= self.shapes.len();
        let size = &mut self.sizes[shapes.size()];
        size.runs = size.runs.saturating_add(1);
        let is_due = size.pairs < FIRST_PAIRS || size.runs.is_multiple_of(AGAIN);
        let may_compare = size.compared <= FIRST_PAIRS.saturating_add(size.runs / PART_OF_RUNS);
        let new = || match may_compare && (is_due || size.gains()) {
            true => Choice::Pair { wide_first: false },
            false => Choice::Narrow,
        };
        match self.shapes.get(&shapes.key) {
            None if is_full => Choice::Narrow,
            None => new(),
            Some(Shape { trust: Trust::Never, .. }) => Choice::Narrow,
            Some(Shape { trust: Trust::Inputs(known, _), is_in_doubt, .. }) => {
                let inputs = inputs();
                match known.iter().any(|it| it.inputs == inputs) {
                    true if size.gains() && !(is_due || *is_in_doubt) => Choice::Wide,
                    _ => new(),
                }
            }
            Some(Shape { trust: Trust::Always, is_in_doubt, .. }) => {
                match (is_due || *is_in_doubt) && may_compare {
                    true => Choice::Pair { wide_first: size.compared.is_multiple_of(2) },
                    false if size.gains() => Choice::Wide,
                    false => Choice::Narrow,
                }
            }
        }
    }

    /// Takes in a pair of runs that have given the same bytes.
    pub(super) fn same(&mut self, shapes: Shapes, of: Outcome, narrow: Duration, wide: Duration) {
        self.pairs = self.pairs.saturating_add(1);
        let size = &mut self.sizes[shapes.size()];
        size.compared = size.compared.saturating_add(1);
        let first = || Shape {
            size: shapes.size(),
            trust: Trust::Inputs(Vec::new(), 0),
            narrow: narrow.as_secs_f64(),
            is_in_doubt: false,
        };
        let shape = self.shapes.entry(shapes.key).or_insert_with(first);
        shape.narrow += (narrow.as_secs_f64() - shape.narrow) / 4.0;
        shape.is_in_doubt = false;
        if let Trust::Inputs(known, tries) = &mut shape.trust {
            *tries += 1;
            if known.iter().all(|it| it.outputs != of.outputs) {
                known.push(of);
            }
            if TRUSTED <= known.len() {
                shape.trust = Trust::Always;
            } else if MOST_TRIES <= *tries {
                shape.trust = Trust::Never;
            }
        }
        if MOST_PAIRS <= size.pairs {
            size.pairs /= 2;
            size.narrow /= 2.0;
            size.wide /= 2.0;
        }
        size.pairs += 1;
        size.narrow += narrow.as_secs_f64();
        size.wide += wide.as_secs_f64();
    }

    /// A run of those shapes is not to be made with more threads again.
    pub(super) fn refuse(&mut self, shapes: Shapes) {
        self.pairs = self.pairs.saturating_add(1);
        let size = &mut self.sizes[shapes.size()];
        size.compared = size.compared.saturating_add(1);
        let (size, trust) = (shapes.size(), Trust::Never);
        self.shapes.insert(shapes.key, Shape { size, trust, narrow: 0.0, is_in_doubt: false });
    }

    /// Takes in the time of a wide run. Where it was no gain the next one is compared: something else may be busy now.
    pub(super) fn ran_wide(&mut self, shapes: Shapes, took: Duration) {
        if let Some(shape) = self.shapes.get_mut(&shapes.key) {
            shape.is_in_doubt = shape.narrow < took.as_secs_f64();
        }
    }

    /// Is there nothing to be gained?
    pub(super) fn are_fruitless(&self) -> bool {
        let gains = |it: &Shape| !matches!(it.trust, Trust::Never) && self.sizes[it.size].gains();
        FRUITLESS <= self.pairs && !self.shapes.values().any(gains)
    }
}

impl Size {
    fn gains(&self) -> bool {
        FIRST_PAIRS <= self.pairs && self.wide < self.narrow * WORTHWHILE
    }
}

#[cfg(test)]
mod tests;
