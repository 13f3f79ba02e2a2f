//! The models that serve, looked up by every request, and what is known of all others.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;

use crate::{
    known_models::{KnownModels, entries},
    label_table::LabelTable,
    model_id::ModelId,
    served::{Dispatch, ServedModel},
    state::{IndexEntry, Reason, State},
};
use inference::error::Error;

/// The versions of one model that serve.
pub type Versions = BTreeMap<u64, Arc<ServedModel>>;
/// The models of one name, by namespace: mostly one.
type Named = BTreeMap<Arc<str>, Arc<Versions>>;
type Serving = HashMap<Arc<str>, Arc<Named>>;
/// The models that served at one moment. Holding it keeps all of them alive.
pub struct Snapshot(Arc<Serving>);

impl Snapshot {
    /// Every version of every model.
    pub(super) fn all(&self) -> impl Iterator<Item = (ModelId, u64, &Arc<ServedModel>)> {
        self.0.iter().flat_map(|(name, named)| {
            named.iter().flat_map(|(namespace, versions)| {
                let id = ModelId { name: name.clone(), namespace: namespace.clone() };
                versions.iter().map(move |(version, model)| (id.clone(), *version, model))
            })
        })
    }

    /// That model, in that version or in the highest. Without a namespace, the only one of its name.
    pub fn find(&self, id: &ModelId, version: Option<u64>) -> Option<Arc<ServedModel>> {
        if id.namespace.is_empty() {
            return find(&self.0, &id.name, version).cloned();
        }
        of_version(self.0.get(&id.name)?.get(&id.namespace)?, version).cloned()
    }
}

fn find<'a>(
    serving: &'a Serving,
    name: &str,
    version: Option<u64>,
) -> Option<&'a Arc<ServedModel>> {
    let named = serving.get(name)?;
    // One without a namespace goes before those that are members of others.
    let meant = named.get("").or_else(|| named.values().next().filter(|_| named.len() == 1))?;
    of_version(meant, version)
}

fn of_version(versions: &Versions, version: Option<u64>) -> Option<&Arc<ServedModel>> {
    match version {
        Some(version) => versions.get(&version),
        None => versions.last_key_value().map(|(_, model)| model),
    }
}

/// All models, by name and version.
#[derive(Default)]
pub struct ModelManager {
    /// The models that serve. Read by every request, without a lock; replaced as a whole.
    serving: ArcSwap<Serving>,
    /// Guards what is known of every model, whether it serves or not. Taken after nothing else.
    known: Mutex<KnownModels>,
    /// Has everything been tried that was asked for at the start?
    started: AtomicBool,
    /// Other names of versions.
    pub labels: LabelTable,
}

impl ModelManager {
    /// The model of that name, in that version or in the highest that is ready. Holding it keeps it
    /// alive, whatever happens to the repository.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown model or version, or one that is not loaded;
    /// [`Error::ModelNotReady`] for one that is loading or has failed; [`Error::InvalidRequest`] for a name of
    /// several models.
    pub fn get(&self, name: &str, version: Option<u64>) -> Result<Arc<ServedModel>, Error> {
        find(&self.serving.load(), name, version)
            .cloned()
            .ok_or_else(|| self.explain(&ModelId::named(name), version))
    }

    /// The model in no namespace that serves under this name, in that version or in the highest that is ready; the
    /// versions that serve where that one does not. `None` where no version serves.
    pub fn without_namespace(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Option<Result<Arc<ServedModel>, Vec<u64>>> {
        let serving = self.serving.load();
        let versions = serving.get(name)?.get("").filter(|it| !it.is_empty())?;
        let found = of_version(versions, version).cloned();
        Some(found.ok_or_else(|| versions.keys().copied().collect()))
    }

    /// All models as of this moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.serving.load_full())
    }

    /// Has the ensembles that this model is a member of compared with it anew: what does not fit any more is
    /// logged.
    pub fn revalidate_ensembles(&self, member: &ModelId) {
        let serving = self.serving.load_full();
        for model in all_of(&serving) {
            if let Dispatch::Ensemble(ensemble) = &model.dispatch
                && ensemble.has_member(member)
            {
                ensemble.revalidate();
            }
        }
    }

