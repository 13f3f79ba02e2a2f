//! Which runs gain by more threads, and give the same bytes with them. Pure.
//!
//! Bytes are learned from pairs of runs on the same inputs, one of each session. How a product of matrices is divided
//! among threads decides in which order it is summed, and follows from shapes. So runs of one shape that differ do so
//! for nearly all inputs; and where several inputs with several outputs give the same bytes, all do.
//!
//! Times are learned from several wide runs in a row: a thread that has slept for a while is often woken on the
//! processor of the one that waits for it, and costs the first of them milliseconds.

use std::{collections::HashMap, time::Duration};

/// A trial has so many wide runs in a row.
const TRIAL: usize = 6;

/// Of which so many do not count.
const WARM_UP: usize = 2;

/// A trial ends with a run that takes so many times as long as a narrow one.
const HOPELESS: f64 = 2.0;

/// More threads cost more processor time, so they are to take no longer than this part of the time.
const WORTHWHILE: f64 = 0.9;

/// Wide runs end where they take more than this part of the time.
const LOST: f64 = 0.95;

/// After a trial that showed no gain the next is so many runs away, and after each further one twice as many.
const SOON: u32 = 32;

/// But no more than these: what else the machine does may change. After as many wide runs one is compared again.
const LATER: u32 = 2048;

/// At most one in so many runs of a size is a pair, but for the first ones.
const PART_OF_RUNS: u32 = 8;
const FIRST_RUNS: u32 = 8;

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
    /// Seconds of a narrow run, of late; `None` where none was made without others beside it.
    narrow: Option<f64>,
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

/// What is known of runs of inputs of about the same size.
#[derive(Debug, Default)]
struct Size {
    /// Runs, and pairs among them.
    runs: u32,
    compared: u32,
    /// Are runs made wide?
    is_wide: bool,
    /// The time of a wide run by that of a narrow one: of those of the trial that is made, and of late.
    trial: Option<Vec<f64>>,
    ratio: f64,
    /// Runs from one trial to the next, and those since the last.
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
    /// Both ways, to compare them: narrow first.
    Pair,
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
        let is_due = size.interval <= size.since;
        let may_compare = size.compared <= FIRST_RUNS.saturating_add(size.runs / PART_OF_RUNS);
        let compared = match may_compare && (is_due || size.is_wide) {
            true => Choice::Pair,
            false => Choice::Narrow,
        };
        let shape = self.shapes.get(&shapes.key);
        // Without the time of a narrow run there is nothing to compare a wide one with.
        let is_timed = shape.is_some_and(|it| it.narrow.is_some());
        match shape.map(|it| &it.trust) {
            None if is_full => Choice::Narrow,
            None => compared,
            Some(Trust::Never) => Choice::Narrow,
            Some(Trust::Inputs(..) | Trust::Always) if !is_timed => compared,
            Some(Trust::Inputs(known, tries)) => {
                if !(size.is_wide || size.trial.is_some() || is_due) {
                    return Choice::Narrow;
                }
                let inputs = inputs();
                match known.iter().any(|it| it.inputs == inputs) {
                    true => size.choose(),
                    false if MOST_TRIES <= *tries => Choice::Narrow,
                    false => compared,
                }
            }
            Some(Trust::Always) => size.choose(),
        }
    }

    /// Takes in a pair of runs that have given the same bytes; the time of the narrow one where it had no other beside
    /// it.
    pub(super) fn same(&mut self, shapes: Shapes, of: Outcome, narrow: Option<Duration>) {
        self.has_same = true;
        self.sizes[shapes.size()].compare();
        let first = || Shape { trust: Trust::Inputs(Vec::new(), 0), narrow: None };
        let shape = self.shapes.entry(shapes.key).or_insert_with(first);
        if let Some(narrow) = narrow.map(|it| it.as_secs_f64()) {
            let known = shape.narrow.get_or_insert(narrow);
            *known += (narrow - *known) / 4.0;
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
        self.sizes[shapes.size()].compare();
        self.shapes.insert(shapes.key, Shape { trust: Trust::Never, narrow: None });
    }

    /// Takes in the time of a wide run; `None` where it had another beside it, which ends a trial.
    pub(super) fn ran_wide(&mut self, shapes: Shapes, took: Option<Duration>) {
        let size = &mut self.sizes[shapes.size()];
        let narrow = self.shapes.get(&shapes.key).and_then(|it| it.narrow);
        match took.zip(narrow) {
            Some((took, narrow)) => size.ran_wide(took.as_secs_f64() / narrow),
            None if size.trial.is_some() => (size.trial, size.since) = (None, 0),
            None => {}
        }
    }

    /// Is there nothing to be gained?
    pub(super) fn are_fruitless(&self) -> bool {
        FRUITLESS <= self.differed && !self.has_same
    }
}

impl Size {
    /// How a run is made whose outputs are the same either way.
    fn choose(&mut self) -> Choice {
        match (self.is_wide, &self.trial) {
            (true, _) if LATER <= self.since => Choice::Pair,
            (true, _) | (false, Some(_)) => Choice::Wide,
            (false, None) if self.interval <= self.since => {
                self.trial = Some(Vec::with_capacity(TRIAL));
                Choice::Wide
            }
            (false, None) => Choice::Narrow,
        }
    }

    /// Takes in that a run was made both ways.
    fn compare(&mut self) {
        self.compared = self.compared.saturating_add(1);
        if self.is_wide {
            self.since = 0;
        }
    }

    /// Takes in the time of a wide run by that of a narrow one.
    fn ran_wide(&mut self, ratio: f64) {
        let Some(trial) = &mut self.trial else {
            self.ratio += (ratio - self.ratio) / 8.0;
            if self.is_wide && LOST < self.ratio {
                (self.is_wide, self.interval, self.since) = (false, SOON, 0);
            }
            return;
        };
        trial.push(ratio);
        let is_hopeless = WARM_UP < trial.len() && HOPELESS < ratio;
        if trial.len() < TRIAL && !is_hopeless {
            return;
        }
        let mut counted = trial.split_off(WARM_UP.min(trial.len()));
        counted.sort_by(f64::total_cmp);
        self.ratio = counted.get(counted.len() / 2).copied().unwrap_or(f64::INFINITY);
        self.is_wide = !is_hopeless && self.ratio < WORTHWHILE;
        self.interval = if self.is_wide { SOON } else { (2 * self.interval).clamp(SOON, LATER) };
        (self.trial, self.since) = (None, 0);
    }
}

#[cfg(test)]
mod tests;
