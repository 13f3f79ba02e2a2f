//! Model repositories in object stores: what is in them is brought into a local directory, from which models are
//! loaded like any other. What has not changed is not brought again.

mod cache;
mod connect;
mod credentials;
mod download;
mod error;
mod listing;
mod profile;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transfer_tests;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, path::Path as Key};
use tokio::{runtime::Runtime, time::timeout};

use crate::config::{StoreSettings, StoreUrl};
use cache::{Cache, model_of};
use connect::{Access, connect};
use download::{Downloads, Failure, PARALLEL, STALL};
pub use error::{Refusal, StoreError};
use listing::Listing;

/// Objects may change while they are read. How often that is taken for bad luck.
const CHANGES: usize = 3;

/// Trees of a model that are kept: the one that serves, and the one before, from which instances may still be made.
const KEPT: usize = 2;

/// One repository in an object store. Its functions block.
#[derive(Debug)]
pub struct Store {
    access: Access,
    cache: Cache,
    downloads: Downloads,
    /// Guards the trees that were handed out, by model, the newest last. Held for a look.
    trees: Mutex<BTreeMap<String, Vec<PathBuf>>>,
    /// Dropped in the background: the last owner may be a task.
    runtime: Option<Runtime>,
}

/// What became of a model in the store since it was last fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refreshed {
    /// Nothing; it is in this directory.
    Unchanged(PathBuf),
    /// It is another one now, in this directory. The one before is still there.
    Changed(PathBuf),
}

impl Store {
    /// Makes ready; nothing is asked for yet.
    ///
    /// # Errors
    /// Credentials that cannot be read, or a directory for copies that cannot be written to.
    pub fn open(url: &StoreUrl, settings: &StoreSettings) -> Result<Store, StoreError> {
        let access = connect(url, settings)?;
        let cache = Cache::open(&settings.cache_dir_of(url.provider), url, &access.endpoint)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("store")
            .enable_all()
            .build()
            .map_err(|it| StoreError::settings(url, format!("cannot start threads: {it}")))?;
        tracing::info!(
            repository = url.text,
            endpoint = access.endpoint,
            credentials = access.credentials,
            "models are fetched from an object store"
        );
        Ok(Store {
            access,
            cache,
            downloads: Downloads::default(),
            trees: Mutex::default(),
            runtime: Some(runtime),
        })
    }

    /// The address of the repository.
    pub fn url(&self) -> &StoreUrl {
        &self.access.url
    }

