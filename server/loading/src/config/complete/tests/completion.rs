//! What becomes of configurations that are right.

use std::{collections::BTreeMap, time::Duration};

use super::*;
use serving::config::model::{
    InstanceKind, Rows, Scheduling, TimeoutAction, VersionPolicy, WarmupData,
};

fn accepted(text: &str, spec: &ModelSpec) -> Completed {
    completed("m", text, Some(spec), &Defaults::default()).unwrap()
}

/// The completed configuration of `testdata/completed/<name>.pbtxt` is that of `<name>.json`. With
/// `UPDATE_GOLDEN=1` in the environment the latter is written.
#[track_caller]
fn golden(name: &str, spec: Option<&ModelSpec>) -> Completed {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/testdata/completed");
    let text = fs::read_to_string(folder.join(format!("{name}.pbtxt"))).unwrap();
    let completed = completed(name, &text, spec, &Defaults::default()).unwrap();
    let json = ConfigReader::default().to_json(&completed.raw);
    let json = serde_json::to_string_pretty(&json).unwrap() + "\n";
    let golden = folder.join(format!("{name}.json"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &json).unwrap();
    }
    assert_eq!(json, fs::read_to_string(&golden).unwrap());
    completed
}

#[test]
fn an_empty_configuration_is_filled_from_the_model() {
    let completed = golden("nothing", Some(&classifier()));
    let config = &completed.config;
    assert_eq!(config.max_batch_size, 4);
    assert_eq!(config.version_policy, VersionPolicy::Latest(1));
    assert_eq!(config.instance_groups[0].count, None);
    assert_eq!(config.default_model_filename.as_deref(), Some("model.onnx"));
    assert!(completed.warnings.is_empty());
    let signature = config.signature(3, &BTreeMap::new());
    let shapes: Vec<String> = signature.inputs.iter().map(|it| signature.shape_text(it)).collect();
    assert_eq!(shapes, ["[-1,3,224,224]"]);
    assert_eq!((signature.model.as_ref(), signature.version), ("nothing", 3));
}

#[test]
fn a_size_of_zero_in_the_model_is_one_of_its_configuration() {
    let mut spec = classifier();
    spec.outputs[0].dims.push(Some(0));
    let config = accepted("", &spec).config;
    assert_eq!(config.outputs[0].dims.last(), Some(&Some(0)));
    let written = "output { name: 'scores' data_type: TYPE_FP32 dims: [ 1000, 0 ] }";
    assert_eq!(accepted(written, &spec).config.outputs, config.outputs);
}

#[test]
fn no_configuration_is_the_same_as_an_empty_one() {
    let found =
        VersionFiles { model: "m", directory: Path::new("1"), files: &["model.onnx".into()] };
    let choice = choose(None, found, &usual(), Completion::On).unwrap();
    let spec = classifier();
    let none = complete(None, "m", &choice, &usual(), Some(&spec), &Defaults::default()).unwrap();
    assert_eq!(none.raw, accepted("", &spec).raw);
}

#[test]
fn an_output_with_only_a_name_and_labels_is_filled_from_the_model() {
    let config = golden("labels_only", Some(&classifier())).config;
    assert_eq!(config.outputs[0].label_filename.as_deref(), Some("labels.txt"));
    assert_eq!(config.outputs[0].dims, [Some(1000)]);
    assert_eq!(config.max_batch_size, 4);
    let labels = BTreeMap::from([("scores".into(), vec!["cat".to_owned()].into())]);
    assert_eq!(*config.signature(1, &labels).outputs[0].labels, ["cat".to_owned()]);
}

