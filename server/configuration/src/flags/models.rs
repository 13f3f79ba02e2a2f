//! Which models, and how they are loaded: settings.

use super::{Setting, Takes, many, value};

const SECTION: &str = "Models";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    many(SECTION, "model-repository", "Directory of models: <name>/config.pbtxt, <name>/<version>/model.onnx; or an address, s3://bucket/path, gs://bucket/path or as://account/container/path. May be given several times. Default: /opt/ml/model, else ./model_repository, whichever exists"),
    value(SECTION, "model-name", "", "Name of the model where there is only one. Default: its directory's or file's"),
    value(SECTION, "model-control-mode", "none", "none: all models are loaded at the start. poll: the repository is looked at again and again. explicit: models are loaded by request"),
    value(SECTION, "repository-poll-secs", "15", "How often the control mode poll looks at the repository. A change is taken up at the second look that finds it the same"),
    many(SECTION, "load-model", "A model to load at the start in the control mode explicit; * for all"),
    value(SECTION, "model-namespacing", "false", "Models of several repositories may have the same name; none of them is found by that name alone"),
    value(SECTION, "model-load-retry-count", "0", "How often a load that failed is tried again"),
    many(SECTION, "model-load-gpu-limit", "[<GPU>:]<fraction>, as 0:0.9: nothing is loaded on a GPU of whose memory more is in use; without a number, on any"),
    value(SECTION, "model-load-on-demand", "false", "A request for a model that is not loaded loads it; with the control modes none, which then loads nothing at the start, and explicit"),
    value(SECTION, "model-memory-budget", "", "Bytes that models loaded on demand may take together; those unused for longest are unloaded to make room. Default: no limit. Of a multi-model endpoint: what models may take before a load is refused"),
    Setting { name: "disable-auto-complete-config", takes: Takes::Switch, default: "false", help: "Do not fill in what config.pbtxt leaves out", section: SECTION },
    value(SECTION, "strict-model-config", "false", "Older name of --disable-auto-complete-config"),
    value(SECTION, "model-config-name", "", "Read configs/<name>.pbtxt of each model that has it, instead of its config.pbtxt"),
    value(SECTION, "model-load-thread-count", "", "Models that load at the same time. Default: as many as there are processors"),
    many(SECTION, "backend-config", "[<backend>,]<key>=<value>, as default-max-batch-size=8 or onnxruntime,intra_op_thread_count=2"),
    value(SECTION, "pytorch-plugin", "", "The libtorch engine, libmuster_pytorch.so. Default: the one in pytorch/ beside the program or one folder up"),
    value(SECTION, "onnxruntime-library", "", "The ONNX Runtime shared library. Default: the one that came along"),
    value(SECTION, "model-cache-dir", "", "Directory in which optimised forms of models of 16 MiB or more are kept, so that later starts are faster and processes share their weights. It must belong to the server alone. Default: none are kept"),
];
