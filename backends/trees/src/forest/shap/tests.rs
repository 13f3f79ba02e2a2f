//! Contributions are those of the definition, and add up to the sums.

use super::*;
use crate::forest::{
    document::{CategorySplit, Document, Tree},
    layout::{Extras, lay_out_with},
    testing::{document, stump, tree},
};

const FEATURES: usize = 4;

/// What a tree adds where only some of the features are known: at splits by the others, both ways.
fn value(tree: &Tree, node: usize, row: &[f64], known: u32) -> f64 {
    let (left, right) = (tree.left[node], tree.right[node]);
    if left < 0 {
        return tree.condition[node] * tree.weight;
    }
    let (left, right) = (left as usize, right as usize);
    let feature = tree.feature[node] as usize;
    if known >> feature & 1 == 0 {
        let share = |child: usize| f64::from(tree.covers[child]) / f64::from(tree.covers[node]);
        return share(left) * value(tree, left, row, known)
            + share(right) * value(tree, right, row, known);
    }
    let goes_left = match tree.categorical.iter().find(|it| it.node == node) {
        _ if row[feature].is_nan() => tree.default_left[node],
        Some(it) => {
            let set = &tree.categories[it.start..it.start + it.length];
            set.contains(&(row[feature] as u32)) == it.members_go_left
        }
        None => row[feature] < tree.condition[node],
    };
    value(tree, if goes_left { left } else { right }, row, known)
}

/// The contributions by their definition, a mean over all orders in which features become known.
fn by_definition(trees: &[Tree], row: &[f64]) -> Vec<f64> {
    let of = |known: u32| trees.iter().map(|it| value(it, 0, row, known)).sum::<f64>();
    let factorial = |it: u32| (1..=it).map(f64::from).product::<f64>();
    let count = FEATURES as u32;
    let mut found: Vec<f64> = (0..count)
        .map(|feature| {
            let others = (0..1 << count).filter(|known| known >> feature & 1 == 0);
            let of_others = others.map(|known: u32| {
                let size = known.count_ones();
                let weight = factorial(size) * factorial(count - size - 1) / factorial(count);
                weight * (of(known | 1 << feature) - of(known))
            });
            of_others.sum()
        })
        .collect();
    found.push(of(0));
    found
}

/// Numbers that look random, the same at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    /// A tree whose leaves are split again and again, the last one among them always.
    fn tree(&mut self, splits: usize) -> Tree {
        let mut grown = tree(&[], &[(0, 0.0)]);
        grown.covers = vec![1024.0];
        for _ in 0..splits {
            let leaves: Vec<usize> = (0..grown.nodes()).filter(|it| grown.left[*it] < 0).collect();
            let at = match self.below(2) {
                0 => leaves[leaves.len() - 1],
                _ => leaves[self.below(leaves.len())],
            };
            let first = grown.nodes() as i32;
            (grown.left[at], grown.right[at]) = (first, first + 1);
            grown.feature[at] = self.below(FEATURES) as u32;
            grown.condition[at] = self.below(5) as f64;
            grown.default_left[at] = self.below(2) == 0;
            let part = (self.below(9) as f32) / 8.0 * grown.covers[at];
            grown.covers.extend([part, grown.covers[at] - part]);
            for _ in 0..2 {
                grown.left.push(-1);
                grown.right.push(-1);
                grown.feature.push(0);
                grown.condition.push(self.below(100) as f64 - 50.0);
                grown.default_left.push(false);
            }
        }
        grown
    }
}

fn explained(trees: Vec<Tree>) -> Forest {
    let document = Document { features: FEATURES, ..document(trees) };
    let extras = Extras { contributions: true, leaves: true };
    lay_out_with(document, extras).expect("sound").forest
}

