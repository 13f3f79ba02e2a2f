//! What operators of TensorFlow Serving know: settings.

use super::{Setting, value};

const SECTION: &str = "TensorFlow Serving";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "model-config-file", "", "File in the text format of protobufs that names the models, each with the directory of its versions, their policy and labels: model_config_list { config { name: \"m\" base_path: \"/models/m\" } }"),
    value(SECTION, "model-config-file-poll-wait-seconds", "0", "How often the model config file is looked at again; 0 for never. What has changed in it replaces the whole configuration"),
    value(SECTION, "model-base-path", "", "Directory of the versions of one model, <number>/model.onnx, which --model-name names [default]"),
    value(SECTION, "file-system-poll-wait-seconds", "1", "How often the directories of models that are named are looked at; 0 for never. A change is taken up at the second look that finds it the same"),
    value(SECTION, "allow-version-labels-for-unavailable-models", "false", "Labels that are not in use may stand for versions that are not loaded"),
    value(SECTION, "batching-parameters-file", "", "File in the text format of protobufs that says how requests become batches of models whose configuration does not say: max_batch_size { value: 32 } batch_timeout_micros { value: 1000 }"),
    value(SECTION, "tfs-metrics", "false", "Show metrics with TensorFlow Serving's names, too, on every HTTP port"),
    value(SECTION, "tfs-metrics-path", "/monitoring/prometheus/metrics", "Where"),
    value(SECTION, "monitoring-config-file", "", "File in the text format of protobufs that says both: prometheus_config { enable: true path: \"/metrics\" }"),
    value(SECTION, "force-allow-any-version-labels-for-unavailable-models", "false", "All labels may"),
];
