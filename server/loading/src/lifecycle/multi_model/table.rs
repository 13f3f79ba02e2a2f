//! Which keys a platform has loaded models under, and what people call these. Pure.

use serving::EndpointModel;
use std::{
    collections::BTreeMap,
    ops::Bound,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use inference::error::Error;

/// Why a load failed, once it has. Every waiter for the load has a clone.
pub(super) type LoadFailure = Arc<OnceLock<Error>>;

/// How far a model is.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    Loading(LoadFailure),
    Loaded,
    Unloading,
}

#[derive(Debug)]
struct KeyEntry {
    model: EndpointModel,
    stage: Stage,
    /// The directory in which its members lie, once it is known.
    repository: Option<Arc<Path>>,
    /// Bytes of memory that are reserved for it.
    bytes: u64,
}

/// Bytes that are reserved for models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Reserved {
    /// All of them.
    pub(super) all: u64,
    /// Those that are being loaded, whose memory is not all taken yet.
    pub(super) loading: u64,
}

/// The keys, in order.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: BTreeMap<Arc<str>, KeyEntry>,
    /// The key of each label; where several models were loaded with one label, the last.
    label_owners: BTreeMap<Arc<str>, Arc<str>>,
}

impl Table {
    /// How far the model of that key is; `None` for one that is not there.
    pub(super) fn stage(&self, key: &str) -> Option<Stage> {
        self.entries.get(key).map(|it| it.stage.clone())
    }

    /// A model is going to be loaded, whose key is not there.
    pub(super) fn begin(&mut self, model: EndpointModel, failure: LoadFailure) {
        let key = model.key.clone();
        let stage = Stage::Loading(failure);
        self.entries.insert(key, KeyEntry { model, stage, repository: None, bytes: 0 });
    }

    /// It lies in this directory, and will take so much.
    pub(super) fn reserve(&mut self, key: &str, repository: PathBuf, bytes: u64) {
        if let Some(entry) = self.entries.get_mut(key) {
            (entry.repository, entry.bytes) = (Some(repository.into()), bytes);
        }
    }

