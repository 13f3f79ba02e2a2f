//! The TensorFlow engine: SavedModels as models, run by TensorFlow's C API.
//!
//! The library comes from TensorFlow's Python package (`prepare.py` fetches it) and is opened when the first
//! SavedModel is loaded: that takes about a second and 280 MB. Python is not needed to run it, and without it
//! everything else is served as ever.
//!
//! `saved_model.pb` is read here first: its graphs, signatures, types and shapes. All signatures are served, by their
//! names; `serving_default` is meant where none is named, unless the configuration's parameter `TF_SIGNATURE_DEF` says
//! so of another one.
//!
//! The instances of a model run one session, or several where its parameter `MAX_SESSION_SHARE_COUNT` says how many
//! instances share one. Each session has threads of its own, as many as the parameters `TF_NUM_INTRA_THREADS` and
//! `TF_NUM_INTER_THREADS` say.

mod config;
mod error;
mod library;
mod model;
mod native;
mod patience;
mod saved_model;
mod sessions;
mod state;
mod warm_up;

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use config::Defaults;
pub use saved_model::{Look, look};

use backend::{
    Backend, BackendError, EngineDescription, Format, Model, ModelSource, Places, PortNames,
};

/// The engine. Making one costs nothing.
#[derive(Debug, Default)]
pub struct TensorFlow {
    options: Options,
    /// The library that was found before the process could no longer look for one.
    found: OnceLock<PathBuf>,
}

/// What the engine is made with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The file of `libtensorflow_cc.so.2`. `None`: `tensorflow/lib/` in the program's folder, else beside that folder,
    /// else the wheel in the Python environment that the program is installed in.
    pub library: Option<PathBuf>,
    /// Whether it uses oneDNN and why, for the log: [`set_environment`] has decided it.
    pub onednn: String,
    /// Sessions of a model that does not say how many instances share one; never more than it has instances. `None`:
    /// one.
    pub sessions: Option<NonZeroUsize>,
    /// How often each request of a model's warm-up file is run on each session before it serves. `None`: once.
    pub warm_up_iterations: Option<usize>,
    /// Are the methods told that signatures are for, so that they are compared with those of requests?
    pub checks_methods: bool,
    /// All tags of the graph that is served of a SavedModel which does not say. Empty: the only graph, else the one for
    /// serving.
    pub tags: BTreeSet<String>,
    /// Do operators calculate in bfloat16 where they can, in models that do not say? Source: `--mixed_precision` of
    /// TensorFlow Serving.
    pub is_bfloat16: bool,
}

impl TensorFlow {
    /// An engine that opens its library when the first model is loaded.
    pub fn new(options: Options) -> TensorFlow {
        TensorFlow { options, found: OnceLock::new() }
    }
}

/// Has TensorFlow give each session threads of its own, write nothing but errors on standard error, and use oneDNN or
/// not: with it the memory of models does not come back. To be called first thing in `main`: TensorFlow reads these
/// variables when it is opened. Values that the user has set stay.
pub fn set_environment(onednn: bool) {
    environment::set_default("TF_OVERRIDE_GLOBAL_THREADPOOL", "1");
    environment::set_default("TF_CPP_MIN_LOG_LEVEL", "2");
    environment::set_default(config::ONEDNN, if onednn { "1" } else { "0" });
}

const PLATFORM: &str = "tensorflow_savedmodel";

const FOLDER: Format = Format {
    platform: PLATFORM,
    aliases: &["tensorflow"],
    file: "model.savedmodel",
    other_extensions: &[],
    other_files: &[],
    folds: "",
    is_by_whole_name: false,
    content: None,
    rank: 2,
    is_served: true,
};

/// What TensorFlow opens, and what its settings are called.
const DESCRIPTION: EngineDescription = EngineDescription {
    // As Triton's repositories have it, and as TensorFlow Serving's.
    formats: &[FOLDER, Format { file: "saved_model.pb", ..FOLDER }],
    intra_op_threads: Some(config::INTRA),
    inter_op_threads: Some(config::INTER),
    parameters: &[
        config::INTRA,
        config::INTER,
        config::TAG,
        config::SIGNATURE,
        config::SHARE,
        config::PRECISION,
        config::OWN_THREADS,
    ],
    prefix: "TF_",
    threads_are_of_sessions: true,
    has_op_libraries: true,
    graph_checks_shapes: true,
    shows_optional_inputs: true,
    ..EngineDescription::PLAIN
};

impl TensorFlow {
    /// The open library, for the model in that folder.
    fn open(&self, folder: &Path) -> Result<Arc<library::Opened>, BackendError> {
        let Options { library, onednn, .. } = &self.options;
        let library = library.as_ref().or(self.found.get());
        library::open(library.map(PathBuf::as_path), onednn, folder)
    }
}

impl Backend for TensorFlow {
    fn name(&self) -> &'static str {
        "tensorflow"
    }

    fn description(&self) -> &'static EngineDescription {
        &DESCRIPTION
    }

    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        let folder = saved_model::folder_of(&source.path)?;
        let defaults = Defaults {
            sessions: self.options.sessions,
            warm_up_iterations: self.options.warm_up_iterations.unwrap_or(1),
            checks_methods: self.options.checks_methods,
            tags: self.options.tags.clone(),
            is_bfloat16: self.options.is_bfloat16,
        };
        let open = || self.open(&folder);
        Ok(Arc::new(model::TensorFlowModel::load(source, &folder, &defaults, open)?))
    }

    fn check(&self, source: &ModelSource) -> Result<PortNames, BackendError> {
        let folder = saved_model::folder_of(&source.path)?;
        self.open(&folder)?;
        saved_model::read(&folder).map(|_| PortNames::default())
    }

    fn places(&self) -> Places {
        let found = || library::installed().map(|it| self.found.get_or_init(|| it));
        let library = self.options.library.as_ref().or_else(found);
        library.map(|it| Places::of_library(it)).unwrap_or_default()
    }

    fn version(&self) -> Option<String> {
        library::opened().map(|it| format!("TensorFlow {}", it.table.version()))
    }
}
