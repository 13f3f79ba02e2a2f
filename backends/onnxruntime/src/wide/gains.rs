//! Which runs gain by more threads, and give the same bytes with them: learned from pairs of runs on the same inputs,
//! one of each session. Pure.
//!
//! How a product of matrices is divided among threads decides in which order it is summed, and follows from shapes. So
//! runs of one shape that differ do so for nearly all inputs; and where several inputs with several outputs give the
//! same bytes, all do.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

/// Before a size of inputs is judged it takes so many pairs.
const FIRST_PAIRS: usize = 3;

/// It is judged by so many of the latest. A few of them may have had other work beside them.
const LATEST_PAIRS: usize = 5;

/// After a judgement the next pair is so many runs away, and with each that confirms it twice as many.
const SOON: u32 = 8;

/// But no more than these: what else the machine does may change.
const LATER: u32 = 256;

/// At most one in so many runs of a size is a pair, but for the first ones.
const PART_OF_RUNS: u32 = 8;
const FIRST_RUNS: u32 = 8;

/// More threads cost more processor time, so they are to take no longer than this part of the time.
const WORTHWHILE: f64 = 0.9;

/// Where so many pairs have differed and none has been the same, there is nothing to be gained.
const FRUITLESS: u32 = 32;

/// A shape is trusted when inputs with so many different outputs have given the same bytes either way.
const TRUSTED: usize = 8;

/// And these outputs have so many floating point numbers together: a single one may hide what came before it.
const FLOATS: usize = 64;

/// Of a shape that is not trusted after so many inputs no others are looked at.
const MOST_TRIES: u32 = 64;

/// So many shapes are known at most; others are never run with more threads.
const MOST_SHAPES: usize = 4096;

/// What is known of a model's runs.
#[derive(Debug)]
pub(super) struct Gains {
    shapes: HashMap<u64, Shape>,
    /// By the binary logarithm of the number of elements.
    sizes: Vec<Size>,
    /// Pairs that have differed, and whether one has been the same.
    differed: u32,
    has_same: bool,
}

/// What is known of runs of one shape.
#[derive(Debug)]
struct Shape {
    trust: Trust,
    /// Seconds of a narrow run, of late.
    narrow: f64,
    /// Has a wide run taken longer than that?
    is_in_doubt: bool,
}

/// Does a wide run give the same bytes?
#[derive(Debug)]
enum Trust {
    /// For these inputs, of which each has other outputs; inputs that were looked at.
    Inputs(Vec<Outcome>, u32),
    Always,
    Never,
}

/// What a run took and gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    /// A hash of its inputs.
    pub(super) inputs: u128,
    /// A hash of the outputs that are floating point numbers, and how many numbers they are.
    pub(super) outputs: u128,
    pub(super) floats: usize,
}

/// How long the runs of a pair took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) narrow: Duration,
    pub(super) wide: Duration,
}

/// What is known of runs of inputs of about the same size.
#[derive(Debug, Default)]
struct Size {
    /// The time of the wide run by that of the narrow one, of the latest pairs.
    ratios: VecDeque<f64>,
    /// Runs, and pairs among them.
    runs: u32,
    compared: u32,
    /// Runs from one pair to the next, and those since the last.
    interval: u32,
    since: u32,
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
    /// caches. `narrow` is how long a narrow run takes, where that is known.
    Pair { wide_first: bool, narrow: Option<Duration> },
}

impl Shapes {
    fn size(self) -> usize {
        self.elements.checked_ilog2().unwrap_or(0) as usize
    }
}

impl Gains {
    /// Nothing is known.
    pub(super) fn new() -> Gains {
        let sizes = (0..usize::BITS).map(|_| Size::default()).collect();
        Gains { shapes: HashMap::new(), sizes, differed: 0, has_same: false }
    }

