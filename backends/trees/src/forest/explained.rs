//! What a forest needs to say what each feature contributes: of every node the share of its parent's rows of training.

use crate::{
    error::FormatError,
    forest::{
        document::{Document, Tree},
        quadrature::Quadrature,
    },
    limits,
};

/// What contributions are computed from.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// For each node of the forest which share of its parent's rows went there; 1 for a root.
    pub shares: Vec<f64>,
    /// For each tree the value that it adds to a row of which nothing is known.
    pub means: Vec<f64>,
    /// The rule for paths of up to twice as many splits as it has points: those of 1 point and more.
    pub rules: Vec<Quadrature>,
}

impl Explained {
    /// For a document that was checked, before its trees are laid out. `depth` is that of its deepest tree.
    ///
    /// # Errors
    /// What keeps its answers from being explained.
    pub fn new(document: &Document, depth: usize) -> Result<Explained, FormatError> {
        let refuse = |problem: String| Err(FormatError::new(format!("treeshap_output: {problem}")));
        let most = limits::EXPLAINED_DEPTH;
        if most < depth {
            return refuse(format!(
                "trees of {depth} splits on a path; at most {most} are explained"
            ));
        }
        let columns = (document.features + 1) * document.sums();
        if limits::EXPLAINED_COLUMNS < columns {
            let most = limits::EXPLAINED_COLUMNS;
            return refuse(format!("{columns} numbers of a row; at most {most} are served"));
        }
        for (number, tree) in document.trees.iter().enumerate() {
            let leaves = match tree.vectors {
                Some(_) => Some("vectors, which are not explained, by XGBoost neither"),
                None if tree.linear.is_empty() => None,
                None => Some("linear models, which are not explained, by LightGBM neither"),
            };
            if let Some(leaves) = leaves {
                let problem = format!("treeshap_output: its leaves are {leaves}");
                return Err(FormatError::of_tree(number, problem));
            }
            if tree.covers.len() != tree.nodes() {
                let problem = "the file does not say how many rows of training each node had: XGBoost's sum_hessian, \
                               LightGBM's internal_count and leaf_count, treelite's sum_hess or data_count, or \
                               scikit-learn's weighted_n_node_samples";
                return Err(FormatError::of_tree(number, problem));
            }
            if let Some(node) = tree.covers.iter().position(|it| !(0.0..=f32::MAX).contains(it)) {
                let cover = tree.covers[node];
                return Err(FormatError::of_node(
                    number,
                    node,
                    format!("{cover} rows of training"),
                ));
            }
        }
        let rules = (1..=depth.div_ceil(2).max(1)).map(Quadrature::new).collect();
        Ok(Explained { shares: Vec::new(), means: Vec::with_capacity(document.trees.len()), rules })
    }

    /// Adds a tree. `order` are its nodes as they are laid out: level by level, siblings side by side. `value` is what
    /// a leaf adds.
    pub fn push(&mut self, tree: &Tree, order: &[u32], value: impl Fn(usize) -> f64) {
        let start = self.shares.len();
        self.shares.push(1.0);
        let mut reached = vec![1.0];
        let mut mean = 0.0;
        for (place, node) in order.iter().enumerate() {
            let node = *node as usize;
            if tree.left[node] < 0 {
                mean += reached[place] * value(node);
                continue;
            }
            for child in [tree.left[node], tree.right[node]] {
                let share = share(tree.covers[child as usize].into(), tree.covers[node].into());
                self.shares.push(share);
                reached.push(reached[place] * share);
            }
        }
        debug_assert_eq!(self.shares.len() - start, order.len());
        self.means.push(mean);
    }
}

/// Shares that are so small are none: their products would be no numbers of 64 bits.
const NO_SHARE: f64 = 1e-100;

fn share(child: f64, parent: f64) -> f64 {
    let share = child / parent;
    if NO_SHARE < share { share } else { 0.0 }
}
