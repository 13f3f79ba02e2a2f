//! Sums of the leaves that rows reach, in the order and with the roundings of the library. Pure.

use std::ops::{AddAssign, DivAssign};

use crate::forest::{
    document::{Comparison, Linear},
    packed::{Forest, Leaves, Narrow, Nodes, PackedTree, Wide},
    walk::{Complete, LANES, NarrowSplits, Splits, WideNumbers, WideSplits, one_row, one_tree},
};

/// Rows that go through one tree before the next one is taken: a tree's nodes then stay near the processor.
const BLOCK: usize = 64;

/// The type of sums.
pub trait Sum: Copy + AddAssign + DivAssign {
    /// Rounded to this type.
    fn of(value: f64) -> Self;

    /// The sum with a value of 64 bits, rounded to this type.
    fn plus(self, value: f64) -> Self;

    /// The product of two values, rounded to this type.
    fn product(one: f64, other: f64) -> Self;
}

impl Sum for f32 {
    fn of(value: f64) -> f32 {
        value as f32
    }

    fn plus(self, value: f64) -> f32 {
        (f64::from(self) + value) as f32
    }

    fn product(one: f64, other: f64) -> f32 {
        one as f32 * other as f32
    }
}

impl Sum for f64 {
    fn of(value: f64) -> f64 {
        value
    }

    fn plus(self, value: f64) -> f64 {
        self + value
    }

    fn product(one: f64, other: f64) -> f64 {
        one * other
    }
}

/// Rows, one behind the other, in the type in which the forest compares features.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// Of 32 bits.
    Single(&'a [f32]),
    /// Of 64 bits.
    Double(&'a [f64]),
}

impl<'a> Rows<'a> {
    /// So many elements from there on, or those that are left.
    pub fn slice(self, start: usize, length: usize) -> Rows<'a> {
        match self {
            Rows::Single(rows) => Rows::Single(&rows[start..rows.len().min(start + length)]),
            Rows::Double(rows) => Rows::Double(&rows[start..rows.len().min(start + length)]),
        }
    }
}

impl Forest {
    /// Does it want rows of 32 bits? Others it wants as [`Rows::Double`].
    pub fn takes_single(&self) -> bool {
        matches!(self.nodes, Nodes::Narrow(_))
    }

    /// The sums of each row: as many as the forest has, one row behind the other. `rows` are of the type that
    /// [`takes_single`](Forest::takes_single) says, whole, and as many as there is room for in `sums`.
    pub fn sums_of<T: Sum>(&self, rows: Rows<'_>, sums: &mut [T]) {
        let of_row = self.sums();
        let (features, width) = (self.features, of_row);
        let blocks = sums.chunks_mut(width * BLOCK);
        match (&self.nodes, rows) {
            (Nodes::Narrow(nodes), Rows::Single(rows)) => {
                for (rows, sums) in rows.chunks(features * BLOCK).zip(blocks) {
                    self.begin(rows, sums);
                    self.add_narrow(nodes, rows, sums);
                    self.finish(sums);
                }
            }
            (Nodes::Wide(nodes), Rows::Double(rows)) => {
                for (rows, sums) in rows.chunks(features * BLOCK).zip(blocks) {
                    self.begin(rows, sums);
                    self.add_wide(nodes, rows, sums);
                    self.finish(sums);
                }
            }
            (Nodes::Narrow(_), Rows::Double(_)) | (Nodes::Wide(_), Rows::Single(_)) => {
                unreachable!("the caller has asked which type of rows the forest takes")
            }
        }
    }

    fn add_narrow<T: Sum>(&self, nodes: &[Narrow], rows: &[f32], sums: &mut [T]) {
        use Comparison::{Less, LessOrEqual};
        match (self.comparison, are_complete(rows, f32::is_nan)) {
            (Less, true) => self.add(&Complete(NarrowSplits::<false>), nodes, rows, sums),
            (Less, false) => self.add(&NarrowSplits::<false>, nodes, rows, sums),
            (LessOrEqual, true) => self.add(&Complete(NarrowSplits::<true>), nodes, rows, sums),
            (LessOrEqual, false) => self.add(&NarrowSplits::<true>, nodes, rows, sums),
        }
    }

    fn add_wide<T: Sum>(&self, nodes: &[Wide], rows: &[f64], sums: &mut [T]) {
        use Comparison::{Less, LessOrEqual};
        if self.has_only_numbers {
            return match (self.comparison, are_complete(rows, f64::is_nan)) {
                (Less, true) => self.add(&Complete(WideNumbers::<false>), nodes, rows, sums),
                (Less, false) => self.add(&WideNumbers::<false>, nodes, rows, sums),
                (LessOrEqual, true) => self.add(&Complete(WideNumbers::<true>), nodes, rows, sums),
                (LessOrEqual, false) => self.add(&WideNumbers::<true>, nodes, rows, sums),
            };
        }
        let splits = WideSplits {
            sets: &self.sets,
            comparison: self.comparison,
            negative_fraction: self.negative_fraction,
        };
        self.add(&splits, nodes, rows, sums);
    }

