//! Small files, sound and not.

use super::*;
use crate::forest::layout::lay_out;

const HEADER: &str = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=3\n\
                      objective=binary sigmoid:1\nfeature_names=a b c d\ntree_sizes=7\n\n";
const TREE: &str = "Tree=0\nnum_leaves=4\nnum_cat=1\nsplit_feature=0 1 2\nthreshold=0.5 0 -1\n\
                    decision_type=2 1 4\nleft_child=1 -1 -3\nright_child=2 -2 -4\nleaf_value=1 2 3 4\n\
                    cat_boundaries=0 2\ncat_threshold=5 2147483648\nis_linear=0\nshrinkage=1\n\n\n";
const END: &str = "end of trees\n\nparameters:\n[boosting: gbdt]\n";

fn file(tree: &str) -> String {
    format!("{HEADER}{tree}{END}")
}

#[track_caller]
fn check(old: &str, new: &str, expect: &str) {
    let file = file(TREE);
    assert!(file.contains(old), "{old}");
    let error = match read(file.replace(old, new).as_bytes()) {
        Ok(document) => lay_out(document).map(drop).expect_err("it is sound"),
        Err(error) => error,
    };
    assert!(error.to_string().contains(expect), "{error}");
}

#[test]
fn a_tree_has_its_leaves_behind_its_splits() {
    let document = read(file(TREE).as_bytes()).expect("a sound file");
    let tree = &document.trees[0];
    assert_eq!(tree.left, [1, 3, 5, -1, -1, -1, -1]);
    assert_eq!(tree.right, [2, 4, 6, -1, -1, -1, -1]);
    assert_eq!(tree.condition[3..], [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(tree.categories, [0, 2, 63]);
    assert_eq!(document.feature_names, ["a", "b", "c", "d"]);
    assert_eq!((document.classes, document.sums(), document.rounds), (Some(2), 1, vec![0, 1]));
}

#[test]
fn what_is_missing_goes_where_the_kind_of_split_says() {
    let missing = |kind: &str| {
        let file = file(TREE).replace("decision_type=2 1 4", &format!("decision_type={kind} 1 4"));
        let document = read(file.as_bytes()).expect("a sound file");
        let tree = &document.trees[0];
        (tree.default_left[0], tree.zero_is_missing[0])
    };
    // Of no kind it is zero, which is below 0.5.
    assert_eq!(missing("0"), (true, false));
    assert_eq!(missing("4"), (false, true));
    assert_eq!(missing("6"), (true, true));
    assert_eq!(missing("8"), (false, false));
    assert_eq!(missing("10"), (true, false));
}

#[test]
fn ends_of_lines_may_be_those_of_windows() {
    let file = file(TREE);
    let windows = read(file.replace('\n', "\r\n").as_bytes()).expect("a sound file");
    assert_eq!(windows, read(file.as_bytes()).expect("a sound file"));
}

#[test]
fn a_tree_may_be_a_single_leaf() {
    let leaf = "Tree=0\nnum_leaves=1\nnum_cat=0\nsplit_feature=\nthreshold=\ndecision_type=\n\
                left_child=\nright_child=\nleaf_value=2.5\nis_linear=0\n\n\n";
    let document = read(file(leaf).as_bytes()).expect("a sound file");
    assert_eq!(document.trees[0].condition, [2.5]);
    assert!(lay_out(document).is_ok());
}

#[test]
fn hostile_children_are_refused() {
    check("left_child=1", "left_child=0", "tree 0, node 0: left child 0 is in the tree already");
    check("left_child=1", "left_child=2", "tree 0, node 0: right child 2 is in the tree already");
    check(
        "left_child=1",
        "left_child=3",
        "tree 0, node 0: left child 3, the tree has 3 splits and 4 leaves",
    );
    check("-3\n", "-5\n", "tree 0, node 2: left child -5, the tree has 3 splits and 4 leaves");
    check("-3\n", "-2147483648\n", "tree 0, node 2: left child -2147483648");
    check(
        "left_child=1 -1 -3",
        "left_child=1 0 -3",
        "tree 0, node 1: left child 0 is in the tree already",
    );
}

#[test]
fn hostile_numbers_are_refused() {
    check(
        "split_feature=0",
        "split_feature=16777216",
        "tree 0, node 0: feature 16777216, the model has 4",
    );
    check("split_feature=0", "split_feature=-1", "tree 0: split_feature has \"-1\"");
    check("num_leaves=4", "num_leaves=2147483647", "tree 0: num_leaves is 2147483647");
    check("num_leaves=4", "num_leaves=0", "tree 0: num_leaves is 0");
    check("num_leaves=4", "num_leaves=5", "tree 0: split_feature has 3 entries, expected 4");
    check("iteration=1", "iteration=0", "num_tree_per_iteration is 0");
    check("iteration=1", "iteration=1073741824", "num_tree_per_iteration is \"1073741824\"");
    check("max_feature_idx=3", "max_feature_idx=99999999", "max_feature_idx is \"99999999\"");
    check("threshold=0.5", "threshold=x", "tree 0: threshold has \"x\"");
    check("decision_type=2", "decision_type=12", "tree 0, node 0: decision_type 12 is not known");
    check("objective=binary", "objective=else", "objective \"else\" of LightGBM is not known");
}

#[test]
fn hostile_categories_are_refused() {
    check(
        "threshold=0.5 0",
        "threshold=0.5 1",
        "tree 0, node 1: set of categories 1, the tree has 1",
    );
    check(
        "cat_boundaries=0 2",
        "cat_boundaries=0 3",
        "tree 0: categories from word 0 to 3, it has 2",
    );
    check(
        "cat_boundaries=0 2",
        "cat_boundaries=2 0",
        "tree 0: categories from word 2 to 0, it has 2",
    );
    check(
        "decision_type=2 1 4",
        "decision_type=2 1 1",
        "tree 0, node 2: set of categories 0 is used twice",
    );
    let words = format!("cat_boundaries=0 600000\ncat_threshold={}1", "0 ".repeat(599_999));
    let expect = "tree 0, node 1: category 19199968, expected less than 16777216";
    check("cat_boundaries=0 2\ncat_threshold=5 2147483648", &words, expect);
}

#[test]
fn linear_leaves_that_lack_something_are_refused() {
    let linear = "is_linear=1\nleaf_const=1 2 3 4\nnum_features=1 0 0 1\nleaf_features=0 3\nleaf_coeff=0.5 1";
    check("is_linear=0", &linear.replace("0 3", "0"), "tree 0, node 6: 1 features, it has fewer");
    check(
        "is_linear=0",
        &linear.replace("0 3", "0 9"),
        "tree 0, node 6: feature 9, the model has 4",
    );
    check(
        "is_linear=0",
        &linear.replace("=1 2 3 4", "=1"),
        "tree 0: leaf_const has 1 entries, expected 4",
    );
    assert!(read(file(TREE).replace("is_linear=0", linear).as_bytes()).is_ok());
}

#[test]
fn a_cut_file_is_refused_wherever_it_is_cut() {
    let file = file(TREE);
    let end = file.find("end of trees").expect("an end") + "end of trees".len();
    for at in 0..end {
        assert!(read(&file.as_bytes()[..at]).is_err(), "{at}");
    }
    let error = read(format!("{HEADER}{TREE}").as_bytes()).expect_err("it is read").to_string();
    assert!(error.contains("a part of it is missing"), "{error}");
}

#[test]
fn a_chain_that_is_too_deep_is_refused() {
    let splits = 5000;
    let list = |of: &dyn Fn(usize) -> String| (0..splits).map(of).collect::<Vec<_>>().join(" ");
    let left = list(&|it| if it + 1 < splits { (it + 1).to_string() } else { "-1".into() });
    let tree = format!(
        "Tree=0\nnum_leaves={}\nsplit_feature={zeros}\nthreshold={zeros}\ndecision_type={zeros}\n\
         left_child={left}\nright_child={}\nleaf_value={zeros} 0\n\n",
        splits + 1,
        list(&|it| format!("-{}", it + 2)),
        zeros = list(&|_| "0".into()),
    );
    let document = read(file(&tree).as_bytes()).expect("a document");
    let error = lay_out(document).expect_err("it is sound").to_string();
    assert_eq!(error, "tree 0: it is deeper than 4096 splits");
}
