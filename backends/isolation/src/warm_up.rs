//! The run that a worker makes before it serves, where many have died before it.

use std::sync::Arc;

use backend::Batch;

use crate::{
    launch::Worker,
    open::{Host, Open},
    sample::Sample,
    supervisor::{Supervisor, WarmUpRun},
};

/// That run of an instance there, to be made again in another worker. `None` where it is too large to be kept.
pub(crate) fn again(host: &Host, batch: &Batch<'_>) -> Option<Arc<WarmUpRun>> {
    let sample = Sample::of(batch)?;
    // Not the host: its supervisor keeps this.
    let Host { device, arena_bytes, keeps_state, .. } = *host;
    Some(Arc::new(move |supervisor: &Arc<Supervisor>, worker: &Arc<Worker>| {
        let host = Host {
            supervisor: supervisor.clone(),
            sharing: Arc::default(),
            device,
            arena_bytes,
            keeps_state,
            facts: None,
            may_run_again: false,
            stop: Arc::default(),
        };
        Open::on(worker.clone(), &host).and_then(|mut it| sample.run(&mut it))
    }))
}