    /// Sets the sums of a block of rows to what they begin with.
    fn begin<T: Sum, F: Copy + Into<f64>>(&self, rows: &[F], sums: &mut [T]) {
        for sums in sums.chunks_mut(self.sums()) {
            for (sum, base) in sums.iter_mut().zip(&self.base) {
                *sum = T::of(*base);
            }
        }
        if let Some(Linear { weights, biases }) = &self.linear {
            let width = self.sums();
            for (row, sums) in rows.chunks(self.features).zip(sums.chunks_mut(width)) {
                for (sum, bias) in sums.iter_mut().zip(biases) {
                    *sum += T::of(*bias);
                }
                for (value, weights) in row.iter().zip(weights.chunks(width)) {
                    let value: f64 = (*value).into();
                    if value.is_nan() {
                        continue;
                    }
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum += T::product(value, *weight);
                    }
                }
            }
        }
    }

    /// Adds the leaves of all trees to the sums of a block of rows.
    fn add<T: Sum, S: Splits>(
        &self,
        splits: &S,
        nodes: &[S::Node],
        rows: &[S::Feature],
        sums: &mut [T],
    ) where
        S::Node: Leaf,
        S::Feature: Into<f64>,
    {
        let width = self.sums();
        let eights = rows.len() / (self.features * LANES) * LANES;
        let (eight_rows, other_rows) = rows.split_at(eights * self.features);
        let (eight_sums, other_sums) = sums.split_at_mut(eights * width);
        if 0 < eights {
            for tree in &self.trees {
                let sums = eight_sums.chunks_mut(width * LANES);
                for (rows, sums) in eight_rows.chunks(self.features * LANES).zip(sums) {
                    let row = |i: usize| &rows[i * self.features..(i + 1) * self.features];
                    let rows = std::array::from_fn(row);
                    let (root, depth) = (tree.root as usize, usize::from(tree.depth));
                    let ends = one_tree(splits, nodes, root, depth, rows);
                    for ((end, sums), row) in ends.iter().zip(sums.chunks_mut(width)).zip(rows) {
                        self.add_leaf(*tree, nodes[*end], row, sums);
                    }
                }
            }
        }
        for (row, sums) in other_rows.chunks(self.features).zip(other_sums.chunks_mut(width)) {
            for trees in self.trees.chunks(LANES) {
                // Where there are fewer, the last one is walked again, and its leaf not added.
                let tree = |i: usize| trees[i.min(trees.len() - 1)];
                let roots = std::array::from_fn(|i| tree(i).root as usize);
                let depth = trees.iter().map(|it| it.depth).max().unwrap_or(0);
                let ends = one_row(splits, nodes, roots, usize::from(depth), row);
                for (tree, end) in trees.iter().zip(ends) {
                    self.add_leaf(*tree, nodes[end], row, sums);
                }
            }
        }
    }

    #[inline(always)]
    fn add_leaf<T: Sum, F: Copy + Into<f64>>(
        &self,
        tree: PackedTree,
        leaf: impl Leaf,
        row: &[F],
        sums: &mut [T],
    ) {
        match tree.leaves {
            Leaves::Values => sums[usize::from(tree.output)] += T::of(leaf.value()),
            Leaves::Vectors => {
                let start = leaf.value() as usize * sums.len();
                let values = &self.vectors[start..start + sums.len()];
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += T::of(*value);
                }
            }
            Leaves::Linear => {
                let leaf = &self.linear_leaves[leaf.value() as usize];
                let mut value = leaf.constant;
                for (feature, coefficient) in &leaf.terms {
                    let x: f64 = row[*feature as usize].into();
                    if x.is_nan() {
                        value = leaf.value;
                        break;
                    }
                    value += x * coefficient;
                }
                sums[usize::from(tree.output)] += T::of(value);
            }
        }
    }

    fn finish<T: Sum>(&self, sums: &mut [T]) {
        if let Some(count) = self.average_over {
            sums.iter_mut().for_each(|it| *it /= T::of(count));
        }
        if !self.added_last.is_empty() {
            for sums in sums.chunks_mut(self.sums()) {
                for (sum, added) in sums.iter_mut().zip(&self.added_last) {
                    *sum = sum.plus(*added);
                }
            }
        }
    }
}

/// Do rows lack no feature? Looks at all of them, which is done many at a time.
fn are_complete<F: Copy>(rows: &[F], is_missing: impl Fn(F) -> bool) -> bool {
    !rows.iter().fold(false, |found, it| found | is_missing(*it))
}

/// A node on which a walk has ended.
pub(super) trait Leaf: Copy {
    /// Its value, or the number of what it has.
    fn value(self) -> f64;
}

impl Leaf for Narrow {
    #[inline(always)]
    fn value(self) -> f64 {
        f64::from(self.condition())
    }
}

impl Leaf for Wide {
    #[inline(always)]
    fn value(self) -> f64 {
        self.condition()
    }
}

#[cfg(test)]
mod tests;
