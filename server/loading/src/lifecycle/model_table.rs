//! What is known of every model that has been dealt with, and which models others are made of.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::{
    lifecycle::{decide::Sources, load_override::ReadOverride},
    repository::{file_stamps::FileStamps, local::FoundModel},
};
use serving::{lock::lock, model_id::ModelId};

/// Guards what is known of one model, and that one thread at a time loads or unloads it. Those of members are
/// taken while that of the model above them is held, never the other way round.
pub(super) type SharedRecord = Arc<Mutex<ModelRecord>>;

/// What is known of a model that has been dealt with.
#[derive(Default)]
pub(super) struct ModelRecord {
    /// What its versions that serve were made of.
    pub(super) loaded: Option<Sources>,
    /// What came with the last request to load it.
    pub(super) given: Option<ReadOverride>,
    /// Its files when it was last loaded, or could not be.
    pub(super) settled: Option<FileStamps>,
    /// It was unloaded by request: requests for it do not load it again.
    pub(super) withheld: bool,
    /// Bytes that it took when it was loaded last; 0 where that is not measured.
    pub(super) bytes: u64,
}

impl ModelRecord {
    /// The configuration that came with the last load by request. A load that brings none keeps it while the repository
    /// is as it was. Files that came along, and a change in the repository, end it: both as in Triton.
    pub(super) fn kept_config(&self, found: &FoundModel) -> Option<ReadOverride> {
        let given = self.given.as_ref().filter(|it| it.files.is_none())?;
        let (_, is_unchanged) = self.compare(found);
        is_unchanged.then(|| given.clone())
    }

    /// Its files now, and whether they are as they were when it was last loaded, or could not be. Blocking: it reads
    /// those of which only their content can tell.
    pub(super) fn compare(&self, found: &FoundModel) -> (FileStamps, bool) {
        let now = FileStamps::take(found);
        let Some(settled) = &self.settled else { return (now, false) };
        let now = now.since(settled);
        let is_same = now == *settled;
        (now, is_same)
    }
}

/// The models, shared by all that load and unload them.
#[derive(Default)]
pub(super) struct ModelTable {
    /// Guards which models there are; not what is known of each.
    records: Mutex<BTreeMap<ModelId, SharedRecord>>,
    /// Guards which members loaded models have. Taken after nothing but a [`SharedRecord`].
    members: Mutex<BTreeMap<ModelId, Vec<ModelId>>>,
    /// Guards which models are being loaded at the start, or after a look at the repository, and since when. Nothing
    /// else is taken under it.
    loading: Mutex<BTreeMap<ModelId, Instant>>,
}

impl ModelTable {
    /// What is known of that model; nothing yet, where it is new.
    pub(super) fn record(&self, id: &ModelId) -> SharedRecord {
        lock(&self.records).entry(id.clone()).or_default().clone()
    }

    /// Every model that there is.
    pub(super) fn ids(&self) -> Vec<ModelId> {
        lock(&self.records).keys().cloned().collect()
    }

    /// There is no such model any more.
    pub(super) fn remove(&self, id: &ModelId) {
        lock(&self.records).remove(id);
    }

    /// Was a model of that name unloaded by request? Not while it is being loaded.
    pub(super) fn is_withheld(&self, name: &str) -> bool {
        let of_name: Vec<SharedRecord> = {
            let records = lock(&self.records);
            let of_name = |(id, _): &(&ModelId, &SharedRecord)| &*id.name == name;
            let of_name = records.range(ModelId::named(name)..).take_while(of_name);
            of_name.map(|(_, it)| it.clone()).collect()
        };
        of_name.iter().any(|it| it.try_lock().is_ok_and(|record| record.withheld))
    }

    /// A model was loaded that hands requests to these.
    pub(super) fn set_members(&self, id: ModelId, members: Vec<ModelId>) {
        lock(&self.members).insert(id, members);
    }

    /// A model is loaded no more; those that it handed requests to.
    pub(super) fn take_members(&self, id: &ModelId) -> Vec<ModelId> {
        lock(&self.members).remove(id).unwrap_or_default()
    }

    /// A loaded model other than `but` that hands requests to `member`.
    pub(super) fn needs(&self, member: &ModelId, but: &ModelId) -> Option<ModelId> {
        let links = lock(&self.members);
        let others = links.iter().filter(|(it, _)| *it != but);
        let mut needs = others.filter(|(_, members)| members.iter().any(|it| it.means(member)));
        needs.next().map(|(it, _)| it.clone())
    }

    /// Runs `load`, during which the model is among those that are being loaded.
    pub(super) fn while_loading(&self, id: &ModelId, load: impl FnOnce()) {
        lock(&self.loading).insert(id.clone(), Instant::now());
        load();
        lock(&self.loading).remove(id);
    }

    /// The models that are being loaded, and for how long.
    pub(super) fn loading(&self) -> Vec<(ModelId, Duration)> {
        lock(&self.loading).iter().map(|(id, since)| (id.clone(), since.elapsed())).collect()
    }
}
