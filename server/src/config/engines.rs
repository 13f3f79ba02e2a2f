//! Where the engines find their libraries, and where they keep optimised models.

use std::{collections::BTreeSet, num::NonZeroUsize, path::PathBuf};

use configuration::{
    Flag, Sources,
    value::{self, Parse},
};
use serde::{Deserialize, Serialize};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("pytorch-plugin", "", "The libtorch engine, libmuster_pytorch.so. Default: the one in pytorch/ beside the program or one folder up, else the one in the wheel that pip installed").named("FILE"),
    Flag::value("python", "", "The Python, 3.9 or later with numpy, for models in Python. A model's parameters PYTHON and EXECUTION_ENV_PATH, and a venv in its directory, go before it. Default: the Python of VIRTUAL_ENV, else the first python3 of PATH").named("FILE"),
    Flag::value("python-env-dir", "", "Directory in which environments of models in Python are kept that come as archives (EXECUTION_ENV_PATH), and packages that pip has installed for scripts. It must belong to the server's user alone. Default: python in the directory of --model-repository-cache-dir").named("DIR"),
    Flag::value(REQUIREMENTS, "", "Packages that a script's code/requirements.txt asks for and that are missing: missing, pip installs them once; never, the load fails and says how. Default: missing where a hosting platform starts the server, else never").named("WHICH"),
    Flag::value(FLAVOR, "auto", "Whose toolkit's functions a script gets that it does not define: sagemaker, pytorch, huggingface, sklearn, xgboost; auto, by the files beside it and by what its model_fn returns. A model's parameter SCRIPT_FLAVOR goes before this").named("NAME"),
    Flag::value("tensorflow-library", "", "TensorFlow's shared library, libtensorflow_cc.so.2. Default: the one in tensorflow/lib/ beside the program or one folder up, else the library of the package tensorflow-cpu that pip installed with muster").named("FILE"),
    Flag::value(ONEDNN, "auto", "Does TensorFlow use oneDNN? on, off, or auto: not where models come and go, as their memory comes back only without it. TF_ENABLE_ONEDNN_OPTS in the environment goes before this").named("MODE"),
    Flag::value("tensorflow-session-count", "auto", "Sessions of a SavedModel that does not say (MAX_SESSION_SHARE_COUNT): each has its own threads and variables. auto: one for all instances").named("COUNT"),
    Flag::boolean("tensorflow-warmup", "true", "Run the requests that a SavedModel brings along (assets.extra/tf_serving_warmup_requests) before it serves"),
    Flag::value("tensorflow-warmup-iterations", "1", "How often each of those requests is run").named("COUNT"),
    Flag::boolean(METHOD_NAMES, "false", "Refuse classify and regress with signatures of SavedModels whose method_name is not theirs"),
    Flag::value("tensorflow-tags", "", "Tags of the graph that is served of a SavedModel which does not say (TF_GRAPH_TAG), with commas between them: all that the graph has. Default: the only graph, else the one with the tag serve").named("TAGS"),
    Flag::value(PRECISION, "off", "In which precision operators of SavedModels calculate that do not say (TF_MIXED_PRECISION): off, as the model says, or bfloat16, where they can and oneDNN is on").named("TYPE"),
    Flag::value("onnxruntime-library", "", "The ONNX Runtime shared library. Default: the one that came along").named("FILE"),
    Flag::value("model-cache-dir", "", "Directory in which optimised forms of models of 16 MiB or more are kept, so that later starts are faster and processes share their weights. It must belong to the server alone. Default: none are kept").named("DIR"),
];

/// The flag whose value is a [`OneDnnWord`]: it is decided before the rest is read.
pub(super) const ONEDNN: &str = "tensorflow-onednn";

/// Does pip bring what scripts ask for?
const REQUIREMENTS: &str = "install-requirements";

/// Whose toolkit's functions stand in for those that a script does not define?
const FLAVOR: &str = "script-flavor";

/// Are the methods that signatures are for compared with those of requests?
const METHOD_NAMES: &str = "tensorflow-method-name-check";

/// In which precision do operators of SavedModels calculate?
const PRECISION: &str = "tensorflow-mixed-precision";

/// Does TensorFlow use oneDNN, by the flag?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum OneDnnWord {
    #[default]
    Auto,
    On,
    Off,
}

pub(super) fn onednn_word(text: &str) -> Parse<OneDnnWord> {
    match &*text.to_ascii_lowercase() {
        "auto" => Ok(OneDnnWord::Auto),
        "on" => Ok(OneDnnWord::On),
        "off" => Ok(OneDnnWord::Off),
        _ => Err("auto, on or off".to_owned()),
    }
}

/// Whose toolkit's functions stand in for those that a script does not define?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ScriptFlavor {
    /// The files beside the script and the object that `model_fn` returns say.
    #[default]
    Auto,
    /// The plain toolkit's.
    SageMaker,
    /// PyTorch's.
    PyTorch,
    /// Hugging Face's.
    HuggingFace,
    /// scikit-learn's.
    SkLearn,
    /// XGBoost's.
    XGBoost,
}