    /// The versions of a model that serve, ascending.
    pub fn ready_versions(&self, name: &str) -> Vec<u64> {
        let serving = self.serving.load();
        let named = serving.get(name).into_iter().flat_map(|it| it.values());
        named.flat_map(|it| it.keys().copied()).collect()
    }

    /// Names of all models that serve, in order.
    pub fn ready_names(&self) -> Vec<Arc<str>> {
        let serving = self.serving.load();
        let ready = serving.iter().filter(|(_, named)| named.values().any(|it| !it.is_empty()));
        let mut names: Vec<Arc<str>> = ready.map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    /// The first by name of all models that serve.
    pub fn first_ready(&self) -> Option<Arc<str>> {
        let serving = self.serving.load();
        let ready = serving.iter().filter(|(_, named)| named.values().any(|it| !it.is_empty()));
        ready.map(|(name, _)| name).min().cloned()
    }

    /// The models that take texts, each in the highest version that serves, by name.
    pub fn of_texts(&self) -> Vec<Arc<ServedModel>> {
        let serving = self.serving.load();
        let mut names: Vec<&Arc<str>> = serving.keys().collect();
        names.sort();
        let found = names.into_iter().filter_map(|it| find(&serving, it, None));
        found.filter(|it| it.pipeline.is_some()).cloned().collect()
    }

    /// Names of all models that are known, whether they serve or not, in order.
    pub fn names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> =
            self.lock().states.keys().map(|it| it.name.clone()).collect();
        names.dedup();
        names
    }

    /// The models of that name that are known.
    pub fn ids(&self, name: &str) -> Vec<ModelId> {
        self.lock().of_name(name).map(|(id, _)| id.clone()).collect()
    }

    /// Every model and version that is known, by name and version.
    pub fn index(&self) -> Vec<IndexEntry> {
        self.lock().states.iter().flat_map(|(id, states)| entries(id, states)).collect()
    }

    /// What is known of a model's versions; empty for an unknown name.
    pub fn states(&self, name: &str) -> Vec<IndexEntry> {
        let known = self.lock();
        known.of_name(name).flat_map(|(id, states)| entries(id, states)).collect()
    }

    /// From now on the start is over: every model that was asked for serves or has failed.
    pub fn finish_start(&self) {
        let mut known = self.lock();
        let failed = known
            .states
            .iter()
            .filter(|(_, states)| states.values().any(|(state, _)| *state == State::Unavailable));
        known.lacking = failed.map(|(id, _)| id.clone()).collect();
        self.started.store(true, Ordering::Release);
    }

    /// Is the start over?
    pub fn is_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Is the start over, and has everything been loaded since that was asked for then? What is loaded or
    /// fails later makes no difference to a server that serves.
    pub fn all_ready(&self) -> bool {
        self.is_started()
            && self.lock().lacking.is_empty()
            && self.snapshot().all().all(|(.., model)| model.trouble().is_none())
    }

    /// Notes that there is such a model, of which no version has been loaded.
    pub fn know(&self, id: &ModelId) {
        self.lock().states.entry(id.clone()).or_default();
        if !id.namespace.is_empty() {
            // A name that is in several repositories must be seen to be, whichever of them serve.
            self.change(id, |named| {
                named.entry(id.namespace.clone()).or_default();
            });
        }
    }

    /// The same for all of these; models that were never loaded and are not among them are not known any more.
    pub fn know_only(&self, there: &BTreeSet<ModelId>) {
        let missing: Vec<&ModelId> = {
            let mut known = self.lock();
            known.states.retain(|id, states| !states.is_empty() || there.contains(id));
            there.iter().filter(|it| !known.states.contains_key(it)).collect()
        };
        missing.into_iter().for_each(|it| self.know(it));
    }

    /// The repository has it no more: what is known of its versions stays for the index.
    pub fn forget(&self, id: &ModelId) {
        self.lock().lacking.remove(id);
        self.change(id, |named| drop(named.remove(&id.namespace)));
    }

    /// The model, which serves no more, was never there.
    pub fn erase(&self, id: &ModelId) {
        self.forget(id);
        self.lock().states.remove(id);
    }

