//! Facts about packed forests.

use super::*;
use crate::forest::{
    document::LeafVectors,
    testing::{document, stump, tree},
};

#[track_caller]
fn narrow_of(document: Document) -> (Vec<Narrow>, Forest) {
    let forest = lay_out(document).unwrap().forest;
    match forest.nodes.clone() {
        Nodes::Narrow(nodes) => (nodes, forest),
        Nodes::Wide(_) => panic!("nodes of 16 bytes"),
    }
}

#[track_caller]
fn is_wide(document: Document) -> Forest {
    let forest = lay_out(document).unwrap().forest;
    assert_eq!(forest.nodes.bytes_each(), 16);
    forest
}

#[test]
fn siblings_lie_side_by_side_and_leaves_have_no_distance() {
    let of_file = tree(&[(0, 4, 3, 1, 1.0), (3, 1, 2, 0, 2.0)], &[(1, 10.0), (2, 20.0), (4, 40.0)]);
    let (nodes, forest) = narrow_of(document(vec![stump(), of_file]));
    let shown: Vec<_> =
        nodes.iter().map(|it| (it.condition(), it.feature(), it.distance())).collect();
    let expect = [
        (0.5, 0, 1),
        (1.0, 0, 0),
        (2.0, 0, 0),
        (1.0, 1, 1),
        (40.0, 0, 0),
        (2.0, 0, 1),
        (10.0, 0, 0),
        (20.0, 0, 0),
    ];
    assert_eq!(shown, expect);
    let trees: Vec<_> = forest.trees.iter().map(|it| (it.root, it.depth)).collect();
    assert_eq!(trees, [(0, 1), (3, 2)]);
}

#[test]
fn nodes_that_no_row_reaches_are_dropped_and_counted() {
    let mut with_rest = stump();
    with_rest.left.push(-1);
    with_rest.right.push(-1);
    with_rest.feature.push(0);
    with_rest.condition.push(0.0);
    with_rest.default_left.push(false);
    let laid = lay_out(document(vec![with_rest])).unwrap();
    assert_eq!((laid.dropped, laid.forest.nodes.len()), (1, 3));
}

#[test]
fn the_weight_of_a_tree_is_in_its_leaves_rounded_as_the_sums_are() {
    let weighted = Tree { weight: 0.1, ..stump() };
    let (nodes, _) = narrow_of(document(vec![weighted]));
    assert_eq!(nodes[2].condition(), 2.0 * 0.1f32);
}

#[test]
fn what_does_not_fit_eight_bytes_takes_sixteen() {
    is_wide(Document { features: 32_769, ..document(vec![stump()]) });
    is_wide(Document { rounding: Rounding::Double, ..document(vec![stump()]) });
    let zero = Tree { zero_is_missing: vec![true, false, false], ..stump() };
    is_wide(document(vec![zero]));
    // A complete tree of 17 levels of splits has children that are 65,536 away.
    let splits: Vec<_> =
        (0..131_071).map(|i| (i, 2 * i as i32 + 1, 2 * i as i32 + 2, 0, 0.0)).collect();
    let leaves: Vec<_> = (131_071..262_143).map(|i| (i, i as f64)).collect();
    is_wide(document(vec![tree(&splits, &leaves)]));
}

#[test]
fn vectors_and_linear_models_of_leaves_are_found_by_their_number() {
    let vectors = LeafVectors { row: vec![9, 1, 0], values: vec![1.0, 2.0, 3.0, 4.0] };
    let with_vectors = Tree { vectors: Some(vectors), weight: 2.0, ..stump() };
    let forest = is_wide(Document { base: vec![0.0; 2], ..document(vec![with_vectors]) });
    assert_eq!(forest.vectors, [6.0, 8.0, 2.0, 4.0]);
    let leaf = LinearLeaf { node: 2, constant: 5.0, features: vec![1], coefficients: vec![7.0] };
    let forest = is_wide(document(vec![Tree { linear: vec![leaf], ..stump() }]));
    let shown: Vec<_> =
        forest.linear_leaves.iter().map(|it| (it.value, it.constant, it.terms.len())).collect();
    assert_eq!(shown, [(1.0, 1.0, 0), (2.0, 5.0, 1)]);
}
