//! A model version that runs in workers: one for each device that it has instances on.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak},
    time::Instant,
};

use backend::{
    BackendError, Device, DeviceProcess, Instance, Model, ModelSpec, Processes, RerunPolicy,
    RunMemory, Signatures, Stop, WarmUp,
};

use crate::{
    lane::Lane,
    message::{InstanceFacts, Loaded},
    open::{Host, Open},
    readiness,
    recycle::Recycler,
    supervisor::Supervisor,
};

pub(crate) struct IsolatedModel {
    /// At least one.
    homes: Vec<Home>,
    loaded: Loaded,
    arena_bytes: usize,
    /// The configuration that it is served with, where it is to know that.
    config: OnceLock<Arc<str>>,
    /// That of its load.
    stop: Arc<Stop>,
    rerun: RerunPolicy,
}

/// Where the instances on one device are.
pub(crate) struct Home {
    device: Device,
    supervisor: Arc<Supervisor>,
    sharing: Arc<RwLock<()>>,
    recycler: Option<Arc<Recycler>>,
    /// Guards which lanes there are.
    lanes: Mutex<Vec<Weak<Mutex<Open>>>>,
}

impl Home {
    /// `recycler`: what replaces its workers.
    pub(crate) fn new(
        device: Device,
        supervisor: Arc<Supervisor>,
        recycler: Option<Recycler>,
    ) -> Home {
        let (sharing, lanes) = Default::default();
        Home { device, supervisor, sharing, recycler: recycler.map(Arc::new), lanes }
    }

    /// Those of its lanes that are there.
    fn lanes(&self) -> Vec<Arc<Mutex<Open>>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|it| 0 < it.strong_count());
        lanes.iter().filter_map(Weak::upgrade).collect()
    }
}

impl IsolatedModel {
    /// `homes`: where its instances are, on each device; at least one. `stop`: that of the load, which also ends the
    /// making of instances.
    pub(crate) fn new(
        homes: Vec<Home>,
        loaded: Loaded,
        arena_bytes: usize,
        stop: Arc<Stop>,
        rerun: RerunPolicy,
    ) -> Self {
        IsolatedModel { homes, loaded, arena_bytes, config: OnceLock::new(), stop, rerun }
    }

    /// Where the next instance on that device is made: where the fewest are. What a device is worth that the model was
    /// not loaded for, its engine says.
    fn home(&self, device: Device) -> Result<(usize, &Home), BackendError> {
        let those = self.homes.iter().enumerate().filter(|(_, it)| it.device == device);
        let own = those.min_by_key(|(_, it)| it.lanes().len());
        let none = || BackendError::Device(format!("the model was not loaded for {device:?}"));
        own.or_else(|| Some((0, self.homes.first()?))).ok_or_else(none)
    }
}

impl Model for IsolatedModel {
    fn spec(&self) -> Option<&ModelSpec> {
        self.loaded.spec.as_ref()
    }

    fn signatures(&self) -> Option<&Signatures> {
        self.loaded.signatures.as_ref()
    }

    fn run_memory(&self) -> RunMemory {
        self.loaded.run_memory.clone()
    }

    fn notes(&self) -> &[(Cow<'static, str>, String)] {
        &self.loaded.notes
    }

    fn completed_config(&self) -> Option<&str> {
        self.loaded.completed.as_deref()
    }

    fn settle(&self, config: &Arc<str>) {
        // Told once.
        let _ = self.config.set(config.clone());
    }

    fn answers_calls(&self) -> bool {
        self.loaded.answers_each
    }

    fn streams(&self) -> bool {
        self.loaded.streams
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

    fn tells_readiness(&self) -> bool {
        self.loaded.tells_readiness
    }

    fn own_readiness(&self) -> Result<(), String> {
        self.homes.iter().try_for_each(|it| readiness::ask(&it.supervisor))
    }

    fn processes(&self) -> Processes {
        let process = |it: &Home| DeviceProcess {
            device: it.device,
            process: it.supervisor.figures().clone(),
        };
        self.homes.iter().map(process).collect()
    }

    fn trim_memory(&self) {
        self.homes.iter().for_each(|it| it.supervisor.trim_memory());
    }

    fn rest(&self, now: Instant) {
        for lane in self.homes.iter().flat_map(Home::lanes) {
            // One that makes a run is not at rest.
            if let Ok(mut open) = lane.try_lock() {
                open.rest(now);
            }
        }
    }

    fn is_warm(&self) {
        for home in &self.homes {
            home.supervisor.give_back_memory();
            // Not before: a load beside its first runs would make them seem longer.
            home.supervisor.keeps_ready();
        }
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError> {
        let (number, home) = self.home(device)?;
        let host = Host {
            supervisor: home.supervisor.clone(),
            sharing: home.sharing.clone(),
            device,
            arena_bytes: self.arena_bytes,
            keeps_state: self.loaded.keeps_state,
            facts: self.config.get().map(|config| InstanceFacts {
                name: format!("{}_0_{number}", home.supervisor.model()),
                config: config.clone(),
            }),
            may_run_again: self.rerun.allows_reruns() && !self.loaded.keeps_state,
            stop: self.stop.clone(),
        };
        let lane = Lane::new(host, home.recycler.clone())?;
        let mut lanes = home.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.push(Arc::downgrade(lane.place()));
        drop(lanes);
        Ok(Box::new(lane))
    }
}
