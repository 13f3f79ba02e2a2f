//! The engine `python`: models that are Python code, as Triton's Python backend has them.
//!
//! Nothing of Python is in this process. A worker (crate `isolation`) becomes a Python interpreter, which runs the
//! `runtime` of this crate: Python files that are embedded in the program. They speak a worker's messages in JSON,
//! and call the model's code. So any CPython from 3.9 on will do, that of a virtual environment too. No byte of it
//! is needed where there is no such model.
#![forbid(unsafe_code)]

mod environments;
mod interpreter;
mod probe;
mod runtime;

use std::{path::PathBuf, sync::Arc};

use backend::{
    Backend, BackendError, EngineDescription, Format, Model, ModelSource, PortNames, WorkerProgram,
};

use environments::Environments;
use runtime::Requirements;

/// The engine.
#[derive(Debug, Clone, Default)]
pub struct Python {
    /// The interpreter of models that do not say; `None`: that of the environment.
    pub interpreter: Option<PathBuf>,
    /// Where environments are kept that models bring along as archives; `None`: with temporary files.
    pub environments: Option<PathBuf>,
    /// Does pip bring the packages that a script asks for and that are missing?
    pub installs_requirements: bool,
    /// Whose toolkit's functions stand in for those that a script does not define, where a model does not say; empty
    /// for those that fit.
    pub script_flavor: &'static str,
}

impl Python {
    fn environments(&self) -> Environments {
        let directory = self.environments.clone();
        Environments::below(directory.unwrap_or_else(interpreter::temporary))
    }
}

/// The parameter of a model that says whose functions its script gets.
const FLAVOR: &str = "SCRIPT_FLAVOR";

/// A program.
const CODE: Format = Format {
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
};

/// What it says of itself: programs, and archives of TorchServe.
const DESCRIPTION: EngineDescription = EngineDescription {
    formats: &[CODE, Format { file: "model.mar", is_by_whole_name: false, ..CODE }],
    parameters: &[
        interpreter::PARAMETER,
        interpreter::ENVIRONMENT,
        "FORCE_CPU_ONLY_INPUT_TENSORS",
        FLAVOR,
    ],
    merges_by_default: false,
    streams: true,
    puts_back: true,
    may_lack_inputs: true,
    runs_apart: true,
    runs_unread: true,
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

    fn check(&self, source: &ModelSource) -> Result<PortNames, BackendError> {
        refuse_code(source)?;
        // An archive is unpacked for a load only.
        let Some(path) = interpreter::find_unpacked(source, self.interpreter.as_deref())? else {
            return Ok(PortNames::default());
        };
        if self.installs_requirements && Requirements::may_come_with(source) {
            return Ok(PortNames::default());
        }
        let lacks =
            |it| BackendError::Load(format!("model '{}' is Python code: {it}", source.name));
        probe::probe(&path).map_err(lacks)?;
        Ok(PortNames::default())
    }

    fn program(&self, source: &ModelSource) -> Result<Option<WorkerProgram>, BackendError> {
        refuse_code(source)?;
        let environments = self.environments();
        let found = interpreter::find(source, self.interpreter.as_deref(), &environments)?;
        let requirements = Requirements::may_come_with(source).then(|| {
            let installs = self.installs_requirements;
            if installs || Requirements::is_archive(source) {
                environments.prepare().map_err(|it| BackendError::Load(it.to_string()))?;
            }
            let file = Requirements::file(source);
            Ok(Requirements { file, installs, directory: environments.directory })
        });
        let requirements = requirements.transpose()?;
        runtime::program(found, source, requirements.as_ref(), self.script_flavor).map(Some)
    }
}

/// Is code of users run by this server?
fn refuse_code(source: &ModelSource) -> Result<(), BackendError> {
    match &source.code_refusal {
        Some(reason) => Err(BackendError::Load(format!("the model is Python code, and {reason}"))),
        None => Ok(()),
    }
}
