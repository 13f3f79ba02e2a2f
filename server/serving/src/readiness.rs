//! What clients see of models whose members may be missing: an ensemble is ready while all of
//! its members are.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    known_models::entries,
    manager::ModelManager,
    model_id::ModelId,
    served::ServedModel,
    state::{IndexEntry, Reason, State},
};
use inference::error::Error;

impl ModelManager {
    /// The same as [`ModelManager::get`], for a question whether the model could answer.
    ///
    /// # Errors
    /// Those of [`ModelManager::get`], and [`Error::ModelNotReady`] for an ensemble whose members are not there, do not
    /// fit or are not ready, and for a model without a process to run in.
    pub fn ready(&self, name: &str, version: Option<u64>) -> Result<Arc<ServedModel>, Error> {
        let model = self.get(name, version)?;
        model.check_ready()?;
        Ok(model)
    }

    /// The same, for a client that asks whether that model is ready: the model's own code is asked, too.
    ///
    /// # Errors
    /// Those of [`ModelManager::ready`], and [`Error::ModelNotReady`] where the code does not say that it can serve.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn own_ready(&self, name: &str, version: Option<u64>) -> Result<(), Error> {
        let served = self.ready(name, version)?;
        match &served.model {
            None => Ok(()),
            Some(model) => served.own_readiness.ask(model).await.map_err(|it| served.not_ready(it)),
        }
    }

    /// Every model and version that is known, by name and version, as clients see them.
    pub fn shown_index(&self) -> Vec<IndexEntry> {
        let broken = self.broken_ensembles();
        let known = self.lock();
        let shown =
            known.states.iter().flat_map(|(id, states)| shown(id, entries(id, states), &broken));
        shown.collect()
    }

    /// What clients see of a model's versions; empty for an unknown name.
    pub fn shown_states(&self, name: &str) -> Vec<IndexEntry> {
        let broken = self.broken_ensembles();
        let known = self.lock();
        known
            .of_name(name)
            .flat_map(|(id, states)| shown(id, entries(id, states), &broken))
            .collect()
    }

    /// The ensembles that serve and could not answer, by version, and why. Takes the lock of what is known.
    fn broken_ensembles(&self) -> Broken {
        let snapshot = self.snapshot();
        let why =
            |(id, version, model): (ModelId, u64, &Arc<ServedModel>)| match model.check_ready() {
                Err(Error::ModelNotReady { reason, .. }) => Some(((id, version), reason)),
                _ => None,
            };
        snapshot.all().filter_map(why).collect()
    }
}

type Broken = BTreeMap<(ModelId, u64), String>;

fn shown(id: &ModelId, mut entries: Vec<IndexEntry>, broken: &Broken) -> Vec<IndexEntry> {
    for entry in entries.iter_mut().filter(|it| it.state == State::Ready) {
        let reason = entry.version.and_then(|it| broken.get(&(id.clone(), it)));
        if let Some(reason) = reason {
            (entry.state, entry.reason) = (State::Unavailable, Reason::Failed(reason.clone()));
        }
    }
    entries
}
