//! Requests that fit a model's signature, and those that do not.

use std::{collections::BTreeMap, hash::RandomState, sync::Arc};

use backend::{DataType, NamedTensor, Shape, Tensor};

use super::{
    choose::EngineChoice,
    complete::{Defaults, complete},
    pbtxt::ConfigReader,
};
use inference::{
    error::Error,
    request::InferenceRequest,
    signature::{Named, Signature},
};
use serving::{config::model::ModelConfig, made_tensors::request_of_zeros, validate::*};

const USUAL: &str = r#"
    max_batch_size: 8
    input [{ name: "a" data_type: TYPE_FP32 dims: [ 3 ] }, { name: "b" data_type: TYPE_INT64 dims: [ -1 ] }]
    output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }]
"#;

/// The model of that configuration.
fn model(text: &str) -> (Signature, ModelConfig) {
    let raw = ConfigReader::default().parse_text("config.pbtxt", text).unwrap();
    let choice = EngineChoice {
        platform: String::new(),
        backend: "identity".into(),
        default_model_filename: None,
        options: BTreeMap::new(),
    };
    let completed = complete(
        Some(&raw),
        "m",
        &choice,
        &crate::config::engines::usual(),
        None,
        &Defaults::default(),
    )
    .unwrap();
    (completed.config.signature(1, &BTreeMap::new()), completed.config)
}

/// Those of all models of these tests.
fn hashes() -> RandomState {
    thread_local!(static HASHES: RandomState = RandomState::new());
    HASHES.with(RandomState::clone)
}

fn prepared(text: &str, asked: &InferenceRequest) -> Result<Prepared, Error> {
    let (signature, config) = model(text);
    prepare(&mut asked.clone(), &signature, &config, &hashes())
}

fn request(inputs: &[(&str, DataType, &[usize])]) -> InferenceRequest {
    let tensor = |dtype, shape| Tensor::zeros(dtype, Shape::new(shape)).unwrap();
    let inputs = inputs
        .iter()
        .map(|&(name, dtype, shape)| NamedTensor {
            name: name.into(),
            tensor: tensor(dtype, shape),
        })
        .collect();
    InferenceRequest { inputs, ..InferenceRequest::default() }
}

#[track_caller]
fn fails(inputs: &[(&str, DataType, &[usize])], text: &str) {
    let error = prepared(USUAL, &request(inputs)).unwrap_err();
    assert_eq!(error.to_string(), text);
}

use DataType::{Fp32, Fp64, Int64};

#[test]
fn inputs_come_out_in_the_order_of_the_signature_and_all_outputs_are_wanted() {
    let asked = request(&[("b", Int64, &[2, 5]), ("a", Fp32, &[2, 3])]);
    let prepared = prepared(USUAL, &asked).unwrap();
    let names: Vec<&str> = prepared.work.inputs.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(prepared.work.outputs, [Arc::from("y")]);
    assert_eq!(prepared.work.rows, 2);
}

#[test]
fn each_fault_is_named_with_what_was_expected_and_given() {
    fails(
        &[("a", Fp32, &[1, 3])],
        "expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['a'], but missing required input(s) \
         ['b']. Please provide all required input(s).",
    );
    fails(
        &[("aa", Fp32, &[1, 3])],
        "unexpected inference input 'aa' for model 'm'; it has: a, b; did you mean 'a'?",
    );
    let twice: &[(&str, DataType, &[usize])] = &[("a", Fp32, &[1, 3]), ("a", Fp32, &[1, 3])];
    fails(twice, "input 'a' already exists in request");
    fails(
        &[("a", Fp64, &[1, 3]), ("b", Int64, &[1, 1])],
        "inference input 'a' data-type is 'FP64', but model 'm' expects 'FP32'",
    );
    fails(
        &[("a", Fp32, &[3]), ("b", Int64, &[1, 1])],
        "inference input 'a': unexpected shape for input 'a' for model 'm'. Expected [-1,3], got [3] \
         (the first dimension is the batch; [1,3] would do)",
    );
    fails(
        &[("a", Fp32, &[2, 3]), ("b", Int64, &[1, 1])],
        "input 'b' batch size does not match other inputs for 'm': it has 1 rows, and those before it have 2",
    );
}

