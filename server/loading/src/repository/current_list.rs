//! The models that are named one by one: which they are now, and how they are found.

use std::{
    collections::BTreeSet,
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use crate::{
    repository::{
        local::{FoundModel, FoundModels},
        model_list::{ListedModel, with_policy},
    },
    settings::named_models::NamedModels,
};
use serving::{config::raw, lock::lock, model_id::ModelId};

/// The models of the list. Replaced as a whole.
#[derive(Debug)]
pub(crate) struct CurrentList {
    /// What says so at the start.
    pub(crate) from: NamedModels,
    /// Guards the list. Held for a look.
    listed: Mutex<Listed>,
}

#[derive(Debug, Clone, Default)]
struct Listed {
    entries: Arc<Vec<ListEntry>>,
    /// Those of all of them.
    directories: Arc<Vec<PathBuf>>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct ListEntry {
    pub(crate) model: ListedModel,
    /// Versions that serve on whatever the policy says, as labels stand for them.
    pub(crate) keep: BTreeSet<u64>,
}

impl CurrentList {
    /// None yet.
    pub(crate) fn new(from: NamedModels) -> CurrentList {
        CurrentList { from, listed: Mutex::default() }
    }

    /// From now on it is these.
    pub(crate) fn set(&self, entries: Vec<ListEntry>) {
        let directories = entries.iter().map(|it| it.model.base_path.clone()).collect();
        *lock(&self.listed) =
            Listed { entries: Arc::new(entries), directories: Arc::new(directories) };
    }

    /// As of now.
    pub(crate) fn entries(&self) -> Arc<Vec<ListEntry>> {
        lock(&self.listed).entries.clone()
    }

    /// Takes all of them in as they lie on disk, or the one of a name. Blocking.
    pub(crate) fn look(&self, found: &mut FoundModels, name: Option<&str>) {
        let Listed { entries, directories } = lock(&self.listed).clone();
        for ListEntry { model, .. } in &*entries {
            if name.is_some_and(|it| it != model.name) {
                continue;
            }
            let id = ModelId::named(&model.name);
            match found.look_at(&model.name, &model.base_path) {
                Ok(()) => {
                    let model = found.models.get_mut(&id);
                    model.into_iter().for_each(|it| it.others = directories.clone());
                }
                Err(error) => drop(found.refused.insert(id, explained(&error))),
            }
        }
    }

    /// The model's configuration with the version policy that it was configured with.
    pub(crate) fn with_policy(
        &self,
        found: &FoundModel,
        raw: Option<raw::ModelConfig>,
    ) -> Option<raw::ModelConfig> {
        let entries = self.entries();
        match entries.iter().find(|it| it.model.name == found.name) {
            Some(entry) => with_policy(raw, entry.model.policy.as_ref(), &entry.keep, found),
            None => raw,
        }
    }

    /// Where it looks, for people.
    pub(crate) fn places(&self) -> String {
        let entries = self.entries();
        let paths = entries.iter().map(|it| it.model.base_path.display().to_string());
        paths.collect::<Vec<_>>().join(", ")
    }
}

fn explained(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{error}; expected a directory of versions, as 1/model.onnx")
        }
        _ => error.to_string(),
    }
}
