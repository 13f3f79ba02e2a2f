//! Configurations of models and of TensorFlow Serving, in protobuf's text format and in JSON.

use std::sync::LazyLock;

use formats::expansion::Limit;
use loading::ConfigReader;
use prost::Message;

use super::Target;
use crate::{oracle, seen::Seen};

/// Files and requests of operators. A field of a few letters becomes a message.
const CONFIG: Limit = Limit { free: 1 << 20, ratio: 400, most: usize::MAX };

/// Has read the definition, which takes longer than most inputs.
static READER: LazyLock<ConfigReader> = LazyLock::new(|| {
    let reader = ConfigReader::default();
    drop(reader.parse_text("f", ""));
    reader
});

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ":",
    ",",
    ";",
    "#",
    "\n",
    "\"",
    "'",
    "\\x",
    "\\777",
    "\\u0000",
    "\\U0010ffff",
    "-",
    "0x",
    "1e400",
    "inf",
    "nan",
    "true",
    "name",
    "platform",
    "backend",
    "max_batch_size",
    "input",
    "output",
    "dims",
    "data_type",
    "TYPE_FP32",
    "TYPE_STRING",
    "instance_group",
    "count",
    "kind",
    "KIND_CPU",
    "gpus",
    "parameters",
    "key",
    "value",
    "string_value",
    "dynamic_batching",
    "preferred_batch_size",
    "max_queue_delay_microseconds",
    "default_queue_policy",
    "priority_queue_policy",
    "sequence_batching",
    "ensemble_scheduling",
    "step",
    "input_map",
    "version_policy",
    "latest",
    "specific",
    "versions",
    "model_warmup",
    "inputs",
    "reshape",
    "shape",
    "labels",
    "optimization",
    "response_cache",
    "enable",
    "model_config_list",
    "config",
    "base_path",
    "model_platform",
    "prometheus_config",
    "9223372036854775808",
    "18446744073709551616",
    "model_ensemble",
];

const MODEL: &str = r#"
name: "m" backend: "onnxruntime" max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] reshape { shape: [ 3 ] } }, { name: 'y' dims: 1 optional: true } ]
output { name: "z" data_type: TYPE_STRING dims: [ 2 ] label_filename: "l.txt" }
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100
  priority_levels: 2 default_queue_policy { timeout_action: DELAY } priority_queue_policy { key: 1 value { max_queue_size: 3 } } }
version_policy: { specific { versions: [ 1, 3 ] } }
parameters: { key: "p" value: { string_value: "v\n\x41\101" } }
model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 3 ] zero_data: true } } }
# the end
"#;

const OTHERS: [&str; 5] = [
    "model_config_list { config { name: 'm' base_path: '/m' model_platform: 'tensorflow' \
     model_version_policy { specific { versions: 1 versions: 2 } } version_labels { key: 's' value: 1 } } }",
    "max_batch_size { value: 8 } batch_timeout_micros { value: 0 } allowed_batch_sizes: 1 allowed_batch_sizes: 8",
    "prometheus_config { enable: true path: \"/monitoring\" }",
    "name: \"e\" ensemble_scheduling { step [ { model_name: \"a\" model_version: -1 \
     input_map { key: \"x\" value: \"y\" } output_map { key: \"z\" value: \"w\" } } ] }",
    "sequence_batching { max_sequence_idle_microseconds: 5 oldest { max_candidate_sequences: 3 } \
     control_input [ { name: \"START\" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ] }",
];

/// Protobuf's text format. The first byte says which file it is.
pub(super) const TEXT: Target = Target {
    name: "config-text",
    decode: |data| {
        let mut seen = Seen::default();
        let Some((file, text)) = data.split_first() else { return seen };
        let Ok(text) = std::str::from_utf8(text) else { return seen };
        let reader = &*READER;
        oracle::within(CONFIG, text.len(), || match file % 4 {
            0 => {
                if let Some(config) = seen.result(reader.parse_text("config.pbtxt", text)) {
                    seen.fact(config.encoded_len().checked_ilog2());
                    reads_back(reader, &config);
                }
            }
            1 => seen_all(&mut seen, textproto::tensorflow::model_server_config("f", text)),
            2 => seen_all(&mut seen, textproto::tensorflow::batching_parameters("f", text)),
            _ => seen_all(&mut seen, textproto::tensorflow::monitoring_config("f", text)),
        });
        seen
    },
    examples: || {
        let texts = [MODEL].into_iter().chain(OTHERS);
        texts.flat_map(|text| [0, 1, 2, 3].map(|it| [&[it], text.as_bytes()].concat())).collect()
    },
    words: WORDS,
};

fn seen_all<T>(seen: &mut Seen, read: Result<T, textproto::ReadError>) {
    seen.result(read);
}

/// What clients are shown of a configuration is that configuration.
fn reads_back(reader: &ConfigReader, config: &serving::raw::ModelConfig) {
    let json = reader.to_json(config).to_string();
    let again = reader.parse_json("config", &json);
    let again = again.unwrap_or_else(|error| panic!("{error}: {json}"));
    // Bytes, because a number that is none is not equal to itself.
    assert!(again.encode_to_vec() == config.encode_to_vec(), "reads back as another: {json}");
}

/// JSON, as in a request to load a model.
pub(super) const JSON: Target = Target {
    name: "config-json",
    decode: |data| {
        let mut seen = Seen::default();
        let Ok(text) = std::str::from_utf8(data) else { return seen };
        let reader = &*READER;
        oracle::within(CONFIG, text.len(), || {
            if let Some(config) = seen.result(reader.parse_json("config", text)) {
                seen.fact(config.encoded_len().checked_ilog2());
                reads_back(reader, &config);
            }
        });
        seen
    },
    examples: || {
        let reader = ConfigReader::default();
        let texts = [MODEL, OTHERS[3], OTHERS[4]].map(|it| reader.parse_text("f", it));
        let all = texts.into_iter().filter_map(Result::ok);
        let all = all.map(|it| reader.to_json(&it).to_string().into_bytes());
        let others = [
            r#"{"maxBatchSize":"4","input":[{"name":"x","dataType":"TYPE_FP32","dims":["-1",3]}]}"#,
            r#"{"parameters":{"a":{"stringValue":"b"}},"instance_group":[{"kind":"kind_cpu"}]}"#,
        ];
        all.chain(others.map(|it| it.as_bytes().to_vec())).collect()
    },
    words: WORDS,
};
