//! The states of all models and their versions, and the error of a request for a model that does not serve.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model_id::ModelId,
    state::{IndexEntry, Reason, State},
};
use inference::{error::Error, messages, signature::nearest};

/// State and reason by version; `None` for the model as a whole.
pub(super) type States = BTreeMap<Option<u64>, (State, Reason)>;

/// The states of all models, whether they serve or not.
#[derive(Default)]
pub(super) struct KnownModels {
    pub(super) states: BTreeMap<ModelId, States>,
    /// Models that were to be loaded at the start, and have never been loaded.
    pub(super) lacking: BTreeSet<ModelId>,
}

impl KnownModels {
    /// The models of that name, in any namespace.
    pub(super) fn of_name<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a ModelId, &'a States)> {
        self.states.range(ModelId::named(name)..).take_while(move |(id, _)| &*id.name == name)
    }

    /// Why a request for that model cannot be answered. `is_started`: is the start of the server over?
    pub(super) fn explain(
        &self,
        wanted: &ModelId,
        version: Option<u64>,
        is_started: bool,
    ) -> Error {
        let name = &*wanted.name;
        let shown: String = name.chars().take(128).collect();
        if self.states.is_empty() && !is_started {
            let reason = "the server does not know its models yet".to_owned();
            return Error::ModelNotReady { model: shown, version: None, reason };
        }
        let named: Vec<(&ModelId, &States)> =
            self.of_name(name).filter(|(id, _)| wanted.means(id)).collect();
        let states = match named.as_slice() {
            [(_, states)] => states,
            [] => {
                let hint = nearest(name, self.states.keys().map(|it| &*it.name));
                let hint = hint.map(|it| format!("; did you mean '{it}'?")).unwrap_or_default();
                return Error::NotFound(format!("{}{hint}", messages::not_found(&shown, None)));
            }
            several => {
                let namespaces: Vec<&str> = several.iter().map(|(id, _)| &*id.namespace).collect();
                return Error::InvalidRequest(format!(
                    "there are {} models '{shown}', in the namespaces {}; expected a name that is used once",
                    several.len(),
                    namespaces.join(", ")
                ));
            }
        };
        let found = match version {
            Some(number) => states.get_key_value(&Some(number)).or(states.get_key_value(&None)),
            None => newest(states),
        };
        let ready = |(version, (state, _)): (&Option<u64>, &(State, Reason))| {
            version.filter(|_| *state == State::Ready).map(|it| it.to_string())
        };
        let Some((_, (state, reason))) = found else {
            if states.is_empty() {
                return Error::NotFound(format!(
                    "{}: it is not loaded",
                    messages::no_available_versions(&shown)
                ));
            }
            let ready: Vec<String> = states.iter().filter_map(ready).collect();
            let ready = if ready.is_empty() { "none".to_owned() } else { ready.join(", ") };
            let unknown = messages::not_found(&shown, version);
            return Error::NotFound(format!("{unknown}; ready versions: {ready}"));
        };
        let reason = match state {
            State::Loading => "it is still loading".to_owned(),
            State::Unavailable | State::Unloading
                if version.is_none() && matches!(reason, Reason::Unloaded | Reason::None) =>
            {
                return Error::NotFound(format!(
                    "{}: it was unloaded",
                    messages::no_available_versions(&shown)
                ));
            }
            State::Unavailable => reason.to_string(),
            State::Unknown | State::Ready | State::Unloading => {
                "it has just been unloaded".to_owned()
            }
        };
        Error::ModelNotReady { model: shown, version, reason }
    }
}

/// The version that an error describes where the request names none: one that is loading, else the highest.
fn newest(states: &States) -> Option<(&Option<u64>, &(State, Reason))> {
    let loading = states.iter().rev().find(|(_, (state, _))| *state == State::Loading);
    loading.or(states.last_key_value())
}

/// The entries of a model in the repository index.
pub(super) fn entries(id: &ModelId, states: &States) -> Vec<IndexEntry> {
    let entry = |version, state, reason: &Reason| IndexEntry {
        name: id.name.clone(),
        version,
        state,
        reason: reason.clone(),
    };
    if states.is_empty() {
        return vec![entry(None, State::Unknown, &Reason::None)];
    }
    states.iter().map(|(version, (state, reason))| entry(*version, *state, reason)).collect()
}
