//! scikit-learn's trees. Pure.

use crate::{
    error::FormatError,
    forest::document::{LeafVectors, Tree},
    limits,
    ndarray::{Array, Column},
    sklearn::{
        advice,
        objects::{Objects, needed},
    },
};

/// What the leaves of a tree become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    /// Numbers, one for each target.
    Values,
    /// Shares of the classes, which add up to 1.
    Probabilities,
    /// How many splits a row has passed, and would have to pass to be alone.
    Depths,
}

/// Bytes that a tree takes besides its nodes.
const TREE_BYTES: usize = 512;
/// Bytes that trees may take besides those of the file.
const ALLOWANCE: usize = 4 << 20;

/// Reads the trees of one file.
pub(super) struct TreeReader<'a, O: Objects> {
    objects: &'a O,
    /// Bytes that trees and their arrays may still have. Many trees cannot be the same array.
    left: usize,
}

impl<'a, O: Objects> TreeReader<'a, O> {
    pub(super) fn new(objects: &'a O) -> TreeReader<'a, O> {
        TreeReader { objects, left: objects.bytes().saturating_add(ALLOWANCE) }
    }

    /// Where the trees are read from.
    pub(super) fn objects(&self) -> &'a O {
        self.objects
    }

    /// An object of class `Tree`, and how many values its leaves have.
    pub(super) fn tree(
        &mut self,
        of: O::Ref,
        number: usize,
        leaves: Leaves,
    ) -> Result<(Tree, usize), FormatError> {
        self.count(TREE_BYTES, number)?;
        let nodes = self.array(of, "nodes", number)?;
        let column = |name| column(&nodes, name, number);
        let (left, right) = (column("left_child")?, column("right_child")?);
        let (feature, threshold) = (column("feature")?, column("threshold")?);
        let samples = column("n_node_samples")?;
        // Only versions 1.3 and later know where missing values go.
        let missing = nodes.field("missing_go_to_left");
        let covers = nodes.field("weighted_n_node_samples");
        let mut tree = Tree { weight: 1.0, ..Tree::default() };
        let absent = || FormatError::of_tree(number, "its nodes are no numbers");
        for node in 0..left.len() {
            let integer = |column: &Column| column.integer(node).ok_or_else(absent);
            let (left, right) = (integer(&left)?, integer(&right)?);
            let is_leaf = left < 0 && right < 0;
            tree.left.push(child(left, number, node)?);
            tree.right.push(child(right, number, node)?);
            let feature = integer(&feature)?;
            tree.feature.push(match u32::try_from(feature) {
                Ok(feature) => feature,
                Err(_) if is_leaf => 0,
                Err(_) => {
                    return Err(FormatError::of_node(number, node, format!("feature {feature}")));
                }
            });
            tree.condition.push(threshold.float(node).ok_or_else(absent)?);
            let goes_left = missing.and_then(|it| it.integer(node)).unwrap_or(0);
            tree.default_left.push(goes_left != 0);
            tree.covers.extend(covers.and_then(|it| it.float(node)).map(|it| it as f32));
        }
        if leaves == Leaves::Depths {
            depths(&mut tree, &samples).ok_or_else(absent)?;
            return Ok((tree, 1));
        }
        let width = self.values(of, number, leaves, &mut tree)?;
        Ok((tree, width))
    }

    /// Sets the values of the leaves, and returns how many each has.
    fn values(
        &mut self,
        of: O::Ref,
        number: usize,
        leaves: Leaves,
        tree: &mut Tree,
    ) -> Result<usize, FormatError> {
        let values = self.array(of, "values", number)?;
        let [nodes, outputs, classes] = values.shape[..] else {
            return Err(FormatError::of_tree(number, "its values have no three dimensions"));
        };
        let width = outputs.saturating_mul(classes);
        if nodes != tree.nodes() || width == 0 || limits::OUTPUTS < width {
            let shape = &values.shape;
            return Err(FormatError::of_tree(
                number,
                format!("values of shape {shape:?}, it has {} nodes", tree.nodes()),
            ));
        }
        let column = values.column();
        let column =
            column.ok_or_else(|| FormatError::of_tree(number, "its values are no numbers"))?;
        let value = |at: usize| column.float(at).unwrap_or(f64::NAN);
        if width == 1 {
            for node in 0..nodes {
                if tree.left[node] < 0 {
                    tree.condition[node] =
                        if leaves == Leaves::Probabilities { 1.0 } else { value(node) };
                }
            }
            return Ok(1);
        }
        let mut vectors = LeafVectors { row: vec![0; nodes], values: Vec::new() };
        let is_leaf = tree.left.iter().map(|it| *it < 0);
        for (node, _) in is_leaf.enumerate().filter(|it| it.1) {
            vectors.row[node] = (vectors.values.len() / width) as u32;
            let start = vectors.values.len();
            vectors.values.extend((node * width..(node + 1) * width).map(value));
            if leaves == Leaves::Probabilities {
                shares(&mut vectors.values[start..]);
            }
        }
        tree.vectors = Some(vectors);
        Ok(width)
    }

