//! Optimised models on disk: a later load maps what an earlier one has made, and so do other processes.
//!
//! A folder holds one entry per key, and a key is all that an optimised model depends on. Entries are
//! checked byte by byte before they are used. Whatever goes wrong here is a warning: a model that cannot
//! be kept is loaded as it would be without a cache.

mod aligned;
mod entry;
mod key;
mod tidy;
mod trouble;

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Once},
};

use backend::BackendError;

use crate::{
    error,
    files::ModelFiles,
    held::{Held, InMemory},
    library::Runtime,
    native::{Session, Source},
    options::Settings,
};
use entry::{Aside, CacheEntry};
use key::Key;
use trouble::Trouble;

/// Gives the model's files where nobody else writes to them.
type Hold<'a> = dyn Fn() -> Result<Held, BackendError> + 'a;

/// The folder of optimised models.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    /// Its permissions are looked at when it is first used.
    looked_at: Once,
}

impl Cache {
    /// Does not look at the folder, which need not exist yet.
    pub(crate) fn new(folder: PathBuf) -> Cache {
        Cache { folder, looked_at: Once::new() }
    }

    /// A session from the model's entry, which is made if there is none or it is damaged. Blocking: the
    /// model's files and the entry are read as a whole.
    ///
    /// `None`, and a warning in the log, where that cannot be.
    pub(crate) fn session(
        &self,
        runtime: &Arc<Runtime>,
        files: &ModelFiles,
        settings: &Settings,
        hold: &Hold<'_>,
    ) -> Option<Session> {
        self.looked_at.call_once(|| self.look_at());
        let load = Load { folder: &self.folder, runtime, files, settings, hold };
        load.session()
            .inspect_err(|trouble| {
                let (model, folder) = (files.model.display(), self.folder.display());
                tracing::warn!(
                    "{model} is loaded without an optimised model from the cache in {folder}: {trouble}"
                );
            })
            .ok()
    }

    fn look_at(&self) {
        let Ok(data) = fs::metadata(&self.folder) else { return };
        if data.permissions().mode() & 0o002 != 0 {
            tracing::warn!(
                "everybody may write to the model cache in {}, and so decide what models answer; take that \
                 permission away",
                self.folder.display()
            );
        }
    }
}

/// One model on its way through the cache.
struct Load<'a> {
    folder: &'a Path,
    runtime: &'a Arc<Runtime>,
    files: &'a ModelFiles,
    settings: &'a Settings,
    hold: &'a Hold<'a>,
}

impl Load<'_> {
    fn session(&self) -> Result<Session, Trouble> {
        let key = Key::of(self.files, self.settings)?;
        let entry = CacheEntry::new(self.folder, &key);
        if let Some(session) = self.kept(&entry)? {
            return Ok(session);
        }
        self.make(&entry, &key)?;
        // What other processes left behind is no reason not to serve.
        tidy::tidy(self.folder);
        self.kept(&entry)?.ok_or_else(|| Trouble::Unfit("the new entry is gone again".to_owned()))
    }

    /// A session from the entry. `None` if there is none, and if it was damaged, in which case it is gone.
    fn kept(&self, entry: &CacheEntry<'_>) -> Result<Option<Session>, Trouble> {
        if !entry.exists() {
            return Ok(None);
        }
        let problem = match entry
            .checked_while(|model| self.open(model, Source::Optimised, InMemory::NOTHING))
        {
            Ok(Ok(session)) => {
                entry.note_use();
                return Ok(Some(session));
            }
            Ok(Err(error)) => error.to_string(),
            Err(problem) => problem,
        };
        tracing::warn!("dropping {} from the model cache: {problem}", entry.path().display());
        entry.remove().map_err(|error| Trouble::File(entry.path().to_owned(), error))?;
        Ok(None)
    }

    /// Makes the entry from the model.
    fn make(&self, entry: &CacheEntry<'_>, key: &Key) -> Result<(), Trouble> {
        let failed = |error| Trouble::File(self.folder.to_owned(), error);
        DirBuilder::new().recursive(true).mode(0o700).create(self.folder).map_err(failed)?;
        let aside = Aside::new(self.folder).map_err(failed)?;
        let held = (self.hold)().map_err(|it| Trouble::Runtime(it.to_string()))?;
        let model = held.model(&self.files.model);
        drop(self.open(model, Source::ModelToKeep(&aside.model()), held.in_memory())?);
        drop(held);
        aligned::align(&aside.model()).map_err(|it| Trouble::File(aside.model(), it))?;
        // Else what was read is not what the key is of, and would be served as that for ever.
        if Key::of(self.files, self.settings)? != *key {
            return Err(Trouble::Unfit("its files were changed while they were read".to_owned()));
        }
        entry.publish(aside).map_err(failed)
    }

    fn open(
        &self,
        path: &Path,
        source: Source<'_>,
        weights: InMemory<'_>,
    ) -> Result<Session, Trouble> {
        Session::new(self.runtime, path, source, weights, self.settings)
            .map_err(|error| Trouble::Runtime(error::of_load(path, &error).to_string()))
    }
}
