//! Rows go through trees to leaves. Eight walks at a time, so that the processor has something to do while it waits for
//! the nodes of one of them. Pure.
//!
//! A walk takes a step for each level of its tree, and stays where it is once it stands on a leaf. So no step depends
//! on a guess of the processor.

use crate::forest::{
    category::CategorySets,
    document::{Comparison, NegativeFraction},
    packed::{Narrow, Question, Wide},
};

/// Walks side by side.
pub(super) const LANES: usize = 8;

/// Trees up to this depth are walked without a look at whether all walks have ended.
const BLIND_STEPS: usize = 16;

/// Steps between such looks.
const STEPS_PER_LOOK: usize = 8;

/// Decides at the splits of one form of nodes.
pub(super) trait Splits {
    type Node: Copy;
    /// The type in which features are compared.
    type Feature: Copy;

    fn feature(node: Self::Node) -> usize;

    /// How far away the child on the left is; 0 for a leaf.
    fn distance(node: Self::Node) -> usize;

    /// Does the value go right? Of no meaning for a leaf.
    fn go_right(&self, node: Self::Node, value: Self::Feature) -> bool;
}

/// Splits that all compare numbers.
pub(super) trait Numbers: Splits {
    /// Does the condition hold? Not for what is no number.
    fn is_left(node: Self::Node, value: Self::Feature) -> bool;
}

/// The same splits for rows that lack no feature: a step has a third fewer instructions.
pub(super) struct Complete<S>(pub(super) S);

impl<S: Numbers> Splits for Complete<S> {
    type Node = S::Node;
    type Feature = S::Feature;

    #[inline(always)]
    fn feature(node: S::Node) -> usize {
        S::feature(node)
    }

    #[inline(always)]
    fn distance(node: S::Node) -> usize {
        S::distance(node)
    }

    #[inline(always)]
    fn go_right(&self, node: S::Node, value: S::Feature) -> bool {
        !S::is_left(node, value)
    }
}

/// Walks through the trees whose roots are given, for the same row. `depth` is that of the deepest. Returns where the
/// walks end.
pub(super) fn one_row<S: Splits>(
    splits: &S,
    nodes: &[S::Node],
    roots: [usize; LANES],
    depth: usize,
    row: &[S::Feature],
) -> [usize; LANES] {
    walk(splits, nodes, roots, depth, [row; LANES])
}

/// Walks through one tree for several rows. Returns where the walks end.
pub(super) fn one_tree<S: Splits>(
    splits: &S,
    nodes: &[S::Node],
    root: usize,
    depth: usize,
    rows: [&[S::Feature]; LANES],
) -> [usize; LANES] {
    walk(splits, nodes, [root; LANES], depth, rows)
}

#[inline(always)]
fn walk<S: Splits>(
    splits: &S,
    nodes: &[S::Node],
    mut places: [usize; LANES],
    depth: usize,
    rows: [&[S::Feature]; LANES],
) -> [usize; LANES] {
    let mut left = depth;
    loop {
        let steps = if left <= BLIND_STEPS { left } else { STEPS_PER_LOOK };
        for _ in 0..steps {
            for (place, row) in places.iter_mut().zip(rows) {
                let node = nodes[*place];
                let distance = S::distance(node);
                let goes_right = usize::from(splits.go_right(node, row[S::feature(node)]));
                // At a leaf the distance is 0, and so is the step. Nothing wraps in a sound forest, and each place is
                // compared with the number of nodes.
                let step = distance.wrapping_add(goes_right.min(distance));
                *place = place.wrapping_add(step);
            }
        }
        left -= steps;
        if left == 0 || places.iter().all(|it| S::distance(nodes[*it]) == 0) {
            return places;
        }
    }
}

/// Splits of [`Narrow`] nodes.
pub(super) struct NarrowSplits<const OR_EQUAL: bool>;

impl<const OR_EQUAL: bool> Splits for NarrowSplits<OR_EQUAL> {
    type Node = Narrow;
    type Feature = f32;

    #[inline(always)]
    fn feature(node: Narrow) -> usize {
        node.feature()
    }

    #[inline(always)]
    fn distance(node: Narrow) -> usize {
        node.distance()
    }

    #[inline(always)]
    fn go_right(&self, node: Narrow, value: f32) -> bool {
        // What is no number is not on the left, and goes there only by default.
        !Self::is_left(node, value) & !(value.is_nan() & node.default_left())
    }
}

impl<const OR_EQUAL: bool> Numbers for NarrowSplits<OR_EQUAL> {
    #[inline(always)]
    fn is_left(node: Narrow, value: f32) -> bool {
        if OR_EQUAL { value <= node.condition() } else { value < node.condition() }
    }
}

/// Splits of [`Wide`] nodes that all compare numbers.
pub(super) struct WideNumbers<const OR_EQUAL: bool>;

impl<const OR_EQUAL: bool> Splits for WideNumbers<OR_EQUAL> {
    type Node = Wide;
    type Feature = f64;

    #[inline(always)]
    fn feature(node: Wide) -> usize {
        node.feature()
    }

    #[inline(always)]
    fn distance(node: Wide) -> usize {
        node.distance()
    }

    #[inline(always)]
    fn go_right(&self, node: Wide, value: f64) -> bool {
        !Self::is_left(node, value) & !(value.is_nan() & node.default_left())
    }
}

impl<const OR_EQUAL: bool> Numbers for WideNumbers<OR_EQUAL> {
    #[inline(always)]
    fn is_left(node: Wide, value: f64) -> bool {
        if OR_EQUAL { value <= node.condition() } else { value < node.condition() }
    }
}

/// Splits of [`Wide`] nodes of any kind.
pub(super) struct WideSplits<'a> {
    pub(super) sets: &'a CategorySets,
    pub(super) comparison: Comparison,
    pub(super) negative_fraction: NegativeFraction,
}

/// What lies so close to zero is zero, where that is missing.
const ZERO: f64 = 1e-35f32 as f64;

impl Splits for WideSplits<'_> {
    type Node = Wide;
    type Feature = f64;

    #[inline(always)]
    fn feature(node: Wide) -> usize {
        node.feature()
    }

    #[inline(always)]
    fn distance(node: Wide) -> usize {
        node.distance()
    }

    #[inline(always)]
    fn go_right(&self, node: Wide, value: f64) -> bool {
        let question = node.question();
        let is_missing =
            value.is_nan() || (question == Question::NumberNotZero && value.abs() <= ZERO);
        if is_missing || node.distance() == 0 {
            return !node.default_left();
        }
        let goes_left = match (question, self.comparison) {
            (Question::Category, _) => {
                // The number of a set is a small integer.
                self.sets.go_left(node.condition() as usize, value, self.negative_fraction)
            }
            (_, Comparison::Less) => value < node.condition(),
            (_, Comparison::LessOrEqual) => value <= node.condition(),
        };
        !goes_left
    }
}
