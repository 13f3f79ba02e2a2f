//! Facts about what is refused, each by the text of its error.

use super::*;
use crate::forest::{
    document::{CategorySplit, LeafVectors, LinearLeaf},
    testing::{document, stump, tree},
};

#[track_caller]
fn refused(document: &Document, expect: &str) {
    assert_eq!(check(document).unwrap_err().to_string(), expect);
}

/// The stump as it is behind one that is sound, changed.
#[track_caller]
fn refused_tree(change: impl FnOnce(&mut Tree), expect: &str) {
    let mut changed = stump();
    change(&mut changed);
    refused(&document(vec![stump(), changed]), expect);
}

#[test]
fn a_sound_document_has_the_shapes_of_its_trees() {
    let deep = tree(&[(0, 4, 3, 0, 1.0), (3, 1, 2, 1, 2.0)], &[(1, 0.0), (2, 0.0), (4, 0.0)]);
    let mut with_rest = stump();
    for column in [&mut with_rest.left, &mut with_rest.right] {
        column.push(77);
    }
    with_rest.feature.push(9);
    with_rest.condition.push(0.0);
    with_rest.default_left.push(false);
    let shapes = check(&document(vec![stump(), deep, tree(&[], &[(0, 1.0)]), with_rest])).unwrap();
    let shapes: Vec<_> = shapes.iter().map(|it| (it.nodes, it.depth)).collect();
    assert_eq!(shapes, [(3, 1), (5, 2), (1, 0), (3, 1)]);
}

#[test]
fn children_are_nodes_of_their_tree_and_each_once() {
    refused_tree(
        |it| it.left[0] = 2_000_000,
        "tree 1, node 0: left child 2000000, the tree has 3 nodes",
    );
    refused_tree(|it| it.right[0] = 0, "tree 1, node 0: right child 0 is in the tree already");
    refused_tree(|it| it.right[0] = 1, "tree 1, node 0: right child 1 is in the tree already");
    refused_tree(
        |it| it.right[0] = -1,
        "tree 1, node 0: it has no right child, but one on the other side",
    );
    let circle = |it: &mut Tree| (it.left[1], it.right[1]) = (0, 2);
    refused_tree(circle, "tree 1, node 1: left child 0 is in the tree already");
}

#[test]
fn all_arrays_of_a_tree_have_the_same_length() {
    refused_tree(|it| it.right.truncate(2), "tree 1: 2 right children, the tree has 3 nodes");
    refused_tree(|it| it.feature.clear(), "tree 1: 0 features, the tree has 3 nodes");
    refused_tree(|it| it.condition.push(0.0), "tree 1: 4 conditions, the tree has 3 nodes");
    refused_tree(
        |it| it.default_left.clear(),
        "tree 1: 0 default directions, the tree has 3 nodes",
    );
    refused_tree(
        |it| it.zero_is_missing.push(true),
        "tree 1: 1 kinds of missing values, the tree has 3 nodes",
    );
    refused_tree(|it| it.left.clear(), "tree 1: it has no nodes");
}

#[test]
fn features_and_outputs_are_those_of_the_model() {
    refused_tree(|it| it.feature[0] = 2, "tree 1, node 0: feature 2, the model has 2");
    refused_tree(|it| it.output = 1_000_000, "tree 1: it adds to output 1000000, the model has 1");
}

#[test]
fn sets_of_categories_lie_in_their_array() {
    let split = |node, start, length| CategorySplit { node, start, length, members_go_left: true };
    refused_tree(
        |it| it.categorical = vec![split(0, 1, usize::MAX)],
        &format!("tree 1, node 0: {} categories from 1, the tree has 0", usize::MAX),
    );
    refused_tree(
        |it| (it.categorical, it.categories) = (vec![split(0, 0, 1)], vec![1 << 24]),
        "tree 1, node 0: category 16777216, expected less than 16777216",
    );
    refused_tree(
        |it| it.categorical = vec![split(7, 0, 0)],
        "tree 1: it lists the split by categories 7 out of order; the tree has 3 nodes",
    );
}

#[test]
fn leaves_have_what_they_refer_to() {
    refused_tree(
        |it| it.vectors = Some(LeafVectors { row: vec![0, 0, 1], values: vec![1.0] }),
        "tree 1, node 2: leaf vector 1, the tree has 1",
    );
    let linear =
        |features, coefficients| LinearLeaf { node: 1, constant: 0.0, features, coefficients };
    refused_tree(
        |it| it.linear = vec![linear(vec![0], vec![])],
        "tree 1, node 1: 0 coefficients of 1 features",
    );
    refused_tree(
        |it| it.linear = vec![linear(vec![2], vec![1.0])],
        "tree 1, node 1: feature 2, the model has 2",
    );
}

#[test]
fn numbers_of_the_model_are_bounded() {
    let with = |change: fn(&mut Document)| {
        let mut document = document(vec![stump()]);
        change(&mut document);
        document
    };
    refused(&with(|it| it.features = 0), "the model takes no features");
    refused(&with(|it| it.features = 1 << 24), "16777216 features; at most 1048576 are served");
    refused(&with(|it| it.base = vec![0.0; 65_537]), "65537 outputs; at most 65536 are served");
    refused(&with(|it| it.base.clear()), "the model has no outputs");
    refused(&with(|it| it.base[0] = f64::NAN), "the base score is NaN, which is no finite number");
    refused(
        &with(|it| it.feature_names.push("a".to_owned())),
        "1 names of features, the model has 2 features",
    );
    refused(&with(|it| it.rounds = vec![0, 2]), "its rounds of training do not divide its 1 trees");
    refused(
        &with(|it| it.linear = Some(Linear::default())),
        "the linear model has 0 weights and 0 biases, expected 2 and 1",
    );
}

#[test]
fn a_chain_of_any_length_is_read_and_one_that_is_too_deep_refused() {
    let chain = |depth: i32| {
        let splits: Vec<_> =
            (0..depth).map(|i| (2 * i as usize, 2 * i + 2, 2 * i + 1, 0, 0.0)).collect();
        let leaves: Vec<_> = (0..depth).map(|i| (2 * i as usize + 1, 0.0)).collect();
        tree(&splits, &[&leaves[..], &[(2 * depth as usize, 0.0)]].concat())
    };
    assert_eq!(check(&document(vec![chain(4096)])).unwrap()[0].depth, 4096);
    refused(&document(vec![chain(4097)]), "tree 0: it is deeper than 4096 splits");
}
