//! Where the engines find their libraries, and where they keep optimised models.

use std::path::PathBuf;

use configuration::{Flag, Sources, value};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("pytorch-plugin", "", "The libtorch engine, libmuster_pytorch.so. Default: the one in pytorch/ beside the program or one folder up"),
    Flag::value("tensorflow-library", "", "TensorFlow's shared library, libtensorflow_cc.so.2. Default: the one in tensorflow/lib/ beside the program or one folder up"),
    Flag::value("onnxruntime-library", "", "The ONNX Runtime shared library. Default: the one that came along"),
    Flag::value("model-cache-dir", "", "Directory in which optimised forms of models of 16 MiB or more are kept, so that later starts are faster and processes share their weights. It must belong to the server alone. Default: none are kept"),
];

/// Where the engines find their libraries, and where they keep optimised models.
#[derive(Debug, Clone, PartialEq)]
pub struct Engines {
    /// `--onnxruntime-library`, `ORT_DYLIB_PATH`: the shared library; `None` for the one in the package.
    pub onnxruntime_library: Option<PathBuf>,
    /// `--pytorch-plugin`: the libtorch engine's shared library; `None` for the one in the package.
    pub pytorch_plugin: Option<PathBuf>,
    /// `--tensorflow-library`: TensorFlow's shared library; `None` for the one that was made ready.
    pub tensorflow_library: Option<PathBuf>,
    /// `--model-cache-dir`: where optimised forms of large models are kept; `None` for nowhere.
    pub model_cache_dir: Option<PathBuf>,
}

/// Reads the settings.
pub(super) fn resolve(sources: &Sources, problems: &mut Vec<String>) -> Engines {
    Engines {
        onnxruntime_library: sources.read("onnxruntime-library", value::path, problems),
        tensorflow_library: sources.read("tensorflow-library", value::path, problems),
        pytorch_plugin: sources.read("pytorch-plugin", value::path, problems),
        model_cache_dir: sources.read("model-cache-dir", value::path, problems),
    }
}
