//! The worker of one model version on one device: started with it, and again whenever it has died.
//!
//! A fault of a kernel, a lasting error of a driver or a leak is a matter of one device. So each device of a model has
//! a worker of its own, with its own deaths, figures and pauses. The other devices serve on.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak},
    thread,
    time::{Duration, Instant},
};

use backend::{Backend, BackendError, Device, EndReason, HostHandle, ModelSource, Stop};

use crate::{
    children::Children,
    figures::Figures,
    frame::Encoding,
    launch::Worker,
    longest::Longest,
    message::Loaded,
    outage::Outages,
    patience::LOOK,
    program::Program,
    stamp::Stamp,
    standby::Standby,
    start::{NotLoaded, Start},
    state::{Evidence, State},
    whose::Whose,
};

/// Has a worker, which nobody else has yet, make a run that warms it up. Blocking.
pub(crate) type WarmUpRun =
    dyn Fn(&Arc<Supervisor>, &Arc<Worker>) -> Result<(), BackendError> + Send + Sync;

/// Keeps the worker of a model version's instances on one device alive.
pub(crate) struct Supervisor {
    program: Program,
    children: Children,
    engine: String,
    encoding: Encoding,
    source: ModelSource,
    whose: Whose,
    /// Its files, before they were loaded first.
    stamp: Stamp,
    /// How long loads have taken, and the making of instances. The first of each has the limits of the server's loads.
    loads: Longest,
    openings: Longest,
    /// What its workers have done.
    figures: Arc<Figures>,
    /// The last run that has warmed an instance up.
    warm_up: Mutex<Option<Arc<WarmUpRun>>>,
    /// The worker that takes the place of one that dies, where one is kept.
    standby: Standby,
    /// Guards the worker, and is held while one is started: whoever else wants it waits.
    state: Mutex<State>,
}

impl Supervisor {
    /// Starts the first worker, and says what it says of the model. Blocking.
    ///
    /// # Errors
    /// Those of the engine; [`BackendError::Load`] where the worker dies.
    pub(crate) fn start(
        program: &Program,
        children: &Children,
        engine: &dyn Backend,
        source: &ModelSource,
    ) -> Result<(Arc<Supervisor>, Loaded), NotLoaded> {
        let state = State::default();
        let stamp = Stamp::of(source, engine.description().settings_of_files);
        if stamp.is_cut() {
            tracing::warn!(
                model = source.name,
                version = source.version,
                "it has more files than are looked at before a process of its own is started again: changes of \
                 some are not noticed"
            );
        }
        let device = source.placements.first().filter(|_| !source.elsewhere.is_empty());
        let whose = Whose {
            model: source.name.clone(),
            version: source.version,
            device: device.map(|it| it.device),
        };
        let supervisor = Arc::new(Supervisor {
            whose,
            program: program.clone(),
            children: children.clone(),
            engine: engine.name().to_owned(),
            encoding: match engine.description().runs_apart {
                true => Encoding::Json,
                false => Encoding::Postcard,
            },
            source: ModelSource { stop: Arc::default(), ..source.clone() },
            stamp,
            loads: Longest::default(),
            openings: Longest::default(),
            figures: Arc::default(),
            warm_up: Mutex::default(),
            standby: Standby::new(source.standby),
            state: Mutex::new(state),
        });
        let began = Instant::now();
        let (worker, loaded) = supervisor.load(&source.stop, || source.stop.is_given_up())?;
        supervisor.loads.took(began.elapsed());
        supervisor.figures.serves(worker.pid(), began.elapsed());
        let mut state = supervisor.lock();
        (state.worker, state.loaded) = (Some(worker), Some(loaded.clone()));
        drop(state);
        Ok((supervisor, loaded))
    }

    pub(crate) fn model(&self) -> &str {
        &self.source.name
    }

    pub(crate) fn version(&self) -> u64 {
        self.source.version
    }

    /// How its workers are spoken to.
    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Whom the model's own code may ask.
    pub(crate) fn host(&self) -> &HostHandle {
        &self.source.host
    }

    /// Where the instances of its workers are.
    pub(crate) fn device(&self) -> Device {
        self.source.placements.first().map_or(Device::Cpu, |it| it.device)
    }

    /// The worker that takes the place of one that dies.
    pub(crate) fn standby(&self) -> &Standby {
        &self.standby
    }

    /// What its workers have done so far.
    pub(crate) fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// How long the making of instances has taken.
    pub(crate) fn openings(&self) -> &Longest {
        &self.openings
    }

