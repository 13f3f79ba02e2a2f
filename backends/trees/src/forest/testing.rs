//! Small documents for tests.

use crate::forest::document::{Document, Library, Origin, Transform, Tree};
use crate::forest::single;

/// A tree with splits `(node, left, right, feature, condition)` and leaves `(node, value)`.
pub(crate) fn tree(splits: &[(usize, i32, i32, u32, f64)], leaves: &[(usize, f64)]) -> Tree {
    let nodes = splits.len() + leaves.len();
    let mut tree = Tree {
        left: vec![-1; nodes],
        right: vec![-1; nodes],
        feature: vec![0; nodes],
        condition: vec![0.0; nodes],
        default_left: vec![false; nodes],
        weight: 1.0,
        ..Tree::default()
    };
    for (node, left, right, feature, condition) in splits {
        (tree.left[*node], tree.right[*node]) = (*left, *right);
        (tree.feature[*node], tree.condition[*node]) = (*feature, *condition);
    }
    leaves.iter().for_each(|(node, value)| tree.condition[*node] = *value);
    tree
}

/// One split of feature 0 at 0.5: 1 below, 2 above.
pub(crate) fn stump() -> Tree {
    tree(&[(0, 1, 2, 0, 0.5)], &[(1, 1.0), (2, 2.0)])
}

/// A document of XGBoost with two features and one sum that begins at zero.
pub(crate) fn document(trees: Vec<Tree>) -> Document {
    let origin = Origin { library: Library::Xgboost, version: "3.2.0".to_owned(), format: "UBJ" };
    let transform = Transform::Single(single::Transform::Identity);
    Document { features: 2, base: vec![0.0], trees, ..Document::new(origin, transform) }
}