#[test]
fn more_rows_than_a_run_has_are_refused_only_where_a_request_cannot_be_cut() {
    let nine = request(&[("a", Fp32, &[9, 3]), ("b", Int64, &[9, 1])]);
    assert_eq!(prepared(USUAL, &nine).unwrap().work.rows, 9);
    let (signature, config) = model(USUAL);
    let bounded = Signature { most_rows: Some(8), ..signature };
    let error = prepare(&mut nine.clone(), &bounded, &config, &hashes()).unwrap_err();
    let text = "inference request batch-size must be <= 8 for 'm': input 'a' has 9 rows";
    assert_eq!(error.to_string(), text);
}

#[test]
fn rows_without_elements_are_as_many_as_a_run_has_at_most() {
    let text = r#"
        max_batch_size: 8
        input [{ name: "x" data_type: TYPE_FP32 dims: [ -1 ] }]
        output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }]
    "#;
    let of = |dims: &[usize]| prepared(text, &request(&[("x", Fp32, dims)]));
    assert_eq!(of(&[8, 0]).unwrap().work.rows, 8);
    assert_eq!(of(&[9, 1]).unwrap().work.rows, 9);
    let error = of(&[1_000_000, 0]).unwrap_err().to_string();
    let text =
        "inference request batch-size must be <= 8 for 'm': its 1000000 rows have no elements";
    assert_eq!(error, text);
    let beside = request(&[("a", Fp32, &[9, 3]), ("b", Int64, &[9, 0])]);
    assert_eq!(prepared(USUAL, &beside).unwrap().work.rows, 9);
}

#[test]
fn an_input_without_elements_is_of_a_size_that_could_be_sent() {
    let text = r#"
        input [{ name: "x" data_type: TYPE_FP32 dims: [ -1, -1, -1 ] }]
        output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }]
    "#;
    let of = |dims: &[usize]| prepared(text, &request(&[("x", Fp32, dims)]));
    for dims in [[0, 4320, 7680], [4096, 0, 128], [1, 1, 0]] {
        assert_eq!(of(&dims).unwrap().work.inputs[0].tensor.shape().dims(), dims);
    }
    for dims in [[1, 1 << 50, 0], [0, 1 << 50, 1], [1 << 50, 0, 0], [1 << 40, 1 << 40, 0]] {
        let error = of(&dims).unwrap_err().to_string();
        let shown = format!("its shape {} has no elements; such a shape", Shape::new(&dims));
        assert!(error.contains("'x'") && error.contains(&shown), "{error}");
    }
}

#[test]
fn an_unknown_output_is_named() {
    let mut asked = request(&[("a", Fp32, &[1, 3]), ("b", Int64, &[1, 1])]);
    asked.outputs = vec!["z".into()];
    let error = prepared(USUAL, &asked).unwrap_err();
    assert!(
        error.to_string().starts_with("unexpected inference output 'z' for model 'm'; it has: y")
    );
}

#[test]
fn an_input_of_unknown_rank_takes_any_shape_and_each_for_itself() {
    let text = "input { name: 'x' data_type: TYPE_FP32 dims: [ -1 ] }
        output { name: 'y' data_type: TYPE_FP32 dims: [ 1 ] }";
    let (mut signature, mut config) = model(text);
    (signature.inputs[0].any_rank, config.inputs[0].any_rank) = (true, true);
    let prepared = |dims: &[usize]| {
        let mut asked = request(&[("x", Fp32, dims)]);
        let prepared = prepare(&mut asked, &signature, &config, &hashes());
        let Prepared { work, shape_key } = prepared.unwrap();
        assert_eq!(work.inputs[0].tensor.shape().dims(), dims);
        shape_key
    };
    let keys: std::collections::BTreeSet<u64> =
        [&[2][..], &[2, 3], &[3, 2], &[], &[1, 2, 3]].into_iter().map(prepared).collect();
    assert_eq!(keys.len(), 5);
    assert!(request_of_zeros(&signature, 1).is_none(), "what shape it takes is not known");
}

#[test]
fn only_shapes_that_may_vary_keep_requests_apart() {
    let key = |b: &[usize]| {
        let asked = request(&[("a", Fp32, &[b[0], 3]), ("b", Int64, b)]);
        prepared(USUAL, &asked).unwrap().shape_key
    };
    assert_eq!(key(&[1, 4]), key(&[2, 4]));
    assert_ne!(key(&[1, 4]), key(&[1, 5]));
}

