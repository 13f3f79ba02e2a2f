//! The PyTorch engine: TorchScript files (`model.pt`) as models, run by libtorch.
//!
//! libtorch is large and takes a C++ compiler to link against, so it sits behind a plugin, which is opened
//! when the first TorchScript model is loaded: a server without it starts as fast, and everything but those
//! models works without it. The interface of the two is the crate `pytorch_abi`.
//!
//! A TorchScript file says neither the shapes nor the types of its tensors. They come from the configuration
//! and from trial runs on zeros ([`backend::ModelSource::hints`]); what the runs show is compared with what
//! is configured by the server, and what is not configured is completed from them where possible.
//!
//! The instances on a device share one module, unless its runs change it.

mod archive;
mod compare;
mod error;
mod file;
mod inputs;
mod instance;
mod interface;
mod library;
mod model;
mod native;
mod options;
mod outputs;
mod probe;
mod rewrite;
mod runner;
mod shared_rows;
mod trial;

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use backend::{
    Backend, BackendError, EngineDescription, Format, Model, ModelSource, Places, PortNames,
};

/// The engine. Making one costs nothing.
#[derive(Debug, Default)]
pub struct PyTorch {
    options: Options,
    /// The plugin that was found before the process could no longer look for one.
    found: OnceLock<PathBuf>,
}

/// What the engine is made with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The file of the plugin. `None`: `pytorch/libmuster_pytorch.so` in the program's folder, else beside
    /// that folder, else the one in the Python environment that the program is installed in.
    pub plugin: Option<PathBuf>,
}

impl PyTorch {
    /// An engine that opens its plugin when the first model is loaded.
    pub fn new(options: Options) -> PyTorch {
        PyTorch { options, found: OnceLock::new() }
    }
}

/// What libtorch opens, and what its settings are called.
const DESCRIPTION: EngineDescription = EngineDescription {
    formats: &[
        Format {
            platform: "pytorch_libtorch",
            aliases: &["libtorch"],
            file: "model.pt",
            other_extensions: &["pth", "jit", "torchscript"],
            other_files: &[],
            folds: "",
            is_by_whole_name: false,
            content: None,
            rank: 3,
            is_served: true,
        },
        // The engine says what to export instead.
        Format {
            platform: "torch_aoti",
            aliases: &[],
            file: "model.pt2",
            other_extensions: &[],
            other_files: &[],
            folds: "",
            is_by_whole_name: false,
            content: None,
            rank: 4,
            is_served: false,
        },
    ],
    intra_op_threads: Some("INTRA_OP_THREAD_COUNT"),
    inter_op_threads: Some("INTER_OP_THREAD_COUNT"),
    parameters: &[
        "INTRA_OP_THREAD_COUNT",
        "INTER_OP_THREAD_COUNT",
        "ENABLE_WEIGHT_SHARING",
        "FREEZE",
        "OPTIMIZE_FOR_INFERENCE",
        "INFERENCE_MODE",
        "DISABLE_OPTIMIZED_EXECUTION",
        "ENABLE_CACHE_CLEANING",
        "DISABLE_CUDNN",
        "TRIAL_RUNS",
        "ENABLE_JIT_EXECUTOR",
        "ENABLE_JIT_PROFILING",
        "ENABLE_TENSOR_FUSER",
    ],
    ..EngineDescription::PLAIN
};

impl PyTorch {
    /// The file of the model, and the open library.
    fn open(&self, source: &ModelSource) -> Result<(PathBuf, Arc<library::Library>), BackendError> {
        // What is wrong with the file is said also where there is no plugin to load it.
        let path = file::find(&source.path)?;
        let plugin = self.options.plugin.as_ref().or(self.found.get());
        Ok((path, library::open(plugin.map(PathBuf::as_path))?))
    }
}

impl Backend for PyTorch {
    fn name(&self) -> &'static str {
        "pytorch"
    }

    fn description(&self) -> &'static EngineDescription {
        &DESCRIPTION
    }

    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        let (path, library) = self.open(source)?;
        Ok(Arc::new(model::TorchModel::load(library, source, path)?))
    }

    fn check(&self, source: &ModelSource) -> Result<PortNames, BackendError> {
        self.open(source).map(|_| PortNames::default())
    }

    fn version(&self) -> Option<String> {
        library::opened_version()
    }

    fn places(&self) -> Places {
        let found = || library::installed().map(|it| self.found.get_or_init(|| it));
        let plugin = self.options.plugin.as_ref().or_else(found);
        let Some(plugin) = plugin else { return Places::default() };
        let mut places = Places::of_library(plugin);
        places.reads.push(library::libtorch(plugin));
        places.reads.extend(library::nvidia(plugin));
        places
    }
}