#[test]
fn a_full_configuration_is_taken_as_it_is() {
    let config = golden("ranking", Some(&classifier())).config;
    assert_eq!(config.version_policy, VersionPolicy::All);
    assert_eq!(config.graph_level, Some(1));
    let groups: Vec<_> = config
        .instance_groups
        .iter()
        .map(|it| (it.name.as_str(), it.kind, it.count, it.passive))
        .collect();
    assert_eq!(
        groups,
        [
            ("ranking_0", InstanceKind::Cpu, Some(2), false),
            ("spare", InstanceKind::Cpu, None, true)
        ]
    );
    let Scheduling::Dynamic(batching) = &config.scheduling else { panic!("not dynamic") };
    assert_eq!(batching.preferred_batch_sizes, [8, 16]);
    assert_eq!(batching.max_queue_delay, Duration::from_micros(500));
    assert_eq!(batching.default_queue_policy.default_timeout, Duration::from_secs(2));
    assert_eq!(batching.default_queue_policy.max_queue_size, 64);
    assert!(batching.priority_queue_policies[&1].allow_timeout_override);
    assert_eq!(batching.priority_queue_policies[&2].timeout_action, TimeoutAction::Delay);
    let warmups: Vec<_> = config
        .warmups
        .iter()
        .map(|it| (it.name.as_str(), it.rows, it.count, it.inputs[0].data.clone()))
        .collect();
    assert_eq!(
        warmups,
        [
            ("one", 1, 1, WarmupData::Zero),
            ("noise", 32, 3, WarmupData::Random),
            ("real", 1, 1, WarmupData::File("cat.raw".into()))
        ]
    );
}

#[test]
fn with_both_inputs_and_outputs_given_batching_is_not_completed() {
    let config = golden("whole_shapes", Some(&classifier())).config;
    assert_eq!((config.max_batch_size, config.rows()), (0, Rows::Absent));
    assert_eq!(config.scheduling, Scheduling::Plain);
}

#[test]
fn with_whole_shapes_on_one_side_the_other_is_completed_alike() {
    let text = "input { name: 'pixels' data_type: TYPE_FP32 dims: [ -1, 3, 224, 224 ] }";
    let config = accepted(text, &classifier()).config;
    assert_eq!((config.max_batch_size, config.outputs[0].dims.len()), (0, 2));
    let text = "input { name: 'pixels' data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }";
    let config = accepted(text, &classifier()).config;
    assert_eq!((config.max_batch_size, config.outputs[0].dims.len()), (4, 1));
}

#[test]
fn an_engine_that_knows_no_tensors_takes_the_configured_ones() {
    let config = golden("copy", None).config;
    assert_eq!((config.backend.as_str(), config.default_model_filename), ("identity", None));
    assert!(config.inputs[0].optional);
    assert_eq!(config.parameters["execute_delay_ms"], "5");
}

#[test]
fn a_model_that_cannot_batch_keeps_whole_shapes() {
    let fixed = model(
        &[tensor("x", DataType::Int64, &[1, 8])],
        &[tensor("y", DataType::Fp32, &[-1]), tensor("n", DataType::Int32, &[])],
    );
    let completed = accepted("", &fixed);
    let config = &completed.config;
    assert_eq!((config.max_batch_size, &config.scheduling), (0, &Scheduling::Plain));
    assert_eq!(config.inputs[0].dims, [Some(1), Some(8)]);
    // A scalar: one element for clients, none dimension for the engine.
    assert_eq!(
        (config.outputs[1].dims.as_slice(), config.outputs[1].engine_dims()),
        ([Some(1)].as_slice(), [].as_slice())
    );
    assert_eq!(completed.raw.output[1].reshape, None);
}

#[test]
fn a_scalar_may_be_configured_with_any_number_of_dimensions_of_one() {
    let scalar = model(
        &[tensor("x", DataType::Fp32, &[-1, 2]), tensor("n", DataType::Int64, &[])],
        &[tensor("y", DataType::Fp32, &[])],
    );
    for dims in ["1", "1, 1"] {
        let config = accepted(
            &format!(
                "input [ {{ name: 'x' data_type: TYPE_FP32 dims: [ -1, 2 ] }},
                         {{ name: 'n' data_type: TYPE_INT64 dims: [ {dims} ] }} ]
                 output {{ name: 'y' data_type: TYPE_FP32 dims: [ {dims} ] }}"
            ),
            &scalar,
        )
        .config;
        assert_eq!(config.inputs[1].engine_dims(), []);
        assert_eq!(config.outputs[0].engine_dims(), []);
    }
}

#[test]
fn an_optional_input_that_is_configured_and_has_no_rows_keeps_the_model_from_batching() {
    let count = TensorSpec { optional: true, ..tensor("n", DataType::Int64, &[]) };
    let spec = model(
        &[tensor("x", DataType::Fp32, &[-1, 2]), count],
        &[tensor("y", DataType::Fp32, &[-1])],
    );
    assert_eq!(accepted("", &spec).config.max_batch_size, 4);
    let config = accepted("input [ { name: 'x' }, { name: 'n' dims: [ 1 ] } ]", &spec).config;
    assert_eq!((config.max_batch_size, &config.scheduling), (0, &Scheduling::Plain));
}

