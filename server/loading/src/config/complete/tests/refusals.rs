//! Every way in which a configuration is refused for itself, and the words.

use backend::Shape;
use proptest::prelude::*;

use super::*;
use serving::config::model::{Rows, Scheduling};

/// Refused with these problems, for an engine that takes the configuration's word.
#[track_caller]
fn refused_alone(text: &str, expected: &[&str]) {
    let text = format!("backend: 'identity' {text}");
    let errors = completed("m", &text, None, &Defaults::default()).unwrap_err();
    assert_eq!(errors.problems, expected);
}

#[test]
fn name_and_folder_must_agree() {
    refused("name: 'other'", &["name is 'other', the folder's name is 'm'; they must be equal"]);
}

#[test]
fn a_size_of_zero_that_the_model_does_not_have_is_refused() {
    let told = "expected at least 1, or -1 for any size: the model's file has no size of 0 there";
    let ports = "input { name: 'x' data_type: TYPE_FP32 dims: [ 2, 0 ] }
        output { name: 'y' data_type: TYPE_FP32 dims: [ 0 ] reshape { shape: [ 0 ] } }";
    let (x, y) = (
        format!("input[0] 'x': dims[1] is 0; {told}"),
        format!("output[0] 'y': dims[0] is 0; {told}"),
    );
    refused_alone(ports, &[&x, &y]);
    // A size that the file leaves open is not of any use as zero.
    let mut spec = classifier();
    spec.outputs[0].dims.push(None);
    let written = "output { name: 'scores' data_type: TYPE_FP32 dims: [ 1000, 0 ] }";
    refused_for(&spec, written, &[&format!("output[0] 'scores': dims[1] is 0; {told}")]);
}

#[test]
fn all_problems_are_reported_at_once() {
    refused(
        "name: 'other' max_batch_size: 2
         input { name: 'pixel' data_type: TYPE_FP32 dims: [ 3, -2, 224 ] }
         instance_group { kind: KIND_CPU gpus: [ 0 ] }
         dynamic_batching { preferred_batch_size: [ 4 ] }",
        &[
            "name is 'other', the folder's name is 'm'; they must be equal",
            "input[0] 'pixel': dims[1] is -2; expected at least 1, or -1 for any size",
            "instance_group[0]: kind KIND_CPU takes no gpus, given [0]; leave them out or write KIND_GPU",
            "dynamic_batching.preferred_batch_size[0] is 4; expected 1 to max_batch_size, which is 2",
            "input 'pixel' is not in the model, whose inputs are 'pixels'; did you mean 'pixels'?",
            "input 'pixels' is not configured; needed are 1 in all, configured are 1; \
             write input { name: \"pixels\" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }",
        ],
    );
}

#[test]
fn numbers_stay_in_their_ranges() {
    refused(
        "max_batch_size: -1",
        &["max_batch_size is -1; expected 0 for a model without a batch dimension, or at least 1"],
    );
    refused(
        "version_policy { specific { } }",
        &["version_policy.specific.versions is empty; expected at least one number"],
    );
    refused(
        "version_policy { specific { versions: [ 1, 0 ] } }",
        &["version_policy.specific.versions[1] is 0; expected at least 1"],
    );
    refused(
        "instance_group [ { count: -2 }, { kind: KIND_GPU gpus: [ 0, -1 ] } ]",
        &[
            "instance_group[0]: count is -2; expected at least 1, or 0 to leave it to the server",
            "instance_group[1]: gpus[1] is -1; expected the number of a GPU, 0 or more",
        ],
    );
    refused(
        "optimization { graph { level: 3 } }",
        &["optimization.graph.level is 3; expected 0 for all optimisations, -1 for basic, \
           1 for extended or 2 for none"],
    );
}

#[test]
fn files_stay_in_the_models_folder() {
    refused(
        "output { name: 'scores' label_filename: '/etc/hosts' }",
        &["output[0] 'scores': label_filename: '/etc/hosts' leads out of the model's folder; \
           expected a relative path without '..'"],
    );
    refused(
        "default_model_filename: '../x.onnx'",
        &["default_model_filename: '../x.onnx' leads out of the model's folder; \
           expected a relative path without '..'"],
    );
}

