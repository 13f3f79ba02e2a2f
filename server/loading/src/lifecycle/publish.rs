//! From the versions of a model that serve to others, in one step, and what the index says where that fails.

use std::{collections::BTreeMap, fmt::Display, sync::Arc};

use crate::lifecycle::reaper::{Reaper, Retired};
use inference::messages;
use serving::{
    manager::{ModelManager, Versions},
    model_id::ModelId,
    served::ServedModel,
    state::{Reason, State},
};

/// Lets versions serve, and ends those that do no more.
pub(super) struct Publisher {
    manager: Arc<ModelManager>,
    pub(super) reaper: Reaper,
}

impl Publisher {
    pub(super) fn new(manager: Arc<ModelManager>, reaper: Reaper) -> Publisher {
        Publisher { manager, reaper }
    }

    /// From the next request on these versions serve. What served before ends with its last request.
    pub(super) fn switch(&self, id: &ModelId, next: Versions, reason: Reason) {
        let before = self.manager.switch(id, next.clone());
        let is_gone = |(version, model): &(&u64, &Arc<ServedModel>)| {
            next.get(version).is_none_or(|it| !it.shares_instances(model))
        };
        let gone: BTreeMap<u64, Arc<ServedModel>> =
            before.iter().filter(is_gone).map(|(version, it)| (*version, it.clone())).collect();
        // The map of what served is not to be what keeps it.
        drop(before);
        self.reaper.take(gone.into_values().map(|it| retired(id, it, reason.clone())).collect());
    }

    /// Ends versions that were loaded and are not to serve.
    pub(super) fn give_up(&self, id: &ModelId, loaded: Versions, why: &str) {
        let serving = self.manager.serving(id);
        let is_new = |it: &(u64, Arc<ServedModel>)| {
            serving.get(&it.0).is_none_or(|served| !served.shares_instances(&it.1))
        };
        let new = loaded.into_iter().filter(is_new).map(|(version, model)| {
            if !serving.contains_key(&version) {
                let reason = format!("it was loaded and given up: {why}");
                self.manager.note(id, Some(version), State::Unavailable, Reason::Failed(reason));
            }
            retired(id, model, Reason::Unloaded)
        });
        self.reaper.take(new.collect());
    }

    /// A model, or one version of it, could not be loaded. What serves goes on.
    pub(super) fn failed(&self, id: &ModelId, version: Option<u64>, reason: &str) {
        let version_text = version.map_or("all".to_owned(), |it| it.to_string());
        tracing::error!(model = %id, version = version_text, "cannot load the model: {reason}");
        let serves = self.manager.serving(id);
        let still_serves = match version {
            Some(version) => serves.contains_key(&version),
            None => !serves.is_empty(),
        };
        if !still_serves {
            self.manager.note(id, version, State::Unavailable, reason);
        }
    }
}

fn retired(id: &ModelId, model: Arc<ServedModel>, reason: Reason) -> Retired {
    Retired { id: id.clone(), model, reason }
}

/// Of an ensemble that is not loaded, as a member of it is not.
pub(super) fn member_failed(id: &ModelId, member: &ModelId, reason: impl Display) -> String {
    format!("{}: its member '{}': {reason}", messages::load_failed(&id.to_string()), member.name)
}

/// Of a model of which these versions are not loaded.
pub(super) fn versions_failed(id: &ModelId, failures: &[(u64, impl Display)]) -> String {
    let cause =
        |(version, it): &(u64, _)| format!("version {version} is at UNAVAILABLE state: {it}");
    let causes: Vec<String> = failures.iter().map(cause).collect();
    format!("{}: {}", messages::load_failed(&id.to_string()), causes.join("; "))
}
