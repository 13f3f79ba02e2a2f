//! Several models, loaded at the same time.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use backend::MODEL_STACK;

use crate::{
    lifecycle::converge::{Converger, LoadMode},
    repository::local::FoundModel,
};
use telemetry::logging::progress;

impl Converger {
    /// Loads models, or loads them again, several at the same time. A person at a terminal sees how far it has come.
    /// Blocking.
    pub(super) fn converge_all(&self, models: Vec<FoundModel>) {
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(model) = models.get(at) else { break };
                progress(&format!("loading {} of {}: {}", at + 1, models.len(), model.id()));
                self.table.while_loading(&model.id(), || {
                    // The log and the index have the reason.
                    let _ = self.converge_found(model.clone(), LoadMode::BestEffort, false);
                });
            }
        };
        let threads = self.loader.threads().get().min(models.len());
        thread::scope(|scope| {
            for number in 0..threads {
                let name = format!("load-{number}");
                let builder = thread::Builder::new().name(name).stack_size(MODEL_STACK);
                if let Err(error) = builder.spawn_scoped(scope, work) {
                    tracing::warn!(%error, "cannot start another thread to load models");
                    if number == 0 {
                        work();
                    }
                    break;
                }
            }
        });
        // What the runs of their loads have left.
        if !models.is_empty() {
            self.loader.give_back_memory();
        }
        progress("");
    }
}
