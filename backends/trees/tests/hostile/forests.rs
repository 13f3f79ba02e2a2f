//! Trees that are none, numbers beyond all bounds, and files that end too soon, in every format.

use serde_json::{Value, json};

use crate::{
    support::{bounded, fixture, load, model, refused},
    ubj,
};

const MODEL: &str = "/learner/gradient_booster/model";
const TREE: &str = "/learner/gradient_booster/model/trees/1";
const PARAM: &str = "/learner/learner_model_param";

fn change(document: &mut Value, at: &str, with: Value) {
    *document.pointer_mut(at).unwrap_or_else(|| panic!("{at}")) = with;
}

/// A model of XGBoost with something changed is refused, as JSON, as UBJSON, and in a pickle.
#[track_caller]
fn xgboost(name: &str, at: &str, with: Value, expect: &str) {
    let mut document = model(name);
    change(&mut document, at, with);
    refused(document.to_string().into_bytes(), expect);
    let binary = ubj::encode(&document);
    refused(pickled(&binary), expect);
    refused(binary, expect);
}

/// A pickle of a Booster with these bytes.
fn pickled(model: &[u8]) -> Vec<u8> {
    let head = b"\x80\x04cxgboost.core\nBooster\n)\x81}X\x06\0\0\0handleB";
    [head, (model.len() as u32).to_le_bytes().as_slice(), model, b"sb."].concat()
}

#[test]
fn hostile_helpers_make_sound_files() {
    for name in ["logistic", "dart", "gblinear", "vectors", "categories_sets"] {
        let document = model(name);
        assert_eq!(bounded(document.to_string().into_bytes()), Ok(()));
        assert_eq!(bounded(ubj::encode(&document)), Ok(()));
        assert_eq!(bounded(pickled(&ubj::encode(&document))), Ok(()));
    }
}

#[test]
fn hostile_children() {
    let left = format!("{TREE}/left_children/0");
    let right = format!("{TREE}/right_children/0");
    xgboost("logistic", &left, json!(0), "tree 1, node 0: left child 0 is in the tree already");
    xgboost("logistic", &right, json!(1), "tree 1, node 0: right child 1 is in the tree already");
    xgboost(
        "logistic",
        &left,
        json!(2_000_000),
        "tree 1, node 0: left child 2000000, the tree has",
    );
    xgboost("logistic", &left, json!(-7), "tree 1, node 0: it has no left child");
    xgboost("logistic", &left, json!(4_294_967_296_i64), "an integer of 32 bits");
    let inner = format!("{TREE}/left_children/1");
    xgboost("logistic", &inner, json!(0), "tree 1, node 1: left child 0 is in the tree already");
}

#[test]
fn hostile_numbers() {
    let feature = format!("{TREE}/split_indices/0");
    xgboost(
        "logistic",
        &feature,
        json!(1 << 24),
        "tree 1, node 0: feature 16777216, the model has 8",
    );
    let info = format!("{MODEL}/tree_info/1");
    xgboost(
        "logistic",
        &info,
        json!(1_000_000),
        "tree 1: it adds to output 1000000, the model has 1",
    );
    xgboost("logistic", &format!("{PARAM}/num_class"), json!("1073741824"), "1073741824 outputs");
    xgboost(
        "logistic",
        &format!("{PARAM}/num_feature"),
        json!("1073741824"),
        "1073741824 features",
    );
    xgboost("logistic", &format!("{PARAM}/num_target"), json!("2147483648"), "2147483648 outputs");
    xgboost("logistic", &format!("{PARAM}/base_score"), json!("NaN"), "base_score \"NaN\"");
    let nodes = format!("{TREE}/tree_param/num_nodes");
    xgboost("logistic", &nodes, json!("2147483648"), "tree 1: \"2147483648\", expected a number");
    xgboost("logistic", &nodes, json!("5"), "num_nodes is 5");
    let short = format!("{TREE}/split_conditions");
    xgboost("logistic", &short, json!([0.5]), "tree 1: 1 conditions, the tree has");
    xgboost("gblinear", &format!("{MODEL}/weights"), json!([1, 2]), "2 weights of a linear model");
    let width = format!("{TREE}/tree_param/size_leaf_vector");
    xgboost(
        "vectors",
        &width,
        json!("70000"),
        "tree 1: \"70000\", expected a number of at most 65536",
    );
    xgboost("vectors", &format!("{TREE}/leaf_weights"), json!([1.0]), "leaf vector");
}

#[test]
fn hostile_categories() {
    let at = |name: &str| format!("{TREE}/{name}/0");
    xgboost(
        "categories_sets",
        &at("categories_segments"),
        json!(1 << 30),
        "categories from 1073741824",
    );
    xgboost(
        "categories_sets",
        &at("categories_sizes"),
        json!(1 << 30),
        "1073741824 categories from",
    );
    xgboost(
        "categories_sets",
        &at("categories"),
        json!(1 << 24),
        "category 16777216, expected less",
    );
    xgboost("categories_sets", &at("categories_nodes"), json!(1 << 30), "tree 1");
}

