//! What is read, what is refused with which words, and that nothing makes the parser fall over.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use serving::config::raw;

const USUAL: &str = include_str!("../testdata/usual.pbtxt");
const EVERYTHING: &str = include_str!("../testdata/everything.pbtxt");

fn read(text: &str) -> Result<RawConfig, ReadError> {
    ConfigReader::default().parse_text("config.pbtxt", text)
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    assert_eq!(read(text).expect_err("it must be refused").to_string(), expected);
}

#[test]
fn the_usual_forms_are_read() {
    let config = read(USUAL).unwrap();
    assert_eq!(config.name, "usual");
    assert_eq!(config.max_batch_size(), 16);
    let input = &config.input[0];
    assert_eq!((input.name.as_str(), input.data_type()), ("pixels", raw::DataType::TypeFp32));
    assert_eq!(input.dims, [3, 224, -1]);
    assert_eq!(config.output.len(), 2);
    assert_eq!(config.parameters["note"].string_value, "in two # parts");
    assert_eq!(config.parameters["intra_op_thread_count"].string_value, "2");
    assert!(matches!(
        config.scheduling_choice,
        Some(raw::model_config::SchedulingChoice::DynamicBatching(_))
    ));
}

#[test]
fn what_is_printed_reads_back_as_the_same_and_as_the_library_reads_it() {
    let reader = ConfigReader::default();
    for text in [USUAL, EVERYTHING] {
        let config = read(text).unwrap();
        let printed = reader.dynamic(&config).to_text_format();
        assert_eq!(read(&printed).unwrap(), config);
        let library =
            DynamicMessage::parse_text_format(reader.descriptor().clone(), &printed).unwrap();
        assert_eq!(typed(&library), config);
    }
}

#[test]
fn an_unknown_field_is_named_with_its_place_and_the_nearest_one() {
    refused(
        "name: \"a\"\n  max_batchsize: 4",
        "config.pbtxt:2:3: 'max_batchsize' is not a field of a model's configuration; \
         did you mean 'max_batch_size'?",
    );
    refused(
        "input [ { nmae: 'x' } ]",
        "config.pbtxt:1:11: 'nmae' is not a field of 'input'; did you mean 'name'?",
    );
    refused(
        "version_policy: { newest { count: 2 } }",
        "config.pbtxt:1:19: 'newest' is not a field of 'version_policy'; \
         its fields are latest, all, specific",
    );
}

#[test]
fn all_wrong_fields_and_values_are_reported_at_once() {
    refused(
        "backand: 'onnxruntime'\nmax_batch_size: \"8\"\ninput { dims: [ 1, 2.5, -3 ] shape: [1] }",
        "config.pbtxt:1:1: 'backand' is not a field of a model's configuration; \
         did you mean 'backend'?\n\
         config.pbtxt:2:17: max_batch_size: expected a whole number from -2147483648 to 2147483647, \
         got \"8\"\n\
         config.pbtxt:3:20: input.dims: expected a whole number from -9223372036854775808 to \
         9223372036854775807, got '2.5'\n\
         config.pbtxt:3:30: 'shape' is not a field of 'input'; did you mean 'reshape'?",
    );
}

#[test]
fn an_enum_value_is_named_with_the_known_ones() {
    let kinds = "KIND_AUTO, KIND_GPU, KIND_CPU, KIND_MODEL";
    refused(
        "instance_group [ { kind: KIND_CPUS } ]",
        &format!(
            "config.pbtxt:1:26: instance_group.kind: expected one of {kinds} without quotes; \
             did you mean KIND_CPU?, got 'KIND_CPUS'"
        ),
    );
    for (given, shown) in [("\"KIND_GPU\"", "\"KIND_GPU\""), ("gpu", "'gpu'")] {
        refused(
            &format!("instance_group {{ kind: {given} }}"),
            &format!(
                "config.pbtxt:1:24: instance_group.kind: expected one of {kinds} without quotes; \
                 did you mean KIND_GPU?, got {shown}"
            ),
        );
    }
    refused(
        "instance_group { kind: 9 }",
        &format!(
            "config.pbtxt:1:24: instance_group.kind: expected one of {kinds} without quotes, got '9'"
        ),
    );
}

