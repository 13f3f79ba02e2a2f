//! One tree of a LightGBM file. Pure.
//!
//! The file numbers splits from 0, and leaves by negative numbers from -1 down. In the document's tree the splits keep
//! their numbers, and leaves lie behind them.

use std::str::FromStr;

use crate::{
    error::FormatError,
    forest::document::{CategorySplit, LinearLeaf, Tree},
    lightgbm::lines::{Lines, pair, text},
    limits,
};

/// The arrays of a tree as the file has them.
#[derive(Default)]
struct Columns {
    leaves: usize,
    split_feature: Vec<u32>,
    threshold: Vec<f64>,
    decision_type: Vec<u8>,
    left_child: Vec<i32>,
    right_child: Vec<i32>,
    leaf_value: Vec<f64>,
    internal_count: Vec<f32>,
    leaf_count: Vec<f32>,
    cat_boundaries: Vec<usize>,
    cat_threshold: Vec<u32>,
    is_linear: bool,
    leaf_const: Vec<f64>,
    num_features: Vec<usize>,
    leaf_features: Vec<u32>,
    leaf_coeff: Vec<f64>,
}

/// Reads the lines behind `Tree=`, to the first empty one. `members_left` is how many categories the sets of the model
/// may still have.
pub(super) fn read(
    lines: &mut Lines,
    number: usize,
    members_left: &mut usize,
) -> Result<Tree, FormatError> {
    let mut columns = Columns::default();
    for line in lines.take_while(|it| !it.is_empty()) {
        if let Some((key, value)) = pair(line) {
            columns.set(number, key, value)?;
        }
    }
    Reader { columns, number }.tree(members_left)
}

impl Columns {
    fn set(&mut self, tree: usize, key: &[u8], value: &[u8]) -> Result<(), FormatError> {
        let list = List { tree, key, value };
        match key {
            b"num_leaves" => self.leaves = list.one()?,
            b"split_feature" => self.split_feature = list.numbers()?,
            b"threshold" => self.threshold = list.numbers()?,
            b"decision_type" => self.decision_type = list.numbers()?,
            b"left_child" => self.left_child = list.numbers()?,
            b"right_child" => self.right_child = list.numbers()?,
            b"leaf_value" => self.leaf_value = list.numbers()?,
            b"internal_count" => self.internal_count = list.numbers()?,
            b"leaf_count" => self.leaf_count = list.numbers()?,
            b"cat_boundaries" => self.cat_boundaries = list.numbers()?,
            b"cat_threshold" => self.cat_threshold = list.numbers()?,
            b"is_linear" => self.is_linear = list.one::<u8>()? != 0,
            b"leaf_const" => self.leaf_const = list.numbers()?,
            b"num_features" => self.num_features = list.numbers()?,
            b"leaf_features" => self.leaf_features = list.numbers()?,
            b"leaf_coeff" => self.leaf_coeff = list.numbers()?,
            _ => {}
        }
        Ok(())
    }
}

/// Numbers with blanks between them.
struct List<'a> {
    tree: usize,
    key: &'a [u8],
    value: &'a [u8],
}

impl List<'_> {
    fn numbers<N: FromStr>(&self) -> Result<Vec<N>, FormatError> {
        let words = self.value.split(|it| *it == b' ').filter(|it| !it.is_empty());
        // Counted first: a list that grows has room for twice as many, and while it does for three times.
        let mut numbers = Vec::with_capacity(words.clone().count());
        for word in words {
            numbers.push(self.number(word)?);
        }
        Ok(numbers)
    }

    fn one<N: FromStr>(&self) -> Result<N, FormatError> {
        self.number(self.value)
    }

    fn number<N: FromStr>(&self, word: &[u8]) -> Result<N, FormatError> {
        let number = std::str::from_utf8(word).ok().and_then(|it| it.parse().ok());
        number.ok_or_else(|| {
            let (key, word) = (text(self.key), text(&word[..word.len().min(40)]));
            FormatError::of_tree(self.tree, format!("{key} has {word:?}, which is no such number"))
        })
    }
}

struct Reader {
    columns: Columns,
    number: usize,
}

impl Reader {
    fn tree(mut self, members_left: &mut usize) -> Result<Tree, FormatError> {
        let leaves = self.columns.leaves;
        if leaves == 0 || limits::NODES_OF_TREE / 2 < leaves {
            let most = limits::NODES_OF_TREE / 2;
            return self.refuse(format!("num_leaves is {leaves}, expected 1 to {most}"));
        }
        let splits = leaves - 1;
        let columns = &self.columns;
        for (name, length, expected) in [
            ("split_feature", columns.split_feature.len(), splits),
            ("threshold", columns.threshold.len(), splits),
            ("decision_type", columns.decision_type.len(), splits),
            ("left_child", columns.left_child.len(), splits),
            ("right_child", columns.right_child.len(), splits),
            ("leaf_value", columns.leaf_value.len(), leaves),
        ] {
            // Very old files of a single leaf have nothing but its value.
            if length != expected {
                return self.refuse(format!("{name} has {length} entries, expected {expected}"));
            }
        }
        let linear = self.linear()?;
        let mut tree = Tree { weight: 1.0, linear, ..Tree::default() };
        self.splits(&mut tree, members_left)?;
        let columns = &mut self.columns;
        let behind = |with: i32| std::iter::repeat_n(with, leaves);
        tree.left.extend(behind(-1));
        tree.right.extend(behind(-1));
        tree.feature = std::mem::take(&mut columns.split_feature);
        tree.feature.resize(splits + leaves, 0);
        tree.condition = std::mem::take(&mut columns.threshold);
        tree.condition.append(&mut columns.leaf_value);
        tree.default_left.resize(splits + leaves, false);
        if columns.internal_count.len() == splits && columns.leaf_count.len() == leaves {
            tree.covers = std::mem::take(&mut columns.internal_count);
            tree.covers.append(&mut columns.leaf_count);
        }
        if tree.zero_is_missing.contains(&true) {
            tree.zero_is_missing.resize(splits + leaves, false);
        } else {
            tree.zero_is_missing = Vec::new();
        }
        Ok(tree)
    }