#[test]
fn hostile_brackets() {
    let nested =
        |bracket: &str, head: &str| [head, &bracket.repeat(1_000_000)].concat().into_bytes();
    refused(nested("[", "{\"learner\":{\"x\":"), "brackets");
    refused(nested("{\"a\":", "{\"learner\":"), "brackets");
    for bracket in [b"[".as_slice(), b"{i\x01a"] {
        let nested =
            [b"{L\0\0\0\0\0\0\0\x07learner{i\x01x".as_slice(), &bracket.repeat(1_000_000)].concat();
        refused(nested, "brackets are open");
    }
}

#[test]
fn hostile_lengths() {
    for length in [i64::MAX, 1 << 31, -1] {
        let mut file = b"{L\0\0\0\0\0\0\0\x07learner{i\x0dfeature_names[$d#L".to_vec();
        file.extend(length.to_be_bytes());
        assert!(bounded(file).is_err());
    }
    for kind in [b"[$d#L", b"[$l#L", b"[$L#L", b"[$U#L", b"[$Z#L", b"[$T#L"] {
        let mut file = b"{L\0\0\0\0\0\0\0\x07learner{i\x01x".to_vec();
        file.extend(kind);
        file.extend((1_i64 << 40).to_be_bytes());
        assert!(bounded(file).is_err());
    }
}

#[test]
fn hostile_ends() {
    for path in [
        "xgboost-3.4.1/logistic.json",
        "xgboost-3.4.1/logistic.ubj",
        "xgboost-1.7.6/logistic.pkl",
        "xgboost-1.2.1/logistic.pkl",
        "lightgbm-4.7.0/regression.txt",
        "treelite-3.9.1/xgboost_logistic.tl",
        "treelite-4.8.1/lightgbm_categories.tl",
        "sklearn-1.9.1/tree.joblib",
        "sklearn-1.9.1/tree.pkl",
        "sklearn-1.9.1/tree.skops",
    ] {
        let file = fixture(path);
        // Behind the last tree of a text there is nothing that is read.
        let end = match path.ends_with(".txt") {
            true => file.windows(12).position(|it| it == b"end of trees").expect("an end"),
            false => file.len(),
        };
        for at in (0..end).step_by(37) {
            assert!(load(&file[..at]).is_err(), "{path} is loaded although it ends at {at}");
        }
    }
}

#[test]
fn hostile_arrays_of_scikit_learn() {
    // The children of a root are the eight bytes at the start of its record.
    let file = fixture("sklearn-1.9.1/tree_regressor.joblib");
    let leaf = [(-1_i64).to_le_bytes(), (-1_i64).to_le_bytes(), (-2_i64).to_le_bytes()].concat();
    let first_leaf = file.windows(leaf.len()).position(|it| it == leaf).expect("a leaf");
    // Nodes are 64 bytes; go back to the root, whose left child is 1.
    let mut root = first_leaf;
    while file[root..root + 8] != 1_i64.to_le_bytes() {
        root -= 64;
    }
    let with = |at: usize, number: i64| {
        let mut file = file.clone();
        file[root + at..root + at + 8].copy_from_slice(&number.to_le_bytes());
        file
    };
    refused(with(0, 0), "tree 0, node 0: left child 0 is in the tree already");
    refused(with(0, 1 << 40), "tree 0, node 0: child 1099511627776");
    refused(with(0, 1 << 20), "tree 0, node 0: left child 1048576, the tree has");
    refused(with(8, 1), "tree 0, node 0: right child 1 is in the tree already");
    refused(with(16, 1 << 24), "tree 0, node 0: feature 16777216, the model has 8");
    refused(with(16, -9), "tree 0, node 0: feature -9");
}

#[test]
fn hostile_checkpoints() {
    let file = fixture("treelite-4.8.1/xgboost_logistic.tl");
    let with = |at: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let trees = 14;
    refused(with(trees, &(1_u64 << 40).to_le_bytes()), "1099511627776 trees; at most");
    refused(with(trees, &(1_u64 << 19).to_le_bytes()), "trees, for which the file is too short");
    refused(with(22, &(-1_i32).to_le_bytes()), "the number of features is -1");
    refused(with(28, &i32::MAX.to_le_bytes()), "the number of targets is 2147483647");
    refused(with(32, &u64::MAX.to_le_bytes()), "the classes reaches past the end at offset 32");
    // Behind the attributes, and the number of additions to the model.
    let end = b"{}\0\0\0\0";
    let first = file.windows(end.len()).position(|it| it == end).expect("attributes") + end.len();
    let nodes = usize::from(file[first]);
    refused(with(first, &i32::MAX.to_le_bytes()), "tree 0: 2147483647 nodes, expected 1 to");
    let left = first + 5 + 8 + nodes + 8;
    let feature = left + 2 * (4 * nodes + 8);
    refused(with(left, &[0; 4]), "tree 0, node 0: left child 0 is in the tree already");
    let child = 2_000_000_i32.to_le_bytes();
    refused(with(left, &child), "tree 0, node 0: left child 2000000, the tree has");
    refused(with(left, &[0xff; 4]), "tree 0, node 0: it has no left child");
    let number = (1_i32 << 24).to_le_bytes();
    refused(with(feature, &number), "tree 0, node 0: feature 16777216, the model has 8");
}
