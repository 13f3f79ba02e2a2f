//! A model version that runs in workers: one for each device that it has instances on.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
    time::Instant,
};

use backend::{
    BackendError, Device, DeviceProcess, Instance, Model, ModelSpec, Processes, RerunPolicy,
    RunMemory, Signatures, Stop, WarmUp,
};

use crate::{
    lane::Lane,
    message::Loaded,
    open::{Host, Open},
    recycle::Recycler,
    supervisor::Supervisor,
};

pub(crate) struct IsolatedModel {
    /// At least one.
    homes: Vec<Home>,
    loaded: Loaded,
    arena_bytes: usize,
    /// Guards which lanes there are.
    lanes: Mutex<Vec<Weak<Mutex<Open>>>>,
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
}

impl Home {
    /// `recycler`: what replaces its workers.
    pub(crate) fn new(
        device: Device,
        supervisor: Arc<Supervisor>,
        recycler: Option<Recycler>,
    ) -> Home {
        Home { device, supervisor, sharing: Arc::default(), recycler: recycler.map(Arc::new) }
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
        IsolatedModel { homes, loaded, arena_bytes, lanes: Mutex::default(), stop, rerun }
    }

    /// Where the instances on that device are. What a device is worth that the model was not loaded for, its engine
    /// says.
    fn home(&self, device: Device) -> Result<&Home, BackendError> {
        let own = self.homes.iter().find(|it| it.device == device);
        let none = || BackendError::Device(format!("the model was not loaded for {device:?}"));
        own.or_else(|| self.homes.first()).ok_or_else(none)
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

    fn keeps_state(&self) -> bool {
        self.loaded.keeps_state
    }

    fn allows_trial_runs(&self) -> bool {
        self.loaded.allows_trial_runs
    }

    fn warm_up(&self) -> Option<WarmUp> {
        self.loaded.warm_up
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
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes: Vec<_> = lanes.iter().filter_map(Weak::upgrade).collect();
        for lane in lanes {
            // One that makes a run is not at rest.
            if let Ok(mut open) = lane.try_lock() {
                open.rest(now);
            }
        }
    }

    fn is_warm(&self) {
        // Not before: a load beside its first runs would make them seem longer.
        self.homes.iter().for_each(|it| it.supervisor.keeps_ready());
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError> {
        let home = self.home(device)?;
        let host = Host {
            supervisor: home.supervisor.clone(),
            sharing: home.sharing.clone(),
            device,
            arena_bytes: self.arena_bytes,
            keeps_state: self.loaded.keeps_state,
            may_run_again: self.rerun.allows_reruns() && !self.loaded.keeps_state,
            stop: self.stop.clone(),
        };
        let lane = Lane::new(host, home.recycler.clone())?;
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|it| 0 < it.strong_count());
        lanes.push(Arc::downgrade(lane.place()));
        drop(lanes);
        Ok(Box::new(lane))
    }
}
