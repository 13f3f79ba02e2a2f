//! Models of a repository whose directory has no versions, but the file of a model: it is their version 1.

use crate::{
    config::engines::Engines,
    repository::{
        flat::only_model_file,
        local::{FoundModel, FoundModels},
    },
};

impl FoundModels {
    /// Finds the files of the models that have no versions. What cannot be listed stays as it is: loading says so.
    pub(crate) fn take_unversioned(&mut self, engines: &Engines) {
        let empty = |it: &&mut FoundModel| it.versions.is_empty();
        for model in self.models.values_mut().filter(empty) {
            if let Ok(Some(file)) = only_model_file(&model.dir, engines) {
                model.versions.insert(1, file);
            }
        }
    }
}