    /// The children, and what each split does with what is missing.
    fn splits(&self, tree: &mut Tree, members_left: &mut usize) -> Result<(), FormatError> {
        let columns = &self.columns;
        let sets = self.sets(tree, members_left)?;
        let mut is_used = vec![false; sets.len()];
        for (node, kind) in columns.decision_type.iter().enumerate() {
            tree.left.push(self.child(node, "left", columns.left_child[node])?);
            tree.right.push(self.child(node, "right", columns.right_child[node])?);
            let (default_left, missing) = (kind & 2 != 0, kind >> 2 & 3);
            let threshold = columns.threshold[node];
            if kind & 1 != 0 {
                let set = threshold as usize;
                let Some((start, length)) = sets.get(set).copied() else {
                    let problem =
                        format!("set of categories {threshold}, the tree has {}", sets.len());
                    return self.refuse_node(node, problem);
                };
                if std::mem::replace(&mut is_used[set], true) {
                    return self
                        .refuse_node(node, format!("set of categories {set} is used twice"));
                }
                tree.categorical.push(CategorySplit { node, start, length, members_go_left: true });
            }
            tree.default_left.push(match (kind & 1, missing) {
                // What is missing is in no set.
                (1, _) => false,
                // It counts as zero.
                (_, 0) => 0.0 <= threshold,
                (_, 1 | 2) => default_left,
                _ => return self.refuse_node(node, format!("decision_type {kind} is not known")),
            });
            tree.zero_is_missing.push(kind & 1 == 0 && missing == 1);
        }
        Ok(())
    }

    fn child(&self, node: usize, side: &str, child: i32) -> Result<i32, FormatError> {
        let (leaves, splits) = (self.columns.leaves, self.columns.leaves - 1);
        let (number, of) = match child {
            0.. => (child as usize, splits),
            _ => (!child as usize, leaves),
        };
        if of <= number {
            let problem =
                format!("{side} child {child}, the tree has {splits} splits and {leaves} leaves");
            return self.refuse_node(node, problem);
        }
        // Both fit: a tree has at most 2^24 nodes.
        Ok(if child < 0 { (splits + number) as i32 } else { child })
    }

    /// Where each set of categories lies in the tree's, and how many it has.
    fn sets(
        &self,
        tree: &mut Tree,
        members_left: &mut usize,
    ) -> Result<Vec<(usize, usize)>, FormatError> {
        let Columns { cat_boundaries, cat_threshold, .. } = &self.columns;
        let mut sets = Vec::new();
        for bounds in cat_boundaries.windows(2) {
            let words = cat_threshold.get(bounds[0]..bounds[1]);
            let Some(words) = words else {
                let (from, to, of) = (bounds[0], bounds[1], cat_threshold.len());
                return self.refuse(format!("categories from word {from} to {to}, it has {of}"));
            };
            let count = words.iter().map(|it| it.count_ones() as usize).sum();
            let Some(left) = members_left.checked_sub(count) else {
                return self.refuse("more categories than a file of its size may have".to_owned());
            };
            *members_left = left;
            sets.push((tree.categories.len(), count));
            for (word, bits) in words.iter().enumerate() {
                let mut bits = *bits;
                while bits != 0 {
                    tree.categories.push((word as u32) * 32 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
        Ok(sets)
    }

    fn linear(&self) -> Result<Vec<LinearLeaf>, FormatError> {
        let columns = &self.columns;
        if !columns.is_linear {
            return Ok(Vec::new());
        }
        let leaves = columns.leaves;
        for (name, length) in
            [("leaf_const", columns.leaf_const.len()), ("num_features", columns.num_features.len())]
        {
            if length != leaves {
                return self.refuse(format!("{name} has {length} entries, expected {leaves}"));
            }
        }
        let mut start = 0;
        let mut linear = Vec::with_capacity(leaves);
        for (leaf, count) in columns.num_features.iter().enumerate() {
            let end = start + (*count).min(limits::FEATURES);
            let features = columns.leaf_features.get(start..end);
            let (Some(features), Some(coefficients)) =
                (features, columns.leaf_coeff.get(start..end))
            else {
                return self
                    .refuse_node(leaves - 1 + leaf, format!("{count} features, it has fewer"));
            };
            start = end;
            linear.push(LinearLeaf {
                node: leaves - 1 + leaf,
                constant: columns.leaf_const[leaf],
                features: features.to_vec(),
                coefficients: coefficients.to_vec(),
            });
        }
        Ok(linear)
    }

    fn refuse<T>(&self, problem: String) -> Result<T, FormatError> {
        Err(FormatError::of_tree(self.number, problem))
    }

    fn refuse_node<T>(&self, node: usize, problem: String) -> Result<T, FormatError> {
        Err(FormatError::of_node(self.number, node, problem))
    }
}