    /// The living worker, started where there is none. Blocking.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] where too many have died of late, and where the files are others than those that
    /// were loaded first. Also where it does not load the model, as what was loaded once may load again.
    pub(crate) fn worker(self: &Arc<Self>) -> Result<Arc<Worker>, BackendError> {
        let mut state = self.lock();
        let worker = self.worker_of(&mut state);
        // Also where nobody asks again, as a model that is not ready is not asked.
        if worker.is_err() && !std::mem::replace(&mut state.is_reviving, true) {
            let weak = Arc::downgrade(self);
            let name = format!("revive-{}", self.model());
            let spawned = thread::Builder::new().name(name).spawn(move || revive(&weak));
            state.is_reviving = spawned.is_ok();
        }
        worker
    }

    /// Has the worker give back what it keeps for later runs.
    pub(crate) fn trim_memory(&self) {
        self.tell(Worker::trim_memory);
    }

    /// Has the worker give back what the runs of its load have left in its engine. Another program has none of ours.
    pub(crate) fn give_back_memory(&self) {
        if self.encoding == Encoding::Postcard {
            self.tell(Worker::give_back_memory);
        }
    }

    /// Tells the worker, if it lives. One that is being started keeps nothing yet.
    fn tell(&self, what: impl FnOnce(&Worker)) {
        if let Some(worker) = self.serving() {
            what(&worker);
        }
    }