    /// The models in that namespace that are known.
    pub fn ids_in(&self, namespace: &str) -> Vec<ModelId> {
        self.lock().states.keys().filter(|it| *it.namespace == *namespace).cloned().collect()
    }

    /// Notes what a version is doing, or a model before its versions are known.
    pub fn note(
        &self,
        id: &ModelId,
        version: Option<u64>,
        state: State,
        reason: impl Into<Reason>,
    ) {
        let mut known = self.lock();
        let states = known.states.entry(id.clone()).or_default();
        if version.is_some() {
            // What was said of the model as a whole was said before its versions were known.
            states.remove(&None);
        }
        states.insert(version, (state, reason.into()));
    }

    /// An old version is gone, unless another one has come in its place.
    pub fn note_gone(&self, id: &ModelId, version: u64, reason: Reason) {
        let mut known = self.lock();
        let states = known.states.get_mut(id);
        if let Some(it) = states.and_then(|it| it.get_mut(&Some(version)))
            && it.0 == State::Unloading
        {
            *it = (State::Unavailable, reason);
        }
    }

    /// The versions of a model that serve.
    pub fn serving(&self, id: &ModelId) -> Arc<Versions> {
        let serving = self.serving.load();
        let named = serving.get(&id.name);
        named.and_then(|it| it.get(&id.namespace)).cloned().unwrap_or_default()
    }

    /// Lets these versions of a model serve and no others, from one request to the next. What served before is
    /// returned. For each model there is one caller at a time.
    pub fn switch(&self, id: &ModelId, versions: Versions) -> Arc<Versions> {
        let before = self.serving(id);
        let versions = Arc::new(versions);
        self.change(id, |named| {
            if versions.is_empty() && id.namespace.is_empty() {
                named.remove(&id.namespace);
            } else {
                named.insert(id.namespace.clone(), versions.clone());
            }
        });
        let mut known = self.lock();
        known.lacking.remove(id);
        let states = known.states.entry(id.clone()).or_default();
        if !versions.is_empty() {
            states.remove(&None);
        }
        for version in before.keys() {
            states.insert(Some(*version), (State::Unloading, Reason::None));
        }
        for version in versions.keys() {
            states.insert(Some(*version), (State::Ready, Reason::None));
        }
        before
    }

    /// From now on no request waits for others to batch with, because the server shuts down.
    pub fn flush(&self) {
        let serving = self.serving.load();
        all_of(&serving).for_each(|it| it.dispatch.queue().flush());
    }

    /// Memory is scarce: has every model give back what it keeps for later runs, at the latest with the next run of
    /// each instance.
    pub fn trim_memory(&self) {
        let serving = self.serving.load();
        all_of(&serving).filter_map(|it| it.model.as_ref()).for_each(|it| it.trim_memory());
    }

    /// Has models give back what instances at rest keep.
    pub fn rest(&self, now: Instant) {
        let serving = self.serving.load();
        all_of(&serving).filter_map(|it| it.model.as_ref()).for_each(|it| it.rest(now));
    }

    /// Each version that serves.
    pub fn for_each(&self, look: impl FnMut(&Arc<ServedModel>)) {
        let serving = self.serving.load();
        all_of(&serving).for_each(look);
    }

    /// Memory that models in processes of their own take there, in bytes. Looks at each of them that has done something
    /// since the last time, at most once a second.
    pub fn process_bytes(&self) -> u64 {
        let serving = self.serving.load();
        all_of(&serving).map(|it| it.processes.memory_bytes()).fold(0, u64::saturating_add)
    }

    /// Stops all models: what is queued is still run. Waits for their threads; blocking.
    ///
    /// Returns the number of threads that were still running after `patience`.
    pub fn close(&self, patience: Duration) -> usize {
        let until = Instant::now() + patience;
        let serving = self.serving.swap(Arc::default());
        all_of(&serving).for_each(|it| it.dispatch.queue().close());
        let left = || until.saturating_duration_since(Instant::now());
        all_of(&serving).map(|it| it.dispatch.queue().wait_closed(left())).sum()
    }

