//! Loading files: what they are, what the configuration makes of them, and what is wrong with them.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::{fs, num::NonZeroUsize};

use backend::{Backend, BackendError, DataType, Device, ModelSource, Placement};
use support::*;

const FP32: DataType = DataType::Fp32;

#[track_caller]
fn refused(name: &str, parts: &[&str]) {
    let text = load_error(&ModelSource::new("m", path(name)));
    for part in parts {
        assert!(text.contains(part), "{text}");
    }
    assert!(text.contains(name) && !text.contains('\n'), "{text}");
}

#[test]
fn files_that_libtorch_does_not_take_are_refused_in_one_line() {
    refused("newer.pt", &["version 99", "maximum supported version"]);
    refused("custom.pt", &["needs the operator mine::twice"]);
}

#[test]
fn the_model_may_be_a_folder() {
    let folder = std::env::temp_dir().join(format!("muster-folder-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::copy(path("mlp.pt"), folder.join("model.pt")).unwrap();
    load(&ModelSource::new("m", &folder));
    fs::remove_dir_all(&folder).unwrap();
}

#[track_caller]
fn told(name: &str, expected: &[(&str, DataType, &[i64])]) {
    let model = load(&source(name));
    let dims = dims(&*model);
    let given: Vec<_> = dims.iter().map(|it| (it.0.as_str(), it.1, it.2.as_slice())).collect();
    assert_eq!(given, expected, "{name}");
}

#[test]
fn without_a_configuration_types_and_shapes_are_found_out() {
    told("mlp", &[("x", FP32, &[-1, 5]), ("OUTPUT__0", FP32, &[-1, 3])]);
    told("mlp_traced", &[("x", FP32, &[-1, 5]), ("OUTPUT__0", FP32, &[-1, 3])]);
    let bf16 = DataType::Bf16;
    told("mlp_bfloat16", &[("x", bf16, &[-1, 5]), ("OUTPUT__0", bf16, &[-1, 3])]);
    let fp16 = DataType::Fp16;
    told("mlp_float16", &[("x", fp16, &[-1, 5]), ("OUTPUT__0", fp16, &[-1, 3])]);
    told("conv", &[("image", FP32, &[-1, 3, -1, -1]), ("OUTPUT__0", FP32, &[-1, 2])]);
    told("conv_fixed", &[("image", FP32, &[-1, 1, -1, -1]), ("OUTPUT__0", FP32, &[-1, 3])]);
    told("words", &[("ids", DataType::Int64, &[-1, -1]), ("OUTPUT__0", FP32, &[-1, 2])]);
    told("optional", &[("x", FP32, &[-1, 3]), ("OUTPUT__0", FP32, &[-1, 2])]);
    let two = [("wide", FP32, &[-1i64, 6][..]), ("narrow", FP32, &[-1, 4])];
    told("two_layers", &[two[0], two[1], ("OUTPUT__0", FP32, &[-1, 2])]);
    let strings = ("texts", DataType::Bytes, &[-1i64][..]);
    told("lengths", &[strings, ("OUTPUT__0", DataType::Int64, &[-1])]);
}

#[test]
fn what_cannot_be_told_is_asked_for_in_lines_of_a_configuration() {
    refused(
        "tanh.pt",
        &["FP32 [2,7] as well as", "input { name: \"x\" data_type: .. dims: [ .. ] }"],
    );
    refused("sum_difference.pt", &["input { name: \"a\" ", "input { name: \"b\" ", "output {"]);
    refused("dict.pt", &["Dict[str, Tensor]", "under the name of each key"]);
    refused("picky.pt", &["all of it is zero"]);
    refused("flat.pt", &["max_batch_size: 0", "data_type: TYPE_FP32 dims: [ -1, 3 ]"]);
    refused("steps.pt", &["depends on the other rows", "data_type: TYPE_FP32 dims: [ -1, 3 ]"]);
    // In training mode a batch is normalised by itself, and dropout draws lots.
    refused("conv_train.pt", &["depends on the other rows, or on chance"]);
    refused("dropped.pt", &["depends on the other rows, or on chance"]);
    refused("sizes.pt", &["argument 'sizes' of forward is of type List[int]"]);
    refused("number.pt", &["FP32 [2,7] with INT64 []", "name: \"power\" data_type: TYPE_INT64"]);
    refused("complex.pt", &["output 'OUTPUT__0' is of type ComplexFloat"]);
}

#[test]
fn what_the_configuration_contradicts_is_told_as_the_module_has_it() {
    let x: (_, _, &[i64]) = ("in", FP32, &[-1, 7]);
    let model = load(&configured("mlp", &[x], &[("out", DataType::Int64, &[-1, 4])]));
    let expected = [("in".to_owned(), FP32, vec![-1, 5]), ("out".to_owned(), FP32, vec![-1, 3])];
    assert_eq!(dims(&*model), expected);
}

#[test]
fn numbers_of_inputs_and_outputs_that_differ_are_named() {
    let x: (_, _, &[i64]) = ("x", FP32, &[-1, 5]);
    let text = load_error(&configured("mlp", &[x, ("z", FP32, &[-1])], &[]));
    assert!(text.contains("2 inputs are configured (x, z), but forward takes 1 (x)"), "{text}");
    let outputs: [(_, _, &[i64]); 2] = [("y", FP32, &[-1, 3]), ("z", FP32, &[-1, 3])];
    let text = load_error(&configured("mlp", &[x], &outputs));
    assert!(text.contains("2 outputs are configured (y, z), but forward returns 1"), "{text}");
}

#[test]
fn a_module_that_does_not_take_zeros_is_loaded_as_configured() {
    let model = load(&configured("picky", &[("x", FP32, &[-1, 3])], &[("y", FP32, &[-1, 3])]));
    assert_eq!(dims(&*model)[1], ("y".to_owned(), FP32, vec![-1, 3]));
}

#[test]
fn parameters_are_read_and_bad_ones_refused() {
    let parameters = [
        ("DISABLE_OPTIMIZED_EXECUTION", "true"),
        ("INFERENCE_MODE", "false"),
        ("ENABLE_WEIGHT_SHARING", "TRUE"),
        ("ENABLE_JIT_PROFILING", "false"),
        ("ENABLE_JIT_EXECUTOR", "false"),
        ("ENABLE_TENSOR_FUSER", "false"),
        ("INTRA_OP_THREAD_COUNT", "1"),
        ("INTER_OP_THREAD_COUNT", "2"),
        ("FREEZE", "false"),
        ("OPTIMIZE_FOR_INFERENCE", "false"),
    ];
    for parameter in parameters {
        let mut instance = instance(&with(source("mlp"), &[parameter]));
        let output = run(&mut *instance, &[("x", floats(&[1, 5], &[0.0; 5]))], &["OUTPUT__0"]);
        assert_eq!(output.unwrap()[0].shape().dims(), [1, 3], "{parameter:?}");
    }
    let complete = configured("mlp", &[("x", FP32, &[-1, 5])], &[("y", FP32, &[-1, 3])]);
    load(&with(complete, &[("TRIAL_RUNS", "false")]));
    let text = load_error(&with(source("mlp"), &[("TRIAL_RUNS", "false")]));
    assert!(text.contains("input { name: \"x\" data_type: .. dims: [ .. ] }"), "{text}");
    // A second number for the process is a warning.
    load(&with(source("mlp"), &[("INTER_OP_THREAD_COUNT", "1")]));
    let text = load_error(&with(source("mlp"), &[("INFERENCE_MODE", "maybe")]));
    assert_eq!(text, "parameter INFERENCE_MODE is 'maybe', expected true or false");
}

#[test]
fn a_gpu_that_is_not_there_is_a_device_error_that_says_what_is_missing() {
    let model = load(&source("mlp"));
    let Err(BackendError::Device(text)) = model.instantiate(Device::Gpu(1)) else {
        panic!("there is a GPU");
    };
    assert!(text.starts_with("GPU 1 cannot be used: "), "{text}");
    assert!(text.contains("libtorch_cuda.so") || text.contains("driver"), "{text}");
    assert!(model.instantiate(Device::Cpu).is_ok());
    let on_gpu = Placement { device: Device::Gpu(0), instances: NonZeroUsize::MIN };
    let on_gpu = ModelSource { placements: vec![on_gpu], ..source("mlp") };
    assert!(matches!(engine().load(&on_gpu), Err(BackendError::Device(_))));
}
