//! Which models there are to be loaded: looks into the repositories, as often as it is asked. What is in an object
//! store is fetched for the purpose, as far as it is wanted.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use crate::{
    config::engines::Engines,
    repository::{
        current_list::CurrentList,
        inspect,
        local::{FoundModel, FoundModels, Names, config_in, is_model_name},
        model_list::with_policy,
        remote::{Copies, Remote},
    },
    settings::{
        hosted_start::{HostedWay, PlatformFolder},
        repository::{FetchedPath, ModelsFrom, Repository},
    },
};
use serving::config::{model::VersionPolicy, raw};
use stores::{
    StoreError,
    store_settings::{StoreSettings, StoreUrl},
};

/// Where models are found.
#[derive(Debug)]
pub struct Catalogue {
    places: Vec<RepositoryPlace>,
    model_name: Option<String>,
    hosted: bool,
    names: Names,
    platform: PlatformFolder,
    /// Know the endings of model files.
    engines: Engines,
}

/// What a model is called that lies directly in a platform's folder, with its configuration.
const ROOT_MODEL: &str = "model";

#[derive(Debug)]
enum RepositoryPlace {
    /// A directory of models.
    Repository(PathBuf),
    /// The same in an object store.
    Remote(Box<Remote>),
    /// Whatever it is, by itself.
    Path(PathBuf),
    /// The same, once it is there.
    Fetched(FetchedPath),
    /// Models that are named one by one.
    CurrentList(CurrentList),
}

/// Which models are to be fetched, of those in object stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WantedModels<'a> {
    All,
    These(&'a [String]),
}

impl Catalogue {
    /// Models where the settings say; repositories in object stores are opened with `stores`, and not asked yet.
    /// `hosted`: a platform has put the models there.
    ///
    /// # Errors
    /// Those of [`stores::Store::open`].
    pub fn open(
        repository: &Repository,
        hosted: bool,
        names: Names,
        stores: &StoreSettings,
    ) -> Result<Catalogue, StoreError> {
        let open = |path: &PathBuf| match path.to_str().filter(|it| StoreUrl::is_one(it)) {
            Some(address) => Ok(RepositoryPlace::Remote(Box::new(Remote::open(address, stores)?))),
            None => Ok(RepositoryPlace::Repository(path.clone())),
        };
        let places = match &repository.from {
            ModelsFrom::Repositories(all) => all.iter().map(open).collect::<Result<_, _>>()?,
            ModelsFrom::Path(path) => vec![RepositoryPlace::Path(path.clone())],
            ModelsFrom::Fetched(path) => vec![RepositoryPlace::Fetched(path.clone())],
            ModelsFrom::Named(named) => {
                vec![RepositoryPlace::CurrentList(CurrentList::new(named.clone()))]
            }
        };
        let is_named = matches!(repository.from, ModelsFrom::Named(_));
        let model_name = repository.model_name.clone().filter(|_| !is_named);
        let platform = repository.platform.clone();
        let engines = Engines::default();
        Ok(Catalogue { places, model_name, hosted, names, platform, engines })
    }

    /// The same, in which models of these engines are found that are a file by themselves.
    pub(crate) fn with_engines(self, engines: Engines) -> Catalogue {
        Catalogue { engines, ..self }
    }

    /// Every model that there is now. Blocking.
    ///
    /// # Errors
    /// When a repository cannot be listed. A store that cannot be asked has what it had last, if that is known.
    pub(crate) fn look(&self, wanted: WantedModels) -> io::Result<FoundModels> {
        let mut found = FoundModels::default();
        for place in &self.places {
            match (place, wanted) {
                (RepositoryPlace::Path(path), _) => found = self.look_at_path(path)?,
                (RepositoryPlace::Fetched(path), _) => {
                    found = path.get().map_or(Ok(found), |it| self.look_at_path(it))?;
                }
                (RepositoryPlace::CurrentList(configured), _) => configured.look(&mut found, None),
                (RepositoryPlace::Repository(path), _) => found.look_into(path, self.names)?,
                // How many there are decides what the name is for.
                (RepositoryPlace::Remote(remote), WantedModels::These(names))
                    if self.model_name.is_none() =>
                {
                    self.look_for(remote, names, &mut found)?;
                }
                (RepositoryPlace::Remote(remote), _) => self.look_at_all(remote, &mut found)?,
            }
        }
        found.take_unversioned(&self.engines);
        if let Some(name) = &self.model_name {
            found.name_the_only(name);
        }
        Ok(found)
    }

