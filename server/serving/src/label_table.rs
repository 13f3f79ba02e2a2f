//! The version labels of models, as an operator gives them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use arc_swap::ArcSwap;

/// The labels of one model, and the version that each stands for.
pub type VersionLabels = BTreeMap<String, u64>;

/// The labels of all models, by name. Read without a lock; replaced as a whole.
#[derive(Default)]
pub struct LabelTable(pub(super) ArcSwap<HashMap<Arc<str>, VersionLabels>>);
