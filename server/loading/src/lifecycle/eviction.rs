//! The memory that models may take where requests load them: those that were not asked for the longest make room.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    lifecycle::{model_table::ModelTable, publish::Publisher},
    load::load_error::LoadError,
};
use machine::bytes_text;
use serving::{
    manager::{ModelManager, Versions},
    model_id::ModelId,
    served::ServedModel,
    state::Reason,
};

/// How long the memory of a model that was unloaded to make room is waited for.
const LONGEST_END: Duration = Duration::from_secs(10);

/// Unloads models to make room for others.
pub(super) struct Eviction {
    /// Bytes that all models may take; `None` for any number.
    budget: Option<u64>,
    /// When the server began to count.
    began: Instant,
    table: Arc<ModelTable>,
    manager: Arc<ModelManager>,
    publisher: Arc<Publisher>,
}

impl Eviction {
    pub(super) fn new(
        budget: Option<u64>,
        table: Arc<ModelTable>,
        manager: Arc<ModelManager>,
        publisher: Arc<Publisher>,
    ) -> Eviction {
        Eviction { budget, began: Instant::now(), table, manager, publisher }
    }

    /// Is there a bound on the memory that models take?
    pub(super) fn has_budget(&self) -> bool {
        self.budget.is_some()
    }

    /// The time by which models were last asked for, in milliseconds.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Unloads models until so many bytes fit into the budget beside the others, those first that were not asked
    /// for the longest. Blocking.
    ///
    /// # Errors
    /// When it would not fit if all that could be unloaded were.
    pub(super) fn make_room(&self, id: &ModelId, bytes: u64) -> Result<(), LoadError> {
        let Some(budget) = self.budget else { return Ok(()) };
        let shown = bytes_text(budget);
        let needs = bytes_text(bytes);
        if budget < bytes {
            return Err(format!("it needs {needs}, more than --model-memory-budget {shown}").into());
        }
        loop {
            let others = self.loaded_but(id);
            let taken: u64 = others.iter().map(|(_, it)| bytes_of(it)).sum();
            if taken.saturating_add(bytes) <= budget {
                return Ok(());
            }
            if !self.unload_oldest(others) {
                return Err(LoadError::Refused(format!(
                    "there is no room for its {needs}: the models that are loaded take {} of \
                     --model-memory-budget {shown}, and all of them are in use",
                    bytes_text(taken)
                )));
            }
        }
    }

    fn loaded_but(&self, id: &ModelId) -> Vec<(ModelId, Arc<Versions>)> {
        let ids: Vec<ModelId> = self.table.ids().into_iter().filter(|it| it != id).collect();
        let serving = ids.into_iter().map(|it| (self.manager.serving(&it), it));
        serving.filter(|(it, _)| !it.is_empty()).map(|(it, id)| (id, it)).collect()
    }

    /// Unloads the one that was not asked for the longest, of those that are not in use; false where there is none.
    fn unload_oldest(&self, loaded: Vec<(ModelId, Arc<Versions>)>) -> bool {
        let last_use = |it: &Versions| it.values().map(|it| it.used.get()).max();
        let mut loaded = loaded;
        loaded.sort_by_key(|(_, it)| last_use(it));
        for (id, versions) in loaded {
            let is_used = versions
                .values()
                .any(|it| !ServedModel::is_free(it) || it.dispatch.queue().has_open_sequences());
            drop(versions);
            if is_used || self.table.needs(&id, &id).is_some() {
                continue;
            }
            let shared = self.table.record(&id);
            // One that is just being loaded again is in use.
            let Ok(mut record) = shared.try_lock() else { continue };
            tracing::info!(model = %id, "unloaded to make room");
            record.loaded = None;
            self.publisher.switch(&id, Versions::new(), Reason::MadeRoom);
            self.table.take_members(&id);
            drop(record);
            self.publisher.reaper.wait_for(&id, LONGEST_END);
            return true;
        }
        false
    }
}

fn bytes_of(versions: &Versions) -> u64 {
    versions.values().map(|it| it.memory_bytes()).sum()
}
