//! What each feature contributes to the sums of a row: Shapley values, where an unknown feature goes both ways at a
//! split, in the shares of the rows of training (path-dependent TreeSHAP). Pure.
//!
//! A leaf is reached with a product of one factor for each feature on its path: 1 or 0 where the feature is known, and
//! the product of its shares where it is not. The contribution of a feature is an integral over `t` of the product of
//! all other factors. Each of them is `t` times what it is when known and `1 - t` times what it is when not: a
//! polynomial, so that a sum over a few points is exact. Products go down the tree, their sums over leaves go up, and
//! each split takes its feature's part out by one division. That takes work in proportion to the nodes and half the
//! depth of a tree, and all terms of a sum have the sign of their leaf. No call nests: a stack of at most as many
//! frames as the tree is deep.

use crate::forest::{
    document::{Comparison, Linear},
    explained::Explained,
    packed::{Forest, Nodes, PackedTree},
    sum::{Leaf, Rows},
    walk::{NarrowSplits, Splits, WideNumbers, WideSplits},
};

/// Buffers that are used again for the next row.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Rows that were explained with it.
    pub rows: u64,
    frames: Vec<Frame>,
    /// For each frame the product of factors at each point.
    products: Vec<f64>,
    /// For each frame the sum over the leaves below that were visited, at each point.
    sums: Vec<f64>,
}

/// A node on the way from the root, and the edge that leads to it.
#[derive(Debug, Clone, Copy)]
struct Frame {
    node: usize,
    /// The feature of the edge.
    feature: usize,
    factor: Factor,
    /// The last frame above whose edge has the same feature.
    before: Option<usize>,
    /// Children that were visited.
    visited: usize,
    /// Does the row go right here?
    goes_right: bool,
}

/// What the edges of one feature on a path multiply a leaf with.
#[derive(Debug, Clone, Copy)]
struct Factor {
    /// Where the feature is known: 1 if the row takes all of these edges, else 0.
    known: f64,
    /// Where it is not: the product of the edges' shares.
    unknown: f64,
}

impl Factor {
    const ONE: Factor = Factor { known: 1.0, unknown: 1.0 };
    /// A smaller factor is none.
    const LEAST: f64 = 1e-250;

    fn at(self, point: f64) -> f64 {
        point * self.known + (1.0 - point) * self.unknown
    }

    fn is_none(self) -> bool {
        self.known == 0.0 && self.unknown < Factor::LEAST
    }
}

impl Forest {
    /// The contributions of the features to each sum of one row, and behind them what the sum is where nothing is
    /// known: `features + 1` numbers for each sum. They add up to the sum. `row` is one row of the type that
    /// [`takes_single`](Forest::takes_single) says. Nothing but zeros where the forest was not laid out to be
    /// explained.
    pub fn explain(&self, row: Rows<'_>, scratch: &mut Scratch, into: &mut [f64]) {
        into.fill(0.0);
        let Some(explained) = &self.explained else { return };
        scratch.rows += 1;
        match (&self.nodes, row) {
            (Nodes::Narrow(nodes), Rows::Single(row)) => match self.comparison {
                Comparison::Less => {
                    self.explain_by(&NarrowSplits::<false>, nodes, row, explained, scratch, into);
                }
                Comparison::LessOrEqual => {
                    self.explain_by(&NarrowSplits::<true>, nodes, row, explained, scratch, into);
                }
            },
            (Nodes::Wide(nodes), Rows::Double(row)) if self.has_only_numbers => match self
                .comparison
            {
                Comparison::Less => {
                    self.explain_by(&WideNumbers::<false>, nodes, row, explained, scratch, into);
                }
                Comparison::LessOrEqual => {
                    self.explain_by(&WideNumbers::<true>, nodes, row, explained, scratch, into);
                }
            },
            (Nodes::Wide(nodes), Rows::Double(row)) => {
                let splits = WideSplits {
                    sets: &self.sets,
                    comparison: self.comparison,
                    negative_fraction: self.negative_fraction,
                };
                self.explain_by(&splits, nodes, row, explained, scratch, into);
            }
            (Nodes::Narrow(_), Rows::Double(_)) | (Nodes::Wide(_), Rows::Single(_)) => {
                unreachable!("the caller has asked which type of rows the forest takes")
            }
        }
        self.explain_linear(row, into);
        let width = self.features + 1;
        if let Some(count) = self.average_over {
            into.iter_mut().for_each(|it| *it /= count);
        }
        for (sum, contributions) in into.chunks_mut(width).enumerate() {
            contributions[self.features] += self.added_last.get(sum).copied().unwrap_or_default();
        }
    }

