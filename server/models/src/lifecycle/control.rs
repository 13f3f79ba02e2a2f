//! What all parts of the control over models share, and what its callers ask of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use backend::MODEL_STACK;

use crate::{
    lifecycle::{
        decide::Sources,
        load_override::{LoadOverride, ReadOverride},
        load_slots::LoadSlots,
        members::MemberWaits,
        multi_model::Keyed,
        on_demand::Demand,
        reaper::Reaper,
    },
    load::loader::Loader,
    lock::lock,
    repository::{
        catalogue::{Catalogue, Wanted},
        file_stamps::FileStamps,
        local::FoundModel,
        model_id::ModelId,
        remote::Copies,
    },
    serving::{
        manager::ModelManager,
        state::{IndexEntry, State},
    },
};
use configuration::ModelControl;
use inference::error::Error;

/// Loads and unloads models.
pub struct Control {
    pub(super) settings: ModelControl,
    pub(super) loader: Arc<Loader>,
    pub(super) manager: Arc<ModelManager>,
    pub(super) catalogue: Catalogue,
    pub(super) load_slots: LoadSlots,
    pub(super) reaper: Reaper,
    /// There only where requests load models.
    pub(super) demand: Option<Demand>,
    /// Guards which models have been dealt with; not what is known of each.
    pub(super) records: Mutex<BTreeMap<ModelId, SharedRecord>>,
    /// Guards which members loaded models have. Taken after nothing but a [`SharedRecord`].
    pub(super) links: Mutex<BTreeMap<ModelId, Vec<ModelId>>>,
    pub(super) awaited: MemberWaits,
    /// Guards which models are being loaded at the start, and since when. Nothing else is taken under it.
    pub(super) loading: Mutex<BTreeMap<ModelId, Instant>>,
    /// There only where a platform loads models under keys.
    pub(super) keyed: Option<Keyed>,
    /// Held by whoever compares the models with what they should be: those that are named are replaced as a whole.
    pub(super) turn: Mutex<()>,
    /// Guards the text of the model config file that was taken up last.
    pub(super) config_text: Mutex<Option<String>>,
}

/// Guards what is known of one model, and that one thread at a time loads or unloads it. Those of members are
/// taken while that of the model above them is held, never the other way round.
pub(super) type SharedRecord = Arc<Mutex<ModelRecord>>;

/// What is known of a model that has been dealt with.
#[derive(Default)]
pub(super) struct ModelRecord {
    /// What its versions that serve were made of.
    pub(super) loaded: Option<Sources>,
    /// What came with the last request to load it.
    pub(super) given: Option<ReadOverride>,
    /// Its files when it was last loaded, or could not be.
    pub(super) settled: Option<FileStamps>,
    /// Somebody has unloaded it by request: requests for it do not load it again.
    pub(super) withheld: bool,
    /// Bytes that it took when it was loaded last; 0 where nobody measures.
    pub(super) bytes: u64,
}

impl Control {
    /// Control over the models of a catalogue, which the manager is to look up.
    pub fn new(
        settings: ModelControl,
        loader: Arc<Loader>,
        manager: Arc<ModelManager>,
        catalogue: Catalogue,
    ) -> Control {
        let demand = settings.on_demand.map(Demand::new);
        // Memory can be measured only while one model at a time takes some.
        let measures = demand.as_ref().is_some_and(Demand::has_budget);
        let load_slots = LoadSlots::new(if measures { 1 } else { loader.threads().get() });
        Control {
            load_slots,
            reaper: Reaper::new(loader.clone(), manager.clone()),
            keyed: settings.multi_model.clone().map(Keyed::new),
            settings,
            loader,
            manager,
            catalogue,
            demand,
            records: Mutex::default(),
            links: Mutex::default(),
            awaited: MemberWaits::default(),
            loading: Mutex::default(),
            turn: Mutex::default(),
            config_text: Mutex::default(),
        }
    }

    /// Loads a model, or loads it again, and returns once it serves. What serves already goes on until then; where
    /// nothing has changed, nothing happens. Blocking.
    ///
    /// # Errors
    /// [`Error::Unavailable`] in control modes other than explicit; [`Error::InvalidRequest`] for what is wrong
    /// with the request, and for a model that its engine cannot load; [`Error::Repository`] where the repository
    /// has no such model, or its configuration cannot be read. What served before still does.
    pub fn load(&self, name: &str, given: LoadOverride) -> Result<(), Error> {
        self.must_be_explicit()?;
        check_name(name)?;
        let given = ReadOverride::read(name, given, &self.loader.reader, &self.settings.scratch)?;
        self.on_load_thread(name, || self.load_by_request(name, given))?
    }

