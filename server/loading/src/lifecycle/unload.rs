//! Models that are to serve no more: by request, because they have gone from the repository, or to make room.

use crate::{
    lifecycle::{converge::Converger, model_table::ModelRecord},
    repository::file_stamps::FileStamps,
};
use serving::{lock::lock, manager::Versions, model_id::ModelId, state::Reason};

impl Converger {
    /// Unloads a model because a client asked for it, in whichever repository it lies. Waits for a load of it that
    /// is going on, and of an ensemble that it is a member of, and not for its requests.
    pub(super) fn unload_by_request(&self, name: &str, dependents: bool) {
        self.unload_with(&ModelId::named(name), dependents);
    }

    pub(super) fn unload_with(&self, meant: &ModelId, dependents: bool) {
        for id in self.manager.ids(&meant.name).iter().filter(|it| meant.means(it)) {
            self.member_waits.until_loaded(id);
            let members = self.unload_one(id);
            for member in members.iter().filter(|_| dependents) {
                match self.table.needs(member, id) {
                    Some(other) => {
                        tracing::info!(model = %member, "stays loaded, as '{other}' needs it");
                    }
                    None => self.unload_with(member, dependents),
                }
            }
        }
    }

    /// The model is gone from its repository.
    pub(super) fn unload_removed(&self, id: &ModelId) {
        tracing::info!(model = %id, "it is gone from the repository");
        self.unload_one(id);
        self.manager.forget(id);
    }

    /// All versions of the model are gone; its directory is still there.
    pub(super) fn unload_emptied(&self, id: &ModelId, stamps: FileStamps) {
        tracing::info!(model = %id, "there is no version of it any more");
        self.unload_one(id);
        lock(&self.table.record(id)).settled = Some(stamps);
    }

    /// Unloads it, and returns its members.
    pub(super) fn unload_one(&self, id: &ModelId) -> Vec<ModelId> {
        let shared = self.table.record(id);
        let mut record = lock(&shared);
        let bytes = record.bytes;
        *record = ModelRecord { withheld: true, bytes, ..ModelRecord::default() };
        self.publisher.switch(id, Versions::new(), Reason::Unloaded);
        self.table.take_members(id)
    }
}
