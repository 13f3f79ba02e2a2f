//! What is found out about modules by running them, and what is not believed.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use backend::{DataType, TensorHint};
use support::*;

const FP32: DataType = DataType::Fp32;

#[track_caller]
fn refused(name: &str, parts: &[&str]) {
    let text = load_error(&source(name));
    for part in parts {
        assert!(text.contains(part), "{name}: {text}");
    }
    assert!(text.contains("input {") && text.contains("output {"), "{name}: {text}");
}

#[test]
fn rows_of_numbers_that_depend_on_each_other_are_no_batch() {
    for name in ["time_major", "centred", "sorted"] {
        refused(name, &["depends on the other rows", "max_batch_size: 0", "TYPE_INT64"]);
    }
}

#[test]
fn rows_that_cannot_differ_or_not_be_alone_are_no_batch() {
    refused("one_word", &["does not take rows that differ", "max_batch_size: 0"]);
    refused("normed_train", &["does not take one of them alone", "max_batch_size: 0"]);
}

#[test]
fn rows_that_the_numbers_choose_are_no_batch() {
    refused("positive", &["how many rows it answers depends on the numbers"]);
}

#[test]
fn an_output_that_is_configured_without_a_batch_does_not_hide_that_rows_depend_on_each_other() {
    let mut source = source("steps");
    let y = TensorHint { name: "y".into(), dtype: None, dims: None };
    source.hints.outputs = vec![y];
    let text = load_error(&source);
    assert!(text.contains("depends on the other rows"), "{text}");
    source.hints.outputs = vec![hint("y", FP32, &[3])];
    let text = load_error(&source);
    assert!(text.contains("depends on the other rows"), "{text}");
    source.hints.outputs = vec![hint("y", FP32, &[-1, 3])];
    load(&source);
}

#[test]
fn values_that_cannot_be_served_are_told_with_the_lines_that_serve_the_others() {
    let text = load_error(&source("pieces"));
    assert!(text.contains("how many values forward returns depends on its inputs"), "{text}");
    let text = load_error(&source("with_none"));
    assert!(text.contains("output 'OUTPUT__1' is of type"), "{text}");
    assert!(text.ends_with("write into config.pbtxt: output { name: \"OUTPUT__0\" }"), "{text}");
    let mut source = source("with_none");
    source.hints.outputs = vec![TensorHint { name: "OUTPUT__0".into(), dtype: None, dims: None }];
    let expected =
        [("x".to_owned(), FP32, vec![-1, 4]), ("OUTPUT__0".to_owned(), FP32, vec![-1, 2])];
    assert_eq!(dims(&*load(&source)), expected);
}
