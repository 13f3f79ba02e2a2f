//! What the steps of an ensemble come to, as its configuration has them.

use std::sync::Arc;

use backend::DataType;
use inference::signature::{Port, Signature};
use serving::ensemble::plan::*;

use super::{complete_ensemble::complete, pbtxt::ConfigReader};

fn port(name: &str, dtype: DataType, dims: &[i64]) -> Port {
    Port {
        name: name.into(),
        dtype,
        dims: dims.iter().map(|it| usize::try_from(*it).ok()).collect(),
        any_rank: false,
        scalar: false,
        optional: false,
        labels: Arc::default(),
        text_codes: Default::default(),
    }
}

fn member(model: &str, max_batch_size: usize, input: Port, output: Port) -> Signature {
    Signature {
        named: None,
        graph_checks_shapes: false,
        takes_missing: false,
        model: model.into(),
        version: 1,
        max_batch_size,
        most_rows: None,
        inputs: vec![input],
        outputs: vec![output],
        on_request: Vec::new(),
        pipeline: None,
    }
}

use DataType::{Fp32, Int64};

/// `x` → m (`a` → `b`) → `t` → n (`a` → `b`) → `y`, in rows of 4.
fn compiled(outer: &str, m: &Signature, n: &Signature) -> Result<Plan, Vec<String>> {
    let text = format!(
        "platform: 'ensemble' {outer}
         input {{ name: 'x' data_type: TYPE_FP32 dims: 4 }}
         output {{ name: 'y' data_type: TYPE_FP32 dims: 4 }}
         ensemble_scheduling {{ step [
           {{ model_name: 'm' model_version: -1 input_map {{ key: 'a' value: 'x' }}
              output_map {{ key: 'b' value: 't' }} }},
           {{ model_name: 'n' model_version: -1 input_map {{ key: 'a' value: 't' }}
              output_map {{ key: 'b' value: 'y' }} }} ] }}"
    );
    let raw = ConfigReader::default().parse_text("config.pbtxt", &text).unwrap();
    let (completed, config) =
        complete(&raw, "e", &crate::config::engines::Engines::default()).unwrap();
    compile(&config, &completed.config, &[m, n])
}

fn usual(model: &str, max_batch_size: usize, dims: &[i64]) -> Signature {
    member(model, max_batch_size, port("a", Fp32, dims), port("b", Fp32, dims))
}

#[track_caller]
fn refused(outer: &str, m: &Signature, n: &Signature, expected: &str) {
    assert_eq!(compiled(outer, m, n), Err(vec![expected.to_owned()]));
}

#[test]
fn an_output_is_known_to_be_what_the_member_that_makes_it_says() {
    let (m, n) = (usual("m", 8, &[4]), usual("n", 8, &[4]));
    let plan = compiled("max_batch_size: 8", &m, &n).unwrap();
    let port = plan.made_by("y", &[&m, &n]).unwrap();
    assert!(std::ptr::eq(port, &n.outputs[0]));
    assert!(plan.made_by("t", &[&m, &n]).is_none());
}

#[test]
fn what_fits_is_planned() {
    let (m, n) = (usual("m", 8, &[4]), usual("n", 8, &[-1]));
    let plan = compiled("max_batch_size: 8", &m, &n).unwrap();
    assert_eq!(plan.readers, [1, 1, 1]);
    assert_eq!(plan.needed_steps([1]), [true, false]);
    assert!(plan.steps.iter().all(|it| it.is_always_needed));
}

#[test]
fn types_and_shapes_name_both_sides() {
    let m = usual("m", 8, &[4]);
    let other = member("n", 8, port("a", Int64, &[4]), port("b", Fp32, &[4]));
    refused(
        "max_batch_size: 8",
        &m,
        &other,
        "input 'a' of step[1] ('n') takes INT64 [-1,4], but tensor 't', output 'b' of step[0] ('m'), is \
         FP32 [-1,4]",
    );
    let other = member("n", 8, port("a", Fp32, &[4]), port("b", Fp32, &[5]));
    refused(
        "max_batch_size: 8",
        &m,
        &other,
        "output 'y' of the ensemble takes FP32 [-1,4], but tensor 'y', output 'b' of step[1] ('n'), is FP32 \
         [-1,5]",
    );
}

#[test]
fn the_error_of_an_unknown_tensor_of_a_member_lists_the_known_ones() {
    let m = usual("m", 0, &[4]);
    let n = member("n", 0, port("A", Fp32, &[4]), port("b", Fp32, &[4]));
    let problems = compiled("", &m, &n).unwrap_err();
    assert_eq!(
        problems,
        [
            "step[1] ('n'): the model has no input 'a'; it has: A; did you mean 'A'?",
            "step[1] ('n'): its input 'A' is not in input_map, and is not optional"
        ]
    );
}

#[test]
fn a_member_may_take_smaller_batches_than_the_ensemble() {
    // Its runs are smaller: what it is asked for is run in parts.
    let (m, n) = (usual("m", 8, &[4]), usual("n", 4, &[4]));
    assert!(compiled("max_batch_size: 8", &m, &n).is_ok());
}

#[test]
fn batches_may_be_said_by_the_shape_or_be_of_one_row() {
    // A member without a batch dimension that has it in its shape.
    let (m, n) = (usual("m", 8, &[4]), usual("n", 0, &[-1, 4]));
    let plan = compiled("max_batch_size: 8", &m, &n).unwrap();
    assert_eq!(plan.steps[1].inputs[0].rank, Some(2));
    // An ensemble without one over members with one.
    let plan = compiled("", &m, &usual("n", 1, &[4])).unwrap();
    assert_eq!((plan.steps[0].inputs[0].rank, plan.outputs[0].rank), (Some(2), Some(1)));
}

#[test]
fn an_optional_input_of_a_member_may_be_left_out() {
    let mut m = usual("m", 0, &[4]);
    m.inputs.push(Port { optional: true, ..port("c", Fp32, &[1]) });
    assert!(compiled("", &m, &usual("n", 0, &[4])).is_ok());
}
