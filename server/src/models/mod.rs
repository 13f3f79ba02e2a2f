//! Which models are served: looked up by every request, changed by whoever loads and unloads.

mod check;
pub mod choose;
pub mod complete;
pub mod config;
mod control;
mod files;
mod fit;
mod hints;
mod instances;
mod loader;
mod options;
pub mod pbtxt;
mod plan;
pub mod raw;
mod repository;
mod served;
mod settings;
mod told;
mod validate;
mod versions;
mod warmup;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;

use crate::{error::Error, signature::nearest};
pub use control::{Control, LoadOverride};
pub use loader::{LoadSettings, Loader};
pub use repository::{Found, FoundModel, scan_path, scan_repositories};
pub use served::{Engine, ServedModel};
pub use validate::{Prepared, prepare, present, request_of_zeros};

/// What a model version is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is being loaded and warmed up.
    Loading,
    /// It serves.
    Ready,
    /// It could not be loaded, or was unloaded.
    Unavailable,
}

impl State {
    /// The name in the repository index.
    pub fn name(self) -> &'static str {
        match self {
            State::Loading => "LOADING",
            State::Ready => "READY",
            State::Unavailable => "UNAVAILABLE",
        }
    }
}

/// One line of the repository index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// Name of the model.
    pub name: Arc<str>,
    /// The version; `None` where the model failed as a whole.
    pub version: Option<u64>,
    /// What it is doing.
    pub state: State,
    /// Why it is unavailable; empty otherwise.
    pub reason: String,
}

type Versions = BTreeMap<u64, Arc<ServedModel>>;
type Serving = HashMap<Arc<str>, Arc<Versions>>;
/// State and reason by name and version; `None` for a model as a whole.
type Known = BTreeMap<Arc<str>, BTreeMap<Option<u64>, (State, String)>>;

/// All models, by name and version.
#[derive(Default)]
pub struct ModelManager {
    /// The models that serve. Read by every request, without a lock; replaced as a whole.
    serving: ArcSwap<Serving>,
    /// Guards what is known of every model, whether it serves or not. Taken after nothing else.
    known: Mutex<Known>,
    /// Has everything been tried that was asked for at the start?
    started: AtomicBool,
}

impl ModelManager {
    /// The model of that name, in that version or in the highest that is ready. Holding it keeps it
    /// alive, whatever happens to the repository.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown model or version, [`Error::ModelNotReady`] for one that is known.
    pub fn get(&self, name: &str, version: Option<u64>) -> Result<Arc<ServedModel>, Error> {
        let serving = self.serving.load();
        let versions = serving.get(name);
        let found = versions.and_then(|versions| match version {
            Some(version) => versions.get(&version),
            None => versions.last_key_value().map(|(_, model)| model),
        });
        found.cloned().ok_or_else(|| self.explain(name, version))
    }

    /// The versions of a model that serve, ascending.
    pub fn ready_versions(&self, name: &str) -> Vec<u64> {
        self.serving.load().get(name).map(|it| it.keys().copied().collect()).unwrap_or_default()
    }

