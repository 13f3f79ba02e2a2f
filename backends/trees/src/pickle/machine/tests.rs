//! Pickles written by hand, those of libraries, and those that must be refused.

use std::time::{Duration, Instant};

use super::*;
use crate::pickle::array;

#[track_caller]
fn refused(file: &[u8], expect: &str) {
    let start = Instant::now();
    let error = read(file).expect_err("it is read").to_string();
    assert!(error.contains(expect), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
}

#[track_caller]
fn root(file: &[u8]) -> Value {
    read(file).expect("a pickle").root()
}

fn fixture(path: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/forests/");
    std::fs::read(format!("{folder}{path}")).expect("a fixture")
}

#[test]
fn numbers_of_all_protocols() {
    assert_eq!(root(b"I01\n."), Value::Bool(true));
    assert_eq!(root(b"I-17\r\n."), Value::Int(-17));
    assert_eq!(root(b"L123L\n."), Value::Int(123));
    assert_eq!(root(b"F1.5\n."), Value::Float(1.5));
    assert_eq!(root(b"\x80\x02K\xff."), Value::Int(255));
    assert_eq!(root(b"\x80\x02J\xfe\xff\xff\xff."), Value::Int(-2));
    assert_eq!(root(b"\x80\x02\x8a\x02\x00\x80."), Value::Int(-32768));
    assert_eq!(root(b"\x80\x02\x8a\x00."), Value::Int(0));
    assert_eq!(root(b"G\x3f\xf8\0\0\0\0\0\0."), Value::Float(1.5));
}

#[test]
fn texts_of_all_protocols() {
    for file in
        [b"Vb\\u00e9\n.".as_slice(), b"X\x03\0\0\0b\xc3\xa9.", b"\x80\x04\x8c\x03b\xc3\xa9."]
    {
        let pickle = read(file).expect("a pickle");
        assert_eq!(pickle.text(pickle.root()), Some("bé"));
    }
    let pickle = read(b"S'a\\x41'\n.").expect("a pickle");
    assert_eq!(pickle.bytes(pickle.root()).as_deref(), Some(b"aA".as_slice()));
}

#[test]
fn containers_and_the_memo() {
    // [1, {"a": (2, 3)}, {"a": (2, 3)}]
    let file = b"]q\x00(K\x01}q\x01X\x01\0\0\0aK\x02K\x03\x86sh\x01e.";
    let pickle = read(file).expect("a pickle");
    let members = pickle.sequence(pickle.root()).expect("a list");
    assert_eq!(members[0], Value::Int(1));
    assert_eq!(members[1], members[2]);
    let pair = pickle.attribute(members[1], "a").expect("an entry");
    assert_eq!(pickle.sequence(pair), Some([Value::Int(2), Value::Int(3)].as_slice()));
}

#[test]
fn pickles_are_read_and_never_run() {
    let folder = std::env::temp_dir().join(format!("muster-pickle-{}", std::process::id()));
    let command = format!("touch {}", folder.display());
    for file in [
        format!("cos\nsystem\n(V{command}\ntR.").into_bytes(),
        format!("(V{command}\nios\nsystem\n.").into_bytes(),
        format!("(cos\nsystem\nV{command}\no.").into_bytes(),
    ] {
        let pickle = read(&file).expect("a pickle");
        assert_eq!(pickle.class(pickle.root()), Some(("os", "system")));
        assert_eq!(pickle.stranger().as_deref(), Some("os.system"));
    }
    let hidden = b"cxgboost.core\nBooster\n)\x81}X\x01\0\0\0acos\nsystem\n)Rsb.";
    let pickle = read(hidden).expect("a pickle");
    assert!(pickle.is(pickle.root(), "xgboost", "Booster"));
    assert_eq!(pickle.stranger().as_deref(), Some("os.system"));
    assert!(!folder.exists());
}

#[test]
fn what_is_outside_of_the_file_is_refused() {
    for code in [b"Pname\n.".as_slice(), b"K\x01Q."] {
        refused(code, "refers to an object outside of the file");
    }
    for code in [b"\x82\x01.".as_slice(), b"\x83\x01\0.", b"\x84\x01\0\0\0."] {
        refused(code, "registry of extensions");
    }
    for code in [b"\x80\x05\x97.".as_slice(), b"\x80\x05)\x98."] {
        refused(code, "buffer outside of the file");
    }
}

#[test]
fn what_is_no_pickle_is_refused() {
    refused(b"", "past the end");
    refused(b"\x80\x06.", "protocol 6");
    refused(b"\xff.", "0xff is no instruction");
    refused(b".", "the stack is empty");
    refused(b"K\x01(.", "the stack is empty");
    refused(b"K\x01e.", "no mark");
    refused(b"h\x07.", "no entry 7 in the memo");
    refused(b"(K\x01d.", "a key without a value");
    refused(b"K\x01K\x02a.", "holds nothing");
    refused(b")K\x02a.", "cannot hold it");
    refused(b"K\x01K\x02\x93.", "a name that is no text");
    refused(b"Ix\n.", "a number that is none");
    refused(b"X\x01\0\0\0\xff.", "not UTF-8");
    refused(b"K", "past the end");
    refused(b"B\xff\xff\xff\xffabc", "past the end at offset 5");
    refused(b"\x8e\xff\xff\xff\xff\xff\xff\xff\xffabc", "past the end at offset 9");
    refused(b"\x95\xff\0\0\0\0\0\0\0N.", "a frame of the pickle reaches past the end");
}

#[test]
fn every_bound_holds() {
    refused(&[b"N0".repeat(500_001), b"N.".to_vec()].concat(), "more than 1000000 instructions");
    refused(
        &[b"N".repeat(100_001), b".".to_vec()].concat(),
        "more than 100000 values on the stack",
    );
    refused(
        &[b"(".repeat(100_001), b".".to_vec()].concat(),
        "more than 100000 values on the stack",
    );
    refused(b"Nr\xa0\x86\x01\0.", "more than 100000 entries in the memo");
    refused(
        &[b"N".to_vec(), b"\x94".repeat(100_001)].concat(),
        "more than 100000 entries in the memo",
    );
    refused(&[b"]0".repeat(400_000), b"N.".to_vec()].concat(), "more memory");
    refused(&[b"(".to_vec(), b"]".repeat(90_000), b"t.".to_vec()].concat(), "more memory");
}

#[test]
fn deep_values_are_read_once() {
    let nest = |depth: usize| [b"]".to_vec(), b"\x85".repeat(depth), b"q\0".to_vec()].concat();
    let again = b"h\0h\0\x87.".to_vec();
    assert!(read(&[nest(31), again.clone()].concat()).is_ok());
    refused(&[nest(32), again].concat(), "containers more than 32 deep");
    // Each is twice in the next one: 2^90 values, if anything went through them all.
    let doubling = b"q\0h\0h\0\x86".repeat(90);
    refused(&[b"]".to_vec(), doubling, b".".to_vec()].concat(), "containers more than 32 deep");
}

#[test]
fn a_list_that_holds_itself_is_harmless() {
    let pickle = read(b"]q\0h\0a.").expect("a pickle");
    let members = pickle.sequence(pickle.root()).expect("a list");
    assert_eq!(members, [pickle.root()]);
}

#[test]
fn arrays_of_joblib_lie_behind_their_wrappers() {
    let file = fixture("sklearn-1.9.1/random_forest.joblib");
    let pickle = read(&file).expect("a pickle");
    let classes = pickle.attribute(pickle.root(), "classes_").expect("classes");
    let classes = array::array(&pickle, classes).expect("sound").expect("an array");
    assert_eq!(classes.floats(), Some(vec![0.0, 1.0, 2.0]));
    let trees = pickle.attribute(pickle.root(), "estimators_").expect("trees");
    assert_eq!(pickle.sequence(trees).map(<[_]>::len), Some(4));
}

#[test]
fn a_cut_or_changed_pickle_does_no_harm() {
    for path in ["sklearn-1.9.1/tree_regressor.joblib", "xgboost-0.90/stump.pkl"] {
        let file = fixture(path);
        for end in 0..file.len() {
            assert!(read(&file[..end]).is_err());
        }
        let mut changed = file.clone();
        for (at, byte) in file.iter().enumerate().take(4000) {
            for flip in [1, 0x80, 0xff] {
                changed[at] = byte ^ flip;
                let _ = read(&changed);
            }
            changed[at] = *byte;
        }
    }
}
