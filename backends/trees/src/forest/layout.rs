//! A sound document becomes a packed forest. Pure.

use crate::{
    error::FormatError,
    forest::{
        category::CategorySets,
        check::{TreeShape, check},
        document::{CategorySplit, Document, Library, LinearLeaf, Rounding, Transform, Tree},
        explained::Explained,
        packed::{Forest, Leaves, Narrow, Nodes, PackedLinearLeaf, PackedTree, Question, Wide},
    },
};

/// A forest, and how much of the document is not in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Laid {
    /// The forest.
    pub forest: Forest,
    /// Nodes of the file that no row reaches.
    pub dropped: usize,
}

/// What is kept of a forest besides what its sums need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extras {
    /// What the leaves are called in the file.
    pub leaves: bool,
    /// What contributions of features are computed from.
    pub contributions: bool,
}

/// Checks the document and packs it. Its trees are freed one by one.
///
/// # Errors
/// Those of [`check`].
pub fn lay_out(document: Document) -> Result<Laid, FormatError> {
    lay_out_with(document, Extras::default())
}

/// [`lay_out`], with more than sums need.
///
/// # Errors
/// Those of [`check`], and what keeps answers from being explained.
pub fn lay_out_with(mut document: Document, extras: Extras) -> Result<Laid, FormatError> {
    let shapes = check(&document)?;
    let depth = shapes.iter().map(|it| it.depth).max().unwrap_or(0);
    let mut explained = match extras.contributions {
        true => Some(Explained::new(&document, depth)?),
        false => None,
    };
    let trees = std::mem::take(&mut document.trees);
    let nodes: usize = shapes.iter().map(|it| it.nodes).sum();
    let dropped = trees.iter().map(Tree::nodes).sum::<usize>() - nodes;
    let has_only_numbers = trees.iter().all(has_only_numbers);
    let mut layout = Layout {
        nodes: match may_be_narrow(&document, &trees) {
            true => narrow(&trees, &shapes, document.transform),
            false => None,
        }
        .map_or_else(|| Nodes::Wide(Vec::new()), Nodes::Narrow),
        trees: Vec::with_capacity(trees.len()),
        sets: CategorySets::default(),
        vectors: Vec::new(),
        linear_leaves: Vec::new(),
        document: &document,
    };
    if let Nodes::Wide(wide) = &mut layout.nodes {
        wide.reserve_exact(nodes);
    }
    let mut root = 0;
    let (mut names, mut order) = (Vec::new(), Vec::new());
    for (tree, shape) in trees.into_iter().zip(&shapes) {
        if extras != Extras::default() {
            level_order(&tree, &mut order);
        }
        if extras.leaves {
            let is_lightgbm = document.origin.library == Library::Lightgbm;
            names.extend(order.iter().map(|it| name(*it, &tree, is_lightgbm)));
        }
        if let Some(explained) = &mut explained {
            let value = |it: usize| weighted(tree.condition[it], tree.weight, document.transform);
            explained.push(&tree, &order, value);
        }
        layout.push(&tree, *shape, root);
        root += shape.nodes as u32;
    }
    let Layout { nodes, trees, sets, vectors, linear_leaves, .. } = layout;
    let forest = Forest {
        features: document.features,
        rounding: document.rounding,
        comparison: document.comparison,
        negative_fraction: document.negative_fraction,
        has_only_numbers,
        nodes,
        trees,
        sets,
        vectors,
        linear_leaves,
        linear: document.linear,
        base: document.base,
        average_over: document.average_over,
        added_last: document.added_last,
        transform: document.transform,
        calibration: document.calibration,
        names,
        explained,
    };
    Ok(Laid { forest, dropped })
}

/// What a node is called in the file: its number, and of LightGBM that among leaves, which lie behind the splits.
fn name(node: u32, tree: &Tree, is_lightgbm: bool) -> u32 {
    let splits = if is_lightgbm { tree.nodes() as u32 / 2 } else { 0 };
    node.saturating_sub(splits)
}

fn has_only_numbers(tree: &Tree) -> bool {
    tree.categorical.is_empty() && tree.zero_is_missing.is_empty()
}

/// Could nodes of 8 bytes do, if distances are small?
fn may_be_narrow(document: &Document, trees: &[Tree]) -> bool {
    let plain = |it: &Tree| has_only_numbers(it) && it.vectors.is_none() && it.linear.is_empty();
    matches!(document.transform, Transform::Single(_))
        && document.rounding == Rounding::Single
        && document.features <= Narrow::FEATURES
        && trees.iter().all(plain)
}

