//! A model version that runs in a worker.

use std::{
    borrow::Cow,
    sync::{Arc, RwLock},
};

use backend::{BackendError, Device, Instance, Model, ModelProcess, ModelSpec, Signatures, Stop};

use crate::{lane::Lane, message::Loaded, open::Host, recycle::Recycler, supervisor::Supervisor};

pub(crate) struct IsolatedModel {
    supervisor: Arc<Supervisor>,
    loaded: Loaded,
    arena_bytes: usize,
    sharing: Arc<RwLock<()>>,
    recycler: Option<Arc<Recycler>>,
    /// That of its load.
    stop: Arc<Stop>,
}

impl IsolatedModel {
    /// `recycle_above`: a worker with more private bytes is replaced. `stop`: that of the load, which also ends the
    /// making of instances.
    pub(crate) fn new(
        supervisor: Arc<Supervisor>,
        loaded: Loaded,
        arena_bytes: usize,
        recycle_above: Option<u64>,
        stop: Arc<Stop>,
    ) -> Self {
        let recycler = recycle_above.map(|it| Arc::new(Recycler::new(it)));
        IsolatedModel { supervisor, loaded, arena_bytes, sharing: Arc::default(), recycler, stop }
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

    fn process(&self) -> Option<Arc<dyn ModelProcess>> {
        Some(self.supervisor.figures().clone())
    }

    fn trim_memory(&self) {
        self.supervisor.trim_memory();
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError> {
        let host = Host {
            supervisor: self.supervisor.clone(),
            sharing: self.sharing.clone(),
            device,
            arena_bytes: self.arena_bytes,
            keeps_state: self.loaded.keeps_state,
            stop: self.stop.clone(),
        };
        Ok(Box::new(Lane::new(host, self.recycler.clone())?))
    }
}
