//! Follows the repository: what is added, changed or removed there is loaded, loaded again or unloaded, once two
//! looks have found it the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use crate::{
    lifecycle::control::Control,
    repository::{
        catalogue::WantedModels,
        file_stamps::{FileStamps, leave_out_unfinished},
        local::FoundModel,
    },
};
use serving::{lock::lock, model_id::ModelId};

/// Between two loads of a model that is as it was: the first pause, which doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// What the last look found, where it differs from what was last dealt with.
#[derive(Default)]
struct Seen {
    changed: BTreeMap<ModelId, FileStamps>,
    gone: BTreeSet<ModelId>,
    /// Told once: names that cannot be served, and why.
    refused: BTreeMap<ModelId, String>,
    /// Models that were loaded again although nothing had changed.
    again: BTreeMap<ModelId, Again>,
}

/// When such a load may be next, should it not have helped.
struct Again {
    at: Instant,
    pause: Duration,
}

impl Seen {
    /// May that model be loaded again now?
    fn may_again(&self, id: &ModelId) -> bool {
        self.again.get(id).is_none_or(|it| it.at <= Instant::now())
    }

    /// It is loaded again.
    fn loads_again(&mut self, id: &ModelId) {
        let before = self.again.get(id).map(|it| it.pause * 2);
        let pause = before.unwrap_or(FIRST_PAUSE).min(LONGEST_PAUSE);
        self.again.insert(id.clone(), Again { at: Instant::now() + pause, pause });
    }
}

impl Control {
    /// Looks at the repository every so often, until the other end of `stop` is gone. Blocking.
    pub fn follow(&self, every: Duration, stop: &Receiver<()>) {
        let mut seen = Seen::default();
        while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(every) {
            self.look(&mut seen);
        }
    }

    fn look(&self, seen: &mut Seen) {
        let _comparing = lock(&self.comparing);
        let mut found = match self.converger.catalogue.look(WantedModels::All) {
            Ok(found) => found,
            // A disk that is away for a moment is no reason to unload everything.
            Err(error) => return tracing::warn!(%error, "cannot look for changes"),
        };
        // What is still left out was told at the start.
        self.converger.leave_out(&mut found);
        for (id, reason) in &found.refused {
            if seen.refused.get(id) != Some(reason) {
                self.converger.publisher.failed(id, None, reason);
            }
        }
        let there: BTreeSet<ModelId> =
            found.models.keys().chain(found.refused.keys()).cloned().collect();
        seen.refused = std::mem::take(&mut found.refused);
        let mut before = std::mem::take(&mut seen.changed);
        let mut ready: Vec<FoundModel> = Vec::new();
        for (id, mut model) in found.models {
            leave_out_unfinished(&mut model);
            let shared = self.converger.table.record(&id);
            let (stamps, is_same) = lock(&shared).compare(&model);
            // What serves it is outside of the repository, and only a load helps.
            let serving = self.converger.manager.serving(&id);
            let needs_load = serving.values().any(|it| it.is_to_be_loaded_again());
            if !needs_load {
                seen.again.remove(&id);
            }
            let is_settled = is_same && !(needs_load && seen.may_again(&id));
            match before.remove(&id) {
                _ if is_settled => {}
                // The same twice: it is not being written any more.
                Some(last) if last == stamps && model.versions.is_empty() => {
                    self.converger.unload_emptied(&id, stamps);
                }
                Some(last) if last == stamps => {
                    if needs_load {
                        seen.loads_again(&id);
                    }
                    ready.push(model);
                }
                _ => drop(seen.changed.insert(id, stamps)),
            }
        }
        self.converger.converge_all(ready);
        let gone: BTreeSet<ModelId> =
            self.converger.table.ids().into_iter().filter(|it| !there.contains(it)).collect();
        for id in gone.intersection(&seen.gone) {
            self.converger.unload_removed(id);
            self.converger.table.remove(id);
        }
        seen.gone = gone;
    }
}
