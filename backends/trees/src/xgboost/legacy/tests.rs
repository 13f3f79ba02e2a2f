//! Files of old versions, and those that were made to do harm.

use super::*;
use crate::forest::layout::lay_out;

/// Where the first tree begins in [`stump`]: behind the header, two names, and the header of the trees.
const TREE: usize =
    HEADER_BYTES + 8 + "reg:squarederror".len() + 8 + "gbtree".len() + TREES_HEADER_BYTES;
const NODES: usize = TREE + TREE_HEADER_BYTES;

fn stump() -> Vec<u8> {
    let path = "../../tests/fixtures/forests/xgboost-1.7.6/stump.bin";
    let file = std::fs::read(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).expect("a fixture");
    file.strip_prefix(MAGIC).map(<[u8]>::to_vec).unwrap_or(file)
}

#[track_caller]
fn check(at: usize, word: u32, expect: &str) {
    let mut file = stump();
    file[at..at + 4].copy_from_slice(&word.to_le_bytes());
    let document = read(&file).and_then(|it| it.into_document(None)).and_then(lay_out);
    let error = document.expect_err("it is sound").to_string();
    assert!(error.contains(expect), "{error}");
}

#[test]
fn a_file_is_known_by_its_header() {
    let file = stump();
    assert!(is_legacy(&file[..4000.min(file.len())]));
    assert!(is_legacy(&[MAGIC, &file].concat()));
    assert!(is_legacy(b"CONFIG-offset:\x01"));
    for other in [b"".as_slice(), b"{\"learner\"", b"tree\n", &[0; 500], &[0xff; 500], &[b' '; 500]]
    {
        assert!(!is_legacy(other) || other == [0; 500], "{other:?}");
    }
}

#[test]
fn hostile_nodes_are_refused() {
    let refused = "tree 0, node 0: left child";
    check(NODES + 4, 0, &format!("{refused} 0 is in the tree already"));
    check(NODES + 4, 2_000_000, &format!("{refused} 2000000, the tree has 3 nodes"));
    check(NODES + 4, -7i32 as u32, "tree 0, node 0: it has no left child");
    check(NODES + 8, 1, "tree 0, node 0: right child 1 is in the tree already");
    check(NODES + 12, 1 << 24, "tree 0, node 0: feature 16777216, the model has 8");
}

#[test]
fn hostile_counts_are_refused() {
    check(TREE + 4, 1 << 24, "tree 0 reaches past the end");
    check(TREE + 4, u32::MAX, "tree 0: 4294967295 nodes");
    check(TREE + 4, 0, "tree 1");
    check(TREE + 20, 3, "tree 0: its leaves are vectors");
    check(TREE - TREES_HEADER_BYTES, u32::MAX, "4294967295 trees");
    check(TREE - TREES_HEADER_BYTES, 5, "past the end");
    check(4, 1 << 30, "1073741824 features");
    check(8, 1 << 30, "1073741824 outputs");
    check(0, f32::NAN.to_bits(), "the base score is NaN");
    check(HEADER_BYTES, u32::MAX, "the objective reaches past the end at offset 136");
    check(HEADER_BYTES + 4, u32::MAX, "the objective reaches past the end at offset 136");
}

#[test]
fn a_file_with_what_it_needs_cut_off_is_refused() {
    let file = stump();
    let whole = read(&file).expect("sound");
    for end in 0..file.len() {
        match read(&file[..end]) {
            Ok(learner) => assert_eq!(learner.booster, whole.booster),
            Err(error) => assert!(error.to_string().contains("past the end"), "{error}"),
        }
    }
}

#[test]
fn the_model_of_a_snapshot_ends_where_it_says() {
    let file = stump();
    let snapshot =
        |length: u64| [SNAPSHOT, &length.to_le_bytes(), &file, b"{\"configuration\""].concat();
    assert_eq!(read(&snapshot(file.len() as u64)), read(&file));
    for wrong in [u64::MAX, file.len() as u64 + 100, 100] {
        assert!(read(&snapshot(wrong)).is_err());
    }
}