#[test]
fn no_client_can_tell_which_shapes_have_which_key() {
    let (signature, config) = model(USUAL);
    let key = |hashes: &RandomState| {
        let mut asked = request(&[("a", Fp32, &[1, 3]), ("b", Int64, &[1, 4])]);
        prepare(&mut asked, &signature, &config, hashes).unwrap().shape_key
    };
    let (one, another) = (RandomState::new(), RandomState::new());
    assert_eq!(key(&one), key(&one.clone()));
    assert_ne!(key(&one), key(&another));
}

#[test]
fn requests_for_two_signatures_of_a_model_never_have_equal_keys() {
    let asked = || request(&[("a", Fp32, &[1, 3]), ("b", Int64, &[1, 4])]);
    let (signature, config) = model(USUAL);
    let named = |index, others: &[Signature]| Named {
        name: "s".into(),
        index,
        method: None,
        others: others.into(),
        unusable: Arc::default(),
        definitions: Default::default(),
    };
    let other = Signature { named: Some(named(1, &[])), ..signature.clone() };
    let default = Signature { named: Some(named(0, std::slice::from_ref(&other))), ..signature };
    let prepared = |it: &Signature| prepare(&mut asked(), it, &config, &hashes()).unwrap();
    let (first, second) = (prepared(&default), prepared(&other));
    assert_eq!((first.work.signature, second.work.signature), (0, 1));
    assert_eq!((first.shape_key >> SHAPE_BITS, second.shape_key >> SHAPE_BITS), (0, 1));
}

#[test]
fn an_optional_input_may_be_left_out_and_keeps_requests_apart() {
    let optional = &USUAL.replace("dims: [ -1 ]", "dims: [ -1 ] optional: true");
    let without = prepared(optional, &request(&[("a", Fp32, &[1, 3])])).unwrap();
    let with = request(&[("a", Fp32, &[1, 3]), ("b", Int64, &[1, 1])]);
    let with = prepared(optional, &with).unwrap();
    assert_ne!(without.shape_key, with.shape_key);
    assert_eq!(without.work.inputs.len(), 1);
}

#[test]
fn a_scalar_may_be_written_either_way() {
    let text = r#"
        max_batch_size: 4
        input [{ name: "s" data_type: TYPE_FP32 dims: [ 1 ] reshape: { shape: [ ] } }]
        output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape: { shape: [ ] } }]
    "#;
    for shape in [[2].as_slice(), &[2, 1]] {
        let prepared = prepared(text, &request(&[("s", Fp32, shape)])).unwrap();
        assert_eq!(prepared.work.inputs[0].tensor.shape().dims(), [2]);
    }
    let (_, config) = model(text);
    let tensor = Tensor::zeros(Fp32, Shape::new(&[2])).unwrap();
    let mut output = NamedTensor { name: "y".into(), tensor };
    present(&config, &mut output).unwrap();
    assert_eq!(output.tensor.shape().dims(), [2, 1]);
    output.tensor = Tensor::zeros(Int64, Shape::new(&[2])).unwrap();
    let error = present(&config, &mut output).unwrap_err().to_string();
    assert!(
        error.contains("'y' as INT64, where the configuration of the model says FP32"),
        "{error}"
    );
}

#[test]
fn a_scalar_of_the_engine_may_have_any_number_of_dimensions_of_one() {
    for dims in ["1", "1, 1"] {
        let (signature, mut config) = model(&format!(
            "input {{ name: 's' data_type: TYPE_FP32 dims: [ {dims} ] }}
             output {{ name: 'y' data_type: TYPE_FP32 dims: [ 1 ] }}"
        ));
        config.inputs[0].reshape = Some(Vec::new());
        let prepared = |shape| {
            let mut asked = request(&[("s", Fp32, shape)]);
            prepare(&mut asked, &signature, &config, &hashes())
        };
        for shape in [[].as_slice(), &[1], &[1, 1], &[1, 1, 1]] {
            let prepared = prepared(shape).unwrap();
            assert_eq!(prepared.work.inputs[0].tensor.shape().dims(), [] as [usize; 0]);
        }
        for shape in [[2].as_slice(), &[0], &[1, 2]] {
            prepared(shape).unwrap_err();
        }
    }
}

#[test]
fn zero_rows_are_a_batch_too() {
    let asked = request(&[("a", Fp32, &[0, 3]), ("b", Int64, &[0, 5])]);
    let prepared = prepared(USUAL, &asked).unwrap();
    assert_eq!(prepared.work.rows, 0);
}
