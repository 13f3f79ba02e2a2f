//! All engines of model files, and the process that runs one of their models by itself.

use std::{env, ffi::OsString, io, path::PathBuf, sync::Arc};

use backend::Backend;
use identity::Identity;
use isolation::{Children, Isolated, Program, Sandbox};
use libtensorflow::TensorFlow;
use onnxruntime::OnnxRuntime;
use pytorch::PyTorch;
use serde::{Deserialize, Serialize};
use trees::Trees;

use crate::config::{Engines, Isolation};

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
        let settings = &self.engines;
        let onnxruntime = onnxruntime::Options {
            library: settings.onnxruntime_library.clone(),
            model_cache_dir: settings.model_cache_dir.clone(),
            scratch: None,
            memory: self.memory,
            kept: self.kept,
        };
        let pytorch = pytorch::Options { plugin: settings.pytorch_plugin.clone() };
        let tensorflow = libtensorflow::Options {
            library: settings.tensorflow_library.clone(),
            onednn: self.onednn.clone(),
            sessions: settings.tensorflow_sessions,
            warm_up_iterations: Some(settings.tensorflow_warmup_iterations),
            checks_methods: settings.tensorflow_checks_methods,
            tags: settings.tensorflow_tags.clone(),
            is_bfloat16: settings.tensorflow_is_bfloat16,
        };
        vec![
            Arc::new(OnnxRuntime::new(onnxruntime)),
            Arc::new(PyTorch::new(pytorch)),
            Arc::new(TensorFlow::new(tensorflow)),
            Arc::new(Trees),
            Arc::new(Identity),
        ]
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
        let sandbox = isolation.sandbox;
        let settings = isolation::Settings {
            which: isolation.which.clone(),
            arena_bytes: isolation.arena_bytes,
            program: Program {
                path: program,
                name: "muster".into(),
                args: vec!["worker".into(), settings.into()],
                environment: environment(sandbox),
                sandbox,
                kept: isolation.kept.clone(),
                temporary: env::temp_dir(),
                lacks_directory: Arc::default(),
            },
            children: children.clone(),
        };
        let isolation = Arc::new(isolation::Isolation::new(settings)?);
        let isolated = |it| -> Arc<dyn Backend> { Arc::new(Isolated::new(it, isolation.clone())) };
        Ok(self.engines().into_iter().map(isolated).collect())
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

/// This process's variables, of which a worker in that sandbox is given those that it may know.
fn environment(sandbox: Sandbox) -> Vec<(OsString, OsString)> {
    let passes = |name: &OsString| isolation::passes(sandbox, &name.to_string_lossy());
    env::vars_os().filter(|(name, _)| passes(name)).collect()
}
