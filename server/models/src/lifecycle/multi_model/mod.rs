//! Models that a platform loads under keys of its choice, each from a directory of its own: multi-model endpoints.
//!
//! A key is the name of the model that answers; those that it is made of, if it is an ensemble, lie in a namespace
//! that is called like the key. So two keys may hold models whose directories have the same names.

mod layout;
mod memory_budget;
pub(crate) mod table;

use std::{
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use backend::BackendError;

pub use crate::lifecycle::multi_model::table::KeyedModel;
use crate::{
    lifecycle::{
        control::Control,
        converge::LoadMode,
        multi_model::{
            layout::Layout,
            memory_budget::Usage,
            table::{Failure, Stage, Table},
        },
    },
    lock::lock,
    repository::{
        file_stamps::FileStamps, local::Found, model_id::ModelId, versions::wanted_versions,
    },
    serving::served::ServedModel,
};
use configuration::MultiModel;
use inference::error::Error;
use machine::{available_bytes, resident_bytes};

/// Longest that an unload waits for the requests of the model. The platform waits ten seconds more.
const LONGEST_UNLOAD: Duration = Duration::from_secs(350);

/// Longest key and label, in bytes.
const LONGEST_NAME: usize = 1024;

/// What a platform wants to be loaded.
#[derive(Debug, Clone, Copy)]
pub struct KeyedLoad<'a> {
    /// Its name for the model.
    pub key: &'a str,
    /// The directory, or the file, of the model.
    pub url: &'a str,
    /// What people call the model, where it says so.
    pub label: Option<&'a str>,
}

/// The models of a multi-model endpoint.
pub(super) struct Keyed {
    settings: MultiModel,
    /// Guards which keys there are and how far their models are; never held while anything is loaded.
    table: Mutex<Table>,
    /// A load or an unload has ended.
    changed: Condvar,
}

impl Keyed {
    pub(super) fn new(settings: MultiModel) -> Keyed {
        Keyed { settings, table: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes the key for a load; waits for one that is going on, and for an unload. Blocking.
    fn begin(&self, model: KeyedModel) -> Result<Loading<'_>, Error> {
        let key = model.key.clone();
        let mut awaited: Option<Failure> = None;
        let mut table = lock(&self.table);
        loop {
            if let Some(error) = awaited.as_ref().and_then(|it| it.get()) {
                return Err(error.clone());
            }
            match table.stage(&key) {
                None => break,
                Some(Stage::Loaded) => {
                    return Err(Error::AlreadyLoaded(format!("model '{key}' is already loaded")));
                }
                Some(Stage::Loading(failure)) => awaited = Some(failure),
                Some(Stage::Unloading) => {}
            }
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        let failure = Failure::default();
        table.begin(model, failure.clone());
        Ok(Loading { keyed: self, key, failure, is_loaded: false })
    }

    /// Takes a loaded model out of the table, after a load of it that is going on. Blocking.
    fn withdraw(&self, key: &str) -> Result<KeyedModel, Error> {
        let mut table = lock(&self.table);
        while let Some(Stage::Loading(_)) = table.stage(key) {
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        table.withdraw(key).ok_or_else(|| not_loaded(key))
    }

    /// Reckons with a model that lies there and needs so much, if there is room for it.
    ///
    /// # Errors
    /// [`Error::Backend`] with [`BackendError::OutOfMemory`] where there is none.
    fn make_room(
        &self,
        key: &str,
        path: PathBuf,
        needed: u64,
        usage: impl Fn() -> Usage,
    ) -> Result<(), Error> {
        let mut reserved = lock(&self.table).reserved();
        loop {
            // Asks the machine, which takes its time.
            let usage = usage();
            let mut table = lock(&self.table);
            let before = std::mem::replace(&mut reserved, table.reserved());
            // What was still being loaded then and is there now would count in neither.
            if before != reserved {
                continue;
            }
            memory_budget::check(needed, &self.settings, reserved, usage).map_err(|reason| {
                let text = format!("model '{key}' cannot be loaded: {reason}");
                Error::Backend(BackendError::OutOfMemory(text))
            })?;
            table.reserve(key, path, needed);
            return Ok(());
        }
    }

    fn end(&self, end: impl FnOnce(&mut Table)) {
        end(&mut lock(&self.table));
        self.changed.notify_all();
    }
}

/// A load that is going on. Dropped before it is done, it has failed.
struct Loading<'a> {
    keyed: &'a Keyed,
    key: Arc<str>,
    failure: Failure,
    is_loaded: bool,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let lost = || Error::Internal(format!("the load of model '{}' was lost", self.key));
        self.keyed.end(|table| match self.is_loaded {
            true => table.loaded(&self.key),
            false => {
                self.failure.get_or_init(lost);
                table.remove(&self.key);
            }
        });
    }
}

impl Control {
    /// Is this a multi-model endpoint?
    pub fn is_multi_model(&self) -> bool {
        self.keyed.is_some()
    }