#[test]
fn a_tensor_of_one_number_per_row_gets_an_empty_reshape() {
    let scalars =
        model(&[tensor("x", DataType::Fp32, &[-1, 2])], &[tensor("y", DataType::Fp32, &[-1])]);
    let completed = accepted("", &scalars);
    assert_eq!(completed.raw.output[0].dims, [1]);
    assert_eq!(completed.raw.output[0].reshape, Some(ModelTensorReshape { shape: vec![] }));
    assert_eq!(completed.config.outputs[0].engine_dims(), []);
}

#[test]
fn the_default_batch_size_is_the_servers() {
    let with = |max_batch_size| {
        let defaults = Defaults { max_batch_size, ..Defaults::default() };
        completed("m", "", Some(&classifier()), &defaults).unwrap().config
    };
    assert_eq!(with(16).max_batch_size, 16);
    let Scheduling::Dynamic(batching) = with(16).scheduling else { panic!("not dynamic") };
    assert_eq!(batching.preferred_batch_sizes, [16]);
    assert_eq!(with(1).scheduling, Scheduling::Plain);
    assert_eq!((with(0).max_batch_size, with(0).inputs[0].dims.len()), (0, 4));
}

#[test]
fn a_batch_size_of_zero_that_is_written_is_what_wins() {
    let config = accepted("max_batch_size: 0", &classifier()).config;
    assert_eq!((config.max_batch_size, config.inputs[0].dims.len()), (0, 4));
}

#[test]
fn rows_that_depend_on_each_other_are_no_batch_unless_one_is_written() {
    let dependent = |text: &str| {
        let defaults =
            Defaults { rows: RowsKnown::Dependent, dynamic_batching: true, ..Defaults::default() };
        completed("m", text, Some(&classifier()), &defaults).unwrap().config
    };
    let config = dependent("");
    assert_eq!((config.max_batch_size, &config.scheduling), (0, &Scheduling::Plain));
    let config = dependent("max_batch_size: 8");
    assert_eq!((config.max_batch_size, &config.scheduling), (8, &Scheduling::Plain));
    // Written as one row is.
    let config = dependent(
        "input { name: 'pixels' data_type: TYPE_FP32 dims: [ 150528 ] reshape { shape: [ 3, 224, 224 ] } }
         model_warmup { name: 'w' batch_size: 2
           inputs { key: 'pixels' value { data_type: TYPE_FP32 dims: [ 150528 ] zero_data: true } } }",
    );
    assert_eq!((config.inputs[0].dims.len(), config.inputs[0].engine_dims().len()), (2, 4));
    assert_eq!((config.warmups[0].rows, config.warmups[0].inputs[0].dims.len()), (1, 2));
    assert_eq!(config.warmups[0].inputs[0].dims[0], 2);
}

#[test]
fn optional_inputs_of_the_model_are_left_out_unless_configured() {
    let mut spec = classifier();
    let weight = tensor("weight", DataType::Fp32, &[8]);
    spec.inputs.push(TensorSpec { optional: true, ..weight });
    let config = accepted("", &spec).config;
    assert_eq!((config.inputs.len(), config.max_batch_size), (1, 4));
    let text = "input [ { name: 'pixels' data_type: TYPE_FP32 dims: [ -1, 3, 224, 224 ] },
                        { name: 'weight' data_type: TYPE_FP32 dims: 8 optional: true } ]";
    assert!(accepted(text, &spec).config.inputs[1].optional);
}

#[test]
fn sizes_that_the_model_leaves_free_may_be_fixed() {
    let spec = model(
        &[tensor("ids", DataType::Int64, &[-1, -1])],
        &[tensor("y", DataType::Fp32, &[-1, -1, 2])],
    );
    let text = "max_batch_size: 2
                input { name: 'ids' data_type: TYPE_INT64 dims: [ 128 ] }
                output { name: 'y' data_type: TYPE_FP32 dims: [ 256 ] reshape { shape: [ 128, 2 ] } }";
    let config = accepted(text, &spec).config;
    assert_eq!(config.outputs[0].engine_dims(), [Some(128), Some(2)]);
}

