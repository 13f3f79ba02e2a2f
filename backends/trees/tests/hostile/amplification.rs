//! Small files that would become large: what is listed once is not used again and again.

use flate2::Crc;
use serde_json::{Value, json};

use crate::{
    support::{bounded, fixture, model, refused},
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

#[test]
fn hostile_pipelines_whose_steps_are_one_array() {
    let expect = "the steps of the pipeline have more numbers than the file has bytes for";
    refused(fixture("hostile/scalers.pkl"), expect);
}

#[test]
fn hostile_calibrated_parts_that_each_name_all_columns() {
    let expect = "its estimators have more names of columns than the file has bytes for";
    refused(fixture("hostile/names.pkl"), expect);
}

#[test]
fn hostile_forests_of_one_tree_without_nodes() {
    refused(
        fixture("hostile/empty_trees.pkl"),
        "the trees have more nodes than the file has bytes for",
    );
}

#[test]
fn hostile_schemas_of_short_values() {
    let schema = format!("{{\"a\":[{}0]}}", "0,".repeat(4_000_000));
    refused(stored("schema.json", schema.as_bytes()), "4000003 values, more than a model has");
}

/// An archive of one entry that is not packed.
fn stored(name: &str, content: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(content);
    let (length, name_length) = (content.len() as u32, name.len() as u16);
    let sizes = [crc.sum(), length, length].map(u32::to_le_bytes).concat();
    let mut file = [b"PK\x03\x04".as_slice(), &[0; 10], &sizes].concat();
    file.extend([name_length.to_le_bytes(), [0; 2]].concat());
    file.extend(name.as_bytes());
    file.extend(content);
    let start = file.len() as u32;
    file.extend([b"PK\x01\x02".as_slice(), &[0; 12], &sizes].concat());
    file.extend([name_length.to_le_bytes().as_slice(), &[0; 16]].concat());
    file.extend(name.as_bytes());
    let central = file.len() as u32 - start;
    file.extend([b"PK\x05\x06".as_slice(), &[0; 4], &[1, 0, 1, 0]].concat());
    file.extend([central.to_le_bytes(), start.to_le_bytes()].concat());
    file.extend([0; 2]);
    file
}

#[test]
fn hostile_lists_of_short_numbers_have_no_room_to_grow() {
    let count = (1 << 21) + 1;
    let zeros = "0,".repeat(count);
    let head = "{\"learner\":{\"gradient_booster\":{\"model\":{\"trees\":[{\"split_conditions\":[";
    refused(format!("{head}{zeros}0]}}]}}}}}}}}").into_bytes(), "tree 0: it has no nodes");
    let head =
        "tree\nnum_tree_per_iteration=1\nmax_feature_idx=1\n\nTree=0\nnum_leaves=2\nthreshold=";
    let zeros = "0 ".repeat(count);
    refused(format!("{head}{zeros}\n\nend of trees\n").into_bytes(), "expected 1");
}

#[test]
fn hostile_numbers_of_one_byte_that_become_eight() {
    let mut file = Vec::new();
    for key in ["learner", "gradient_booster", "model"] {
        file.extend([b"{i", [key.len() as u8].as_slice(), key.as_bytes()].concat());
    }
    file.extend(b"{i\x05trees[{i\x10split_conditions[$U#L");
    let count = 4_000_000_usize;
    file.extend((count as i64).to_be_bytes());
    file.extend(vec![0; count]);
    file.extend(b"}]}}}");
    refused(file, "4000000 numbers of 1 bytes that would take 8 each");
}

#[test]
fn hostile_numbers_of_names_and_attributes() {
    let mut document = model("logistic");
    document["learner"]["feature_names"] = json!(vec![""; 700_000]);
    // A model without names is as good.
    assert_eq!(bounded(document.to_string().into_bytes()), Ok(()));
    assert_eq!(bounded(ubj::encode(&document)), Ok(()));
    let names = "a ".repeat(1_500_000);
    let text = String::from_utf8(fixture("lightgbm-4.7.0/binary.txt")).expect("a text");
    let line = text.lines().find(|it| it.starts_with("feature_names=")).expect("names");
    let many = text.replace(line, &format!("feature_names={names}"));
    assert_eq!(bounded(many.into_bytes()), Ok(()));
    let mut document = model("logistic");
    let entries = (0..400_000).map(|it| (format!("{it:x}"), json!("")));
    document["learner"]["attributes"] = Value::Object(entries.collect());
    refused(document.to_string().into_bytes(), "more than 10000 attributes");
}