#[test]
fn a_field_given_twice_is_refused() {
    refused("name: 'a'\nname: 'a'", "config.pbtxt:2:1: 'name' is given twice, first in line 1");
    refused(
        "max_batch_size: 0 max_batch_size: 4",
        "config.pbtxt:1:19: 'max_batch_size' is given twice, first in line 1",
    );
    refused(
        "dynamic_batching { }\nsequence_batching { }",
        "config.pbtxt:2:1: 'sequence_batching' excludes 'dynamic_batching', which is given in line 1",
    );
}

#[test]
fn the_last_entry_of_a_map_with_a_key_is_the_one_that_holds() {
    let tags = read("metric_tags [ { key: 'a' value: '1' },\n{ key: 'a' value: '2' } ]").unwrap();
    assert_eq!(tags.metric_tags["a"], "2");
    let parameters = "parameters { key: 'DEVICE_ID' value { string_value: '0' } }
        parameters { key: 'x' value { string_value: 'y' } }
        parameters { key: 'DEVICE_ID' value { string_value: '1' } }";
    let parameters = read(parameters).unwrap().parameters;
    assert_eq!((parameters.len(), &*parameters["DEVICE_ID"].string_value), (2, "1"));
}

#[test]
fn broken_punctuation_is_shown_where_it_breaks() {
    refused(
        "input [ { name: 'x' }",
        "config.pbtxt:1:22: input: expected ',' or ']', got the end of the text",
    );
    refused("input { name 'x' }", "config.pbtxt:1:14: input.name: expected ':', got 'x'");
    refused(
        "name: 'x",
        "config.pbtxt:1:7: name: expected a string in quotes, got a string without its end, 'x",
    );
    refused("name: 'x' }", "config.pbtxt:1:11: expected a field name, got '}'");
    refused(
        "input { dims: [1,] }",
        "config.pbtxt:1:18: input.dims: expected a whole number from -9223372036854775808 to 9223372036854775807, got ']'",
    );
    refused("[a.b/c] { }", "config.pbtxt:1:1: expected a field name, got '['");
    refused("name: [ 'x' ]", "config.pbtxt:1:7: name: takes one value, not a list");
    refused(
        "max_batch_size: 2147483648",
        "config.pbtxt:1:17: max_batch_size: expected a whole number from -2147483648 to 2147483647, got '2147483648'",
    );
    refused("name: '\\q'", "config.pbtxt:1:7: name: '\\q' is no escape sequence");
    refused("é: 1", "config.pbtxt:1:1: expected a field name, got 'é'");
}

#[test]
fn numbers_may_be_negative_hexadecimal_octal_or_floats() {
    let config = read(
        "max_batch_size: 0x10 input { dims: [ -1, 010 ] } optimization { graph { level: -1 } }
         model_metrics { metric_control { histogram_options { buckets: [ 1, .5, 1e2, 2.5f, -inf ] } } }",
    )
    .unwrap();
    assert_eq!(
        (config.max_batch_size(), config.input[0].dims.as_slice()),
        (16, [-1, 8].as_slice())
    );
    assert_eq!(config.optimization.unwrap().graph.unwrap().level, -1);
    let control = &config.model_metrics.unwrap().metric_control[0];
    let Some(raw::model_metrics::metric_control::MetricOptions::HistogramOptions(options)) =
        &control.metric_options
    else {
        panic!("no histogram");
    };
    assert_eq!(options.buckets, [1.0, 0.5, 100.0, 2.5, f64::NEG_INFINITY]);
}

#[test]
fn json_has_every_plain_field_and_only_given_messages() {
    let reader = ConfigReader::default();
    let config =
        read("name: 'a' max_batch_size: 0 input { name: 'x' data_type: TYPE_STRING dims: [ 4000000000 ] }").unwrap();
    assert_eq!(
        reader.to_json(&config),
        json!({
            "name": "a", "platform": "", "max_batch_size": 0,
            "input": [{
                "name": "x", "data_type": "TYPE_STRING", "format": "FORMAT_NONE",
                "dims": [4_000_000_000_u64], "is_shape_tensor": false, "allow_ragged_batch": false,
                "optional": false, "is_non_linear_format_io": false,
            }],
            "output": [], "instance_group": [], "default_model_filename": "",
            "cc_model_filenames": {}, "metric_tags": {}, "parameters": {}, "model_warmup": [],
            "backend": "", "batch_input": [], "batch_output": [], "runtime": "",
        })
    );
}

