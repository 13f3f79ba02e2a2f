//! Which runs gain by more threads, and give the same bytes with them: learned from pairs of runs on the same inputs,
//! one of each session. Pure.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use backend::NamedTensor;

/// Before a size of inputs is judged it takes so many pairs.
const FIRST_PAIRS: u32 = 3;

/// From then on one in so many runs of the size is a pair: what else the machine does may change.
const AGAIN: u32 = 256;

/// Older pairs count less: sums are halved once they are of so many.
const MOST_PAIRS: u32 = 16;

/// More threads cost more processor time, so they are to take no longer than this part of the time.
const WORTHWHILE: f64 = 0.9;

/// After so many pairs that show no gain at any size, none is looked for.
const FRUITLESS: u32 = 32;

/// So many shapes are known at most; then all are forgotten, and looked at again.
const MOST_SHAPES: usize = 4096;

/// What is known of a model's runs.
#[derive(Debug)]
pub(super) struct Gains {
    /// Does a run with more threads give the same bytes?
    shapes: HashMap<u64, bool>,
    /// By the binary logarithm of the number of elements.
    sizes: [Size; 64],
    /// Pairs in all.
    pairs: u32,
}

/// What is known of runs of inputs of about the same size.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    /// Seconds of either kind, of as many pairs.
    narrow: f64,
    wide: f64,
    pairs: u32,
    runs: u32,
    /// Has a wide run taken longer than a narrow one does?
    is_in_doubt: bool,
}

/// The shapes of a run's inputs, and about how large they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shapes {
    key: u64,
    size: usize,
}

/// How a run is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// With the threads of any run.
    Narrow,
    /// With more.
    Wide,
    /// Both ways, to compare them.
    Pair { wide_first: bool },
}

impl Shapes {
    pub(super) fn of(inputs: &[NamedTensor]) -> Shapes {
        let (mut hasher, mut elements) = (DefaultHasher::new(), 0usize);
        for it in inputs {
            it.name.hash(&mut hasher);
            it.tensor.shape().dims().hash(&mut hasher);
            elements = elements.saturating_add(it.tensor.elements());
        }
        Shapes { key: hasher.finish(), size: elements.checked_ilog2().unwrap_or(0) as usize }
    }
}

impl Gains {
    /// Nothing is known.
    pub(super) fn new() -> Gains {
        Gains { shapes: HashMap::new(), sizes: [Size::default(); 64], pairs: 0 }
    }

    /// How the run that comes is to be made.
    pub(super) fn choose(&mut self, shapes: Shapes) -> Choice {
        let known = self.shapes.get(&shapes.key).copied();
        let size = &mut self.sizes[shapes.size];
        size.runs = size.runs.wrapping_add(1);
        let is_due =
            size.pairs < FIRST_PAIRS || size.is_in_doubt || size.runs.is_multiple_of(AGAIN);
        let pair = Choice::Pair { wide_first: size.runs.is_multiple_of(2) };
        match known {
            // Other bytes are another answer, however soon it comes.
            Some(false) => Choice::Narrow,
            Some(true) if !is_due && size.gains() => Choice::Wide,
            None if size.gains() => pair,
            Some(true) | None if is_due => pair,
            Some(true) | None => Choice::Narrow,
        }
    }

    /// Takes in a pair of runs: did they give the same bytes, and how long did they take?
    pub(super) fn learn(
        &mut self,
        shapes: Shapes,
        is_same: bool,
        narrow: Duration,
        wide: Duration,
    ) {
        if MOST_SHAPES <= self.shapes.len() {
            self.shapes.clear();
        }
        // Once is enough: what follows from the shapes alone is so again, and what does not must not be relied on.
        let was_same = self.shapes.get(&shapes.key).is_none_or(|it| *it);
        self.shapes.insert(shapes.key, is_same && was_same);
        let size = &mut self.sizes[shapes.size];
        if MOST_PAIRS <= size.pairs {
            size.pairs /= 2;
            size.narrow /= 2.0;
            size.wide /= 2.0;
        }
        size.is_in_doubt = false;
        size.pairs += 1;
        size.narrow += narrow.as_secs_f64();
        size.wide += wide.as_secs_f64();
        self.pairs = self.pairs.saturating_add(1);
    }

    /// Takes in the time of a wide run. Where it was no gain the next one is compared: something else may be busy now.
    pub(super) fn ran_wide(&mut self, shapes: Shapes, took: Duration) {
        let size = &mut self.sizes[shapes.size];
        size.is_in_doubt = size.narrow < took.as_secs_f64() * f64::from(size.pairs);
    }

    /// A run of those shapes is not to be made with more threads again.
    pub(super) fn refuse(&mut self, shapes: Shapes) {
        self.shapes.insert(shapes.key, false);
    }