    /// Names of all models that serve, in order.
    pub fn ready_names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = self.serving.load().keys().cloned().collect();
        names.sort();
        names
    }

    /// Names of all models that are known, whether they serve or not, in order.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.lock().keys().cloned().collect()
    }

    /// Every model and version that is known, by name and version.
    pub fn index(&self) -> Vec<IndexEntry> {
        let known = self.lock();
        let entries = known.iter().flat_map(|(name, versions)| {
            versions.iter().map(|(version, (state, reason))| IndexEntry {
                name: name.clone(),
                version: *version,
                state: *state,
                reason: reason.clone(),
            })
        });
        entries.collect()
    }

    /// What is known of a model's versions; empty for an unknown name.
    pub fn states(&self, name: &str) -> Vec<IndexEntry> {
        self.index().into_iter().filter(|it| &*it.name == name).collect()
    }

    /// From now on the start is over: every model that was asked for serves or has failed.
    pub fn finish_start(&self) {
        self.started.store(true, Ordering::Release);
    }

    /// Is the start over?
    pub fn is_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Is the start over, and does everything that is known serve?
    pub fn all_ready(&self) -> bool {
        self.is_started()
            && self
                .lock()
                .values()
                .flat_map(BTreeMap::values)
                .all(|(state, _)| *state == State::Ready)
    }

    /// Notes that a version, or a model before its versions are known, is loading or could not be loaded.
    pub fn note(&self, name: &str, version: Option<u64>, state: State, reason: &str) {
        let mut known = self.lock();
        let versions = known.entry(name.into()).or_default();
        if version.is_some() {
            // What was said of the model as a whole was said before its versions were known.
            versions.remove(&None);
        }
        versions.insert(version, (state, reason.to_owned()));
    }

    /// Lets a loaded and warmed model serve.
    pub fn publish(&self, model: Arc<ServedModel>) {
        let (name, version) = (model.signature.model.clone(), model.signature.version);
        self.serving.rcu(|serving| {
            let mut serving = Serving::clone(serving);
            let versions = serving.entry(name.clone()).or_default();
            Arc::make_mut(versions).insert(version, model.clone());
            serving
        });
        self.note(&name, Some(version), State::Ready, "");
    }

    /// Lets nothing wait for company any more: the server is on its way out.
    pub fn hurry(&self) {
        let serving = self.serving.load();
        serving.values().flat_map(|it| it.values()).for_each(|it| it.hurry());
    }

    /// Stops all models: what is queued is still run. Waits for their threads; blocking.
    ///
    /// Returns the number of threads that were still running after `patience`.
    pub fn close(&self, patience: Duration) -> usize {
        let until = std::time::Instant::now() + patience;
        let serving = self.serving.swap(Arc::default());
        let models: Vec<&Arc<ServedModel>> = serving.values().flat_map(|it| it.values()).collect();
        models.iter().for_each(|it| it.close());
        let left = || until.saturating_duration_since(std::time::Instant::now());
        models.iter().map(|it| it.wait_closed(left())).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a model that was asked for cannot be had.
    fn explain(&self, name: &str, version: Option<u64>) -> Error {
        let shown: String = name.chars().take(128).collect();
        let known = self.lock();
        if known.is_empty() && !self.is_started() {
            let reason = "the server does not know its models yet".to_owned();
            return Error::ModelNotReady { model: shown, version: "any".to_owned(), reason };
        }
        let Some(versions) = known.get(name) else {
            let hint = nearest(name, known.keys().map(|it| &**it));
            let hint = hint.map(|it| format!("; did you mean '{it}'?")).unwrap_or_default();
            return Error::NotFound(format!("there is no model '{shown}'{hint}"));
        };
        let wanted = match version {
            Some(number) => versions.get_key_value(&Some(number)).or(versions.get_key_value(&None)),
            None => versions.last_key_value(),
        };
        let ready = |(version, (state, _)): (&Option<u64>, &(State, String))| {
            version.filter(|_| *state == State::Ready).map(|it| it.to_string())
        };
        let Some((_, (state, reason))) = wanted else {
            let ready: Vec<String> = versions.iter().filter_map(ready).collect();
            let ready = if ready.is_empty() { "none".to_owned() } else { ready.join(", ") };
            let asked = version.unwrap_or_default();
            return Error::NotFound(format!(
                "model '{shown}' has no version {asked}; ready versions: {ready}"
            ));
        };
        let reason = match state {
            State::Loading => "it is still loading".to_owned(),
            State::Unavailable => reason.clone(),
            State::Ready => "it has just been unloaded".to_owned(),
        };
        let version = version.map_or("any".to_owned(), |it| it.to_string());
        Error::ModelNotReady { model: shown, version, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_models_have_been_looked_for_none_is_said_not_to_exist() {
        let manager = ModelManager::default();
        assert!(matches!(manager.get("m", None), Err(Error::ModelNotReady { .. })));
        manager.finish_start();
        assert!(matches!(manager.get("m", None), Err(Error::NotFound(_))));
    }

    #[test]
    fn an_unknown_model_is_not_found_and_the_nearest_name_is_given() {
        let manager = ModelManager::default();
        manager.note("fraud", Some(1), State::Loading, "");
        let error = manager.get("frauds", None).err().unwrap();
        assert_eq!(error.to_string(), "there is no model 'frauds'; did you mean 'fraud'?");
    }

    #[test]
    fn an_unknown_version_is_not_found_and_one_that_failed_says_why() {
        let manager = ModelManager::default();
        manager.note("m", None, State::Loading, "");
        manager.note("m", Some(1), State::Loading, "");
        let loading = manager.get("m", None).err().unwrap().to_string();
        assert_eq!(loading, "model 'm' version any is not ready: it is still loading");
        manager.note("m", Some(1), State::Unavailable, "no such file");
        let failed = manager.get("m", Some(1)).err().unwrap().to_string();
        assert_eq!(failed, "model 'm' version 1 is not ready: no such file");
        assert!(matches!(manager.get("m", Some(2)), Err(Error::NotFound(_))));
        manager.finish_start();
        assert!(!manager.all_ready());
    }
}