/// All trees in nodes of 8 bytes; `None` where a child is too far away.
fn narrow(trees: &[Tree], shapes: &[TreeShape], transform: Transform) -> Option<Vec<Narrow>> {
    let mut nodes = Vec::with_capacity(shapes.iter().map(|it| it.nodes).sum());
    let mut order = Vec::new();
    for tree in trees {
        level_order(tree, &mut order);
        let mut child = 1;
        for (place, node) in order.iter().enumerate() {
            let node = *node as usize;
            nodes.push(match tree.left[node] {
                ..0 => Narrow::leaf(weighted(tree.condition[node], tree.weight, transform) as f32),
                _ => {
                    let distance = child - place;
                    child += 2;
                    let (condition, feature) = (tree.condition[node], tree.feature[node]);
                    Narrow::split(
                        condition as f32,
                        tree.default_left[node],
                        feature as usize,
                        distance,
                    )?
                }
            });
        }
    }
    Some(nodes)
}

/// The nodes that a row may reach, level by level, siblings side by side.
fn level_order(tree: &Tree, order: &mut Vec<u32>) {
    order.clear();
    order.push(0);
    let mut next = 0;
    while next < order.len() {
        let node = order[next] as usize;
        next += 1;
        // A checked tree has both children or none.
        if 0 <= tree.left[node] {
            order.push(tree.left[node] as u32);
            order.push(tree.right[node] as u32);
        }
    }
}

/// The value of a leaf times the weight of its tree, rounded as the sums are.
fn weighted(value: f64, weight: f64, transform: Transform) -> f64 {
    match transform {
        Transform::Single(_) => f64::from(value as f32 * weight as f32),
        Transform::Double(_) => value * weight,
    }
}

struct Layout<'a> {
    nodes: Nodes,
    trees: Vec<PackedTree>,
    sets: CategorySets,
    vectors: Vec<f64>,
    linear_leaves: Vec<PackedLinearLeaf>,
    document: &'a Document,
}

impl Layout<'_> {
    fn push(&mut self, tree: &Tree, shape: TreeShape, root: u32) {
        let leaves = match () {
            () if tree.vectors.is_some() => Leaves::Vectors,
            () if !tree.linear.is_empty() => Leaves::Linear,
            () => Leaves::Values,
        };
        // The check holds outputs below 2^16, and depths below 4096.
        let (depth, output) = (shape.depth as u16, tree.output as u16);
        self.trees.push(PackedTree { root, depth, output, leaves });
        if let Nodes::Wide(_) = self.nodes {
            self.push_wide(tree, leaves);
        }
    }

    fn push_wide(&mut self, tree: &Tree, leaves: Leaves) {
        let mut order = Vec::new();
        level_order(tree, &mut order);
        let mut child = 1;
        for (place, node) in order.iter().enumerate() {
            let node = *node as usize;
            let packed = match tree.left[node] {
                ..0 => Wide::leaf(self.leaf(tree, node, leaves)),
                _ => {
                    let distance = child - place;
                    child += 2;
                    self.split(tree, node, distance)
                }
            };
            if let Nodes::Wide(nodes) = &mut self.nodes {
                nodes.push(packed);
            }
        }
    }

    fn split(&mut self, tree: &Tree, node: usize, distance: usize) -> Wide {
        let (feature, default_left) = (tree.feature[node], tree.default_left[node]);
        if let Ok(at) = tree.categorical.binary_search_by_key(&node, |it| it.node) {
            let CategorySplit { start, length, members_go_left, .. } = tree.categorical[at];
            let members = &tree.categories[start..start + length];
            let set = self.sets.push(members, members_go_left);
            return Wide::split(set as f64, Question::Category, default_left, feature, distance);
        }
        let question = match tree.zero_is_missing.get(node) {
            Some(true) => Question::NumberNotZero,
            Some(false) | None => Question::Number,
        };
        let condition = tree.condition[node];
        Wide::split(condition, question, default_left, feature, distance)
    }

    fn leaf(&mut self, tree: &Tree, node: usize, leaves: Leaves) -> f64 {
        let transform = self.document.transform;
        let weigh = |value: f64| weighted(value, tree.weight, transform);
        match (leaves, &tree.vectors) {
            (Leaves::Vectors, Some(vectors)) => {
                let sums = self.document.sums();
                let start = vectors.row[node] as usize * sums;
                let row = self.vectors.len() / sums;
                let values = &vectors.values[start..start + sums];
                self.vectors.extend(values.iter().copied().map(weigh));
                row as f64
            }
            (Leaves::Linear, _) => {
                let value = weigh(tree.condition[node]);
                let constant = PackedLinearLeaf { value, constant: value, terms: Box::default() };
                let found = tree.linear.binary_search_by_key(&node, |it| it.node);
                self.linear_leaves.push(match found {
                    Err(_) => constant,
                    Ok(at) => {
                        let LinearLeaf { constant, features, coefficients, .. } = &tree.linear[at];
                        let coefficients = coefficients.iter().copied().map(weigh);
                        let terms = features.iter().copied().zip(coefficients).collect();
                        PackedLinearLeaf { value, constant: weigh(*constant), terms }
                    }
                });
                (self.linear_leaves.len() - 1) as f64
            }
            (Leaves::Values | Leaves::Vectors, _) => weigh(tree.condition[node]),
        }
    }
}

#[cfg(test)]
mod tests;
