//! Small files that would become large: what is listed once is not used again and again.

use serde_json::{Value, json};

use crate::{
    support::{fixture, model, refused},
    ubj,
};

/// A tree whose splits form a chain: each goes on at its right child.
fn chain(splits: usize) -> Value {
    let nodes = 2 * splits + 1;
    let number = |it: &dyn Fn(usize) -> i64| (0..nodes).map(it).collect::<Vec<_>>();
    let is_split = |it: usize| it.is_multiple_of(2) && it + 1 < nodes;
    json!({
        "left_children": number(&|it| if is_split(it) { it as i64 + 1 } else { -1 }),
        "right_children": number(&|it| if is_split(it) { it as i64 + 2 } else { -1 }),
        "split_indices": number(&|_| 0),
        "split_conditions": number(&|_| 0),
        "default_left": number(&|_| 0),
        "split_type": number(&|it| i64::from(is_split(it))),
        "categories": [], "categories_nodes": [], "categories_segments": [], "categories_sizes": [],
        "tree_param": {"num_nodes": nodes.to_string(), "size_leaf_vector": "1"},
    })
}

fn with_trees(name: &str, trees: Vec<Value>) -> Value {
    let mut document = model(name);
    let model = &mut document["learner"]["gradient_booster"]["model"];
    model["tree_info"] = json!(vec![0; trees.len()]);
    model["iteration_indptr"] = json!((0..=trees.len()).collect::<Vec<_>>());
    model["trees"] = Value::Array(trees);
    document
}

#[test]
fn hostile_sets_that_overlap() {
    let mut tree = chain(2000);
    let members = 100_000;
    tree["categories"] = json!((0..members).collect::<Vec<_>>());
    tree["categories_nodes"] = json!((0..2000).map(|it| 2 * it).collect::<Vec<_>>());
    tree["categories_segments"] = json!(vec![0; 2000]);
    tree["categories_sizes"] = json!(vec![members; 2000]);
    let document = with_trees("categories_sets", vec![tree]);
    let expect = "tree 0, node 2: its set of categories shares members";
    refused(document.to_string().into_bytes(), expect);
    refused(ubj::encode(&document), expect);
}

#[test]
fn hostile_leaves_that_share_a_vector() {
    let mut tree = chain(4000);
    let outputs = 20_000;
    tree["tree_param"]["size_leaf_vector"] = json!(outputs.to_string());
    tree["leaf_weights"] = json!(vec![0; outputs]);
    tree["split_type"] = json!(vec![0; 8001]);
    for node in 0..8001 {
        if tree["left_children"][node] == json!(-1) {
            tree["right_children"][node] = json!(0);
        }
    }
    let mut document = with_trees("vectors", vec![tree]);
    let param = &mut document["learner"]["learner_model_param"];
    param["num_target"] = json!(outputs.to_string());
    param["base_score"] = json!("[5E-1]");
    let expect = "tree 0, node 3: leaf 2, the tree has 1 leaf vectors";
    refused(document.to_string().into_bytes(), expect);
}

#[test]
fn hostile_trees_without_nodes() {
    let document = with_trees("logistic", vec![json!({}); 300_000]);
    refused(document.to_string().into_bytes(), "tree 0");
    refused(ubj::encode(&document), "tree 0");
}

#[test]
fn hostile_trees_of_a_single_leaf() {
    let head =
        "tree\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=1\nobjective=regression\n\n";
    let trees = "Tree=0\nnum_leaves=1\nleaf_value=0\n\n".repeat(400_000);
    refused(format!("{head}{trees}end of trees\n").into_bytes(), "more trees than");
}

#[test]
fn hostile_pickles_that_refer_to_one_tree_again_and_again() {
    refused(
        fixture("sklearn-1.9.1/shared.pkl"),
        "the trees have more nodes than the file has bytes for",
    );
}
