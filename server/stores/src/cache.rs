//! Copies on disk: `objects/` has each object that was fetched whole, `trees/` the models made of them. What is
//! there under its name is complete.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsStr,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock, RwLockReadGuard},
    time::SystemTime,
};

use md5::{Digest, Md5};

use crate::{
    error::StoreError,
    listing::{Listing, Object, hex},
    store_settings::StoreUrl,
};

/// In each tree, beside the model's directory: what it was made of.
const MANIFEST: &str = "manifest.tsv";

/// The copies of one repository. Processes may share them.
#[derive(Debug)]
pub(super) struct Cache {
    root: PathBuf,
    /// Locked by every process that uses the directory; by one alone while it tidies up.
    lock: File,
    /// Held for reading by fetches of this process, for writing by the removal of what is old.
    busy: RwLock<()>,
}

/// An object that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) path: PathBuf,
    /// MD5 of its content, in hexadecimal.
    pub(super) digest: String,
}

impl Cache {
    /// Makes or finds the directory of copies of one repository, below `dir`.
    ///
    /// # Errors
    /// When it cannot be made or written to, or belongs to another user.
    pub(super) fn open(dir: &Path, url: &StoreUrl, endpoint: &str) -> Result<Cache, StoreError> {
        let id = hex(&Md5::digest(format!("{}\n{endpoint}", url.text)))[..12].to_owned();
        let readable: String = url
            .bucket
            .chars()
            .filter(|it| it.is_ascii_alphanumeric() || "-.".contains(*it))
            .collect();
        let root = dir.join(format!("{readable}-{id}"));
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700);
        for it in [root.join("objects"), root.join("trees")] {
            private
                .create(&it)
                .map_err(|error| StoreError::cache("make the directory", &it, error))?;
        }
        let meta = root.metadata().map_err(|it| StoreError::cache("look at", &root, it))?;
        if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o022 != 0 {
            let reason = "others may write to it, who could put models there";
            return Err(StoreError::cache("use", &root, reason));
        }
        let path = root.join("lock");
        let open = || {
            let lock = File::create(&path)?;
            lock.lock_shared()?;
            Ok(lock)
        };
        let lock = open().map_err(|it: io::Error| StoreError::cache("lock", &path, it))?;
        Ok(Cache { root, lock, busy: RwLock::new(()) })
    }

    /// To be held while anything is fetched.
    pub(super) fn fetching(&self) -> RwLockReadGuard<'_, ()> {
        self.busy.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The objects that are here, by identity.
    pub(super) fn stored(&self) -> Result<HashMap<String, Stored>, StoreError> {
        let dir = self.root.join("objects");
        let entries = list(&dir).map_err(|it| StoreError::cache("list", &dir, it))?;
        let stored = entries.into_iter().filter_map(|name| {
            let (id, digest) = name.split_once('.').filter(|it| it.1.len() == 32)?;
            Some((id.to_owned(), Stored { path: dir.join(&name), digest: digest.to_owned() }))
        });
        Ok(stored.collect())
    }

    /// Where an object is written to before it is complete.
    pub(super) fn part(&self, object: &Object) -> PathBuf {
        self.root.join("objects").join(format!("{}.part-{}", object.id, std::process::id()))
    }

    /// Lets a complete object be found.
    pub(super) fn keep(&self, object: &Object, digest: String) -> Result<Stored, StoreError> {
        let part = self.part(object);
        let path = self.root.join("objects").join(format!("{}.{digest}", object.id));
        fs::rename(&part, &path).map_err(|it| StoreError::cache("rename", &part, it))?;
        Ok(Stored { path, digest })
    }

    /// The directory of a model with this content, if it is here. Its name is the model's.
    pub(super) fn tree(&self, model: &str, listing: &Listing) -> Option<PathBuf> {
        Some(self.tree_dir(model, listing).join(model)).filter(|it| it.is_dir())
    }

    /// Makes the directory of a model from its objects, all of which are here.
    pub(super) fn assemble(
        &self,
        model: &str,
        listing: &Listing,
        stored: &HashMap<String, Stored>,
    ) -> Result<PathBuf, StoreError> {
        let done = self.tree_dir(model, listing);
        let aside = done.with_extension(format!("part-{}", std::process::id()));
        let make = || -> io::Result<()> {
            if aside.exists() {
                fs::remove_dir_all(&aside)?;
            }
            let base = aside.join(model);
            fs::create_dir_all(&base)?;
            listing.directories.iter().try_for_each(|it| fs::create_dir_all(base.join(it)))?;
            let mut manifest = String::new();
            for object in &listing.objects {
                let missing = || io::Error::other(format!("'{}' was not fetched", object.key));
                let from = stored.get(&object.id).ok_or_else(missing)?;
                place(&from.path, &base.join(&object.file))?;
                let tag = object.e_tag.as_deref().unwrap_or_default();
                let Object { id, size, file, .. } = object;
                manifest += &format!("{id}\t{}\t{size}\t{tag}\t{file}\n", from.digest);
            }
            fs::write(aside.join(MANIFEST), manifest)?;
            match fs::rename(&aside, &done) {
                // Another process was faster, and made the same.
                Err(_) if done.is_dir() => fs::remove_dir_all(&aside),
                other => other,
            }
        };
        make().map_err(|it| StoreError::cache("make", &done, it))?;
        Ok(done.join(model))
    }

    /// The newest whole tree of each model: the one that was used last.
    pub(super) fn newest(&self) -> Result<BTreeMap<String, PathBuf>, StoreError> {
        let trees = self.root.join("trees");
        let names = list(&trees).map_err(|it| StoreError::cache("list", &trees, it))?;
        let mut newest: BTreeMap<String, (SystemTime, PathBuf)> = BTreeMap::new();
        for tree in names.iter().map(|it| trees.join(it)) {
            let Some(model) = model_of(&tree).filter(|_| tree.join(MANIFEST).is_file()) else {
                continue;
            };
            // What is being made has an ending.
            let used = tree.metadata().and_then(|it| it.modified()).ok();
            let Some(used) = used.filter(|_| tree.extension().is_none_or(|it| !is_part(it))) else {
                continue;
            };
            let found = (used, tree.join(model));
            let last = newest.entry(model.to_owned()).or_insert_with(|| found.clone());
            if *last < found {
                *last = found;
            }
        }
        Ok(newest.into_iter().map(|(model, (_, dir))| (model, dir)).collect())
    }

    /// Notes that the tree of this model's directory is the one that the store has now.
    pub(super) fn used(&self, dir: &Path) {
        let Some(tree) = dir.parent() else { return };
        let touch = || File::open(tree)?.set_modified(SystemTime::now());
        if let Err(error) = touch() {
            tracing::debug!(%error, "cannot note the use of {}", tree.display());
        }
    }

    /// The model whose directory this is, if it lies here.
    pub(super) fn model_in<'a>(&self, dir: &'a Path) -> Option<&'a str> {
        dir.starts_with(&self.root).then(|| model_of(dir.parent()?)).flatten()
    }

    /// Removes trees that are not needed, and objects that are in none: `keep` is asked for each tree, by its
    /// directory. Does nothing while others use the directory.
    pub(super) fn tidy(&self, keep: &dyn Fn(&Path) -> bool) {
        let Ok(_alone) = self.busy.try_write() else { return };
        if self.lock.try_lock().is_ok()
            && let Err(error) = self.remove_old(keep)
        {
            let dir = self.root.display();
            tracing::warn!(%error, "cannot remove old copies of models in {dir}");
        }
        if let Err(error) = self.lock.lock_shared() {
            tracing::warn!(%error, "cannot lock {}", self.root.display());
        }
    }

    fn remove_old(&self, keep: &dyn Fn(&Path) -> bool) -> io::Result<()> {
        let trees = self.root.join("trees");
        let mut needed = BTreeSet::new();
        for name in list(&trees)? {
            let tree = trees.join(name);
            if keep(&tree) {
                let manifest = fs::read_to_string(tree.join(MANIFEST))?;
                needed.extend(
                    manifest.lines().filter_map(|it| Some(it.split_once('\t')?.0.to_owned())),
                );
            } else {
                fs::remove_dir_all(&tree)?;
            }
        }
        let objects = self.root.join("objects");
        for name in list(&objects)? {
            let is_needed = name
                .split_once('.')
                .is_some_and(|(id, end)| needed.contains(id) && !end.starts_with("part-"));
            if !is_needed {
                fs::remove_file(objects.join(name))?;
            }
        }
        Ok(())
    }

    fn tree_dir(&self, model: &str, listing: &Listing) -> PathBuf {
        self.root.join("trees").join(format!("{model}@{}", listing.id()))
    }
}

fn is_part(ending: &OsStr) -> bool {
    ending.to_string_lossy().starts_with("part-")
}

/// The model that a tree is of.
pub(super) fn model_of(tree: &Path) -> Option<&str> {
    Some(tree.file_name()?.to_str()?.rsplit_once('@')?.0)
}

/// Puts a file into a tree: the same one under another name, or a copy where the disk knows no such names.
fn place(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop))
}

fn list(dir: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(dir)?.map(|it| Ok(it?.file_name().to_string_lossy().into_owned())).collect()
}