    /// The worker that serves. `None` while there is none, and while one is started. Returns at once.
    pub(crate) fn serving(&self) -> Option<Arc<Worker>> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        state.worker.clone().filter(|it| !it.is_dead())
    }

    fn worker_of(self: &Arc<Self>, state: &mut State) -> Result<Arc<Worker>, BackendError> {
        if let Some(worker) = state.worker.as_ref().filter(|it| !it.is_dead()) {
            return Ok(worker.clone());
        }
        let outages = self.outages();
        outages.bury(state);
        let pause = outages.pause(state)?;
        let usual = if self.standby.is_ready() { Duration::ZERO } else { self.loads.last() };
        let note = outages.loads(pause + usual);
        // With the lock: nobody has another worker to use.
        thread::sleep(pause);
        if let Some(change) = self.change_of_files() {
            return Err(outages.is_another(state, &change, Evidence::Files));
        }
        if let Some(reason) = state.last_end {
            self.figures.restarted(reason);
        }
        // What a process has lost of its GPU may be lost to all that had it before.
        let standby = self.standby.take().filter(|_| state.last_end != Some(EndReason::Device));
        let was_ready = standby.is_some();
        let load = match standby {
            Some((worker, took)) => Ok((worker, None, took)),
            None => self.load_again(|| false).map(|(worker, it, took)| (worker, Some(it), took)),
        };
        if let Ok((_, Some(loaded), _)) = &load
            && let Some(change) = self.change(state.loaded.as_ref(), loaded)
        {
            return Err(outages.is_another(state, &change, Evidence::Load));
        }
        let tried = load.and_then(|(worker, _, took)| {
            // Nobody else has it yet, and nobody is let in meanwhile.
            if state.life.is_open() && self.warm_up(&worker)? {
                state.life.has_run();
            }
            Ok((worker, took))
        });
        drop(note);
        match tried {
            Ok((worker, took)) => {
                outages.end(state, &worker, took);
                let (model, version) = (self.model(), self.version());
                let which =
                    if was_ready { "a process that was kept ready" } else { "a new process" };
                tracing::info!(model, version, worker = worker.pid(), "{which} serves");
                state.worker = Some(worker.clone());
                self.keeps_ready();
                Ok(worker)
            }
            Err(error) => Err(outages.goes_on(state, error.to_string())),
        }
    }

    /// What says that there is no worker.
    fn outages(&self) -> Outages<'_> {
        Outages { whose: &self.whose, figures: &self.figures, device: self.device() }
    }

    /// One more worker beside the one that serves, and how long its start took. Blocking.
    ///
    /// # Errors
    /// Those of the load; [`BackendError::Load`] where the files are others than those that were loaded first.
    pub(crate) fn another(self: &Arc<Self>) -> Result<(Arc<Worker>, Duration), BackendError> {
        let refused = |change: String| {
            let model = self.model();
            BackendError::Load(format!("{change} since model '{model}' was loaded; load it again"))
        };
        if let Some(change) = self.change_of_files() {
            return Err(refused(change));
        }
        // Nobody else has the model any more.
        let (worker, loaded, took) = self.load_again(|| Arc::strong_count(self) == 1)?;
        let first = self.lock().loaded.clone();
        let change = self.change(first.as_ref(), &loaded);
        change.map_or(Ok((worker, took)), |it| Err(refused(it)))
    }

    /// Loads the model in one more worker. It may take as long as a load has taken before, and more, unless it is not
    /// wanted any more.
    fn load_again(
        self: &Arc<Self>,
        is_unwanted: impl Fn() -> bool,
    ) -> Result<(Arc<Worker>, Loaded, Duration), BackendError> {
        let (began, limit) = (Instant::now(), self.loads.limit());
        let is_late = || limit.is_some_and(|it| it <= began.elapsed()) || is_unwanted();
        let (worker, loaded) = self.load(&Stop::new(), is_late)?;
        let took = began.elapsed();
        self.loads.took(took);
        Ok((worker, loaded, took))
    }

    /// What a worker has loaded that is another model than the `first` one loaded.
    fn change(&self, first: Option<&Loaded>, loaded: &Loaded) -> Option<String> {
        let change = first.and_then(|it| it.change_to(loaded));
        // They may have changed while they were loaded.
        change.or_else(|| self.change_of_files())
    }

    fn change_of_files(&self) -> Option<String> {
        let file = self.stamp.first_change()?;
        Some(format!("'{}' has changed", file.display()))
    }

    /// A run has warmed an instance up, or none that could be made again: after many deaths a worker makes it before it
    /// serves.
    pub(crate) fn warms_up_with(&self, run: Option<Arc<WarmUpRun>>) {
        *self.warm_up.lock().unwrap_or_else(PoisonError::into_inner) = run;
    }

    /// Has that worker, which nobody else has, make the run that warms it up. False where there is none. Blocking.
    ///
    /// # Errors
    /// Where it does not make it.
    fn warm_up(self: &Arc<Self>, worker: &Arc<Worker>) -> Result<bool, BackendError> {
        let warm_up = self.warm_up.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failed = |error: BackendError| {
            let process = self.whose.process();
            BackendError::Load(format!(
                "{process} has died too often of late, and the next one did not warm up: {error}"
            ))
        };
        warm_up.map_or(Ok(false), |run| run(self, worker).map(|()| true).map_err(failed))
    }

    /// `new` serves from now on, in the place of `old`. False where that has ended by itself meanwhile.
    pub(crate) fn replace(&self, old: &Arc<Worker>, new: &Arc<Worker>, took: Duration) -> bool {
        let mut state = self.lock();
        let serves = |it: &Arc<Worker>| Arc::ptr_eq(it, old) && !it.is_dead();
        if !state.worker.as_ref().is_some_and(serves) || new.is_dead() {
            return false;
        }
        state.worker = Some(new.clone());
        self.figures.restarted(EndReason::Recycle);
        self.figures.serves(new.pid(), took);
        true
    }

    /// As after deaths that have opened the breaker, once its pause is over.
    #[cfg(test)]
    pub(crate) fn has_died_too_often(&self) {
        let mut state = self.lock();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(50)).expect("50 seconds ago");
        (0..3).for_each(|_| state.life.died(long_ago, 0, 0.0));
        state.worker = None;
    }

    /// Starts a worker that loads the model, and ends it where `is_given_up` says so.
    fn load(
        self: &Arc<Self>,
        stop: &Stop,
        is_given_up: impl Fn() -> bool,
    ) -> Result<(Arc<Worker>, Loaded), NotLoaded> {
        let weak = Arc::downgrade(self);
        let ended = move |worker: Arc<Worker>| {
            drop(worker);
            let Some(supervisor) = weak.upgrade() else { return };
            supervisor.replace_lost_standby();
            let begins = supervisor.begins_to_revive();
            drop(supervisor);
            if begins {
                revive(&weak);
            }
        };
        let start = Start {
            program: &self.program,
            children: &self.children,
            figures: &self.figures,
            whose: &self.whose,
            engine: &self.engine,
            encoding: self.encoding,
            source: &self.source,
        };
        start.load(stop, is_given_up, ended)
    }

    /// A worker has died: is the caller the one to see to it that there is another? Not in the first load, as that
    /// fails then.
    fn begins_to_revive(&self) -> bool {
        let mut state = self.lock();
        state.loaded.is_some() && !std::mem::replace(&mut state.is_reviving, true)
    }

    /// Is there a living worker? Whoever has seen to that need not do so any more.
    fn has_revived(&self) -> bool {
        let mut state = self.lock();
        let lives = state.worker.as_ref().is_some_and(|it| !it.is_dead());
        state.is_reviving = !lives;
        lives
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// There is no worker: another takes the place, before the next request asks for it.
fn revive(supervisor: &Weak<Supervisor>) {
    while let Some(supervisor) = supervisor.upgrade() {
        match supervisor.worker() {
            // One that dies from now on is seen to by somebody else.
            Ok(_) if supervisor.has_revived() => return,
            // It is tried again.
            Ok(_) | Err(_) => {}
        }
        let pause = supervisor.lock().pause(Instant::now());
        drop(supervisor);
        thread::sleep(pause.min(LOOK));
    }
}
