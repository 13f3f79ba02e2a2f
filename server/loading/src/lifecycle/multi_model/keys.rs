//! The keys of a multi-model endpoint: which loads wait for which, and what memory is reserved for them.

use serving::EndpointModel;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use backend::BackendError;

use crate::{
    lifecycle::multi_model::{
        memory_budget::{self, Usage},
        table::{LoadFailure, Stage, Table},
    },
    settings::multi_model::MultiModel as Settings,
};
use inference::error::Error;
use serving::lock::lock;

/// The models of a multi-model endpoint, by their keys.
pub(in crate::lifecycle) struct Keys {
    pub(super) settings: Settings,
    /// Guards which keys there are and how far their models are; never held while anything is loaded.
    pub(super) table: Mutex<Table>,
    /// A load or an unload has ended.
    changed: Condvar,
}

impl Keys {
    pub(in crate::lifecycle) fn new(settings: Settings) -> Keys {
        Keys { settings, table: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes the key for a load; waits for one that is going on, and for an unload. Blocking.
    pub(super) fn begin(&self, model: EndpointModel) -> Result<Loading<'_>, Error> {
        let key = model.key.clone();
        let mut awaited: Option<LoadFailure> = None;
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
        let failure = LoadFailure::default();
        table.begin(model, failure.clone());
        Ok(Loading { keys: self, key, failure, is_loaded: false })
    }

    /// Takes a loaded model out of the table, after a load of it that is going on. Blocking.
    pub(super) fn withdraw(&self, key: &str) -> Result<EndpointModel, Error> {
        let mut table = lock(&self.table);
        while let Some(Stage::Loading(_)) = table.stage(key) {
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        table.withdraw(key).ok_or_else(|| not_loaded(key))
    }

    /// Reserves so much memory for the model that lies there, if there is room for it.
    ///
    /// # Errors
    /// [`Error::Backend`] with [`BackendError::OutOfMemory`] where there is none.
    pub(super) fn make_room(
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

    /// The directory in which members of the model of that key lie.
    pub(in crate::lifecycle) fn directory(&self, key: &str) -> Option<Arc<Path>> {
        lock(&self.table).repository(key)
    }

    /// A load or an unload ends with this change.
    pub(super) fn end(&self, end: impl FnOnce(&mut Table)) {
        end(&mut lock(&self.table));
        self.changed.notify_all();
    }
}

/// A load that is going on. Dropped before it is done, it has failed.
pub(super) struct Loading<'a> {
    keys: &'a Keys,
    key: Arc<str>,
    pub(super) failure: LoadFailure,
    /// It is done, and has not failed.
    pub(super) is_loaded: bool,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let lost = || Error::Internal(format!("the load of model '{}' was lost", self.key));
        self.keys.end(|table| match self.is_loaded {
            true => table.loaded(&self.key),
            false => {
                self.failure.get_or_init(lost);
                table.remove(&self.key);
            }
        });
    }
}

/// The answer for a key that no loaded model has.
pub(super) fn not_loaded(key: &str) -> Error {
    let shown: String = key.chars().take(128).collect();
    Error::NotFound(format!("model '{shown}' is not loaded"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn model(key: &str) -> EndpointModel {
        EndpointModel { key: key.into(), url: "/m".into(), label: None }
    }

    #[test]
    fn nothing_waits_while_the_machine_is_asked_and_what_was_loaded_meanwhile_counts() {
        let memory = Some(1000 * MIB);
        let keys = Keys::new(Settings { root: "/m".into(), budget: None, memory });
        for key in ["old", "new"] {
            lock(&keys.table).begin(model(key), LoadFailure::default());
        }
        lock(&keys.table).reserve("old", "/m".into(), 500 * MIB);
        let asked = Cell::new(0);
        let usage = || {
            let mut table = keys.table.try_lock().expect("the table is not held");
            asked.set(asked.get() + 1);
            // What it had taken before is as if it had not been loaded.
            let resident = if asked.get() == 1 { 0 } else { 500 * MIB };
            table.loaded("old");
            Usage { taken: resident, available: None }
        };
        let error = keys.make_room("new", "/m".into(), 600 * MIB, usage).unwrap_err();
        assert_eq!(asked.get(), 2);
        assert!(error.to_string().contains("500 MiB of 1000 MiB"), "{error}");
        keys.make_room("new", "/m".into(), 400 * MIB, usage).unwrap();
        assert_eq!(lock(&keys.table).reserved().loading, 400 * MIB);
    }
}
