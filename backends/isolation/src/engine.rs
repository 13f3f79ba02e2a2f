//! An engine whose models run in processes of their own.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, Once, PoisonError},
};

use backend::{Backend, BackendError, EngineDescription, Model, ModelSource, Places};

use crate::{
    children::Children,
    launch::Program,
    limits::MemoryLimits,
    model::IsolatedModel,
    sandbox::{Kernel, Sandbox, remove_leftovers},
    supervisor::Supervisor,
};

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
            // A strict sandbox is there for models that nobody vouches for.
            Some("in_process")
                if self.program.sandbox == Sandbox::Strict && self.asks_for(source) =>
            {
                Err(BackendError::Load(format!(
                    "model '{}': parameter '{PARAMETER}': in_process is not for the model to say where \
                     --worker-sandbox=strict; leave the parameter out, or the model out of --isolation",
                    source.name
                )))
            }
            Some("in_process") => Ok(false),
            Some(other) => Err(BackendError::Load(format!(
                "model '{}': parameter '{PARAMETER}': expected 'process' or 'in_process', given '{other}'",
                source.name
            ))),
            None => Ok(self.asks_for(source)),
        }
    }

    fn asks_for(&self, source: &ModelSource) -> bool {
        self.all || self.models.contains(&source.name)
    }
}

/// The settings of all engines of a server, and what is done once for all of them.
#[derive(Debug)]
pub struct Isolation {
    settings: Settings,
    first: Once,
}

impl Isolation {
    /// Engines with these settings.
    ///
    /// # Errors
    /// Where the kernel cannot do what a strict sandbox needs.
    pub fn new(settings: Settings) -> io::Result<Isolation> {
        Kernel::ask().suffices(settings.program.sandbox).map_err(io::Error::other)?;
        Ok(Isolation { settings, first: Once::new() })
    }

    /// Before the first worker.
    fn prepare(&self) {
        let Program { sandbox, temporary, .. } = &self.settings.program;
        if *sandbox == Sandbox::Off {
            return;
        }
        self.first.call_once(|| {
            remove_leftovers(temporary);
            for lack in Kernel::ask().lacks() {
                tracing::warn!(
                    "sandbox of models in processes of their own: the kernel lacks {lack}"
                );
            }
        });
    }
}

/// An engine that loads some models, or all, in workers.
pub struct Isolated {
    engine: Arc<dyn Backend>,
    isolation: Arc<Isolation>,
    /// The version of the engine's library that workers have named.
    version: Mutex<Option<String>>,
}

impl Isolated {
    /// That engine, with these settings.
    pub fn new(engine: Arc<dyn Backend>, isolation: Arc<Isolation>) -> Isolated {
        Isolated { engine, isolation, version: Mutex::default() }
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
        let settings = &self.isolation.settings;
        let limits = MemoryLimits::of(source)?;
        if !settings.isolates(source)? {
            for parameter in limits.names() {
                tracing::warn!(
                    model = source.name,
                    "parameter {parameter} has no effect: the model does not run in a process of its own ({PARAMETER})"
                );
            }
            return self.engine.load(source);
        }
        self.isolation.prepare();
        let Settings { program, children, arena_bytes, .. } = settings;
        let (supervisor, loaded) = Supervisor::start(program, children, &*self.engine, source)?;
        limits.check_state(&source.name, loaded.keeps_state)?;
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = loaded.version.clone();
        let recycle_above = limits.recycle_above;
        let stop = source.stop.clone();
        Ok(Arc::new(IsolatedModel::new(supervisor, loaded, *arena_bytes, recycle_above, stop)))
    }

    fn version(&self) -> Option<String> {
        let of_workers = self.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.engine.version().or(of_workers)
    }

    fn places(&self) -> Places {
        self.engine.places()
    }

    fn give_back_memory(&self) {
        self.engine.give_back_memory();
    }
}