    /// A predictor of a histogram-based model: nodes in one array, which is all that there is of it.
    pub(super) fn predictor(&mut self, of: O::Ref, number: usize) -> Result<Tree, FormatError> {
        self.count(TREE_BYTES, number)?;
        let nodes = self.array(of, "nodes", number)?;
        let column = |name| column(&nodes, name, number);
        let (value, is_leaf) = (column("value")?, column("is_leaf")?);
        let (left, right) = (column("left")?, column("right")?);
        // Before 0.24 there were no categories, and one kind of threshold.
        let threshold = nodes.field("threshold").map_or_else(|| column("num_threshold"), Ok)?;
        let is_categorical = nodes.field("is_categorical");
        let (feature, missing) = (column("feature_idx")?, column("missing_go_to_left")?);
        let covers = nodes.field("count");
        let mut tree = Tree { weight: 1.0, ..Tree::default() };
        let absent = || FormatError::of_tree(number, "its nodes are no numbers");
        for node in 0..value.len() {
            let integer = |column: &Column| column.integer(node).ok_or_else(absent);
            tree.covers.extend(covers.and_then(|it| it.float(node)).map(|it| it as f32));
            if integer(&is_leaf)? != 0 {
                tree.left.push(-1);
                tree.right.push(-1);
                tree.feature.push(0);
                tree.condition.push(value.float(node).ok_or_else(absent)?);
                tree.default_left.push(false);
                continue;
            }
            if is_categorical.is_some_and(|it| it.integer(node) != Some(0)) {
                let problem = format!("a split by categories: {}", advice::CATEGORIES);
                return Err(FormatError::of_node(number, node, problem));
            }
            tree.left.push(child(integer(&left)?, number, node)?);
            tree.right.push(child(integer(&right)?, number, node)?);
            let feature = integer(&feature)?;
            let problem = || FormatError::of_node(number, node, format!("feature {feature}"));
            tree.feature.push(u32::try_from(feature).map_err(|_| problem())?);
            tree.condition.push(threshold.float(node).ok_or_else(absent)?);
            tree.default_left.push(integer(&missing)? != 0);
        }
        Ok(tree)
    }

    fn array(&mut self, of: O::Ref, name: &str, number: usize) -> Result<Array<'a>, FormatError> {
        let array = self.objects.array(needed(self.objects, of, name)?)?;
        let array =
            array.ok_or_else(|| FormatError::of_tree(number, format!("{name} is no array")))?;
        self.count(array.bytes.len(), number)?;
        Ok(array)
    }

    /// Takes bytes of what trees may have.
    pub(super) fn count(&mut self, bytes: usize, number: usize) -> Result<(), FormatError> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(FormatError::of_tree(
                number,
                "the trees have more nodes than the file has bytes for",
            )),
        }
    }
}

fn column<'a>(nodes: &'a Array, name: &str, number: usize) -> Result<Column<'a>, FormatError> {
    nodes
        .field(name)
        .ok_or_else(|| FormatError::of_tree(number, format!("its nodes have no {name}")))
}

fn child(child: i64, tree: usize, node: usize) -> Result<i32, FormatError> {
    i32::try_from(child).map_err(|_| FormatError::of_node(tree, node, format!("child {child}")))
}

/// Makes shares of weights. Since 1.3 they are shares already.
fn shares(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    if 1e-9 < (sum - 1.0).abs() && sum != 0.0 {
        weights.iter_mut().for_each(|it| *it /= sum);
    }
}

/// Sets each leaf to its depth and the average depth of a tree of as many samples as it has.
fn depths(tree: &mut Tree, samples: &Column) -> Option<()> {
    let nodes = tree.nodes();
    // Of a node that is reached twice the check will say so; here it only must not be followed twice.
    let mut depth = vec![None; nodes];
    let mut open = vec![0];
    *depth.first_mut()? = Some(0.0);
    while let Some(node) = open.pop() {
        for child in [tree.left[node], tree.right[node]] {
            let Some(child) = usize::try_from(child).ok().filter(|it| *it < nodes) else {
                continue;
            };
            if depth[child].is_none() {
                depth[child] = depth[node].map(|it: f64| it + 1.0);
                open.push(child);
            }
        }
    }
    for (node, depth) in depth.into_iter().enumerate() {
        if tree.left[node] < 0 {
            tree.condition[node] = depth.unwrap_or(0.0) + average_path(samples.float(node)?);
        }
    }
    Some(())
}

/// The average depth of a leaf in a random tree of so many samples.
pub(super) fn average_path(samples: f64) -> f64 {
    // The number of Euler and Mascheroni.
    const GAMMA: f64 = 0.577_215_664_901_532_9;
    match samples {
        ..=1.0 => 0.0,
        ..=2.0 => 1.0,
        _ => 2.0 * ((samples - 1.0).ln() + GAMMA) - 2.0 * (samples - 1.0) / samples,
    }
}