impl ScriptFlavor {
    /// All of them, with their names.
    const ALL: [(&str, ScriptFlavor); 6] = [
        ("auto", ScriptFlavor::Auto),
        ("sagemaker", ScriptFlavor::SageMaker),
        ("pytorch", ScriptFlavor::PyTorch),
        ("huggingface", ScriptFlavor::HuggingFace),
        ("sklearn", ScriptFlavor::SkLearn),
        ("xgboost", ScriptFlavor::XGBoost),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        ScriptFlavor::ALL.iter().find(|it| it.1 == self).map_or("auto", |it| it.0)
    }
}

fn script_flavor(text: &str) -> Parse<ScriptFlavor> {
    let found = ScriptFlavor::ALL.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    found.map(|it| it.1).ok_or_else(|| ScriptFlavor::ALL.map(|(name, _)| name).join(", "))
}

fn tags(text: &str) -> Parse<BTreeSet<String>> {
    let tags = text.split(',').map(|it| it.trim().to_owned());
    let tags: BTreeSet<String> = tags.collect();
    match tags.contains("") {
        true => Err("tags with commas between them, as serve,gpu".to_owned()),
        false => Ok(tags),
    }
}

fn installs_missing(text: &str) -> Parse<bool> {
    match &*text.to_ascii_lowercase() {
        "missing" => Ok(true),
        "never" => Ok(false),
        _ => Err("missing or never".to_owned()),
    }
}

fn is_bfloat16(text: &str) -> Parse<bool> {
    match &*text.to_ascii_lowercase() {
        "off" => Ok(false),
        "bfloat16" => Ok(true),
        _ => Err("off or bfloat16".to_owned()),
    }
}

/// Where the engines find their libraries, and where they keep optimised models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Engines {
    /// `--onnxruntime-library`, `ORT_DYLIB_PATH`: the shared library; `None` for the one in the package.
    pub onnxruntime_library: Option<PathBuf>,
    /// `--pytorch-plugin`: the libtorch engine's shared library; `None` for the one in the package.
    pub pytorch_plugin: Option<PathBuf>,
    /// `--python`: the interpreter of models in Python that do not name one; `None` for that of the environment.
    pub python: Option<PathBuf>,
    /// `--python-env-dir`: where environments are kept that models in Python bring along.
    pub python_env_dir: Option<PathBuf>,
    /// `--install-requirements`: does pip bring packages that scripts ask for?
    pub installs_requirements: bool,
    /// `--script-flavor`: whose toolkit's functions stand in for those that a script does not define.
    pub script_flavor: ScriptFlavor,
    /// `--tensorflow-library`: TensorFlow's shared library; `None` for the one that was made ready.
    pub tensorflow_library: Option<PathBuf>,
    /// `--tensorflow-session-count`: sessions of a SavedModel that does not say; `None` for one.
    pub tensorflow_sessions: Option<NonZeroUsize>,
    /// `--tensorflow-warmup`, `--tensorflow-warmup-iterations`: how often each request of a SavedModel's warm-up file
    /// is run before it serves.
    pub tensorflow_warmup_iterations: usize,
    /// `--tensorflow-method-name-check`: do `classify` and `regress` need a signature whose file says that it is for
    /// them?
    pub tensorflow_checks_methods: bool,
    /// `--tensorflow-tags`: all tags of the graph of a SavedModel that does not say; empty for the usual one.
    pub tensorflow_tags: BTreeSet<String>,
    /// `--tensorflow-mixed-precision`: do operators of SavedModels that do not say calculate in bfloat16?
    pub tensorflow_is_bfloat16: bool,
    /// `--model-cache-dir`: where optimised forms of large models are kept; `None` for nowhere.
    pub model_cache_dir: Option<PathBuf>,
}

/// Reads the settings. `by_platform`: a hosting platform has started the server.
pub(super) fn resolve(sources: &Sources, by_platform: bool, problems: &mut Vec<String>) -> Engines {
    sources.read(ONEDNN, onednn_word, problems);
    let warms_up = sources.read("tensorflow-warmup", value::boolean, problems).unwrap_or(true);
    let iterations = sources.read("tensorflow-warmup-iterations", value::number, problems);
    Engines {
        onnxruntime_library: sources.read("onnxruntime-library", value::path, problems),
        tensorflow_library: sources.read("tensorflow-library", value::path, problems),
        tensorflow_sessions: sources
            .read("tensorflow-session-count", value::threads_or_auto, problems)
            .flatten(),
        tensorflow_warmup_iterations: if warms_up { iterations.unwrap_or(1) } else { 0 },
        tensorflow_checks_methods: sources
            .read(METHOD_NAMES, value::boolean, problems)
            .unwrap_or(false),
        tensorflow_tags: sources.read("tensorflow-tags", tags, problems).unwrap_or_default(),
        tensorflow_is_bfloat16: sources.read(PRECISION, is_bfloat16, problems).unwrap_or(false),
        python: sources.read("python", value::path, problems),
        installs_requirements: sources
            .read(REQUIREMENTS, installs_missing, problems)
            .unwrap_or(by_platform),
        script_flavor: sources.read(FLAVOR, script_flavor, problems).unwrap_or_default(),
        python_env_dir: sources.read("python-env-dir", value::path, problems),
        pytorch_plugin: sources.read("pytorch-plugin", value::path, problems),
        model_cache_dir: sources.read("model-cache-dir", value::path, problems),
    }
}