    /// Is there nothing to be gained?
    pub(super) fn are_fruitless(&self) -> bool {
        let has_gain = || self.sizes.iter().any(Size::gains) && self.shapes.values().any(|it| *it);
        FRUITLESS <= self.pairs && !has_gain()
    }
}

impl Size {
    fn gains(&self) -> bool {
        FIRST_PAIRS <= self.pairs && self.wide < self.narrow * WORTHWHILE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    const SHAPES: Shapes = Shapes { key: 1, size: 9 };

    /// After so many pairs of those shapes whose wide run took so many times as long as the narrow one.
    fn after(pairs: u32, is_same: bool, times: f64) -> Gains {
        let mut gains = Gains::new();
        for _ in 0..pairs {
            assert!(matches!(gains.choose(SHAPES), Choice::Pair { .. }) || !is_same);
            gains.learn(SHAPES, is_same, MS, MS.mul_f64(times));
        }
        gains
    }

    #[test]
    fn three_pairs_decide_and_either_kind_is_first_in_some() {
        assert_eq!(after(3, true, 0.6).choose(SHAPES), Choice::Wide);
        assert_eq!(after(3, true, 0.95).choose(SHAPES), Choice::Narrow);
        let mut gains = Gains::new();
        let mut first = || {
            let choice = gains.choose(SHAPES);
            gains.learn(SHAPES, true, MS, MS);
            choice
        };
        let expected = [false, true, false].map(|wide_first| Choice::Pair { wide_first });
        assert_eq!([first(), first(), first()], expected);
    }

    #[test]
    fn other_bytes_are_never_given_however_soon_they_come() {
        let mut gains = after(3, false, 0.1);
        assert!((0..2 * AGAIN).all(|_| gains.choose(SHAPES) == Choice::Narrow));
        // The same shapes once gave the same bytes, and once did not.
        let mut gains = after(3, true, 0.1);
        gains.learn(SHAPES, false, MS, MS / 10);
        gains.learn(SHAPES, true, MS, MS / 10);
        assert_eq!(gains.choose(SHAPES), Choice::Narrow);
        let mut gains = after(3, true, 0.1);
        gains.refuse(SHAPES);
        assert_eq!(gains.choose(SHAPES), Choice::Narrow);
    }

    #[test]
    fn other_shapes_are_compared_first_where_their_size_gains_and_else_now_and_then() {
        let other = Shapes { key: 2, ..SHAPES };
        assert!(matches!(after(3, true, 0.6).choose(other), Choice::Pair { .. }));
        assert_eq!(after(3, true, 2.0).choose(other), Choice::Narrow);
        assert!(matches!(
            after(3, true, 0.6).choose(Shapes { key: 2, size: 3 }),
            Choice::Pair { .. }
        ));
    }

    #[test]
    fn one_run_in_256_is_compared_again_so_that_a_loss_is_noticed() {
        let mut gains = after(3, true, 0.6);
        let mut pairs = 0;
        for _ in 0..20 * AGAIN {
            if let Choice::Pair { .. } = gains.choose(SHAPES) {
                pairs += 1;
                gains.learn(SHAPES, true, MS, 3 * MS);
            }
        }
        assert_eq!((pairs, gains.choose(SHAPES)), (20, Choice::Narrow));
    }

    #[test]
    fn a_wide_run_that_was_no_gain_has_the_next_compared() {
        let mut gains = after(3, true, 0.6);
        gains.ran_wide(SHAPES, MS.mul_f64(0.9));
        assert_eq!(gains.choose(SHAPES), Choice::Wide);
        gains.ran_wide(SHAPES, MS.mul_f64(1.1));
        assert!(matches!(gains.choose(SHAPES), Choice::Pair { .. }));
        gains.learn(SHAPES, true, MS, MS.mul_f64(0.6));
        assert_eq!(gains.choose(SHAPES), Choice::Wide);
    }

    #[test]
    fn a_model_that_gains_nowhere_is_known_as_such() {
        assert!(!after(FRUITLESS - 1, false, 0.1).are_fruitless());
        assert!(after(FRUITLESS, false, 0.1).are_fruitless());
        assert!(!after(FIRST_PAIRS, true, 0.6).are_fruitless());
        let mut gains = after(FIRST_PAIRS, true, 0.6);
        (0..FRUITLESS).for_each(|_| gains.learn(Shapes { key: 2, size: 3 }, true, MS, 2 * MS));
        assert!(!gains.are_fruitless());
    }

    #[test]
    fn so_many_shapes_are_kept_and_no_more() {
        let mut gains = Gains::new();
        for key in 0..3 * MOST_SHAPES as u64 {
            gains.learn(Shapes { key, size: 9 }, true, MS, MS);
        }
        assert!(gains.shapes.len() <= MOST_SHAPES);
    }
}