    /// Names of the models that the store has, in order.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        self.block_on(self.list_names())
    }

    /// Brings a model here and returns its directory, whose name is the model's. What of it is here already is
    /// not fetched again; the directory is complete, and another state of the model gets another one.
    ///
    /// # Errors
    /// When the store has no such model, cannot be asked, or the disk is full. Nothing incomplete can be seen then.
    pub fn fetch(&self, model: &str) -> Result<PathBuf, StoreError> {
        let refreshed = self.refresh(model)?;
        let (Refreshed::Unchanged(dir) | Refreshed::Changed(dir)) = refreshed;
        Ok(dir)
    }

    /// The same, and says whether the model has changed since it was last fetched.
    ///
    /// # Errors
    /// As [`Store::fetch`].
    pub fn refresh(&self, model: &str) -> Result<Refreshed, StoreError> {
        let fetched = {
            let _busy = self.cache.fetching();
            self.block_on(self.bring(model))?
        };
        let refreshed = self.note(model, fetched);
        if matches!(refreshed, Refreshed::Changed(_)) {
            let kept = self.lock().clone();
            // Of models that nobody asked for, the last state stays for when somebody does.
            self.cache.tidy(&|tree| {
                let of_model = model_of(tree).and_then(|it| kept.get(it));
                of_model.is_none_or(|trees| trees.iter().any(|it| it.starts_with(tree)))
            });
        }
        Ok(refreshed)
    }

    /// Brings every model here, several at a time: the directory of each, or why it has none. Copies of models that
    /// the store does not have any more are removed.
    ///
    /// # Errors
    /// When the store cannot be asked which models there are.
    pub fn fetch_all(&self) -> Result<BTreeMap<String, Result<PathBuf, StoreError>>, StoreError> {
        let fetched: BTreeMap<_, _> = {
            let _busy = self.cache.fetching();
            self.block_on(async {
                let names = stream::iter(self.list_names().await?);
                let fetched = names.map(|it| async move { (it.clone(), self.bring(&it).await) });
                Ok(fetched.buffer_unordered(PARALLEL).collect().await)
            })?
        };
        for (model, dir) in &fetched {
            if let Ok(dir) = dir {
                self.note(model, dir.clone());
            }
        }
        let kept = self.lock().clone();
        self.cache.tidy(&|tree| {
            let Some(model) = model_of(tree) else { return false };
            match kept.get(model) {
                Some(trees) => trees.iter().any(|it| it.starts_with(tree)),
                // It could not be fetched this time.
                None => fetched.contains_key(model),
            }
        });
        Ok(fetched)
    }

    async fn list_names(&self) -> Result<Vec<String>, StoreError> {
        let prefix = self.prefix();
        let prefix = Some(&prefix).filter(|it| !it.as_ref().is_empty());
        let listed = timeout(STALL, self.access.store.list_with_delimiter(prefix)).await;
        let listed = listed.map_err(|_| self.listing_failed("", &silent()))?;
        let listed = listed.map_err(|it| self.listing_failed("", &it))?;
        let names = listed.common_prefixes.iter().filter_map(|it| it.filename().map(str::to_owned));
        Ok(names.filter(|it| !it.starts_with('.')).collect())
    }

    async fn bring(&self, model: &str) -> Result<PathBuf, StoreError> {
        for _ in 0..CHANGES {
            let listing = self.list(model).await?;
            if let Some(dir) = self.cache.tree(model, &listing) {
                return Ok(dir);
            }
            if self.download(model, &listing).await? {
                let stored = self.cache.stored()?;
                return self.cache.assemble(model, &listing, &stored);
            }
            tracing::info!(model, "its objects change while they are read: listed again");
        }
        let reason = format!("its objects changed while they were read, {CHANGES} times");
        let path = self.prefix().join(model);
        Err(self.access.error("fetch", path.as_ref(), &std::io::Error::other(reason)))
    }

    async fn list(&self, model: &str) -> Result<Listing, StoreError> {
        let prefix = self.prefix().join(model);
        let mut listed = self.access.store.list(Some(&prefix));
        let mut found = Vec::new();
        loop {
            let next = timeout(STALL, listed.try_next()).await;
            let next = next.map_err(|_| self.listing_failed(model, &silent()))?;
            match next.map_err(|it| self.listing_failed(model, &it))? {
                Some(meta) => found.push(meta),
                None => break,
            }
        }
        let listing = Listing::new(&prefix, found)
            .map_err(|it| self.listing_failed(model, &std::io::Error::other(it)))?;
        match listing.is_empty() {
            true => Err(StoreError::NoModel {
                model: model.to_owned(),
                url: self.access.url.text.clone(),
            }),
            false => Ok(listing),
        }
    }

    /// Brings the objects that are not here. False if one has changed since it was listed.
    async fn download(&self, model: &str, listing: &Listing) -> Result<bool, StoreError> {
        let stored = self.cache.stored()?;
        let missing: Vec<_> =
            listing.objects.iter().filter(|it| !stored.contains_key(&it.id)).collect();
        let bytes: u64 = missing.iter().map(|it| it.size).sum();
        let started = std::time::Instant::now();
        let fetched = stream::iter(missing.iter().map(Ok)).try_for_each_concurrent(
            PARALLEL,
            |object| async move {
                let part = self.cache.part(object);
                let digest = self.downloads.fetch(&self.access, object, &part).await;
                if digest.is_err() {
                    // The next attempt begins anew, perhaps in another process.
                    let _ = std::fs::remove_file(&part);
                }
                self.cache.keep(object, digest?)?;
                tracing::debug!(model, file = object.file, bytes = object.size, "fetched");
                Ok(())
            },
        );
        match fetched.await {
            Ok(()) => {
                tracing::info!(
                    model,
                    fetched = missing.len(),
                    unchanged = listing.objects.len() - missing.len(),
                    bytes,
                    ms = started.elapsed().as_millis(),
                    "copied from {}",
                    self.access.url.text
                );
                Ok(true)
            }
            Err(Failure::Changed) => Ok(false),
            Err(Failure::Failed(error)) => Err(error),
        }
    }

    /// Notes that a model was handed out, and whether it is another one than before.
    fn note(&self, model: &str, dir: PathBuf) -> Refreshed {
        let mut trees = self.lock();
        let trees = trees.entry(model.to_owned()).or_default();
        if trees.last() == Some(&dir) {
            return Refreshed::Unchanged(dir);
        }
        trees.retain(|it| *it != dir);
        trees.push(dir.clone());
        let old = trees.len().saturating_sub(KEPT);
        trees.drain(..old);
        Refreshed::Changed(dir)
    }

    fn prefix(&self) -> Key {
        Key::from(&*self.access.url.prefix)
    }

    fn listing_failed(&self, model: &str, error: &dyn std::error::Error) -> StoreError {
        let path = match (self.access.url.prefix.as_str(), model) {
            ("", model) => model.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, model) => format!("{prefix}/{model}"),
        };
        self.access.error("list", &path, error)
    }

    fn block_on<T>(
        &self,
        future: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let Some(runtime) = &self.runtime else {
            return Err(StoreError::settings(&self.access.url, "it is closed"));
        };
        runtime.block_on(future)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<PathBuf>>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The directory above a fetched model: a repository of this model alone.
pub fn repository_of(dir: &Path) -> &Path {
    dir.parent().unwrap_or(dir)
}

fn silent() -> std::io::Error {
    std::io::Error::other(format!("no answer for {} s", STALL.as_secs()))
}
