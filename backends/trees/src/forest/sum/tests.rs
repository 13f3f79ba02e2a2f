//! Facts about sums: each is that of a plain walk over the document, whatever the batch.

use super::*;
use crate::forest::{
    document::{CategorySplit, Document, LeafVectors, LinearLeaf, Transform, Tree},
    double,
    layout::lay_out,
    testing::{document, stump, tree},
};

/// Numbers that look random and are always the same.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn value(&mut self) -> f64 {
        match self.next(8) {
            0 => f64::NAN,
            1 => 0.0,
            _ => f64::from(self.next(1000) as f32 / 500.0 - 1.0),
        }
    }

    /// A tree that grows until it has so many splits.
    fn tree(&mut self, splits: usize, features: u64) -> Tree {
        let nodes = 2 * splits + 1;
        let mut leaves = vec![0];
        let mut tree = tree(&[], &vec![(0, 0.0); nodes]);
        for i in 0..splits {
            let at = self.next(leaves.len() as u64) as usize;
            let node = leaves.swap_remove(at);
            let (left, right) = (2 * i + 1, 2 * i + 2);
            (tree.left[node], tree.right[node]) = (left as i32, right as i32);
            tree.feature[node] = self.next(features) as u32;
            leaves.extend([left, right]);
        }
        for node in 0..nodes {
            tree.condition[node] = f64::from(self.next(2000) as f32 / 1000.0 - 1.0);
            tree.default_left[node] = self.next(2) == 0;
        }
        tree
    }
}

/// The sums of a row by a walk from node to node.
fn plain(document: &Document, row: &[f64]) -> Vec<f64> {
    let round = |value: f64| match document.transform {
        Transform::Single(_) => f64::from(value as f32),
        Transform::Double(_) => value,
    };
    let mut sums = document.base.clone();
    for tree in &document.trees {
        let mut node = 0;
        while 0 <= tree.left[node] {
            let (value, condition) = (row[tree.feature[node] as usize], tree.condition[node]);
            let is_zero = tree.zero_is_missing.get(node) == Some(&true) && value.abs() < 1e-35;
            let set = tree.categorical.iter().find(|it| it.node == node);
            let goes_left = match (set, document.comparison) {
                _ if value.is_nan() || is_zero => tree.default_left[node],
                (Some(set), _) => {
                    let members = &tree.categories[set.start..set.start + set.length];
                    let is_member = 0.0 <= value && members.contains(&(value as u32));
                    is_member == set.members_go_left
                }
                (None, Comparison::Less) => value < condition,
                (None, Comparison::LessOrEqual) => value <= condition,
            };
            node = if goes_left { tree.left[node] } else { tree.right[node] } as usize;
        }
        let weighted = round(tree.condition[node] * tree.weight);
        sums[tree.output] = round(sums[tree.output] + weighted);
    }
    sums
}

fn sums_of(forest: &Forest, rows: &[Vec<f64>]) -> Vec<f64> {
    let flat: Vec<f64> = rows.concat();
    let single: Vec<f32> = flat.iter().map(|it| *it as f32).collect();
    let input = match forest.takes_single() {
        true => Rows::Single(&single),
        false => Rows::Double(&flat),
    };
    let count = rows.len() * forest.sums();
    match forest.transform {
        Transform::Single(_) => {
            let mut sums = vec![0f32; count];
            forest.sums_of(input, &mut sums);
            sums.into_iter().map(f64::from).collect()
        }
        Transform::Double(_) => {
            let mut sums = vec![0f64; count];
            forest.sums_of(input, &mut sums);
            sums
        }
    }
}

/// The sums of 512 rows by the plain walk are those of the forest, alone and in batches of several sizes. Every second
/// 256 lack no feature.
#[track_caller]
fn check(document: Document, numbers: &mut Numbers, is_narrow: bool) {
    let row = |numbers: &mut Numbers| (0..document.features).map(|_| numbers.value()).collect();
    let mut rows: Vec<Vec<f64>> = (0..512).map(|_| row(numbers)).collect();
    for value in rows[256..].iter_mut().flatten().filter(|it| it.is_nan()) {
        *value = 0.25;
    }
    let expect: Vec<Vec<f64>> = rows.iter().map(|it| plain(&document, it)).collect();
    let forest = lay_out(document).unwrap().forest;
    assert_eq!(forest.takes_single(), is_narrow);
    for batch in [1, 2, 7, 8, 63, 64, 65, 256] {
        for (rows, expect) in rows.chunks(batch).zip(expect.chunks(batch)) {
            assert_eq!(sums_of(&forest, rows), expect.concat(), "in batches of {batch}");
        }
    }
}

fn forest(numbers: &mut Numbers, trees: usize, splits: usize) -> Document {
    let trees = (0..trees).map(|i| Tree {
        output: i % 3,
        weight: if i % 5 == 0 { f64::from(0.3f32) } else { 1.0 },
        ..numbers.tree(splits, 5)
    });
    let trees = trees.collect();
    Document { features: 5, base: vec![0.5, -0.25, 0.0], ..document(trees) }
}