    /// How the run that comes is to be made. `inputs` gives the hash of its inputs, if that is of interest.
    pub(super) fn choose(&mut self, shapes: Shapes, inputs: impl FnOnce() -> u128) -> Choice {
        let is_full = MOST_SHAPES <= self.shapes.len();
        let size = &mut self.sizes[shapes.size()];
        size.runs = size.runs.saturating_add(1);
        size.since = size.since.saturating_add(1);
        let is_due = size.ratios.len() < FIRST_PAIRS || size.interval <= size.since;
        let may_compare = size.compared <= FIRST_RUNS.saturating_add(size.runs / PART_OF_RUNS);
        let new = || match may_compare && (is_due || size.gains()) {
            true => Choice::Pair { wide_first: false, narrow: None },
            false => Choice::Narrow,
        };
        match self.shapes.get(&shapes.key) {
            None if is_full => Choice::Narrow,
            None => new(),
            Some(Shape { trust: Trust::Never, .. }) => Choice::Narrow,
            Some(Shape { trust: Trust::Inputs(known, tries), is_in_doubt, .. }) => {
                if !(size.gains() || is_due) {
                    return Choice::Narrow;
                }
                let inputs = inputs();
                match known.iter().any(|it| it.inputs == inputs) {
                    true if size.gains() && !(is_due || *is_in_doubt) => Choice::Wide,
                    false if MOST_TRIES <= *tries => Choice::Narrow,
                    true | false => new(),
                }
            }
            Some(Shape { trust: Trust::Always, is_in_doubt, narrow, .. }) => {
                let narrow = Some(Duration::from_secs_f64(*narrow));
                let wide_first = size.compared.is_multiple_of(2);
                match (is_due || *is_in_doubt) && may_compare {
                    true => Choice::Pair { wide_first, narrow },
                    false if size.gains() => Choice::Wide,
                    false => Choice::Narrow,
                }
            }
        }
    }

    /// Takes in a pair of runs that have given the same bytes; its times where the two had no other run beside them.
    pub(super) fn same(&mut self, shapes: Shapes, of: Outcome, times: Option<Times>) {
        self.has_same = true;
        self.sizes[shapes.size()].compare(times.map(|it| it.wide.div_duration_f64(it.narrow)));
        let first = || Shape {
            trust: Trust::Inputs(Vec::new(), 0),
            narrow: times.map_or(0.0, |it| it.narrow.as_secs_f64()),
            is_in_doubt: false,
        };
        let shape = self.shapes.entry(shapes.key).or_insert_with(first);
        if let Some(Times { narrow, .. }) = times {
            shape.narrow += (narrow.as_secs_f64() - shape.narrow) / 4.0;
            shape.is_in_doubt = false;
        }
        if let Trust::Inputs(known, tries) = &mut shape.trust {
            if known.iter().all(|it| it.inputs != of.inputs) {
                *tries += 1;
            }
            if known.iter().all(|it| it.outputs != of.outputs) {
                known.push(of);
            }
            let floats = known.iter().fold(0usize, |sum, it| sum.saturating_add(it.floats));
            if TRUSTED <= known.len() && FLOATS <= floats {
                shape.trust = Trust::Always;
            }
        }
    }

    /// A run of those shapes is not to be made with more threads again.
    pub(super) fn refuse(&mut self, shapes: Shapes) {
        self.differed = self.differed.saturating_add(1);
        self.sizes[shapes.size()].compare(None);
        let refused = Shape { trust: Trust::Never, narrow: 0.0, is_in_doubt: false };
        self.shapes.insert(shapes.key, refused);
    }

    /// Takes in the time of a wide run. Where it was no gain the next one is compared: something else may be busy now.
    pub(super) fn ran_wide(&mut self, shapes: Shapes, took: Duration) {
        if let Some(shape) = self.shapes.get_mut(&shapes.key) {
            shape.is_in_doubt = shape.narrow < took.as_secs_f64();
        }
    }

    /// Is there nothing to be gained?
    pub(super) fn are_fruitless(&self) -> bool {
        FRUITLESS <= self.differed && !self.has_same
    }
}

impl Size {
    fn gains(&self) -> bool {
        let mut sorted: Vec<f64> = self.ratios.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        FIRST_PAIRS <= sorted.len() && sorted[sorted.len() / 2] < WORTHWHILE
    }

    /// Takes in a pair: the ratio of its times, where both runs count.
    fn compare(&mut self, ratio: Option<f64>) {
        let before = self.gains();
        if LATEST_PAIRS <= self.ratios.len() && ratio.is_some() {
            self.ratios.pop_front();
        }
        self.ratios.extend(ratio);
        let confirms = self.gains() == before && FIRST_PAIRS <= self.ratios.len();
        self.interval = if confirms { (2 * self.interval).clamp(SOON, LATER) } else { SOON };
        self.since = 0;
        self.compared = self.compared.saturating_add(1);
    }
}

#[cfg(test)]
mod tests;
