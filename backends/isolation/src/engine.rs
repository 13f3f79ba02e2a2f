//! An engine whose models run in processes of their own.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use backend::{Backend, BackendError, EngineDescription, Model, ModelSource};

use crate::{children::Children, launch::Program, model::IsolatedModel, supervisor::Supervisor};

/// The parameter of a model's configuration that says where it runs.
pub(crate) const PARAMETER: &str = "ISOLATION";

/// Which models run in processes of their own, and how these are started.
#[derive(Debug, Clone)]
pub struct Settings {
    /// All, where their configuration does not say.
    pub all: bool,
    /// Those of these names, where their configuration does not say.
    pub models: BTreeSet<String>,
    /// The room of an instance for the inputs of a run, in bytes, and as much for its outputs. Only what is used takes
    /// memory.
    pub arena_bytes: usize,
    /// How a worker is started.
    pub program: Program,
    /// Who takes exit statuses.
    pub children: Children,
}

impl Settings {
    /// Does that model run in a process of its own?
    fn isolates(&self, source: &ModelSource) -> Result<bool, BackendError> {
        let said = source.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(PARAMETER));
        match said.map(|(_, value)| value.trim()) {
            Some("process") => Ok(true),
            Some("in_process") => Ok(false),
            Some(other) => Err(BackendError::Load(format!(
                "model '{}': parameter '{PARAMETER}': expected 'process' or 'in_process', given '{other}'",
                source.name
            ))),
            None => Ok(self.all || self.models.contains(&source.name)),
        }
    }
}

/// An engine that loads some models, or all, in workers.
pub struct Isolated {
    engine: Arc<dyn Backend>,
    settings: Arc<Settings>,
    /// The version of the engine's library that workers have named.
    version: Mutex<Option<String>>,
}

impl Isolated {
    /// That engine, with these settings.
    pub fn new(engine: Arc<dyn Backend>, settings: Arc<Settings>) -> Isolated {
        Isolated { engine, settings, version: Mutex::default() }
    }
}

impl Backend for Isolated {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn description(&self) -> &'static EngineDescription {
        self.engine.description()
    }

    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        let Settings { program, children, arena_bytes, .. } = &*self.settings;
        if !self.settings.isolates(source)? {
            return self.engine.load(source);
        }
        let (supervisor, loaded) = Supervisor::start(program, children, self.name(), source)?;
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = loaded.version.clone();
        Ok(Arc::new(IsolatedModel::new(supervisor, loaded, *arena_bytes)))
    }

    fn version(&self) -> Option<String> {
        let of_workers = self.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.engine.version().or(of_workers)
    }

    fn give_back_memory(&self) {
        self.engine.give_back_memory();
    }
}
