//! Models of MLflow's registry: a version is the artifacts that its server or a store has, or a directory of this
//! machine.

use std::{
    fs,
    path::{Path, PathBuf},
};

use stores::{Store, StoreSettings, StoreUrl};

use crate::{
    cache::{CachedModel, Folder, Item, files_below, is_blob, is_inside},
    digest::Digest,
    error::{LockError, SourceProblem},
    http::Http,
    lock::Pin,
    mlflow_api::{Origin, Place, Registry, Version, explain},
    mlflow_name::{MlflowName, MlflowVersion},
    source_settings::SourceSettings,
    web::plain,
};

/// A registered model, and where it lies when it is here.
struct Model<'a> {
    http: &'a Http,
    name: &'a MlflowName,
    registry: Registry<'a>,
    folder: Folder,
    stores: &'a StoreSettings,
}

/// Brings the artifacts of a version here, unless they are: those of the pin, where there is one.
pub(crate) async fn fetch(
    http: &Http,
    name: &MlflowName,
    settings: &SourceSettings,
    pin: Option<&Pin>,
) -> Result<CachedModel, SourceProblem> {
    let registry = Registry::new(http, name, &settings.mlflow)?;
    // Names that differ may be one word when they are plain.
    let whole = Digest::of_bytes(format!("{}\n{}", registry.address, name.model).as_bytes());
    let short: String = plain(&name.model).chars().take(64).collect();
    let host = plain(registry.address.host_str().unwrap_or_default());
    let folder = format!("mlflow--{host}--{short}--{}", &whole.hex()[..12]);
    let folder = Folder::new(&settings.cache, folder);
    let model = Model { http, name, registry, folder, stores: &settings.stores };
    let found = match pin {
        Some(pin) => model.pinned(pin).await,
        None => model.newest().await,
    };
    found.map_err(|it| explain(it, &settings.mlflow))
}

impl Model<'_> {
    /// The version that the name means now. Where nobody can be asked, the one that it was.
    async fn newest(&self) -> Result<CachedModel, SourceProblem> {
        let reference = match &self.name.version {
            MlflowVersion::Number(number) => format!("version/{number}"),
            MlflowVersion::Alias(alias) => format!("alias/{alias}"),
            MlflowVersion::Latest => "latest".to_owned(),
        };
        let version = match self.registry.look(&self.name.version).await {
            Err(problem @ SourceProblem::Away { .. }) => {
                let Some(kept) = self.folder.reference(&reference) else { return Err(problem) };
                tracing::warn!(
                    "the copy that is here is served, as the registry cannot be asked: {problem}"
                );
                return Ok(self.folder.found(&kept));
            }
            version => version?,
        };
        let origin = match self.registry.place(version.number).await? {
            Place::Here(directory) => {
                let files = files_below(&directory);
                return Ok(CachedModel { revision: version.revision, directory, files });
            }
            Place::Away(origin) => origin,
        };
        self.bring(&version, &origin, None).await?;
        self.folder.note_reference(&reference, &version.revision)?;
        Ok(self.folder.found(&version.revision))
    }

    /// The version of a pin. Nobody is asked where its files are here.
    async fn pinned(&self, pin: &Pin) -> Result<CachedModel, SourceProblem> {
        let number = pin.revision.split_once('-').and_then(|it| it.0.parse().ok());
        let is_plain = is_blob(&pin.revision) && pin.files.keys().all(|it| is_inside(it));
        let Some(number) = number.filter(|_| is_plain) else {
            let problem =
                "expected <version>-<time> and paths within the model's folder".to_owned();
            return Err(SourceProblem::Lock(LockError::Content {
                path: self.name.to_string(),
                problem,
            }));
        };
        let mut directory = self.folder.snapshot(&pin.revision);
        if !pin.files.keys().all(|it| directory.join(it).is_file()) {
            let version = self.registry.look(&MlflowVersion::Number(number)).await?;
            match self.registry.place(version.number).await? {
                Place::Here(there) => directory = there,
                Place::Away(origin) => {
                    let version = Version { revision: pin.revision.clone(), ..version };
                    self.bring(&version, &origin, Some(pin)).await?;
                }
            }
        }
        pin.check(&directory)?;
        let files = pin.files.keys().cloned().collect();
        Ok(CachedModel { revision: pin.revision.clone(), directory, files })
    }

    /// Brings the artifacts of a version here which are not. Nobody but a server's disk knows their digests, so each is
    /// hashed when it is here.
    async fn bring(
        &self,
        version: &Version,
        origin: &Origin,
        pin: Option<&Pin>,
    ) -> Result<(), SourceProblem> {
        let revision = &version.revision;
        let _turn = self.folder.turn(revision).await?;
        let directory = self.folder.snapshot(revision);
        let is_wanted = |file: &str| {
            let is_pinned = pin.is_none_or(|it| it.files.contains_key(file));
            is_pinned && !directory.join(file).is_file()
        };
        // Until its digest is known.
        let place = |file: &str| {
            let place = Digest::of_bytes(format!("{revision}\n{file}").as_bytes());
            format!("fetched-{}", place.hex())
        };
        let mut brought = Vec::new();
        match origin {
            Origin::Server(server, root) => {
                let mut items: Vec<Item> = self.registry.list(server, root).await?;
                items.retain(|it| is_wanted(&it.file));
                items.iter_mut().for_each(|it| it.blob = place(&it.file));
                if !items.is_empty() {
                    self.folder.bring(self.http, &items).await?;
                }
                brought.extend(items.into_iter().map(|it| (it.file, it.blob)));
            }
            Origin::Store(url, name) => {
                let copy = copied(url.clone(), self.stores.clone(), name.clone()).await?;
                self.folder.make()?;
                for file in files_below(&copy).into_iter().filter(|it| is_wanted(it)) {
                    let blob = place(&file);
                    take_over(&copy.join(&file), &self.folder.blob(&blob))?;
                    brought.push((file, blob));
                }
            }
        }
        if brought.is_empty() {
            tracing::info!(model = %self.name, revision, "it is here already");
        }
        for (file, blob) in &brought {
            let path = self.folder.blob(blob);
            if let Some(pin) = pin {
                let found =
                    Digest::sha256(&path).map_err(|it| SourceProblem::disk("read", &path, &it))?;
                if let Err(problem) = pin.compare(file, &found) {
                    let _ = fs::remove_file(&path);
                    return Err(problem);
                }
            }
            self.folder.adopt(revision, file, &path)?;
        }
        Ok(())
    }
}

/// The store's own copy of a directory, which is complete.
async fn copied(
    url: StoreUrl,
    settings: StoreSettings,
    name: String,
) -> Result<PathBuf, SourceProblem> {
    // A store has threads of its own and waits for them.
    let fetched = tokio::task::spawn_blocking(move || Store::open(&url, &settings)?.fetch(&name));
    let fetched = fetched.await.map_err(|it| SourceProblem::System(std::io::Error::other(it)))?;
    Ok(fetched?)
}

/// Gives a file of a store's copy a second name, or its content a second place where that cannot be.
fn take_over(from: &Path, to: &Path) -> Result<(), SourceProblem> {
    // What an attempt before has left.
    let _ = fs::remove_file(to);
    let second = || {
        let from = from.canonicalize()?;
        fs::hard_link(&from, to).or_else(|_| fs::copy(&from, to).map(drop))
    };
    second().map_err(|it| SourceProblem::disk("write", to, &it))
}