#[test]
fn the_instances_that_were_made_are_shown() {
    let planned =
        |kind, count, gpus: &[u32]| Some(PlannedGroup { kind, count, gpus: gpus.to_vec() });
    let mut completed = accepted("", &classifier());
    completed.show_instances(&[planned(InstanceKind::Cpu, 2, &[])]);
    let group = &completed.raw.instance_group[0];
    assert_eq!((group.kind(), group.count, group.name.as_str()), (Kind::Cpu, 2, "m"));
    let text = "instance_group [ { count: 3 }, { kind: KIND_MODEL } ]";
    let mut completed = accepted(text, &classifier());
    completed.show_instances(&[
        planned(InstanceKind::Gpu, 3, &[0, 1]),
        planned(InstanceKind::Model, 1, &[]),
    ]);
    let groups = completed.raw.instance_group.iter();
    let shown = groups.map(|it| (it.kind(), it.count, it.gpus.as_slice()));
    let expected = [(Kind::Gpu, 3, &[0, 1][..]), (Kind::Model, 1, &[])];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn only_fields_without_effect_get_warnings() {
    let text = "optimization { priority: PRIORITY_MAX eager_batching: true
                               input_pinned_memory { enable: true } output_pinned_memory { enable: false }
                               execution_accelerators { gpu_execution_accelerator { name: 'tensorrt' }
                                                        cpu_execution_accelerator { name: 'openvino' } } }
                instance_group { passive: true host_policy: 'a' rate_limiter { priority: 2 } }
                cc_model_filenames { key: '8.0' value: 'x' }
                response_cache { enable: false } model_transaction_policy { decoupled: false }
                dynamic_batching { default_priority_level: 1 }
                model_metrics { metric_control { metric_identifier { family: 'nv_x' }
                                histogram_options { buckets: [ 1 ] } } }
                model_warmup { name: 'w' }";
    assert_eq!(
        accepted(text, &classifier()).warnings,
        [
            "instance_group[0]: it is passive, so no instances of it are made, but a model in a process of its own has \
             another one ready",
            "instance_group[0]: host_policy is ignored",
            "ignored: optimization.output_pinned_memory, optimization.eager_batching, \
             optimization.execution_accelerators.cpu_execution_accelerator",
            "dynamic_batching.default_priority_level is ignored: priority_levels is 0",
            "model_warmup[0] 'w' is skipped: its batch_size is 0",
            "model_metrics.metric_control[0]: family 'nv_x' is not known and is ignored",
        ]
    );
}

#[test]
fn accelerators_for_an_engine_without_them_get_a_warning() {
    let text =
        "optimization { execution_accelerators { gpu_execution_accelerator { name: 'cuda' } } }";
    assert_eq!(accepted(text, &classifier()).warnings, Vec::<String>::new());
    let torch = format!("backend: 'pytorch' {text}");
    let ignored = "optimization.execution_accelerators.gpu_execution_accelerator is ignored, as the backend \
                   'pytorch' has none";
    assert_eq!(accepted(&torch, &classifier()).warnings, [ignored]);
    refused(
        "backend: 'pytorch' optimization { execution_accelerators { gpu_execution_accelerator { name: 'foo' } } }",
        &[
            "optimization.execution_accelerators.gpu_execution_accelerator[0]: name 'foo' is not known; \
           expected cuda or tensorrt",
        ],
    );
}

#[test]
fn a_completed_configuration_is_complete() {
    for text in ["", "max_batch_size: 8", "output { name: 'scores' }"] {
        let first = accepted(text, &classifier());
        let json = ConfigReader::default().to_json(&first.raw).to_string();
        let raw = ConfigReader::default().parse_json("", &json).unwrap();
        let choice = EngineChoice {
            platform: raw.platform.clone(),
            backend: raw.backend.clone(),
            default_model_filename: Some(raw.default_model_filename.clone()),
            options: BTreeMap::new(),
        };
        let strict = Defaults { completion: Completion::Off, ..Defaults::default() };
        let second =
            complete(Some(&raw), "m", &choice, &usual(), Some(&classifier()), &strict).unwrap();
        assert_eq!(second.raw, first.raw);
        assert!(second.warnings.is_empty());
    }
}
