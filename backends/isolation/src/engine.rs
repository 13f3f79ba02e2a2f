//! An engine whose models run in processes of their own.

use std::{
    collections::BTreeSet,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, Once, PoisonError},
    time::Duration,
};

use backend::{
    Backend, BackendError, Device, EngineDescription, Foresight, Model, ModelSource, Places,
    PortNames, RerunPolicy, WorkerProgram,
};

use crate::{
    arena::HostArena,
    children::Children,
    decisions::Decisions,
    limits::WorkerLimits,
    mark::Mark,
    message::Loaded,
    model::{Home, IsolatedModel},
    place::ModelPlace,
    program::Program,
    recycle::Recycler,
    sandbox::{Kernel, Sandbox, remove_leftovers},
    start::{Cause, NotLoaded},
    supervisor::Supervisor,
};

/// The parameter of a model's configuration that says where it runs.
pub(crate) const PARAMETER: &str = "ISOLATION";

/// Which models run in processes of their own, of those whose configuration does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// Those of these names.
    Named(BTreeSet<String>),
    /// All.
    All,
    /// Those whose files tell that it costs them little.
    Auto,
}

/// Which models run in processes of their own, and how these are started.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which they are, where their configuration does not say.
    pub which: Which,
    /// The room of an instance for the inputs of a run, in bytes, and as much for its outputs. Only what is used takes
    /// memory.
    pub arena_bytes: usize,
    /// How a worker is started.
    pub program: Program,
    /// Who takes exit statuses.
    pub children: Children,
    /// Where it is kept for later starts which models are being loaded in the server, if it is.
    pub kept_loads: Option<PathBuf>,
}

impl Settings {
    /// Where that model runs; `None` where that is to be decided.
    fn place(&self, source: &ModelSource) -> Result<Option<ModelPlace>, BackendError> {
        let said = source.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(PARAMETER));
        let Some(said) = said.map(|(_, value)| value.trim()) else {
            return Ok(self.place_unsaid(source));
        };
        let place = match said {
            it if it == ModelPlace::OwnProcess.name() => return Ok(Some(ModelPlace::OwnProcess)),
            it if it == ModelPlace::Server.name() => Some(ModelPlace::Server),
            "auto" => place_of_devices(source),
            other => {
                return Err(BackendError::Load(format!(
                    "model '{}': parameter '{PARAMETER}': expected 'process', 'in_process' or 'auto', given \
                     '{other}'",
                    source.name
                )));
            }
        };
        // A strict sandbox is there for models that nobody vouches for.
        let is_strict = self.program.sandbox == Sandbox::Strict;
        match is_strict && self.place_unsaid(source) != Some(ModelPlace::Server) {
            true => Err(BackendError::Load(format!(
                "model '{}': parameter '{PARAMETER}': {said} is not for the model to say where \
                 --worker-sandbox=strict; leave the parameter out, or the model out of --isolation",
                source.name
            ))),
            false => Ok(place),
        }
    }

    /// Where a model runs whose configuration does not say.
    fn place_unsaid(&self, source: &ModelSource) -> Option<ModelPlace> {
        match &self.which {
            Which::Named(models) if models.contains(&source.name) => Some(ModelPlace::OwnProcess),
            Which::Named(_) => Some(ModelPlace::Server),
            Which::All => Some(ModelPlace::OwnProcess),
            Which::Auto => place_of_devices(source),
        }
    }
}

/// Where a model runs whose place is to be decided; `None` where its files tell. On a GPU each process takes memory of
/// its own, whatever runs there. What is to be bounded is a process of its own.
fn place_of_devices(source: &ModelSource) -> Option<ModelPlace> {
    let has_gpu = source.placements.iter().any(|it| it.device != Device::Cpu);
    let is_bounded = WorkerLimits::of(source).is_ok_and(|it| !it.names().is_empty());
    has_gpu.then_some(if is_bounded { ModelPlace::OwnProcess } else { ModelPlace::Server })
}

/// The settings of all engines of a server, and what is done once for all of them.
#[derive(Debug)]
pub struct Isolation {
    settings: Settings,
    first: Once,
    decisions: Decisions,
}