#[track_caller]
fn check(trees: Vec<Tree>, row: &[f64]) {
    let expected = by_definition(&trees, row);
    let forest = explained(trees);
    let singles: Vec<f32> = row.iter().map(|it| *it as f32).collect();
    let typed = match forest.takes_single() {
        true => Rows::Single(&singles),
        false => Rows::Double(row),
    };
    let mut found = vec![7.0; FEATURES + 1];
    forest.explain(typed, &mut Scratch::default(), &mut found);
    // Where no row of training went, the definition divides by zero.
    for (found, expected) in found.iter().zip(&expected).filter(|it| !it.1.is_nan()) {
        assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
    }
    let mut sums = [0.0];
    forest.sums_of::<f64>(typed, &mut sums);
    let total: f64 = found.iter().sum();
    assert!((total - sums[0]).abs() < 1e-6, "{total}, the sum is {}", sums[0]);
}

#[test]
fn contributions_are_those_of_the_definition() {
    let mut random = Random(3);
    for splits in 0..60 {
        let trees = vec![random.tree(splits), random.tree(splits / 2)];
        for _ in 0..4 {
            let values = [0.5, 1.5, 2.0, 3.5, 9.0, f64::NAN];
            let row: Vec<f64> = (0..FEATURES).map(|_| values[random.below(6)]).collect();
            check(trees.clone(), &row);
        }
    }
}

#[test]
fn categories_are_heeded() {
    let mut split = stump();
    split.covers = vec![10.0, 4.0, 6.0];
    split.categories = vec![3];
    split.categorical =
        vec![CategorySplit { node: 0, start: 0, length: 1, members_go_left: false }];
    for category in [0.0, 3.0, f64::NAN] {
        check(vec![split.clone()], &[category, 0.0, 0.0, 0.0]);
    }
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let refused = |change: fn(&mut Document)| {
        let mut document = document(vec![Tree { covers: vec![2.0, 1.0, 1.0], ..stump() }]);
        change(&mut document);
        let extras = Extras { contributions: true, leaves: false };
        lay_out_with(document, extras).map(drop).unwrap_err().to_string()
    };
    let of_file = refused(|it| it.trees[0].covers.clear());
    assert!(of_file.contains("tree 0: the file does not say how many rows"), "{of_file}");
    let negative = refused(|it| it.trees[0].covers[1] = -1.0);
    assert_eq!(negative, "tree 0, node 1: -1 rows of training");
    let wide = refused(|it| {
        it.features = 1 << 20;
        it.base = vec![0.0; 5];
    });
    assert!(wide.contains("5242885 numbers of a row"), "{wide}");
    let deep = refused(|it| {
        let splits: Vec<_> =
            (0..65).map(|i| (2 * i, 2 * i as i32 + 1, 2 * i as i32 + 2, 0, 0.0)).collect();
        let mut leaves: Vec<_> = (0..65).map(|i| (2 * i + 1, 0.0)).collect();
        leaves.push((130, 0.0));
        it.trees = vec![tree(&splits, &leaves)];
    });
    assert!(deep.contains("trees of 65 splits on a path; at most 64"), "{deep}");
}

#[test]
fn shares_without_rows_end_in_numbers() {
    let mut random = Random(11);
    let mut deep = random.tree(80);
    deep.covers.fill(0.0);
    let forest = explained(vec![deep]);
    let mut found = vec![0.0; FEATURES + 1];
    let row = Rows::Single(&[0.5, 2.5, 1.5, 3.5]);
    forest.explain(row, &mut Scratch::default(), &mut found);
    assert!(found.iter().all(|it| it.is_finite()), "{found:?}");
    let mut sums = [0_f64];
    forest.sums_of(row, &mut sums);
    assert!((found.iter().sum::<f64>() - sums[0]).abs() < 1e-9);
}

#[test]
fn leaves_have_the_numbers_of_the_file() {
    let of_file = tree(&[(0, 4, 3, 1, 1.0), (3, 1, 2, 0, 2.0)], &[(1, 10.0), (2, 20.0), (4, 40.0)]);
    let covers = vec![4.0, 1.0, 1.0, 2.0, 2.0];
    let forest = explained(vec![
        Tree { covers, ..of_file },
        Tree { covers: vec![2.0, 1.0, 1.0], ..stump() },
    ]);
    let mut leaves = [0; 4];
    let rows = [0.0, 0.0, 0.0, 0.0, 5.0, 5.0, 0.0, 0.0];
    forest.leaves_of(Rows::Single(&rows), &mut leaves);
    assert_eq!(leaves, [4, 1, 2, 2]);
}
