//! Which models there are to be loaded: looks into the repositories, as often as it is asked.

use std::{io, path::Path};

use super::super::{Found, Names, scan_for, scan_path, scan_repositories};
use crate::config::{ModelsFrom, Repository};

/// Where models are found.
#[derive(Debug)]
pub struct Catalogue {
    from: ModelsFrom,
    model_name: Option<String>,
    hosted: bool,
    names: Names,
}

impl Catalogue {
    /// Models where the settings say. `hosted`: a platform has put them there.
    pub fn new(repository: &Repository, hosted: bool, names: Names) -> Catalogue {
        let Repository { from, model_name, .. } = repository;
        Catalogue { from: from.clone(), model_name: model_name.clone(), hosted, names }
    }

    /// Every model that there is now.
    ///
    /// # Errors
    /// When a repository cannot be listed.
    pub(super) fn all(&self) -> io::Result<Found> {
        let mut found = match &self.from {
            ModelsFrom::Repositories(repositories) => scan_repositories(repositories, self.names)?,
            ModelsFrom::Path(path) => scan_path(path, self.hosted)?,
        };
        if let Some(name) = &self.model_name {
            found.name_the_only(name);
        }
        Ok(found)
    }

    /// The model of one name, as it is now, in each repository that has it. Whoever must bring directories up to
    /// date first has its place here and in [`Catalogue::all`].
    ///
    /// # Errors
    /// When a repository cannot be listed.
    pub(super) fn one(&self, name: &str) -> io::Result<Found> {
        match (&self.from, &self.model_name) {
            (ModelsFrom::Repositories(repositories), None) => {
                Ok(scan_for(repositories, self.names, name))
            }
            _ => {
                let mut found = self.all()?;
                found.models.retain(|id, _| &*id.name == name);
                found.refused.retain(|id, _| &*id.name == name);
                Ok(found)
            }
        }
    }

    /// Where it looks, for people.
    pub(super) fn places(&self) -> String {
        let show = |it: &Path| it.display().to_string();
        match &self.from {
            ModelsFrom::Repositories(all) => {
                all.iter().map(|it| show(it)).collect::<Vec<_>>().join(", ")
            }
            ModelsFrom::Path(path) => show(path),
        }
    }
}