#[test]
fn inputs_and_outputs_need_name_type_and_dims() {
    let types = "TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, \
                 TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_BF16, TYPE_FP32, TYPE_FP64, \
                 TYPE_STRING";
    refused_alone(
        "input { } output { name: 'y' }",
        &[
            "input[0]: name is missing",
            &format!("input[0]: data_type is missing; expected one of {types}"),
            "input[0]: dims is missing; expected at least one size, each at least 1, or -1 for any",
            &format!("output[0] 'y': data_type is missing; expected one of {types}"),
            "output[0] 'y': dims is missing; expected at least one size, each at least 1, or -1 for any",
        ],
    );
    refused_alone(
        "",
        &[
            "no input is configured, and the backend 'identity' cannot tell it from the model; \
             write input { name: \"..\" data_type: .. dims: [ .. ] }",
            "no output is configured, and the backend 'identity' cannot tell it from the model; \
             write output { name: \"..\" data_type: .. dims: [ .. ] }",
        ],
    );
}

#[test]
fn names_are_given_once() {
    refused_alone(
        "input [ { name: 'x' data_type: TYPE_INT8 dims: 1 }, { name: 'x' data_type: TYPE_INT8 dims: 1 } ]
         output { name: 'x' data_type: TYPE_INT8 dims: 1 }",
        &["input[1] 'x': input[0] has the same name"],
    );
}

#[test]
fn a_format_needs_three_dims() {
    refused_alone(
        "input { name: 'x' data_type: TYPE_INT8 dims: [ 3, 4 ] format: FORMAT_NHWC }
         output { name: 'y' data_type: TYPE_INT8 dims: 1 }",
        &["input[0] 'x': format FORMAT_NHWC needs 3 dims, given 2: [ 3, 4 ]"],
    );
}

#[test]
fn a_reshape_keeps_elements_and_free_sizes() {
    let with = |batch: usize, dims: &str, shape: &str| {
        format!(
            "max_batch_size: {batch}
             input {{ name: 'x' data_type: TYPE_INT8 dims: {dims} reshape {{ shape: {shape} }} }}
             output {{ name: 'y' data_type: TYPE_INT8 dims: 1 }}"
        )
    };
    refused_alone(
        &with(0, "[ 4, 6 ]", "[ 5, 5 ]"),
        &[
            "input[0] 'x': reshape.shape [ 5, 5 ] and dims [ 4, 6 ] must have equally many elements, \
           also before, between and after each -1",
        ],
    );
    refused_alone(
        &with(0, "[ 2, -1, 3 ]", "[ 3, -1, 2 ]"),
        &["input[0] 'x': reshape.shape [ 3, -1, 2 ] and dims [ 2, -1, 3 ] must have equally many \
           elements, also before, between and after each -1"],
    );
    refused_alone(
        &with(0, "[ -1, 2 ]", "[ 2 ]"),
        &["input[0] 'x': reshape.shape [ 2 ] and dims [ -1, 2 ] must have equally many -1; \
           given 0 and 1"],
    );
    refused_alone(
        &with(0, "[ 2 ]", "[ -2 ]"),
        &["input[0] 'x': reshape.shape[0] is -2; expected at least 1, or -1 for any size"],
    );
    let empty = "reshape with an empty shape needs max_batch_size above 0 and dims [ 1 ]";
    refused_alone(
        &with(0, "[ 1 ]", "[ ]"),
        &[&format!("input[0] 'x': {empty}; given max_batch_size 0 and dims [ 1 ]")],
    );
    refused_alone(
        &with(4, "[ 2 ]", "[ ]"),
        &[&format!("input[0] 'x': {empty}; given max_batch_size above 0 and dims [ 2 ]")],
    );
}

#[test]
fn priorities_stay_within_their_levels() {
    refused(
        "dynamic_batching { priority_levels: 4294967296 default_priority_level: 1 }",
        &["dynamic_batching.priority_levels is 4294967296; expected at most 1000"],
    );
    refused(
        "dynamic_batching { priority_levels: 2 priority_queue_policy { key: 3 value { } } }",
        &[
            "dynamic_batching.default_priority_level is 0; expected 1 to priority_levels, which is 2",
            "dynamic_batching.priority_queue_policy has the key 3; \
             expected 1 to priority_levels, which is 2",
        ],
    );
}

