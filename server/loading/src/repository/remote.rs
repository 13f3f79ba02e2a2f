//! A repository in an object store, and what is done while the store cannot be reached: what was had last is served on,
//! and the log says so once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::repository::local::is_model_name;
use serving::lock::lock;
use stores::{
    Store, StoreError,
    store_settings::{StoreSettings, StoreUrl},
};

/// A store that could not be reached is not tried again before then, except for a load by request: finding out takes
/// up to 20 s.
const RETRY: Duration = Duration::from_secs(10);

/// What will do for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// Only what the store has now.
    Fresh,
    /// The last copy, where the store cannot be reached.
    OrLast,
}

/// A repository in an object store.
#[derive(Debug)]
pub(crate) struct Remote {
    /// As the settings have it.
    address: PathBuf,
    store: Store,
    /// Guards what is known of the store. Held for a look.
    known: Mutex<StoreListing>,
}

#[derive(Debug, Default)]
struct StoreListing {
    /// When it could not be reached, if it has not answered since.
    away: Option<(Instant, StoreError)>,
    /// Names that it gave last; `None` where it has not answered yet.
    names: Option<BTreeSet<String>>,
    /// Models of which the log says that their last copy is used.
    stale: BTreeSet<String>,
}

impl Remote {
    /// Makes ready; the store is not used yet.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub(crate) fn open(address: &str, settings: &StoreSettings) -> Result<Remote, StoreError> {
        let url = StoreUrl::parse(address).map_err(|expected| StoreError::Settings {
            url: "--model-repository".to_owned(),
            problem: format!("expected {expected}"),
        })?;
        let store = Store::open(&url, settings)?;
        Ok(Remote { address: address.into(), store, known: Mutex::default() })
    }

    /// The repository's address, which is the namespace of its models as well.
    pub(crate) fn address(&self) -> &Path {
        &self.address
    }

    /// A model was loaded from this directory.
    pub(crate) fn serves(&self, dir: &Path) {
        self.store.serves(dir);
    }

    /// The directory of the same model, if it was fetched again since this one was.
    pub(crate) fn newer(&self, dir: &Path) -> Option<PathBuf> {
        self.store.newer(dir)
    }

    /// Names of its models, in order; while the store cannot be reached, those that it gave last, else those of which
    /// there are copies. Blocking.
    ///
    /// # Errors
    /// When neither is known.
    pub(crate) fn names(&self) -> Result<Vec<String>, StoreError> {
        let names = self.ask(|| self.store.names());
        match names {
            Ok(names) => {
                let names: BTreeSet<String> =
                    names.into_iter().filter(|it| is_model_name(it)).collect();
                lock(&self.known).names = Some(names.clone());
                Ok(names.into_iter().collect())
            }
            Err(error) if error.is_away() => {
                let known = lock(&self.known).names.clone();
                match known {
                    Some(names) => Ok(names.into_iter().collect()),
                    None => Ok(self.copies_or(error)?.into_keys().collect()),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The directory of each of its models, or why it has none; while the store cannot be reached, those of the last
    /// copies. Blocking: it fetches what has changed.
    ///
    /// # Errors
    /// When the store cannot be reached, and there are no copies.
    pub(crate) fn all(&self) -> Result<BTreeMap<String, Result<PathBuf, StoreError>>, StoreError> {
        let mut all = match self.ask(|| self.store.fetch_all()) {
            Ok(all) => all,
            Err(error) if error.is_away() => {
                let copies = self.copies_or(error)?;
                return Ok(copies.into_iter().map(|(name, dir)| (name, Ok(dir))).collect());
            }
            Err(error) => return Err(error),
        };
        // Those that have gone since they were listed are not there.
        all.retain(|name, brought| {
            is_model_name(name) && !matches!(brought, Err(StoreError::NoModel { .. }))
        });
        lock(&self.known).names = Some(all.keys().cloned().collect());
        for (name, brought) in &mut all {
            self.or_last(name, brought);
        }
        Ok(all)
    }

    /// The directory of one model; `None` where the store has no such model. Blocking: it fetches what has
    /// changed.
    ///
    /// # Errors
    /// When the store cannot be reached or the model cannot be fetched, and a copy will not do or there is none.
    pub(crate) fn one(&self, name: &str, copies: Copies) -> Result<Option<PathBuf>, StoreError> {
        let away = self.away().filter(|_| copies == Copies::OrLast);
        let mut brought = match away.map_or_else(|| self.store.fetch(name), Err) {
            // That one model cannot be fetched says nothing of the others; that it can, does.
            Ok(dir) => self.heard(Ok(dir)),
            Err(StoreError::NoModel { .. }) => return Ok(None),
            Err(error) => Err(error),
        };
        if copies == Copies::OrLast {
            self.or_last(name, &mut brought);
        }
        brought.map(Some)
    }

    /// Asks the store, unless it could not be reached a moment ago.
    fn ask<T>(&self, ask: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        match self.away() {
            Some(error) => Err(error),
            None => self.heard(ask()),
        }
    }

    /// Why the store could not be reached a moment ago.
    fn away(&self) -> Option<StoreError> {
        let away = lock(&self.known).away.clone();
        away.filter(|(since, _)| since.elapsed() < RETRY).map(|(_, error)| error)
    }

    /// Notes whether the store could be reached; the log has it when that changes.
    fn heard<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let mut known = lock(&self.known);
        let was_away = match &answer {
            Err(error) if error.is_away() => {
                known.away.replace((Instant::now(), error.clone())).is_some()
            }
            _ => known.away.take().is_some(),
        };
        drop(known);
        let repository = self.address.display();
        match &answer {
            Err(error) if error.is_away() && !was_away => tracing::warn!(
                %repository,
                "the object store cannot be asked; models that are here are served as they were copied last, \
                 and may be out of date: {error}"
            ),
            Err(error) if error.is_away() => {
                tracing::debug!(%repository, "the object store still cannot be asked: {error}");
            }
            _ if was_away => tracing::info!(%repository, "the object store answers again"),
            _ => {}
        }
        answer
    }

    /// Puts the last copy in the place of a failure, if there is one.
    fn or_last(&self, name: &str, brought: &mut Result<PathBuf, StoreError>) {
        let Err(error) = brought else {
            lock(&self.known).stale.remove(name);
            return;
        };
        let copy = self.store.copies().ok().and_then(|mut it| it.remove(name));
        let Some(copy) = copy.filter(|_| error.is_away()) else { return };
        if lock(&self.known).stale.insert(name.to_owned()) {
            tracing::warn!(model = name, "its last copy is used, as it cannot be fetched: {error}");
        }
        *brought = Ok(copy);
    }

    /// The last copies of the models that the store is known to have; the error where nothing is known of it.
    fn copies_or(&self, error: StoreError) -> Result<BTreeMap<String, PathBuf>, StoreError> {
        let mut copies = self.store.copies()?;
        let names = lock(&self.known).names.clone();
        copies.retain(|name, _| names.as_ref().is_none_or(|it| it.contains(name)));
        match names.is_none() && copies.is_empty() {
            true => Err(error),
            false => Ok(copies),
        }
    }
}
