//! One model as the repository has it now, or as a platform has put it under a key.

use std::sync::Arc;

use crate::{
    lifecycle::multi_model::{keys::Keys, layout},
    repository::{catalogue::Catalogue, local::FoundModel, remote::Copies},
};
use inference::{error::Error, messages};
use serving::model_id::ModelId;

/// Finds models to load.
pub(super) struct Finder {
    catalogue: Arc<Catalogue>,
    /// There only where a platform loads models under keys.
    keys: Option<Arc<Keys>>,
}

impl Finder {
    pub(super) fn new(catalogue: Arc<Catalogue>, keys: Option<Arc<Keys>>) -> Finder {
        Finder { catalogue, keys }
    }

    /// The one model of a name, as the repository has it now; with [`Copies::OrLast`] as it was had last, where that
    /// cannot be found out.
    pub(super) fn find(&self, name: &str, copies: Copies) -> Result<FoundModel, Error> {
        let places = self.catalogue.places();
        let found =
            self.catalogue.one(name, copies).map_err(|it| Error::Repository(it.to_string()))?;
        if let Some(reason) = found.refused.into_values().next() {
            return Err(Error::Repository(format!("{}: {reason}", messages::poll_failed(name))));
        }
        let mut models: Vec<FoundModel> = found.models.into_values().collect();
        match models.len() {
            0 => Err(Error::Repository(format!(
                "{}: there is no directory of that name in {places}",
                messages::poll_failed(name)
            ))),
            1 => Ok(models.remove(0)),
            _ => {
                let namespaces: Vec<&str> = models.iter().map(|it| &*it.namespace).collect();
                Err(Error::InvalidRequest(format!(
                    "there are several models '{name}', in the namespaces {}; expected a name that is used once",
                    namespaces.join(", ")
                )))
            }
        }
    }

    /// That very model, in its namespace.
    pub(super) fn find_in(&self, id: &ModelId) -> Result<FoundModel, Error> {
        if id.namespace.is_empty() {
            return self.find(&id.name, Copies::OrLast);
        }
        let directory = self.keys.as_ref().and_then(|it| it.directory(&id.namespace));
        let mut found = match directory {
            Some(directory) => layout::member(id, &directory),
            None => self
                .catalogue
                .one(&id.name, Copies::OrLast)
                .map_err(|it| Error::Repository(it.to_string()))?,
        };
        if let Some(reason) = found.refused.remove(id) {
            return Err(Error::Repository(format!(
                "{}: {reason}",
                messages::poll_failed(&id.name)
            )));
        }
        let model = found.models.into_iter().find(|(it, _)| it == id).map(|(_, model)| model);
        model.ok_or_else(|| Error::Repository(messages::poll_failed(&id.name)))
    }
}