#[test]
fn order_excludes_priorities_and_delays() {
    refused(
        "dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1
           default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5 } }",
        &[
            "dynamic_batching.preserve_ordering excludes priorities: priority_levels is 2, \
             expected 0 or 1",
            "dynamic_batching.preserve_ordering excludes a queue policy with timeout_action DELAY \
             and a timeout; expected REJECT",
        ],
    );
}

#[test]
fn what_is_not_supported_is_named() {
    let decoupled = "model_transaction_policy { decoupled: true }";
    let one = "is not supported: the backend 'onnxruntime' gives each request one answer";
    refused(decoupled, &[&format!("{decoupled} {one}")]);
    refused(
        "instance_group { secondary_devices { } }",
        &["instance_group[0]: secondary_devices is not supported"],
    );
    refused(
        "ensemble_scheduling { }",
        &[
            "ensemble_scheduling needs platform: \"ensemble\" and no backend; given platform '' and backend ''",
        ],
    );
    refused(
        "parameters { key: 'TRITON_BATCH_STRATEGY_PATH' value { string_value: '/x.so' } }",
        &["parameter TRITON_BATCH_STRATEGY_PATH: the batching plug-in '/x.so' is not supported"],
    );
    refused(
        "runtime: 'model.py'",
        &["runtime 'model.py' is not supported; expected nothing, or 'libtriton_onnxruntime.so'"],
    );
    refused(
        "backend: 'pytorch' model_operations { op_library_filename: 'libops.so' }",
        &[
            "model_operations.op_library_filename: the backend 'pytorch' takes no operators from libraries; only \
           onnxruntime does",
        ],
    );
    let text = "backend: 'identity' output { name: 'y' data_type: TYPE_INT8 dims: 1 is_shape_tensor: true }
         input { name: 'x' data_type: TYPE_INT8 dims: 1 is_non_linear_format_io: true }";
    let errors = completed("m", text, None, &Defaults::default()).unwrap_err();
    assert_eq!(
        errors.problems,
        [
            "input[0] 'x': is_non_linear_format_io is not supported, it belongs to TensorRT",
            "output[0] 'y': is_shape_tensor is not supported, it belongs to TensorRT",
        ]
    );
}

#[test]
fn settings_have_known_values() {
    refused(
        "optimization { execution_accelerators {
           gpu_execution_accelerator { name: 'tensorRT' } cpu_execution_accelerator { name: 'x' } } }",
        &[
            "optimization.execution_accelerators.gpu_execution_accelerator[0]: \
             name 'tensorRT' is not known; expected cuda or tensorrt",
            "optimization.execution_accelerators.cpu_execution_accelerator[0]: \
             name 'x' is not known; expected openvino",
        ],
    );
    refused(
        "model_metrics { metric_control [ { },
           { metric_identifier { family: 'nv_inference_first_response_histogram_ms' }
             histogram_options { buckets: [ 2, 1 ] } } ] }",
        &[
            "model_metrics.metric_control[0]: metric_identifier.family is missing",
            "model_metrics.metric_control[0]: histogram_options.buckets is missing; \
             expected at least one bound",
            "model_metrics.metric_control[1]: histogram_options.buckets are [2.0, 1.0]; \
             expected finite numbers, each above the one before",
        ],
    );
}

#[test]
fn a_warm_up_must_be_a_request_that_the_model_takes() {
    let warmup =
        |text: &str| format!("{FULL} max_batch_size: 4 model_warmup {{ name: 'w' {text} }}");
    let data = "dims: [ 3, 224, 224 ] zero_data: true";
    refused(
        &warmup("batch_size: 9"),
        &[
            "model_warmup[0] 'w': batch_size is 9; expected 0 to skip it, or 1 to 4",
            "model_warmup[0] 'w': inputs 'pixels' is missing; \
             the model needs TYPE_FP32 [ 3, 224, 224 ]",
        ],
    );
    refused(
        &warmup(&format!(
            "batch_size: 1 inputs {{ key: 'pixels' value {{ data_type: TYPE_FP32 {data} }} }}
             inputs {{ key: 'pixel' value {{ data_type: TYPE_FP32 {data} }} }}"
        )),
        &[
            "model_warmup[0] 'w': inputs 'pixel' is not an input of the model; did you mean 'pixels'?",
        ],
    );
    refused(
        &warmup(
            "batch_size: 1 inputs { key: 'pixels' value { data_type: TYPE_INT8 dims: [ 3, -1, 224 ]
             input_data_file: 'a/../../b' } }",
        ),
        &[
            "model_warmup[0] 'w': inputs 'pixels': data_type is TYPE_INT8, \
             the model's input is TYPE_FP32",
            "model_warmup[0] 'w': inputs 'pixels': dims are [3, -1, 224]; \
             the model's input is [ 3, 224, 224 ], and each -1 needs a size of 0 or more",
            "model_warmup[0] 'w': inputs 'pixels': input_data_file: 'a/../../b' leads out of the \
             model's folder; expected a relative path without '..'",
        ],
    );
    refused(
        &warmup(
            "batch_size: 1 inputs { key: 'pixels' value { data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } }",
        ),
        &["model_warmup[0] 'w': inputs 'pixels': its data is missing; \
           expected zero_data, random_data or input_data_file"],
    );
}

