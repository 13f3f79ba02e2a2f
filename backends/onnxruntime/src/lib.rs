//! The ONNX Runtime engine: `model.onnx` files as models, and weights for which a graph is made.
//!
//! The library is opened when the first model is loaded, from [`Options::library`], else from beside the
//! program, else from where the build put it. Inputs in one aligned piece and outputs of some size are not
//! copied.
//!
//! The instances of a model run one session, which holds the weights once; those of a tiny one (below 2 MiB, on a GPU
//! below 16 MiB) have a session each, since sharing would cost more than it saves. So it is on each device. With
//! [`Options::model_cache_dir`] the optimised form of large models is kept on disk, for the CPU.
//!
//! A run beside which nothing else is to be run has more threads than its share of the processors, where it gains by
//! that and gives the same bytes.
//!
//! On GPUs a session has the CUDA provider, and TensorRT's before it where the configuration says so. They
//! come with another build of the library (`onnxruntime-gpu`), and open what they need when they are first
//! asked for: what is missing then is a [`BackendError::Device`] that names it.
//!
//! ONNX Runtime's telemetry is switched off, but its library looks at `ORT_DISABLE_TELEMETRY` before
//! anybody can say so: the program calls [`disable_telemetry`] before it starts threads.

mod cache;
mod digest;
mod element;
mod error;
mod files;
mod foresight;
mod graph;
mod held;
mod instance;
mod leased;
mod library;
mod log;
mod model;
mod native;
mod opener;
mod operators;
mod options;
mod own_tensor;
mod place;
mod private_copy;
mod protobuf;
mod provider;
mod reader;
mod rows;
mod session_keys;
mod settling;
mod shrink;
mod trim;
mod values;
mod walk;
mod wide;
mod zipmap;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use backend::{
    Backend, BackendError, EngineDescription, Foresight, Format, Model, ModelSource, Places,
    PortNames,
};

use cache::Cache;

/// The engine. Making one costs nothing.
#[derive(Debug, Default)]
pub struct OnnxRuntime {
    options: Options,
    cache: Option<Arc<Cache>>,
    /// The library that was found before the process could no longer look for one.
    found: OnceLock<PathBuf>,
}

/// What the engine is made with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The file of ONNX Runtime's library, version 1.24 or later. `None`: `libonnxruntime.so*` beside the
    /// program, in `lib/` there or in `../lib/muster/`, else the one that the build made ready.
    pub library: Option<PathBuf>,
    /// Where optimised forms of large models are kept; made if it does not exist. `None`: nowhere.
    pub model_cache_dir: Option<PathBuf>,
    /// Where copies of weights are made that lie beside a model; see `private_copy`. `None`: the system's directory for
    /// temporary files. Where that has no room, they are made in `model_cache_dir`,
    /// and else in memory.
    pub scratch: Option<PathBuf>,
    /// Bytes of memory that the process may take: weights in files of their own that are more do not load on the CPU.
    /// `None`: any number.
    pub memory: Option<u64>,
    /// Bytes that runs may leave to later runs, of all models together, and a quarter of it of one instance or shared
    /// session. `None`: any number.
    pub kept: Option<u64>,
}

/// The library that the engine works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Its file.
    pub path: PathBuf,
    /// What it says about how it was built, on one line.
    pub build: String,
}

/// Keeps ONNX Runtime's library from sending usage data and from making files for it. To be called first
/// thing in `main`: does nothing once there is a second thread.
///
/// The library reads `ORT_DISABLE_TELEMETRY` when it is opened; a value that the user has set stays.
pub fn disable_telemetry() {
    environment::set_default("ORT_DISABLE_TELEMETRY", "1");
}