    /// The model of one name, as it is now, in each repository that has it. Blocking.
    ///
    /// # Errors
    /// When a repository cannot be listed.
    pub(crate) fn one(&self, name: &str, copies: Copies) -> io::Result<FoundModels> {
        let is_path = |it: &_| matches!(it, RepositoryPlace::Path(_) | RepositoryPlace::Fetched(_));
        let is_path = self.places.iter().any(is_path);
        if is_path || self.model_name.is_some() {
            let mut found = self.look(WantedModels::All)?;
            found.models.retain(|id, _| &*id.name == name);
            found.refused.retain(|id, _| &*id.name == name);
            return Ok(found);
        }
        let mut found = FoundModels::default();
        let mut failed = Vec::new();
        for place in &self.places {
            match place {
                RepositoryPlace::Repository(path) => found.look_for(name, path, self.names),
                RepositoryPlace::Remote(remote) if is_model_name(name) => {
                    match remote.one(name, copies) {
                        Ok(Some(dir)) => found.look(&dir, remote.address(), self.names),
                        Ok(None) => {}
                        Err(error) => failed.push((remote, error)),
                    }
                }
                RepositoryPlace::CurrentList(configured) => configured.look(&mut found, Some(name)),
                RepositoryPlace::Remote(_)
                | RepositoryPlace::Path(_)
                | RepositoryPlace::Fetched(_) => {}
            }
        }
        for (remote, error) in failed {
            // A store that does not answer does not prevent loads of what lies elsewhere.
            if found.models.is_empty() {
                found.refused.insert(self.names.id(name, remote.address()), error.to_string());
            } else {
                tracing::warn!(model = name, "not looked for everywhere: {error}");
            }
        }
        found.take_unversioned(&self.engines);
        Ok(found)
    }

    /// The model as it was fetched last: of two that load it at the same time, the second is not to put what the
    /// first has loaded back to what was there before.
    pub(crate) fn latest(&self, found: FoundModel) -> FoundModel {
        for place in &self.places {
            if let RepositoryPlace::Remote(remote) = place
                && let Some(dir) = remote.newer(&found.dir)
            {
                let mut again = FoundModels::default();
                again.look(&dir, remote.address(), self.names);
                again.take_unversioned(&self.engines);
                let again = again.models.into_values().next();
                let FoundModel { name, renamed, .. } = &found;
                return again.map_or(found.clone(), |it| FoundModel {
                    name: name.clone(),
                    renamed: *renamed,
                    ..it
                });
            }
        }
        found
    }

    /// The models that are named one by one, where that is how they are found.
    pub(crate) fn configured(&self) -> Option<&CurrentList> {
        self.places.iter().find_map(|it| match it {
            RepositoryPlace::CurrentList(configured) => Some(configured),
            RepositoryPlace::Repository(_)
            | RepositoryPlace::Remote(_)
            | RepositoryPlace::Path(_)
            | RepositoryPlace::Fetched(_) => None,
        })
    }

    /// The model's configuration with the version policy that it was named with, or that its platform has.
    pub(crate) fn with_policy(
        &self,
        found: &FoundModel,
        raw: Option<raw::ModelConfig>,
    ) -> Option<raw::ModelConfig> {
        match self.configured() {
            Some(configured) => configured.with_policy(found, raw),
            None if self.has_all_versions(found) => {
                let says = raw.as_ref().is_some_and(|it| it.version_policy.is_some());
                let policy = Some(&VersionPolicy::All).filter(|_| !says);
                with_policy(raw, policy, &BTreeSet::new(), found)
            }
            None => raw,
        }
    }

