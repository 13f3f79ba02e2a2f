//! Files of tree models, in every format that is read: the content of a file says which.

use std::{fs, path::Path};

use formats::expansion::Limit;
use trees::{
    forest::{
        document::Transform,
        layout::{Extras, lay_out_with},
        packed::Forest,
        shap::Scratch,
        sum::Rows,
    },
    read::read,
};

use super::Target;
use crate::{oracle, seen::Seen};

/// What a load takes beside the file.
const BOUND: Limit = Limit { free: 16 << 20, ratio: 3, most: usize::MAX };

/// No rows are made of more columns than this: their memory is not the file's.
const COLUMNS: usize = 1 << 12;

/// A file. What is read becomes a forest, a row is sent through it, and its answer is explained.
pub(super) const TREES: Target = Target {
    name: "trees",
    decode: |data| {
        let mut seen = Seen::default();
        let extras = Extras { leaves: true, contributions: true };
        let document = oracle::within(BOUND, data.len(), || read(data, None));
        // What an error quotes of the file does not count, whichever quotes it has.
        let document = document.map_err(|it| it.to_string().replace('"', "'"));
        let Some(document) = seen.result(document) else { return seen };
        seen.fact((document.origin.library.name(), document.origin.format));
        let explained = lay_out_with(document, extras).map(|it| it.forest);
        match seen.result(explained) {
            Some(forest) => walk(&forest, true),
            // What cannot be explained may be served all the same.
            None => {
                let forest = oracle::within(BOUND, data.len(), || {
                    read(data, None).and_then(|it| lay_out_with(it, Extras::default()))
                });
                if let Some(laid) = seen.result(forest) {
                    walk(&laid.forest, false);
                }
            }
        }
        seen
    },
    examples,
    words: &[
        "\u{0}\u{0}\u{0}\u{0}",
        "-1",
        "99999999",
        "2147483647",
        "NaN",
        "[",
        "{",
        "learner",
        "tree_info",
        "left_children",
        "Tree=0\n",
        "num_leaves=",
        "cat_boundaries=",
    ],
};

/// Sends rows of nothing that is known, of zeros and of large numbers through a forest.
fn walk(forest: &Forest, is_explained: bool) {
    if COLUMNS < forest.features {
        return;
    }
    for value in [f64::NAN, 0.0, f64::INFINITY, -1e30] {
        let double = vec![value; forest.features];
        let single = vec![value as f32; forest.features];
        let row = match forest.takes_single() {
            true => Rows::Single(&single),
            false => Rows::Double(&double),
        };
        match forest.transform {
            Transform::Single(transform) => {
                let mut sums = vec![0_f32; forest.sums()];
                forest.sums_of(row, &mut sums);
                transform.apply(&mut sums);
            }
            Transform::Double(transform) => {
                let mut sums = vec![0_f64; forest.sums()];
                forest.sums_of(row, &mut sums);
                transform.apply(&mut sums);
            }
        }
        if is_explained {
            let mut into = vec![0.0; forest.sums() * (forest.features + 1)];
            let mut leaves = vec![0; forest.trees.len()];
            forest.explain(row, &mut Scratch::default(), &mut into);
            forest.leaves_of(row, &mut leaves);
        }
    }
}

/// One small file of each format.
const FILES: [&str; 14] = [
    "xgboost-3.4.1/stump.json",
    "xgboost-3.4.1/stump.ubj",
    "xgboost-3.4.1/vectors.ubj",
    "xgboost-1.7.6/stump.bin",
    "xgboost-0.90/dart.bin",
    "xgboost-1.2.1/stump.pkl",
    "lightgbm-4.7.0/categories.txt",
    "lightgbm-4.7.0/linear.txt",
    "treelite-3.9.1/lightgbm_categories.tl",
    "treelite-4.8.1/sklearn_random_forest_targets.tl",
    "sklearn-1.9.1/tree_regressor.joblib",
    "sklearn-1.9.1/tree.joblib",
    "sklearn-1.3.2/tree.pkl",
    "sklearn-1.9.1/tree_regressor.skops",
];

fn examples() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/forests");
    let read = |it: &&str| fs::read(folder.join(it)).expect("a fixture");
    FILES.iter().map(read).collect()
}
