//! One repository in an object store, and the copies of its models.

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transfer_tests;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, path::Path as Key};
use tokio::{runtime::Runtime, time::timeout};

use crate::{
    cache::{Cache, model_of},
    connect::{Access, connect},
    download::{Downloads, FetchError, PARALLEL, STALL, silent},
    error::StoreError,
    listing::Listing,
    store_settings::{StoreSettings, StoreUrl},
};

/// Objects may change while they are read. How often that is taken for bad luck.
const CHANGES: usize = 3;

/// Trees of a model that are kept, of those that were handed out and of those that served: the last, and the one
/// before, from which instances may still be made.
const KEPT: usize = 2;

/// One repository in an object store. Its functions block.
#[derive(Debug)]
pub struct Store {
    access: Access,
    cache: Cache,
    downloads: Downloads,
    /// Guards what is known of each model's trees. Held for a look.
    trees: Mutex<BTreeMap<String, Trees>>,
    /// Dropped in the background: the last owner may be a task.
    runtime: Option<Runtime>,
}

/// The trees of a model that this process uses, the newest last.
#[derive(Debug, Clone, Default)]
struct Trees {
    /// Those that were handed out.
    handed: Vec<PathBuf>,
    /// Those from which the model was loaded.
    served: Vec<PathBuf>,
    /// Held while the model is fetched: two fetches would write to the same files.
    fetching: Arc<tokio::sync::Mutex<()>>,
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
        Ok(self.refresh(model)?.into_dir())
    }

    /// The same, and says whether the model has changed since it was last fetched.
    ///
    /// # Errors
    /// As [`Store::fetch`].
    pub fn refresh(&self, model: &str) -> Result<Refreshed, StoreError> {
        let refreshed = {
            let _busy = self.cache.fetching();
            self.block_on(self.bring(model))?
        };
        if matches!(refreshed, Refreshed::Changed(_)) {
            let kept = self.lock().clone();
            // Of models that were not asked for, or could not be fetched, the last state stays until they are.
            self.cache.tidy(&|tree| {
                let of_model = model_of(tree).and_then(|it| kept.get(it));
                of_model.is_none_or(|trees| trees.handed.is_empty() || trees.need(tree))
            });
        }
        Ok(refreshed)
    }

    /// Brings every model here, several at a time: the directory of each, or why it has none. Copies of models that
    /// the store does not have any more, and that this process has not used, are removed.
    ///
    /// # Errors
    /// When the store cannot be asked which models there are.
    pub fn fetch_all(&self) -> Result<BTreeMap<String, Result<PathBuf, StoreError>>, StoreError> {
        let fetched: BTreeMap<_, _> = {
            let _busy = self.cache.fetching();
            self.block_on(async {
                let names = stream::iter(self.list_names().await?);
                let fetched = names.map(|it| async move {
                    let brought = self.bring(&it).await.map(Refreshed::into_dir);
                    (it, brought)
                });
                Ok(fetched.buffer_unordered(PARALLEL).collect().await)
            })?
        };
        let kept = self.lock().clone();
        self.cache.tidy(&|tree| {
            let Some(model) = model_of(tree) else { return false };
            match kept.get(model) {
                Some(trees) if trees.need(tree) => true,
                // Of one that could not be fetched the last state stays.
                Some(Trees { handed, .. }) if !handed.is_empty() => false,
                _ => fetched.contains_key(model),
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

    /// The last copy of each model that is here, whatever the store has by now: what was handed out last, else what any
    /// process has used last. Makes no request.
    ///
    /// # Errors
    /// When the directory of copies cannot be listed.
    pub fn copies(&self) -> Result<BTreeMap<String, PathBuf>, StoreError> {
        let mut copies = self.cache.newest()?;
        for (model, dir) in &mut copies {
            if let Some(last) = self.lock().get(model).and_then(|it| it.handed.last()) {
                last.clone_into(dir);
            }
        }
        Ok(copies)
    }

    /// The directory that was handed out last of the model in this one, if it is another one.
    pub fn newer(&self, dir: &Path) -> Option<PathBuf> {
        let trees = self.lock();
        let last = trees.get(self.cache.model_in(dir)?)?.handed.last()?;
        Some(last.clone()).filter(|it| it != dir)
    }

    /// A model was loaded from this directory: it stays until two others have taken its place. Directories that are
    /// none of this store's are passed over.
    pub fn serves(&self, dir: &Path) {
        let Some(model) = self.cache.model_in(dir) else { return };
        push_last(&mut self.lock().entry(model.to_owned()).or_default().served, dir);
    }

    async fn bring(&self, model: &str) -> Result<Refreshed, StoreError> {
        let fetching = self.lock().entry(model.to_owned()).or_default().fetching.clone();
        let _alone = fetching.lock().await;
        let dir = self.copy(model).await?;
        self.cache.used(&dir);
        Ok(self.note(model, dir))
    }

    async fn copy(&self, model: &str) -> Result<PathBuf, StoreError> {
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
            Err(FetchError::Changed) => Ok(false),
            Err(FetchError::Failed(error)) => Err(error),
        }
    }

    /// Notes that a model was handed out, and whether it is another one than before.
    fn note(&self, model: &str, dir: PathBuf) -> Refreshed {
        let mut trees = self.lock();
        let handed = &mut trees.entry(model.to_owned()).or_default().handed;
        if handed.last() == Some(&dir) {
            return Refreshed::Unchanged(dir);
        }
        push_last(handed, &dir);
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

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Trees>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trees {
    /// Does this process use what is in this directory of a tree?
    fn need(&self, tree: &Path) -> bool {
        self.handed.iter().chain(&self.served).any(|it| it.starts_with(tree))
    }
}

impl Refreshed {
    /// The model's directory.
    pub fn into_dir(self) -> PathBuf {
        let (Refreshed::Unchanged(dir) | Refreshed::Changed(dir)) = self;
        dir
    }
}

/// Makes this the last of the few that are kept.
fn push_last(trees: &mut Vec<PathBuf>, dir: &Path) {
    trees.retain(|it| it != dir);
    trees.push(dir.to_owned());
    let old = trees.len().saturating_sub(KEPT);
    trees.drain(..old);
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