#[test]
fn numbers_that_no_enum_has_are_refused() {
    let mut raw = ConfigReader::default().parse_text("", FULL).unwrap();
    raw.input[0].data_type = 77;
    raw.input[0].format = 7;
    raw.instance_group.push(ModelInstanceGroup { kind: -1, ..Default::default() });
    let choice = EngineChoice {
        platform: String::new(),
        backend: "identity".into(),
        default_model_filename: None,
        options: Default::default(),
    };
    let errors =
        complete(Some(&raw), "m", &choice, &usual(), None, &Defaults::default()).unwrap_err();
    let starts: Vec<&str> =
        errors.problems.iter().map(|it| it.split(';').next().unwrap_or_default()).collect();
    assert_eq!(
        starts,
        [
            "input[0] 'pixels': format 7 is not known",
            "input[0] 'pixels': data_type 77 is not known",
            "instance_group[0]: kind -1 is not known",
        ]
    );
}

proptest! {
    #[test]
    fn what_is_accepted_is_valid_and_nothing_panics(
        batch in prop_oneof![any::<i32>(), 0..4i32],
        dims in prop::collection::vec(prop_oneof![any::<i64>(), -1..4i64], 0..4),
        shape in prop::option::of(prop::collection::vec(prop_oneof![any::<i64>(), -1..4i64], 0..4)),
        sizes in prop::collection::vec(any::<i32>(), 0..3),
        levels in prop_oneof![any::<u64>(), 0..3u64],
        free in any::<bool>(),
    ) {
        let input = ModelInput {
            name: "x".into(),
            data_type: 11,
            dims,
            reshape: shape.map(|shape| ModelTensorReshape { shape }),
            ..Default::default()
        };
        let raw = RawConfig {
            max_batch_size: Some(batch),
            input: vec![input],
            scheduling_choice: Some(SchedulingChoice::DynamicBatching(ModelDynamicBatching {
                preferred_batch_size: sizes,
                priority_levels: levels,
                default_priority_level: 1,
                ..Default::default()
            })),
            ..Default::default()
        };
        let first = if free { -1 } else { 2 };
        let spec = model(
            &[tensor("x", DataType::Fp32, &[first, 2])],
            &[tensor("y", DataType::Fp32, &[first])],
        );
        let found = VersionFiles { model: "m", directory: Path::new("1"), files: &["model.onnx".into()] };
        let choice = choose(Some(&raw), found, &usual(), Completion::On).unwrap();
        for spec in [Some(&spec), None] {
            let Ok(completed) = complete(Some(&raw), "m", &choice, &usual(), spec, &Defaults::default())
            else { continue };
            let config = completed.config;
            let port = &config.inputs[0];
            prop_assert!(port.dims.iter().flatten().all(|&it| it > 0));
            let client: Shape = port.dims.iter().map(|it| it.unwrap_or(3)).collect();
            let engine = port.to_engine(&client, Rows::Absent).unwrap();
            prop_assert_eq!(engine.elements(), client.elements());
            prop_assert_eq!(port.to_client(&engine, Rows::Absent), Some(client));
            let Scheduling::Dynamic(batching) = config.scheduling else { continue };
            let allowed = 1..=config.max_batch_size;
            prop_assert!(batching.preferred_batch_sizes.iter().all(|it| allowed.contains(it)));
            prop_assert!(batching.preferred_batch_sizes.is_sorted());
        }
    }
}