#[test]
fn json_reads_back_in_both_spellings() {
    let reader = ConfigReader::default();
    for text in [USUAL, EVERYTHING] {
        let config = read(text).unwrap();
        let json = reader.to_json(&config).to_string();
        assert_eq!(reader.parse_json("config", &json).unwrap(), config);
    }
    let camel = r#"{"maxBatchSize": 4, "versionPolicy": {"specific": {"versions": ["1", 2]}}}"#;
    let config = reader.parse_json("config", camel).unwrap();
    assert_eq!(
        config,
        read("max_batch_size: 4 version_policy { specific { versions: [1, 2] } }").unwrap()
    );
}

#[test]
fn json_takes_names_of_enum_values_in_any_case_and_leaves_all_other_text_as_it_is() {
    let json = r#"{
        "name": "kind_cpu", "maxBatchSize": 4, "backend": "type_fp32",
        "input": [{"name": "type_fp32", "data_type": "type_Int64", "dims": [1, -1]}],
        "output": [{"name": "a \"kind_gpu", "dataType": "TYPE_fp32", "dims": []}],
        "instance_group": [{"name": "kind_auto", "kind": "kind_cpu", "profile": ["kind_gpu"]}],
        "parameters": {"kind_model": {"string_value": "kind_cpu"}},
        "model_warmup": [{
            "name": "type_bool",
            "inputs": {"type_fp32": {"data_type": "type_fp32", "dims": [], "zero_data": true}}
        }]
    }"#;
    let capitals = json
        .replace(r#": "type_Int64""#, r#": "TYPE_INT64""#)
        .replace(r#": "TYPE_fp32""#, r#": "TYPE_FP32""#)
        .replace(r#""kind": "kind_cpu""#, r#""kind": "KIND_CPU""#)
        .replace(r#""data_type": "type_fp32""#, r#""data_type": "TYPE_FP32""#);
    let reader = ConfigReader::default();
    let config = reader.parse_json("config", json).unwrap();
    assert_eq!(config, reader.parse_json("config", &capitals).unwrap());
    assert_eq!([&config.name, &config.backend], ["kind_cpu", "type_fp32"]);
    assert_eq!(config.input[0].name, "type_fp32");
    assert_eq!(config.input[0].data_type, raw::DataType::TypeInt64 as i32);
    assert_eq!(config.instance_group[0].name, "kind_auto");
    assert_eq!(config.instance_group[0].profile, ["kind_gpu"]);
    assert_eq!(config.parameters["kind_model"].string_value, "kind_cpu");
    let warmup = config.model_warmup[0].inputs.get("type_fp32").unwrap();
    assert_eq!(warmup.data_type, raw::DataType::TypeFp32 as i32);
}

#[test]
fn json_takes_single_values_for_lists() {
    let reader = ConfigReader::default();
    let single = r#"{"name":"A","max_batch_size":8,
        "input":{"name":"x","data_type":"TYPE_FP32","dims":3},
        "output" : {"name":"y","dataType":"type_fp32","dims": "3" , "reshape":{"shape":3}},
        "instance_group":{"count":2,"kind":"KIND_CPU","gpus": 0 ,"rate_limiter":{"resources":{"name":"R","count":1}}},
        "version_policy":{"specific":{"versions":"2"}},
        "dynamic_batching":{"preferred_batch_size":4},
        "model_warmup":{"name":"w","inputs":{"x":{"data_type":"TYPE_FP32","dims":3,"zero_data":true}}}}"#;
    let listed = r#"{"name":"A","max_batch_size":8,
        "input":[{"name":"x","data_type":"TYPE_FP32","dims":[3]}],
        "output":[{"name":"y","data_type":"TYPE_FP32","dims":[3],"reshape":{"shape":[3]}}],
        "instance_group":[{"count":2,"kind":"KIND_CPU","gpus":[0],"rate_limiter":{"resources":[{"name":"R","count":1}]}}],
        "version_policy":{"specific":{"versions":[2]}},
        "dynamic_batching":{"preferred_batch_size":[4]},
        "model_warmup":[{"name":"w","inputs":{"x":{"data_type":"TYPE_FP32","dims":[3],"zero_data":true}}}]}"#;
    let config = reader.parse_json("config", single).unwrap();
    assert_eq!(config, reader.parse_json("config", listed).unwrap());
    // At the end of the text, and without any value.
    let dims = |json: &str| reader.parse_json("config", json).unwrap().input[0].dims.clone();
    assert_eq!(dims(r#"{"input":{"dims":-1}}"#), [-1]);
    assert_eq!(dims(r#"{"input":{"dims":null}}"#), [0; 0]);
    assert_eq!(dims(r#"{"input":[{"dims":[1,2]}]}"#), [1, 2]);
}

#[test]
fn json_takes_numbers_and_truth_values_in_quotes_and_null_for_what_is_not_given() {
    let reader = ConfigReader::default();
    let loose = r#"{"maxBatchSize":"8","default_model_filename":null,"instance_group":null,"parameters":null,
        "input":[{"name":"x","data_type":11,"dims":["3","-1"],"optional":"true","format":"0"}],
        "dynamicBatching":{"maxQueueDelayMicroseconds":"100","preserve_ordering":"false",
          "priorityQueuePolicy":{"1":{"timeoutAction":"1","default_timeout_microseconds":"7"}}},
        "output":[{"name":"y","data_type":"11","dims":[3.0]}]}"#;
    let plain = "max_batch_size: 8 input { name: 'x' data_type: TYPE_FP32 dims: [ 3, -1 ] optional: true }
        output { name: 'y' data_type: TYPE_FP32 dims: 3 }
        dynamic_batching { max_queue_delay_microseconds: 100
          priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 7 } } }";
    assert_eq!(reader.parse_json("config", loose).unwrap(), read(plain).unwrap());
}

#[test]
fn an_error_behind_single_values_has_its_place_in_the_text_that_was_sent() {
    let place = |json: &str| {
        let error = ConfigReader::default().parse_json("config", json).unwrap_err();
        (error.problems[0].line, error.problems[0].column)
    };
    let single = "{\"input\": {\"dims\": 3},\n\"instance_group\": {\"count\": 1}, \"count\": 4}";
    let listed =
        "{\"input\": [{\"dims\": [3]}],\n\"instance_group\": [{\"count\": 1}], \"count\": 4}";
    let (line, column) = place(listed);
    assert_eq!(place(single), (line, column - 2));
}

#[test]
fn an_error_in_json_with_enum_values_in_small_letters_names_its_place() {
    let refused =
        |json: &str| ConfigReader::default().parse_json("config", json).unwrap_err().to_string();
    let error = refused("{\"input\": [{\"data_type\": \"type_fp32\"}],\n \"max_batchsize\": 4}");
    assert!(error.starts_with("config:2:"), "{error}");
    assert!(error.contains("did you mean 'max_batch_size'?"), "{error}");
    let error = refused("{\n\"input\": [{\"data_type\": \"type_fp33\"}]}");
    assert!(error.starts_with("config:2:"), "{error}");
    let deep = format!("{{\"input\": {}", "[".repeat(1_000_000));
    refused(&deep);
    refused(&deep.replace('[', "{\"input\":"));
}

#[test]
fn json_errors_name_the_place_and_the_nearest_field() {
    let refused =
        |json: &str| ConfigReader::default().parse_json("config", json).unwrap_err().to_string();
    let error = refused("{\n \"max_batchsize\": 4}");
    assert!(error.starts_with("config:2:"), "{error}");
    assert!(
        error.ends_with(
            "'max_batchsize' is not a field of a model's configuration; did you mean 'max_batch_size'?"
        ),
        "{error}"
    );
    for (json, expected) in [
        ("{\"max_batch_size\": \"x\"}", "invalid digit"),
        ("{\"max_batch_size\": 4} x", "trailing characters"),
        ("{\"name\": ", "EOF"),
        ("[]", "expected"),
    ] {
        let error = refused(json);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn json_errors_of_values_name_the_field_what_was_given_and_what_is_expected() {
    let whole = "expected a whole number of 32 bits; write it as 8 (";
    let long = format!("{{\"max_batch_size\": \"{}\"}}", "9".repeat(500));
    for (json, expected) in [
        ("{\"max_batch_size\":\"8.0\"}", format!("config:1:23: 'max_batch_size' is \"8.0\", {whole}")),
        ("{\"name\": \"a\\\"b\", \"maxBatchSize\": 8.5, \"backend\": \"x\"}", format!("'maxBatchSize' is 8.5, {whole}")),
        ("{\"max_batch_size\": 5000000000}", format!("'max_batch_size' is 5000000000, {whole}")),
        ("{\"max_batch_size\": true}", format!("'max_batch_size' is true, {whole}")),
        (&*long, format!("'max_batch_size' is \"{}.., {whole}", "9".repeat(39))),
        (
            "{\"input\": [{\"name\": \"x\", \"dims\": [3]},\n {\"dims\": [1, \"x\"]}]}",
            "'input[1].dims[1]' is \"x\", expected a whole number of 64 bits; write it as 8 (".to_owned(),
        ),
        (
            "{\"parameters\": {\"a\": {\"string_value\": 3}}}",
            "'parameters.a.string_value': invalid type: ".to_owned(),
        ),
        (
            "{\"dynamic_batching\": {\"priority_queue_policy\": {\"1\": {\"max_queue_size\": \"-1\"}}}}",
            "'dynamic_batching.priority_queue_policy.1.max_queue_size' is \"-1\", expected a whole number of 32 bits \
             from 0 on"
                .to_owned(),
        ),
    ] {
        let error = ConfigReader::default().parse_json("config", json).unwrap_err().to_string();
        assert!(error.contains(&expected), "{json}: {error}");
    }
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    for opening in ["{", "<", "["] {
        for field in ["input", "colour"] {
            let error = read(&format!("{field} {}", opening.repeat(1_000_000))).unwrap_err();
            assert!(error.problems.len() < 5, "{error}");
        }
    }
}

fn any_config() -> impl Strategy<Value = RawConfig> {
    let input = (".*", 0..15i32, prop::collection::vec(any::<i64>(), 0..4), any::<bool>());
    let input = input.prop_map(|(name, data_type, dims, optional)| raw::ModelInput {
        name,
        data_type,
        reshape: optional.then(|| raw::ModelTensorReshape { shape: dims.clone() }),
        dims,
        optional,
        ..Default::default()
    });
    let parameters = prop::collection::btree_map(
        ".*",
        ".*".prop_map(|string_value| raw::ModelParameter { string_value }),
        0..4,
    );
    let policies = prop::collection::btree_map(
        any::<u64>(),
        any::<(u64, u32)>().prop_map(|(timeout, size)| raw::ModelQueuePolicy {
            default_timeout_microseconds: timeout,
            max_queue_size: size,
            ..Default::default()
        }),
        0..3,
    );
    let head =
        (".*", any::<Option<i32>>(), prop::collection::vec(input, 0..3), parameters, policies);
    head.prop_map(|(name, max_batch_size, input, parameters, priority_queue_policy)| RawConfig {
        name,
        max_batch_size,
        input,
        parameters,
        scheduling_choice: Some(raw::model_config::SchedulingChoice::DynamicBatching(
            raw::ModelDynamicBatching { priority_queue_policy, ..Default::default() },
        )),
        ..Default::default()
    })
}

proptest! {
    #[test]
    fn any_configuration_survives_printing_and_reading(config in any_config()) {
        let reader = ConfigReader::default();
        let printed = reader.dynamic(&config).to_text_format();
        prop_assert_eq!(&reader.parse_text("", &printed).unwrap(), &config, "{}", printed);
        let json = reader.to_json(&config).to_string();
        prop_assert_eq!(&reader.parse_json("", &json).unwrap(), &config);
    }

    #[test]
    fn no_text_makes_the_readers_panic(text in ".{0,200}") {
        let reader = ConfigReader::default();
        drop(reader.parse_text("", &text));
        drop(reader.parse_json("", &text));
    }

    #[test]
    fn no_change_to_a_valid_text_makes_the_reader_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), "[\\x00-\\x7f{}\\[\\]:,'\"#<>é-]{0,3}"), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut text: Vec<char> = EVERYTHING.chars().collect();
        for (at, change) in changes {
            let at = at.index(text.len());
            text.splice(at..=at, change.chars());
        }
        text.truncate(cut.index(text.len()) + 1);
        let text: String = text.into_iter().collect();
        if let Err(error) = read(&text) {
            prop_assert!(!error.problems.is_empty());
        }
    }
}