#[test]
fn rows_do_not_depend_on_their_batch() {
    let mut numbers = Numbers(1);
    for (trees, splits) in [(1, 0), (3, 1), (8, 20), (21, 60), (10, 300)] {
        check(forest(&mut numbers, trees, splits), &mut numbers, true);
    }
}

#[test]
fn long_trees_are_walked_to_their_ends() {
    let chain = |depth: i32| {
        let splits: Vec<_> =
            (0..depth).map(|i| (2 * i as usize, 2 * i + 2, 2 * i + 1, 0, 0.0)).collect();
        let leaves: Vec<_> = (0..=depth).map(|i| (2 * i as usize + 1, f64::from(i))).collect();
        let mut tree = tree(&splits, &leaves[..depth as usize]);
        tree.left.push(-1);
        tree.right.push(-1);
        tree.feature.push(0);
        tree.condition.push(77.0);
        tree.default_left.push(false);
        tree
    };
    for depth in [15, 16, 17, 23, 24, 25, 1000] {
        let trees = vec![chain(depth), stump(), chain(3)];
        check(Document { features: 5, ..document(trees) }, &mut Numbers(7), true);
    }
}

#[test]
fn nodes_of_sixteen_bytes_say_the_same() {
    let mut numbers = Numbers(2);
    let narrow = forest(&mut numbers, 21, 60);
    check(Document { comparison: Comparison::LessOrEqual, ..narrow.clone() }, &mut numbers, true);
    let wide = Document { transform: Transform::Double(double::Transform::Identity), ..narrow };
    check(wide.clone(), &mut numbers, false);
    check(Document { comparison: Comparison::LessOrEqual, ..wide }, &mut numbers, false);
}

#[test]
fn zeros_may_be_missing_and_features_categories() {
    let mut numbers = Numbers(3);
    for comparison in [Comparison::Less, Comparison::LessOrEqual] {
        let mut document = Document { comparison, ..forest(&mut numbers, 21, 60) };
        for tree in &mut document.trees {
            tree.zero_is_missing = (0..tree.nodes()).map(|_| numbers.next(2) == 0).collect();
            for node in (0..tree.nodes()).step_by(3) {
                let start = tree.categories.len();
                tree.categories.extend([[0, 1], [1, 5]][node % 2]);
                let members_go_left = node % 4 == 0;
                tree.categorical.push(CategorySplit { node, start, length: 2, members_go_left });
            }
            for node in tree.categorical.iter().map(|it| it.node) {
                tree.zero_is_missing[node] = false;
            }
        }
        check(document, &mut numbers, false);
    }
}

#[test]
fn leaves_may_add_to_all_sums_or_be_linear_models() {
    let vectors = LeafVectors { row: vec![0, 1, 0], values: vec![1.0, 2.0, 3.0, 4.0] };
    let with_vectors = Tree { vectors: Some(vectors), ..stump() };
    let forest =
        lay_out(Document { base: vec![0.5, 0.0], ..document(vec![with_vectors, stump()]) })
            .unwrap()
            .forest;
    let rows = [vec![0.0, 0.0], vec![1.0, 0.0]];
    assert_eq!(sums_of(&forest, &rows), [4.5, 4.0, 3.5, 2.0]);
    let leaf =
        LinearLeaf { node: 2, constant: 5.0, features: vec![1, 0], coefficients: vec![7.0, 1.0] };
    let document = document(vec![Tree { linear: vec![leaf], ..stump() }]);
    let forest = lay_out(document).unwrap().forest;
    let rows = [vec![0.0, f64::NAN], vec![1.0, 2.0], vec![1.0, f64::NAN]];
    assert_eq!(sums_of(&forest, &rows), [1.0, 20.0, 2.0]);
}

#[test]
fn averages_and_linear_models_without_trees() {
    let document = document(vec![stump(), stump(), stump()]);
    let transform = Transform::Double(double::Transform::Identity);
    let forest =
        lay_out(Document { average_over: Some(3.0), transform, ..document.clone() }).unwrap();
    assert_eq!(sums_of(&forest.forest, &[vec![1.0, 0.0]]), [2.0]);
    let linear = Linear { weights: vec![1.0, 10.0, 2.0, 20.0], biases: vec![0.5, 0.25] };
    let without =
        Document { trees: vec![], base: vec![0.0, 1.0], linear: Some(linear), ..document };
    let forest = lay_out(without).unwrap().forest;
    let rows = [vec![3.0, 1.0], vec![f64::NAN, 1.0]];
    assert_eq!(sums_of(&forest, &rows), [5.5, 51.25, 2.5, 21.25]);
}

#[test]
fn a_condition_that_is_no_number_sends_numbers_right() {
    let mut tree = stump();
    tree.condition[0] = f64::NAN;
    let document = document(vec![tree]);
    let forest = lay_out(document).unwrap().forest;
    let rows = [vec![1.0, 0.0], vec![f64::NEG_INFINITY, 0.0]];
    assert_eq!(sums_of(&forest, &rows), [2.0, 2.0]);
}