    fn explain_linear(&self, row: Rows<'_>, into: &mut [f64]) {
        let width = self.features + 1;
        for (sum, contributions) in into.chunks_mut(width).enumerate() {
            contributions[self.features] += self.base[sum];
            let Some(Linear { weights, biases }) = &self.linear else { continue };
            contributions[self.features] += biases[sum];
            for (feature, weights) in weights.chunks(self.sums()).enumerate() {
                let value = match row {
                    Rows::Single(row) => f64::from(row[feature]),
                    Rows::Double(row) => row[feature],
                };
                if !value.is_nan() {
                    contributions[feature] += value * weights[sum];
                }
            }
        }
    }

    fn explain_by<S: Splits>(
        &self,
        splits: &S,
        nodes: &[S::Node],
        row: &[S::Feature],
        explained: &Explained,
        scratch: &mut Scratch,
        into: &mut [f64],
    ) where
        S::Node: Leaf,
    {
        let width = self.features + 1;
        for (tree, mean) in self.trees.iter().zip(&explained.means) {
            let start = usize::from(tree.output) * width;
            let into = &mut into[start..start + width];
            into[self.features] += mean;
            let walk = Walk { splits, nodes, row, explained, tree: *tree };
            walk.explain(scratch, into);
        }
    }
}

/// One row in one tree.
struct Walk<'a, S: Splits> {
    splits: &'a S,
    nodes: &'a [S::Node],
    row: &'a [S::Feature],
    explained: &'a Explained,
    tree: PackedTree,
}

impl<S: Splits> Walk<'_, S>
where
    S::Node: Leaf,
{
    fn explain(&self, scratch: &mut Scratch, into: &mut [f64]) {
        let depth = usize::from(self.tree.depth);
        if depth == 0 {
            return;
        }
        let rule = &self.explained.rules[depth.div_ceil(2) - 1];
        let count = rule.points.len();
        let Scratch { frames, products, sums, .. } = scratch;
        products.clear();
        products.resize((depth + 1) * count, 1.0);
        sums.clear();
        sums.resize((depth + 1) * count, 0.0);
        frames.clear();
        frames.push(self.frame(self.tree.root as usize, 0, Factor::ONE, None));
        while let Some(top) = frames.len().checked_sub(1) {
            let frame = frames[top];
            let distance = S::distance(self.nodes[frame.node]);
            if distance != 0 && frame.visited < 2 {
                frames[top].visited += 1;
                let (factor, before) = self.edge(frames, top, distance);
                if factor.is_none() {
                    continue;
                }
                let feature = S::feature(self.nodes[frame.node]);
                let instead_of = before.map_or(Factor::ONE, |it| frames[it].factor);
                let (above, below) = products.split_at_mut((top + 1) * count);
                for ((below, above), point) in
                    below.iter_mut().zip(&above[top * count..]).zip(&rule.points)
                {
                    *below = above * factor.at(*point) / instead_of.at(*point);
                }
                sums[(top + 1) * count..(top + 2) * count].fill(0.0);
                let child = frame.node + distance + frame.visited;
                frames.push(self.frame(child, feature, factor, before));
                continue;
            }
            if distance == 0 {
                let value = self.nodes[frame.node].value();
                for (sum, product) in
                    sums[top * count..].iter_mut().zip(&products[top * count..][..count])
                {
                    *sum = value * product;
                }
            }
            frames.pop();
            let Some(parent) = top.checked_sub(1) else { return };
            let (above, below) = sums.split_at_mut(top * count);
            let integral = |factor: Factor| {
                let without = below.iter().zip(&rule.points).zip(&rule.weights);
                let without =
                    without.map(|((sum, point), weight)| weight * sum / factor.at(*point));
                (factor.known - factor.unknown) * without.sum::<f64>()
            };
            into[frame.feature] += integral(frame.factor);
            if let Some(before) = frame.before {
                // The edge above has counted these leaves with its own part of the factor.
                into[frame.feature] -= integral(frames[before].factor);
            }
            for (above, below) in above[parent * count..].iter_mut().zip(below) {
                *above += *below;
            }
        }
    }

    fn frame(&self, node: usize, feature: usize, factor: Factor, before: Option<usize>) -> Frame {
        let packed = self.nodes[node];
        let goes_right = self.splits.go_right(packed, self.row[S::feature(packed)]);
        Frame { node, feature, factor, before, visited: 0, goes_right }
    }

    /// The factor of the next child's edge with those of the same feature above, and the last of these.
    fn edge(&self, frames: &[Frame], top: usize, distance: usize) -> (Factor, Option<usize>) {
        let frame = frames[top];
        let side = frame.visited - 1;
        let child = frame.node + distance + side;
        let feature = S::feature(self.nodes[frame.node]);
        // The root has no edge.
        let before = (1..=top).rev().find(|it| frames[*it].feature == feature);
        let above = before.map_or(Factor::ONE, |it| frames[it].factor);
        let is_taken = frame.goes_right == (side == 1);
        let known = if is_taken { above.known } else { 0.0 };
        let unknown = above.unknown * self.explained.shares[child];
        (Factor { known, unknown }, before)
    }
}

#[cfg(test)]
mod tests;
