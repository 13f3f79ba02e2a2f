//! Every way in which a configuration does not fit the model, and the words.

use super::*;

#[test]
fn a_shape_that_the_file_does_not_say_is_any_unless_the_configuration_says_one() {
    let unknown = |name| TensorSpec { any_rank: true, ..tensor(name, DataType::Fp32, &[]) };
    let spec = model(&[unknown("x")], &[unknown("y")]);
    let dims = |text: &str| {
        let config = completed("m", text, Some(&spec), &Defaults::default()).unwrap().config;
        (config.max_batch_size, config.inputs[0].dims.clone(), config.outputs[0].dims.clone())
    };
    let x = "input { name: 'x' data_type: TYPE_FP32 dims: [ 2, 3 ] }";
    assert_eq!(dims(x), (0, vec![Some(2), Some(3)], vec![None]));
    assert_eq!(dims(&format!("max_batch_size: 8 {x}")), (8, vec![Some(2), Some(3)], vec![None]));
    let any = |text: &str| {
        let config = completed("m", text, Some(&spec), &Defaults::default()).unwrap().config;
        (config.max_batch_size, config.inputs[0].any_rank, config.outputs[0].any_rank)
    };
    assert_eq!(any(""), (0, true, true));
    assert_eq!(any("max_batch_size: 0 input { name: 'x' }"), (0, true, true));
    assert_eq!(any(x), (0, false, true));
    let sample =
        "inputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 2, 2, 2 ] zero_data: true } }";
    assert_eq!(any(&format!("model_warmup {{ name: 'w' {sample} }}")), (0, true, true));
    refused_for(
        &spec,
        "max_batch_size: 8",
        &[
            "input 'x': the model's file does not say how many dimensions it has; write input { name: \"x\" \
           data_type: TYPE_FP32 dims: [ .. ] }, and max_batch_size: 0 where dims name all of them",
        ],
    );
}

#[test]
fn tensors_must_be_those_of_the_model() {
    refused(
        &format!(
            "{FULL} max_batch_size: 4 input {{ name: 'mask' data_type: TYPE_BOOL dims: 1 }}
                  output {{ name: 'score' data_type: TYPE_FP32 dims: 1000 }}"
        ),
        &[
            "input 'mask' is not in the model, whose inputs are 'pixels'",
            "output 'score' is not in the model, whose outputs are 'scores'; did you mean 'scores'?",
        ],
    );
    refused(
        "max_batch_size: 4 input { name: 'pixels' data_type: TYPE_UINT8 dims: [ 3, 224, 224 ] }",
        &["input 'pixels': data_type is TYPE_UINT8, the model has TYPE_FP32; \
           write data_type: TYPE_FP32"],
    );
    refused(
        "input { name: 'pixels' optional: true }",
        &["input 'pixels': optional is given, but the model has no default for it"],
    );
}

#[test]
fn shapes_must_be_those_of_the_model() {
    refused(
        "max_batch_size: 4 output { name: 'scores' data_type: TYPE_FP32 dims: [ 10 ] }
         input { name: 'pixels' data_type: TYPE_FP32 dims: [ -1, 3, 224, 224 ] }",
        &[
            "input 'pixels': dims give the shape [ -1, -1, 3, 224, 224 ] with the batch dimension, \
             as max_batch_size is 4 and dims leave it out; the model has [ -1, 3, 224, 224 ]; \
             write dims: [ 3, 224, 224 ]",
            "output 'scores': dims give the shape [ -1, 10 ] with the batch dimension, \
             as max_batch_size is 4 and dims leave it out; the model has [ -1, 1000 ]; \
             write dims: [ 1000 ]",
        ],
    );
    refused(
        FULL,
        &[
            "input 'pixels': dims give the shape [ 3, 224, 224 ]; the model has \
             [ -1, 3, 224, 224 ]; write dims: [ -1, 3, 224, 224 ]",
            "output 'scores': dims give the shape [ 1000 ]; the model has [ -1, 1000 ]; \
             write dims: [ -1, 1000 ]",
        ],
    );
    let per_row =
        model(&[tensor("x", DataType::Fp32, &[-1])], &[tensor("y", DataType::Fp32, &[-1, 4])]);
    refused_for(
        &per_row,
        "max_batch_size: 4 input { name: 'x' data_type: TYPE_FP32 dims: [ 1 ] }
         output { name: 'y' data_type: TYPE_FP32 dims: [ 4 ] reshape { shape: [ 2, 2 ] } }",
        &[
            "input 'x': dims give the shape [ -1, 1 ] with the batch dimension, as max_batch_size \
             is 4 and dims leave it out; the model has [ -1 ]; \
             write dims: [ 1 ] reshape { shape: [ ] }",
            "output 'y': reshape.shape give the shape [ -1, 2, 2 ] with the batch dimension, as \
             max_batch_size is 4 and dims leave it out; the model has [ -1, 4 ]; \
             write dims: [ 4 ]",
        ],
    );
}

#[test]
fn a_model_that_cannot_batch_is_not_made_to() {
    let fixed = model(
        &[tensor("x", DataType::Int64, &[1, 8]), tensor("z", DataType::Int64, &[-1, 8])],
        &[tensor("y", DataType::Fp32, &[])],
    );
    refused_for(
        &fixed,
        "max_batch_size: 8",
        &[
            "max_batch_size is 8, but the model cannot batch, as the first dimension is not free in \
           input 'x' [ 1, 8 ], output 'y' [ ]; write max_batch_size: 0, and dims with all dimensions",
        ],
    );
}

#[test]
fn without_completion_everything_must_be_configured() {
    let strict = Defaults { completion: Completion::Off, ..Defaults::default() };
    let errors = completed("m", "max_batch_size: 4", Some(&classifier()), &strict).unwrap_err();
    assert_eq!(
        errors.problems,
        [
            "input 'pixels' is not configured; needed are 1 in all, configured are 0; \
             write input { name: \"pixels\" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }",
            "no output is configured; the model has 1; \
             write output { name: \"scores\" data_type: TYPE_FP32 dims: [ 1000 ] }",
        ]
    );
}

#[test]
fn a_model_that_was_exported_for_one_row_is_a_warning_unless_that_is_written_down() {
    let spec = model(
        &[tensor("pixels", DataType::Fp32, &[1, 3, 224, 224])],
        &[tensor("scores", DataType::Fp32, &[1, 1000])],
    );
    let warnings = |text: &str, spec: &ModelSpec| {
        completed("m", text, Some(spec), &Defaults::default()).unwrap().warnings
    };
    let told = warnings("", &spec);
    let line = "dynamic_axes={'pixels': {0: 'batch'}, 'scores': {0: 'batch'}}";
    assert!(matches!(&*told, [it] if it.contains(line)), "{told:?}");
    assert_eq!(warnings("max_batch_size: 0", &spec), [""; 0]);
    assert_eq!(warnings("", &classifier()), [""; 0]);
    let vector = model(&[tensor("x", DataType::Fp32, &[1])], &[tensor("y", DataType::Fp32, &[1])]);
    assert_eq!(warnings("", &vector), [""; 0]);
}