    fn change(&self, id: &ModelId, change: impl Fn(&mut Named)) {
        self.serving.rcu(|serving| {
            let mut serving = Serving::clone(serving);
            let named = serving.entry(id.name.clone()).or_default();
            change(Arc::make_mut(named));
            if named.is_empty() {
                serving.remove(&id.name);
            }
            serving
        });
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, KnownModels> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a request for that model cannot be answered.
    pub fn explain(&self, wanted: &ModelId, version: Option<u64>) -> Error {
        self.lock().explain(wanted, version, self.is_started())
    }
}

fn all_of(serving: &Serving) -> impl Iterator<Item = &Arc<ServedModel>> {
    serving.values().flat_map(|named| named.values()).flat_map(|versions| versions.values())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ModelId {
        ModelId::named(name)
    }

    fn refused(manager: &ModelManager, name: &str, version: Option<u64>) -> Error {
        manager.get(name, version).err().unwrap()
    }

    #[test]
    fn before_models_have_been_looked_for_none_is_said_not_to_exist() {
        let manager = ModelManager::default();
        assert!(matches!(refused(&manager, "m", None), Error::ModelNotReady { .. }));
        manager.finish_start();
        assert!(matches!(refused(&manager, "m", None), Error::NotFound(_)));
    }

    #[test]
    fn an_unknown_model_is_not_found_and_the_nearest_name_is_given() {
        let manager = ModelManager::default();
        manager.note(&id("fraud"), Some(1), State::Loading, "");
        let error = refused(&manager, "frauds", None);
        assert_eq!(
            error.to_string(),
            "Request for unknown model: 'frauds' is not found; did you mean 'fraud'?"
        );
    }

    #[test]
    fn an_unknown_version_is_not_found_and_one_that_failed_says_why() {
        let manager = ModelManager::default();
        manager.note(&id("m"), None, State::Loading, "");
        manager.note(&id("m"), Some(1), State::Loading, "");
        let loading = refused(&manager, "m", None).to_string();
        assert_eq!(
            loading,
            "Request for unknown model: 'm' has no available versions: it is still loading"
        );
        manager.note(&id("m"), Some(1), State::Unavailable, "no such file");
        let failed = refused(&manager, "m", Some(1)).to_string();
        assert_eq!(
            failed,
            "Request for unknown model: 'm' version 1 is not at ready state: no such file"
        );
        assert!(matches!(refused(&manager, "m", Some(2)), Error::NotFound(_)));
        manager.finish_start();
        assert!(!manager.all_ready());
    }

    #[test]
    fn what_fails_after_the_start_leaves_the_server_ready() {
        let manager = ModelManager::default();
        manager.finish_start();
        manager.note(&id("m"), Some(1), State::Loading, "");
        assert!(manager.all_ready());
        manager.note(&id("m"), Some(1), State::Unavailable, "no such file");
        assert!(manager.all_ready());
    }

    #[test]
    fn a_model_that_was_never_loaded_or_was_unloaded_is_not_found_and_says_which() {
        let manager = ModelManager::default();
        manager.know(&id("m"));
        let expected = "Request for unknown model: 'm' has no available versions: it is not loaded";
        assert_eq!(refused(&manager, "m", None).to_string(), expected);
        manager.note(&id("m"), Some(1), State::Unloading, "");
        manager.note_gone(&id("m"), 1, Reason::Unloaded);
        let error = refused(&manager, "m", None);
        assert!(matches!(error, Error::NotFound(_)), "{error}");
        assert!(matches!(refused(&manager, "m", Some(1)), Error::ModelNotReady { .. }));
    }

    #[test]
    fn a_name_in_several_namespaces_is_refused_naming_them() {
        let manager = ModelManager::default();
        for namespace in ["/a", "/b"] {
            manager.know(&ModelId { name: "m".into(), namespace: namespace.into() });
        }
        let error = refused(&manager, "m", None);
        assert!(matches!(error, Error::InvalidRequest(_)), "{error}");
        assert!(error.to_string().contains("in the namespaces /a, /b"), "{error}");
        manager.forget(&ModelId { name: "m".into(), namespace: "/b".into() });
        assert_eq!(manager.names(), ["m".into()]);
    }
}