/// Makes CUDA number GPUs by their places on the bus, as `nvidia-smi` does and as GPUs are told in
/// configurations; by itself it puts what it takes for the fastest first. To be called first thing in `main`,
/// like [`disable_telemetry`]. A value of `CUDA_DEVICE_ORDER` that the user has set stays.
pub fn number_gpus_by_bus() {
    environment::set_default("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
}

impl OnnxRuntime {
    /// An engine that opens its library when the first model is loaded.
    pub fn new(options: Options) -> OnnxRuntime {
        let cache = options.model_cache_dir.clone().map(|it| Arc::new(Cache::new(it)));
        OnnxRuntime { options, cache, found: OnceLock::new() }
    }

    /// Opens the library now, unless it is open. Blocking, some 20 ms.
    ///
    /// # Errors
    /// [`BackendError::Load`] when there is no library, or it is too old or no ONNX Runtime at all; the
    /// text says which file, and what to do. A process can open one library only: another one is refused.
    pub fn open(&self) -> Result<Library, BackendError> {
        let runtime = library::open(self.wanted())?;
        Ok(Library { path: runtime.path.clone(), build: ort::info().to_owned() })
    }

    fn wanted(&self) -> Option<&Path> {
        self.options.library.as_deref().or(self.found.get().map(PathBuf::as_path))
    }
}

/// What ONNX Runtime opens, and what its settings are called.
const DESCRIPTION: EngineDescription = EngineDescription {
    formats: &[Format {
        platform: "onnxruntime_onnx",
        aliases: &[],
        file: "model.onnx",
        other_extensions: &[],
        other_files: &graphs::WEIGHTS,
        folds: "",
        is_by_whole_name: false,
        content: None,
        rank: 1,
        is_served: true,
    }],
    intra_op_threads: Some("intra_op_thread_count"),
    inter_op_threads: Some("inter_op_thread_count"),
    gpu_memory_limit: Some("gpu_mem_limit"),
    has_gpu_accelerators: true,
    has_op_libraries: true,
    parameters: &[
        "intra_op_thread_count",
        "inter_op_thread_count",
        "wide_intra_op_thread_count",
        "execution_mode",
        "enable_mem_arena",
        "enable_mem_pattern",
        "memory.enable_memory_arena_shrinkage",
        "arena_extend_strategy",
        "cudnn_conv_algo_search",
        "do_copy_in_default_stream",
        "gpu_mem_limit",
        options::PRECISION,
    ],
    settings_of_files: &session_keys::SETTINGS_OF_FILES,
    ..EngineDescription::PLAIN
};

impl Backend for OnnxRuntime {
    fn name(&self) -> &'static str {
        "onnxruntime"
    }

    fn description(&self) -> &'static EngineDescription {
        &DESCRIPTION
    }

    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        let runtime = library::open(self.wanted())?;
        let scratch = self.options.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let terms = model::Terms {
            cache: self.cache.clone(),
            scratch: [scratch].into_iter().chain(self.options.model_cache_dir.clone()).collect(),
            memory: self.options.memory,
            keeping: self.options.kept.map_or(native::Keeping::ANY, native::Keeping::within),
        };
        Ok(Arc::new(model::OnnxModel::load(runtime, source, terms)?))
    }

    fn check(&self, source: &ModelSource) -> Result<PortNames, BackendError> {
        library::open(self.wanted())?;
        let precision = options::precision_of(&source.options)?;
        let path = model::model_file(&source.path)?;
        match graph::Made::of(&path, precision)? {
            Some(_) => Ok(PortNames::default()),
            None => {
                files::ModelFiles::check(&path)?;
                Ok(rows::Structure::of(path.as_path().into())
                    .map_or_else(|_| PortNames::default(), rows::Structure::ports))
            }
        }
    }

    fn foresee(&self, source: &ModelSource) -> Option<Foresight> {
        // Where there is none, the load says so.
        let path = model::model_file(&source.path).ok()?;
        let precision = options::precision_of(&source.options).ok()?;
        let made = graph::Made::of(&path, precision).ok()?;
        Some(foresight::foresee(graph::Graph::new(&path, made.as_ref())))
    }

    fn places(&self) -> Places {
        let found = || library::find().ok().map(|it| self.found.get_or_init(|| it).as_path());
        let library = self.options.library.as_deref().or_else(found);
        let mut places = library.map(Places::of_library).unwrap_or_default();
        places.keeps.extend(self.options.model_cache_dir.clone());
        places
    }

    fn version(&self) -> Option<String> {
        library::opened().map(|it| it.version())
    }

    fn give_back_memory(&self) {
        if let Some(runtime) = library::opened()
            && let Err(error) = shrink::shrink_common_arena(&runtime)
        {
            tracing::debug!(%error, "the arena of ONNX Runtime's sessions cannot shrink");
        }
        environment::give_back_memory();
    }
}
