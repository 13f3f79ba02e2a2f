//! Batches through real modules: answers, types, shapes, memory.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use support::*;

use backend::{BackendError, DataType, Device, Shape, Tensor};

const FP32: DataType = DataType::Fp32;

#[test]
fn an_mlp_answers() {
    let mut instance = instance(&source("mlp"));
    let output =
        run(&mut *instance, &[("x", floats(&[2, 5], &[1.0; 10]))], &["OUTPUT__0"]).unwrap();
    assert_eq!(output[0].shape().dims(), [2, 3]);
}
