//! All engines of model files, and the process that runs one of their models by itself.

use std::{ffi::OsString, io, path::PathBuf, sync::Arc};

use backend::Backend;
use identity::Identity;
use onnxruntime::OnnxRuntime;
use serde::{Deserialize, Serialize};

use crate::{
    config::{Engines, Isolation},
    workers::{Children, Start, isolate},
};

/// What the engines are made from: what a worker is given, so that its engines are those of the server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EngineSettings {
    /// Where they find their libraries.
    pub engines: Engines,
    /// Does TensorFlow use oneDNN, and why: for the log.
    pub onednn: String,
    /// Bytes of memory that the process may take; `None` where that is not known.
    pub memory: Option<u64>,
    /// Bytes that runs of ONNX models may leave to later runs, in one process; `None`: any number.
    pub kept: Option<u64>,
}

/// A part of the memory, as a divisor, that runs in the server may leave to later ones, and those in one process of a
/// model.
const KEPT: u64 = 8;
const KEPT_OF_WORKER: u64 = 32;

impl EngineSettings {
    /// Those of the server, which may take so much memory.
    pub fn new(engines: Engines, onednn: String, memory: Option<u64>) -> EngineSettings {
        EngineSettings { engines, onednn, memory, kept: memory.map(|it| it / KEPT) }
    }

    /// All engines, with the libraries that these settings name. The server adds that of steps.
    pub fn engines(&self) -> Vec<Arc<dyn Backend>> {
        ENGINES.iter().map(|engine| engine(self)).collect()
    }

    /// The same, of which models run in processes of their own as these settings say. `program` is that of the
    /// server, whose main function comes to [`EngineSettings::of_worker`] at the word `worker`.
    ///
    /// # Errors
    /// When the settings cannot be written as an argument, and when the kernel cannot do what a strict sandbox needs.
    pub fn isolated_engines(
        &self,
        isolation: &Isolation,
        program: PathBuf,
        children: &Children,
    ) -> io::Result<Vec<Arc<dyn Backend>>> {
        let kept = self.memory.map(|it| it / KEPT_OF_WORKER);
        let settings = serde_json::to_string(&EngineSettings { kept, ..self.clone() })?;
        let Isolation { which, arena_bytes, sandbox, kept } = isolation.clone();
        let kept_loads = self.engines.model_cache_dir.clone();
        let start =
            Start { which, arena_bytes, sandbox, kept, kept_loads, program, settings, children };
        isolate(self.engines(), start)
    }

    /// The settings that a worker was given behind that word.
    ///
    /// # Errors
    /// Where it was started by somebody else.
    pub fn of_worker(mut args: impl Iterator<Item = OsString>) -> io::Result<EngineSettings> {
        let settings = args.next().unwrap_or_default();
        Ok(serde_json::from_slice(settings.as_encoded_bytes())?)
    }
}

/// Makes one engine.
type Make = fn(&EngineSettings) -> Arc<dyn Backend>;

/// The engines of this build, and what stands in for those that were left out of it.
const ENGINES: &[Make] = &[
    onnxruntime,
    #[cfg(feature = "pytorch")]
    pytorch,
    #[cfg(not(feature = "pytorch"))]
    |_| crate::left_out::PYTORCH.engine(),
    #[cfg(feature = "tensorflow")]
    tensorflow,
    #[cfg(not(feature = "tensorflow"))]
    |_| crate::left_out::TENSORFLOW.engine(),
    #[cfg(feature = "trees")]
    |_| Arc::new(trees::Trees),
    #[cfg(not(feature = "trees"))]
    |_| crate::left_out::TREES.engine(),
    #[cfg(feature = "python")]
    |of| {
        let Engines { python: interpreter, python_env_dir: environments, .. } = of.engines.clone();
        let installs_requirements = of.engines.installs_requirements;
        let script_flavor = of.engines.script_flavor.name();
        Arc::new(python::Python { interpreter, environments, installs_requirements, script_flavor })
    },
    #[cfg(not(feature = "python"))]
    |_| crate::left_out::PYTHON.engine(),
    |_| Arc::new(Identity),
];

fn onnxruntime(of: &EngineSettings) -> Arc<dyn Backend> {
    Arc::new(OnnxRuntime::new(onnxruntime::Options {
        library: of.engines.onnxruntime_library.clone(),
        model_cache_dir: of.engines.model_cache_dir.clone(),
        scratch: None,
        memory: of.memory,
        kept: of.kept,
    }))
}

#[cfg(feature = "pytorch")]
fn pytorch(of: &EngineSettings) -> Arc<dyn Backend> {
    let plugin = of.engines.pytorch_plugin.clone();
    Arc::new(pytorch::PyTorch::new(pytorch::Options { plugin }))
}

#[cfg(feature = "tensorflow")]
fn tensorflow(of: &EngineSettings) -> Arc<dyn Backend> {
    let settings = &of.engines;
    Arc::new(libtensorflow::TensorFlow::new(libtensorflow::Options {
        library: settings.tensorflow_library.clone(),
        onednn: of.onednn.clone(),
        sessions: settings.tensorflow_sessions,
        warm_up_iterations: Some(settings.tensorflow_warmup_iterations),
        checks_methods: settings.tensorflow_checks_methods,
        tags: settings.tensorflow_tags.clone(),
        is_bfloat16: settings.tensorflow_is_bfloat16,
    }))
}

/// Has TensorFlow find in the environment what it reads there. To be called first thing in `main`.
#[cfg(feature = "tensorflow")]
pub fn prepare_tensorflow(onednn: bool) {
    libtensorflow::set_environment(onednn);
}

/// Does nothing, as there is no TensorFlow in this build.
#[cfg(not(feature = "tensorflow"))]
pub fn prepare_tensorflow(_onednn: bool) {}
