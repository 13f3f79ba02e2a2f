//! A model version that runs in a worker.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
    time::Instant,
};

use backend::{
    BackendError, Device, Instance, Model, ModelProcess, ModelSpec, Signatures, Stop, WarmUp,
};

use crate::{
    lane::Lane,
    message::Loaded,
    open::{Host, Open},
    recycle::Recycler,
    supervisor::Supervisor,
    trial::Trial,
};

pub(crate) struct IsolatedModel {
    supervisor: Arc<Supervisor>,
    loaded: Loaded,
    arena_bytes: usize,
    sharing: Arc<RwLock<()>>,
    recycler: Option<Arc<Recycler>>,
    /// Guards which lanes there are.
    lanes: Mutex<Vec<Weak<Mutex<Open>>>>,
    /// That of its load.
    stop: Arc<Stop>,
    /// Where it is to be found out whether a process of its own is worth what it costs.
    trial: Option<Arc<Trial>>,
}

impl IsolatedModel {
    /// `recycler`: what replaces its workers. `stop`: that of the load, which also ends the making of instances.
    /// `trial`: its first runs are to show where it belongs.
    pub(crate) fn new(
        supervisor: Arc<Supervisor>,
        loaded: Loaded,
        arena_bytes: usize,
        recycler: Option<Recycler>,
        stop: Arc<Stop>,
        trial: Option<Trial>,
    ) -> Self {
        let recycler = recycler.map(Arc::new);
        let (sharing, lanes, trial) = (Arc::default(), Mutex::default(), trial.map(Arc::new));
        IsolatedModel { supervisor, loaded, arena_bytes, sharing, recycler, lanes, stop, trial }
    }
}

impl Model for IsolatedModel {
    fn spec(&self) -> Option<&ModelSpec> {
        self.loaded.spec.as_ref()
    }

    fn signatures(&self) -> Option<&Signatures> {
        self.loaded.signatures.as_ref()
    }

    fn large_outputs(&self) -> Vec<(Arc<str>, usize)> {
        self.loaded.large_outputs.clone()
    }

    fn notes(&self) -> &[(Cow<'static, str>, String)] {
        &self.loaded.notes
    }

    fn keeps_state(&self) -> bool {
        self.loaded.keeps_state
    }

    fn allows_trial_runs(&self) -> bool {
        self.loaded.allows_trial_runs
    }

    fn warm_up(&self) -> Option<WarmUp> {
        self.loaded.warm_up
    }

    fn process(&self) -> Option<Arc<dyn ModelProcess>> {
        Some(self.supervisor.figures().clone())
    }

    fn trim_memory(&self) {
        self.supervisor.trim_memory();
    }

    fn rest(&self, now: Instant) {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes: Vec<_> = lanes.iter().filter_map(Weak::upgrade).collect();
        for lane in lanes {
            // One that makes a run is not at rest.
            if let Ok(mut open) = lane.try_lock() {
                open.rest(now);
            }
        }
    }

    fn is_to_be_moved(&self) -> bool {
        self.trial.as_ref().is_some_and(|it| it.moves_to_the_server())
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError> {
        let host = Host {
            supervisor: self.supervisor.clone(),
            sharing: self.sharing.clone(),
            device,
            arena_bytes: self.arena_bytes,
            keeps_state: self.loaded.keeps_state,
            stop: self.stop.clone(),
            trial: self.trial.clone(),
        };
        let lane = Lane::new(host, self.recycler.clone())?;
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|it| 0 < it.strong_count());
        lanes.push(Arc::downgrade(lane.place()));
        drop(lanes);
        Ok(Box::new(lane))
    }
}