    /// Loads a model under a key, and returns once it serves. Of two loads of one key the second waits for the
    /// first. Blocking.
    ///
    /// # Errors
    /// [`Error::AlreadyLoaded`]; [`Error::Backend`] with [`BackendError::OutOfMemory`] where there is too little
    /// memory; [`Error::InvalidRequest`] for what is wrong with the request or the model; those of the load that
    /// was waited for; [`Error::NotFound`] where this is no multi-model endpoint.
    pub fn load_keyed(&self, load: KeyedLoad<'_>) -> Result<KeyedModel, Error> {
        let keyed = self.multi_model()?;
        check_name("model_name", load.key)?;
        load.label.map_or(Ok(()), |it| check_name("X-Amzn-SageMaker-Target-Model", it))?;
        let model = KeyedModel {
            key: load.key.into(),
            url: load.url.into(),
            label: load.label.map(Arc::from),
        };
        let mut loading = keyed.begin(model.clone())?;
        let began = Instant::now();
        let loaded = self.load_begun(keyed, load).map_err(|error| match error {
            // It is the request that names the place.
            Error::Repository(text) => Error::InvalidRequest(text),
            error => error,
        });
        let (KeyedLoad { key, url, .. }, target_model) = (load, load.label);
        if let Err(error) = loaded {
            tracing::warn!(model = key, target_model, url, %error, "cannot load the model for the platform");
            self.end_all_of(key, LONGEST_UNLOAD);
            loading.failure.get_or_init(|| error.clone());
            return Err(error);
        }
        let took_ms = began.elapsed().as_millis();
        tracing::info!(model = key, target_model, url, took_ms, "loaded for the platform");
        loading.is_loaded = true;
        Ok(model)
    }

    fn load_begun(&self, keyed: &Keyed, load: KeyedLoad<'_>) -> Result<(), Error> {
        let KeyedLoad { key, url, label } = load;
        let root = &keyed.settings.root;
        let path = layout::resolve(url, root)?;
        let layout = layout::look(&path, root, key, label, &self.loader)?;
        let needed = memory_budget::needed(self.file_bytes(&layout));
        let usage = || Usage { resident: resident_bytes(), available: available_bytes() };
        keyed.make_room(key, path, needed, usage)?;
        self.converge_found(layout.entry, LoadMode::AllOrNothing, false)
    }