    /// Stops serving a model; with `dependents` the members of an ensemble as well, but for those that another
    /// loaded ensemble needs. Requests in flight are still answered. An unknown model is no error.
    ///
    /// # Errors
    /// [`Error::Unavailable`] in control modes other than explicit; [`Error::InvalidRequest`] for what is no name.
    pub fn unload(&self, name: &str, dependents: bool) -> Result<(), Error> {
        self.must_be_explicit()?;
        check_name(name)?;
        self.unload_by_request(name, dependents);
        Ok(())
    }

    /// Every model and version; where models are loaded by request, also those in the repository that never were.
    /// Blocking.
    pub fn index(&self) -> Vec<IndexEntry> {
        if self.settings.is_explicit() {
            match self.catalogue.look(Wanted::These(&[])) {
                Ok(found) => {
                    let there: BTreeSet<ModelId> =
                        found.models.into_keys().chain(found.remote).collect();
                    self.manager.know_only(&there);
                }
                Err(error) => tracing::warn!(%error, "cannot look for models"),
            }
        }
        self.manager.index()
    }

    /// The models that are being loaded at the start, or after a look at the repository, and for how long.
    pub fn loading(&self) -> Vec<(ModelId, Duration)> {
        lock(&self.loading).iter().map(|(id, since)| (id.clone(), since.elapsed())).collect()
    }

    /// Stops all models: what is queued is still run. Waits for their threads; blocking.
    ///
    /// Returns the number of threads that were still running after `patience`.
    pub fn close(&self, patience: Duration) -> usize {
        let until = Instant::now() + patience;
        let running = self.manager.close(patience);
        self.reaper.wait(until.saturating_duration_since(Instant::now()));
        running
    }

    pub(super) fn must_be_explicit(&self) -> Result<(), Error> {
        match self.settings.is_explicit() {
            true => Ok(()),
            false => Err(Error::Unavailable(
                "models are loaded and unloaded by request only with --model-control-mode=explicit"
                    .into(),
            )),
        }
    }

    pub(super) fn record(&self, id: &ModelId) -> SharedRecord {
        lock(&self.records).entry(id.clone()).or_default().clone()
    }

    /// The one model of a name, as the repository has it now; with [`Copies::OrLast`] as it was had last, where that
    /// cannot be found out.
    pub(super) fn find(&self, name: &str, copies: Copies) -> Result<FoundModel, Error> {
        let places = self.catalogue.places();
        let found =
            self.catalogue.one(name, copies).map_err(|it| Error::Repository(it.to_string()))?;
        if let Some(reason) = found.refused.into_values().next() {
            return Err(Error::Repository(format!("model '{name}' cannot be loaded: {reason}")));
        }
        let mut models: Vec<FoundModel> = found.models.into_values().collect();
        match models.len() {
            0 => Err(Error::Repository(format!(
                "there is no model '{name}': looked for a directory of that name in {places}"
            ))),
            1 => Ok(models.remove(0)),
            _ => {
                let namespaces: Vec<&str> = models.iter().map(|it| &*it.namespace).collect();
                Err(Error::InvalidRequest(format!(
                    "there are several models '{name}', in the namespaces {}; expected a name that is used once",
                    namespaces.join(", ")
                )))
            }
        }
    }

    /// Runs `work` on a thread with the stack that engines need, and waits for it. Blocking.
    pub(super) fn on_load_thread<T: Send>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, Error> {
        let lost = |what: String| Error::Internal(format!("cannot load model '{name}': {what}"));
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("load".to_owned()).stack_size(MODEL_STACK);
            let thread = builder.spawn_scoped(scope, work).map_err(|it| lost(it.to_string()))?;
            thread.join().map_err(|_| lost("its thread has panicked".to_owned()))
        })
    }

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

/// What can be the name of a directory in a repository.
fn check_name(name: &str) -> Result<(), Error> {
    if !name.is_empty() && ![".", ".."].contains(&name) && !name.contains(['/', '\0']) {
        return Ok(());
    }
    let shown: String = name.chars().take(100).collect();
    Err(Error::InvalidRequest(format!(
        "'{}' cannot be the name of a model: expected a name that is not empty, not '..', and without '/'",
        shown.escape_debug()
    )))
}
