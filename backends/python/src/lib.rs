//! The engine `python`: models that are Python code, as Triton's Python backend has them.
//!
//! Nothing of Python is in this process. A worker (crate `isolation`) becomes a Python interpreter, which runs the
//! `runtime` of this crate: Python files that are embedded in the program. They speak a worker's messages in JSON,
//! and call the model's code. So any CPython from 3.9 on will do, that of a virtual environment too. No byte of it
//! is needed where there is no such model.
#![forbid(unsafe_code)]

mod interpreter;
mod runtime;

use std::{path::PathBuf, sync::Arc};

use backend::{
    Backend, BackendError, EngineDescription, Format, Model, ModelSource, WorkerProgram,
};

/// The engine.
#[derive(Debug, Clone, Default)]
pub struct Python {
    /// The interpreter of models that do not say; `None`: that of the environment.
    pub interpreter: Option<PathBuf>,
}

/// What it says of itself.
const DESCRIPTION: EngineDescription = EngineDescription {
    formats: &[Format {
        platform: "",
        aliases: &[],
        file: "model.py",
        other_extensions: &[],
        other_files: &[],
        folds: "",
        is_by_whole_name: true,
        content: None,
        rank: 5,
        is_served: true,
    }],
    parameters: &[interpreter::PARAMETER, interpreter::ENVIRONMENT, "FORCE_CPU_ONLY_INPUT_TENSORS"],
    merges_by_default: false,
    runs_apart: true,
    ..EngineDescription::PLAIN
};

impl Backend for Python {
    fn name(&self) -> &'static str {
        "python"
    }

    fn description(&self) -> &'static EngineDescription {
        &DESCRIPTION
    }

    fn load(&self, _: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        Err(BackendError::Load("a model in Python runs in a process of its own only".to_owned()))
    }

    fn program(&self, source: &ModelSource) -> Result<Option<WorkerProgram>, BackendError> {
        if let Some(reason) = &source.code_refusal {
            return Err(BackendError::Load(format!("the model is Python code, and {reason}")));
        }
        let path = interpreter::find(source, self.interpreter.as_deref())?;
        runtime::program(path, source).map(Some)
    }
}