    /// It is loaded.
    pub(super) fn loaded(&mut self, key: &str) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.stage = Stage::Loaded;
        if let Some(label) = &entry.model.label {
            self.label_owners.insert(label.clone(), entry.model.key.clone());
        }
    }

    /// The model, which is loaded, is going to be unloaded: it is not found any more.
    pub(super) fn withdraw(&mut self, key: &str) -> Option<EndpointModel> {
        let entry = self.entries.get_mut(key).filter(|it| matches!(it.stage, Stage::Loaded))?;
        entry.stage = Stage::Unloading;
        let model = entry.model.clone();
        self.unlabel(&model);
        Some(model)
    }

    /// It is gone, or could not be loaded.
    pub(super) fn remove(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// The loaded model of that key.
    pub(super) fn get(&self, key: &str) -> Option<&EndpointModel> {
        let loaded = |it: &&KeyEntry| matches!(it.stage, Stage::Loaded);
        self.entries.get(key).filter(loaded).map(|it| &it.model)
    }

    /// Loaded models behind that key, at most so many, and whether there are more.
    pub(super) fn page(&self, after: Option<&str>, most: usize) -> (Vec<EndpointModel>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.entries.range::<str, _>((from, Bound::Unbounded));
        let mut loaded = behind.filter(|(_, it)| matches!(it.stage, Stage::Loaded));
        let page = loaded.by_ref().take(most).map(|(_, it)| it.model.clone()).collect();
        (page, loaded.next().is_some())
    }

    /// The key of the loaded model that has that label, or has it for a key.
    pub(super) fn owner_of_label(&self, label: &str) -> Option<Arc<str>> {
        let by_key = || self.get(label).map(|it| it.key.clone());
        self.label_owners.get(label).cloned().or_else(by_key)
    }

    /// The key of the one loaded model; otherwise, how many there are.
    pub(super) fn only(&self) -> Result<Arc<str>, usize> {
        let mut loaded = self.entries.values().filter(|it| matches!(it.stage, Stage::Loaded));
        match (loaded.next(), loaded.count()) {
            (Some(only), 0) => Ok(only.model.key.clone()),
            (Some(_), others) => Err(others + 1),
            (None, _) => Err(0),
        }
    }

    /// A request calls the model so. A label that the platform has given counts more, and so does one that another
    /// model has already: otherwise a client of one model could receive the requests of another.
    pub(super) fn learn(&mut self, key: &str, label: &str) {
        if self.owner_of_label(label).is_some() {
            return;
        }
        let loaded = |it: &&mut KeyEntry| matches!(it.stage, Stage::Loaded);
        let Some(entry) = self.entries.get_mut(key).filter(loaded) else { return };
        if entry.model.label.is_none() {
            let label: Arc<str> = label.into();
            entry.model.label = Some(label.clone());
            self.label_owners.insert(label, entry.model.key.clone());
        }
    }

    /// The directory in which members of the model of that key lie.
    pub(super) fn repository(&self, key: &str) -> Option<Arc<Path>> {
        self.entries.get(key)?.repository.clone()
    }

    /// What is reserved for the models.
    pub(super) fn reserved(&self) -> Reserved {
        let bytes = |it: &KeyEntry| match it.stage {
            Stage::Loading(_) => Reserved { all: it.bytes, loading: it.bytes },
            Stage::Loaded => Reserved { all: it.bytes, loading: 0 },
            // What it gives back is there when it is gone.
            Stage::Unloading => Reserved { all: it.bytes, loading: 0 },
        };
        self.entries.values().map(bytes).fold(Reserved::default(), |sum, it| Reserved {
            all: sum.all.saturating_add(it.all),
            loading: sum.loading.saturating_add(it.loading),
        })
    }

    fn unlabel(&mut self, model: &EndpointModel) {
        let Some(label) = &model.label else { return };
        if self.label_owners.get(label) == Some(&model.key) {
            self.label_owners.remove(label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(loaded: &[(&str, &str)]) -> Table {
        let mut table = Table::default();
        for (key, label) in loaded {
            begin(&mut table, key, label);
            table.loaded(key);
        }
        table
    }

    fn begin(table: &mut Table, key: &str, label: &str) {
        let label = Some(label).filter(|it| !it.is_empty()).map(Arc::from);
        table.begin(
            EndpointModel { key: key.into(), url: "/m".into(), label },
            LoadFailure::default(),
        );
    }

    fn keys(page: (Vec<EndpointModel>, bool)) -> (Vec<String>, bool) {
        (page.0.iter().map(|it| it.key.to_string()).collect(), page.1)
    }

    #[test]
    fn pages_hold_what_is_loaded_in_order_and_say_whether_there_is_more() {
        let mut table = table(&[("c", ""), ("a", ""), ("b", "")]);
        begin(&mut table, "d", "");
        assert_eq!(keys(table.page(None, 2)), (vec!["a".into(), "b".into()], true));
        assert_eq!(keys(table.page(Some("b"), 2)), (vec!["c".into()], false));
        table.withdraw("a");
        assert_eq!(keys(table.page(None, 9)), (vec!["b".into(), "c".into()], false));
    }

    #[test]
    fn a_label_is_borne_by_the_last_to_come_and_forgotten_with_it() {
        let mut table = table(&[("a", "x.tar.gz"), ("b", "x.tar.gz")]);
        assert_eq!(table.owner_of_label("x.tar.gz").as_deref(), Some("b"));
        table.withdraw("a");
        assert_eq!(table.owner_of_label("x.tar.gz").as_deref(), Some("b"));
        table.withdraw("b");
        assert_eq!((table.owner_of_label("x.tar.gz"), table.owner_of_label("b")), (None, None));
    }

    #[test]
    fn a_label_that_is_said_later_counts_where_there_was_none() {
        let mut table = table(&[("a", "")]);
        table.learn("a", "x");
        assert_eq!(table.owner_of_label("x").as_deref(), Some("a"));
        // A key is a name, too.
        assert_eq!(table.owner_of_label("a").as_deref(), Some("a"));
        table.learn("nobody", "else");
        assert_eq!(table.owner_of_label("else"), None);
        table.withdraw("a");
        assert_eq!(table.owner_of_label("x"), None);
    }

    #[test]
    fn a_label_that_is_said_later_takes_nothing_from_a_model_and_replaces_nothing() {
        let mut table = table(&[("a", ""), ("b", "x"), ("c", "")]);
        table.learn("a", "x");
        table.learn("a", "c");
        assert_eq!(table.owner_of_label("x").as_deref(), Some("b"));
        assert_eq!(table.owner_of_label("c").as_deref(), Some("c"));
        table.learn("b", "y");
        assert_eq!(
            (table.owner_of_label("y"), table.owner_of_label("x").as_deref()),
            (None, Some("b"))
        );
        // Nothing of it is left: this one has no label yet.
        table.learn("a", "z");
        assert_eq!(table.owner_of_label("z").as_deref(), Some("a"));
    }

    #[test]
    fn the_only_model_is_the_one_that_is_loaded() {
        let mut table = table(&[("a", "")]);
        begin(&mut table, "b", "");
        assert_eq!(table.only().as_deref(), Ok("a"));
        table.loaded("b");
        assert_eq!(table.only(), Err(2));
        table.withdraw("a");
        table.withdraw("b");
        assert_eq!(table.only(), Err(0));
    }

    #[test]
    fn what_is_loading_counts_before_it_has_taken_its_memory() {
        let mut table = table(&[("a", "")]);
        begin(&mut table, "b", "");
        table.reserve("a", "/m".into(), 5);
        table.reserve("b", "/m".into(), 7);
        assert_eq!(table.reserved(), Reserved { all: 12, loading: 7 });
        table.remove("b");
        assert_eq!(table.reserved(), Reserved { all: 5, loading: 0 });
    }
}