    /// Bytes of the files of all versions that are going to be loaded.
    fn file_bytes(&self, layout: &Layout) -> u64 {
        let of_ensemble = layout.others.iter();
        let models = std::iter::once(&layout.entry).chain(of_ensemble);
        let bytes = models.map(|found| {
            let raw = self.loader.read_config(found).ok().flatten();
            // What is wrong with it is said when it is loaded.
            let wanted = wanted_versions(raw.as_ref(), found).ok();
            let numbers = wanted.into_iter().flat_map(|it| it.here).map(|(number, _)| number);
            FileStamps::take(found).bytes(numbers)
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Unloads the model of a key, and returns once its requests are answered and its memory is given back.
    /// Blocking.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not loaded, or this is no multi-model endpoint; [`Error::Internal`] when
    /// its requests are not answered in time: it goes when they are.
    pub fn unload_keyed(&self, key: &str) -> Result<KeyedModel, Error> {
        let keyed = self.multi_model()?;
        let model = keyed.withdraw(key)?;
        let began = Instant::now();
        let is_gone = self.end_all_of(key, LONGEST_UNLOAD);
        keyed.end(|table| table.remove(key));
        let (target_model, took_ms) = (model.label.as_deref(), began.elapsed().as_millis());
        tracing::info!(model = key, target_model, took_ms, is_gone, "unloaded for the platform");
        match is_gone {
            true => Ok(model),
            false => Err(Error::Internal(format!(
                "requests of model '{key}' are still running {} seconds after it was unloaded; its memory comes \
                 back when they are answered",
                LONGEST_UNLOAD.as_secs()
            ))),
        }
    }

    /// Ends the model of a key, then those that it is made of, and forgets them. Did they end in that time?
    fn end_all_of(&self, key: &str, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let left = || until.saturating_duration_since(Instant::now());
        let entry = ModelId::named(key);
        self.unload_one(&entry);
        // Its requests need its members to the end.
        let mut is_gone = self.reaper.wait_for(&entry, left());
        let members = self.manager.ids_in(key);
        members.iter().for_each(|it| drop(self.unload_one(it)));
        for id in members.iter().chain([&entry]) {
            is_gone &= self.reaper.wait_for(id, left());
            self.manager.erase(id);
            lock(&self.records).remove(id);
        }
        is_gone
    }

    /// The model of a key, to be asked. `label` is what the request calls it; from now on it is found by that, too,
    /// unless it has a label, or another model is found by this one.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not loaded, or this is no multi-model endpoint.
    pub fn keyed(&self, key: &str, label: Option<&str>) -> Result<Arc<ServedModel>, Error> {
        let keyed = self.multi_model()?;
        let model = self.manager.keyed(key).ok_or_else(|| not_loaded(key))?;
        if let Some(label) = label.filter(|it| it.len() <= LONGEST_NAME) {
            lock(&keyed.table).learn(key, label);
        }
        Ok(model)
    }

    /// The model that people call so, else the only one.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where there is neither; those of [`Control::keyed`].
    pub fn labelled_or_only(&self, label: Option<&str>) -> Result<Arc<ServedModel>, Error> {
        let keyed = self.multi_model()?;
        let key = {
            let table = lock(&keyed.table);
            let key =
                label.and_then(|it| table.owner_of_label(it)).map_or_else(|| table.only(), Ok);
            key.map_err(|count| {
                let given = match label {
                    Some(label) => format!("no loaded model is called '{label}'"),
                    None => "the request names no model".to_owned(),
                };
                Error::InvalidRequest(format!(
                    "{given}, and {count} models are loaded: name one in X-Amzn-SageMaker-Target-Model, or ask \
                     /models/<name>/invoke"
                ))
            })?
        };
        self.keyed(&key, None)
    }

    /// The model of a key.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not loaded, or this is no multi-model endpoint.
    pub fn keyed_model(&self, key: &str) -> Result<KeyedModel, Error> {
        let table = lock(&self.multi_model()?.table);
        table.get(key).cloned().ok_or_else(|| not_loaded(key))
    }

    /// Loaded models in the order of their keys: at most so many of those behind `after`, and whether there are
    /// more.
    ///
    /// # Errors
    /// [`Error::NotFound`] where this is no multi-model endpoint.
    pub fn keyed_models(
        &self,
        after: Option<&str>,
        most: usize,
    ) -> Result<(Vec<KeyedModel>, bool), Error> {
        Ok(lock(&self.multi_model()?.table).page(after, most))
    }

    /// What a member of a keyed model is made of; `None` for any other model.
    pub(super) fn find_member(&self, id: &ModelId) -> Option<Found> {
        let repository = lock(&self.keyed.as_ref()?.table).repository(&id.namespace)?;
        Some(layout::member(id, &repository))
    }

    fn multi_model(&self) -> Result<&Keyed, Error> {
        self.keyed.as_ref().ok_or_else(|| {
            Error::NotFound(
                "this is no multi-model endpoint: /models is there only with --sagemaker-multi-model=true \
                 (SAGEMAKER_MULTI_MODEL)"
                    .to_owned(),
            )
        })
    }
}

fn not_loaded(key: &str) -> Error {
    let shown: String = key.chars().take(128).collect();
    Error::NotFound(format!("model '{shown}' is not loaded"))
}

fn check_name(field: &str, name: &str) -> Result<(), Error> {
    if !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(char::is_control) {
        return Ok(());
    }
    let shown: String = name.chars().take(100).collect();
    Err(Error::InvalidRequest(format!(
        "{field}: expected 1 to {LONGEST_NAME} bytes without control characters, given '{}'",
        shown.escape_debug()
    )))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn model(key: &str) -> KeyedModel {
        KeyedModel { key: key.into(), url: "/m".into(), label: None }
    }

    #[test]
    fn nothing_waits_while_the_machine_is_asked_and_what_was_loaded_meanwhile_counts() {
        let memory = Some(1000 * MIB);
        let keyed = Keyed::new(MultiModel { root: "/m".into(), budget: None, memory });
        for key in ["old", "new"] {
            lock(&keyed.table).begin(model(key), Failure::default());
        }
        lock(&keyed.table).reserve("old", "/m".into(), 500 * MIB);
        let asked = Cell::new(0);
        let usage = || {
            let mut table = keyed.table.try_lock().expect("nobody holds the table");
            asked.set(asked.get() + 1);
            // What it had taken before is as if it had not been loaded.
            let resident = if asked.get() == 1 { 0 } else { 500 * MIB };
            table.loaded("old");
            Usage { resident, available: None }
        };
        let error = keyed.make_room("new", "/m".into(), 600 * MIB, usage).unwrap_err();
        assert_eq!(asked.get(), 2);
        assert!(error.to_string().contains("500 MiB of 1000 MiB"), "{error}");
        keyed.make_room("new", "/m".into(), 400 * MIB, usage).unwrap();
        assert_eq!(lock(&keyed.table).reserved().loading, 400 * MIB);
    }
}