impl Isolation {
    /// Engines with these settings.
    ///
    /// # Errors
    /// Where the kernel cannot do what a strict sandbox needs.
    pub fn new(settings: Settings) -> io::Result<Isolation> {
        Kernel::ask().suffices(settings.program.sandbox).map_err(io::Error::other)?;
        let decisions = Decisions::new(settings.kept_loads.clone());
        Ok(Isolation { settings, first: Once::new(), decisions })
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

/// The workers of a model by the device of their instances.
type Started = Vec<(Device, Arc<Supervisor>)>;

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

    /// The same where the system has memory files for its instances.
    fn start_with_room(&self, source: &ModelSource) -> Result<(Started, Loaded), NotLoaded> {
        let lacks = |error| NotLoaded {
            error: BackendError::Load(format!(
                "no memory file of twice {} bytes (--worker-arena-bytes) for an instance in a process of its own: {error}",
                self.isolation.settings.arena_bytes
            )),
            cause: Cause::Process,
        };
        // Those that are made later may be too many all the same.
        HostArena::create(self.isolation.settings.arena_bytes).map_err(lacks)?;
        self.start(source)
    }

    /// Loads the model in a worker for each of its devices, one after the other: they read the same files. What the
    /// first says of the model the others must say as well. Blocking.
    fn start(&self, source: &ModelSource) -> Result<(Started, Loaded), NotLoaded> {
        let Settings { program, children, .. } = &self.isolation.settings;
        let load =
            |source: &ModelSource| Supervisor::start(program, children, &*self.engine, source);
        let mut sources = source.by_device().into_iter();
        let first = sources.next().unwrap_or_else(|| source.clone());
        let device = |it: &ModelSource| it.placements.first().map_or(Device::Cpu, |it| it.device);
        let (supervisor, loaded) = load(&first)?;
        let mut started = vec![(device(&first), supervisor)];
        // Code of users shares its process with no other instance.
        let apart = self.description().runs_apart;
        let more = |it: &ModelSource, begun: usize| {
            let instances = it.placements.iter().map(|it| it.instances.get()).sum::<usize>();
            let processes = if apart { instances } else { 1 };
            std::iter::repeat_n(it.clone(), processes.saturating_sub(begun))
        };
        let rest = more(&first, 1).chain(sources.flat_map(|it| more(&it, 0)));
        for source in rest {
            let (supervisor, other) = load(&source)?;
            if let Some(change) = loaded.change_to(&other) {
                let error = BackendError::Load(format!(
                    "model '{}' is not the same on all of its devices: loaded for {:?} after {:?}, {change}",
                    source.name,
                    device(&source),
                    device(&first)
                ));
                return Err(NotLoaded { error, cause: Cause::Model });
            }
            started.push((device(&source), supervisor));
        }
        Ok((started, loaded))
    }
}

impl Isolated {
    /// Loads the model in this process. Should that end it, or the first runs that follow, the next start knows.
    fn load_marked(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        let mark = self.isolation.decisions.mark(self.name(), source);
        mark.iter().for_each(Mark::put);
        let loaded = self.engine.load(source);
        mark.iter().filter(|_| loaded.is_err()).for_each(Mark::remove);
        loaded
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
        let limits = WorkerLimits::of(source)?;
        let decisions = &self.isolation.decisions;
        let said = match self.description().runs_apart {
            true => Some(ModelPlace::OwnProcess),
            false => settings.place(source)?,
        };
        let is_bounded = !limits.names().is_empty();
        // There is nothing to decide where nothing can crash.
        let is_safe = !self.description().runs_native_code && !is_bounded;
        let place = match said {
            Some(said) => said,
            None if is_safe => ModelPlace::Server,
            None => decisions.place(&*self.engine, source, is_bounded),
        };
        if place == ModelPlace::Server {
            for parameter in limits.names() {
                tracing::warn!(
                    model = source.name,
                    "parameter {parameter} has no effect: the model does not run in a process of its own ({PARAMETER})"
                );
            }
            return match said {
                None if !is_safe => self.load_marked(source),
                None | Some(_) => self.engine.load(source),
            };
        }
        self.isolation.prepare();
        // What more threads take in memory would be more than was meant to be enough.
        let wide_threads = source.wide_threads.filter(|_| !limits.bound_memory());
        let source = &ModelSource { wide_threads, ..source.clone() };
        let may_move = said.is_none() && !is_bounded;
        let (started, loaded) = match self.start_with_room(source) {
            Ok(started) => started,
            Err(NotLoaded { error, cause: cause @ (Cause::Sandbox | Cause::Process) })
                if may_move && !source.stop.is_over() =>
            {
                tracing::warn!(
                    model = source.name,
                    version = source.version,
                    "it is loaded in the server's process, as one of its own cannot load it: {error}"
                );
                let model = self.load_marked(source)?;
                // Where there was no process, there may be one later.
                if cause == Cause::Sandbox {
                    decisions.belongs_in_the_server(self.name(), source, &error.to_string());
                }
                return Ok(model);
            }
            Err(not_loaded) => return Err(not_loaded.into()),
        };
        limits.check_state(&source.name, loaded.keeps_state)?;
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = loaded.version.clone();
        let rerun = RerunPolicy::of(source)?;
        let recycler = || Recycler::new(limits.recycling, rerun);
        let stop = source.stop.clone();
        let home = |(device, supervisor)| Home::new(device, supervisor, recycler());
        let homes = started.into_iter().map(home).collect();
        let arena_bytes = settings.arena_bytes;
        Ok(Arc::new(IsolatedModel::new(homes, loaded, arena_bytes, stop, rerun)))
    }

    fn check(&self, source: &ModelSource) -> Result<PortNames, BackendError> {
        self.engine.check(source)
    }

    fn program(&self, source: &ModelSource) -> Result<Option<WorkerProgram>, BackendError> {
        self.engine.program(source)
    }

    fn foresee(&self, source: &ModelSource) -> Option<Foresight> {
        self.engine.foresee(source)
    }

    fn found_place(&self, source: &ModelSource) -> Option<String> {
        let decisions = &self.isolation.decisions;
        if let Some(mark) = decisions.mark(self.name(), source) {
            mark.remove();
        }
        match self.isolation.settings.place(source) {
            Ok(None) if !self.description().runs_apart => {
                decisions.find(self.name(), source).map(|it| it.to_string())
            }
            Ok(_) | Err(_) => None,
        }
    }

    fn reconsider_place(&self, source: &ModelSource, took: Duration) -> Option<String> {
        match self.isolation.settings.place(source) {
            Ok(None) => self.isolation.decisions.reconsider(self.name(), source, took),
            Ok(Some(_)) | Err(_) => None,
        }
        .map(|why| {
            format!(
                "{why}: from its next load on the model runs in a process of its own; the parameter {PARAMETER} says \
                 where it runs from the first one on"
            )
        })
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