    /// Does every version of it serve, where its configuration does not say?
    fn has_all_versions(&self, found: &FoundModel) -> bool {
        match self.platform.way {
            HostedWay::Triton => false,
            HostedWay::TensorFlowServing => true,
            HostedWay::ByModels => found.is_of_tensorflow_serving(),
        }
    }

    /// A model was loaded from this directory, whose files are needed for as long as it serves.
    pub(crate) fn serves(&self, dir: &Path) {
        for place in &self.places {
            if let RepositoryPlace::Remote(remote) = place {
                remote.serves(dir);
            }
        }
    }

    /// Whatever lies there, and in the folders that a platform has put beside it.
    fn look_at_path(&self, path: &Path) -> io::Result<FoundModels> {
        let PlatformFolder { channels, root_model, .. } = &self.platform;
        let is_root_model = self.hosted && *root_model && config_in(path).is_some();
        let hosted = self.hosted && !is_root_model;
        let mut found = self.platform.scripts.scan(path, hosted, &self.engines)?;
        if is_root_model {
            found.name_the_only(ROOT_MODEL);
        }
        if let Some(channels) = channels {
            found.look_into_channels(channels, &self.engines)?;
        }
        Ok(found)
    }

    /// Where it looks, for people.
    pub(crate) fn places(&self) -> String {
        let show = |place: &RepositoryPlace| match place {
            RepositoryPlace::Repository(path) | RepositoryPlace::Path(path) => {
                path.display().to_string()
            }
            RepositoryPlace::Fetched(path) => {
                path.get().map_or_else(String::new, |it| it.display().to_string())
            }
            RepositoryPlace::Remote(remote) => remote.address().display().to_string(),
            RepositoryPlace::CurrentList(configured) => configured.places(),
        };
        self.places.iter().map(show).collect::<Vec<_>>().join(", ")
    }

    /// What lies there instead of models, by the content of its files; `None` where none says what it is.
    pub(crate) fn what_lies_there(&self) -> Option<String> {
        let look = |place: &RepositoryPlace| match place {
            RepositoryPlace::Repository(path) | RepositoryPlace::Path(path) => {
                inspect::what_lies_in(path, 2)
            }
            RepositoryPlace::Fetched(path) => inspect::what_lies_in(path.get()?, 2),
            RepositoryPlace::Remote(_) | RepositoryPlace::CurrentList(_) => None,
        };
        self.places.iter().find_map(look)
    }

    /// Fetches everything that the store has.
    fn look_at_all(&self, remote: &Remote, found: &mut FoundModels) -> io::Result<()> {
        for (name, brought) in remote.all().map_err(io::Error::other)? {
            self.take_in(found, remote, &name, brought);
        }
        Ok(())
    }

    /// Fetches these, and names the others.
    fn look_for(
        &self,
        remote: &Remote,
        wanted: &[String],
        found: &mut FoundModels,
    ) -> io::Result<()> {
        for name in remote.names().map_err(io::Error::other)? {
            if !wanted.contains(&name) {
                found.remote.insert(self.names.id(&name, remote.address()));
                continue;
            }
            // Or it has gone since it was listed.
            if let Some(brought) = remote.one(&name, Copies::OrLast).transpose() {
                self.take_in(found, remote, &name, brought);
            }
        }
        Ok(())
    }

    fn take_in(
        &self,
        found: &mut FoundModels,
        remote: &Remote,
        name: &str,
        brought: Result<PathBuf, StoreError>,
    ) {
        match brought {
            Ok(dir) => found.look(&dir, remote.address(), self.names),
            Err(error) => {
                let id = self.names.id(name, remote.address());
                found.models.remove(&id);
                found.refused.insert(id, error.to_string());
            }
        }
    }
}
