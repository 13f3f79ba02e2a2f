//! The version labels of all models.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;

use crate::version_labels::VersionLabels;

/// The labels of all models, by name. Read without a lock; replaced as a whole.
#[derive(Default)]
pub struct LabelTable(pub(super) ArcSwap<HashMap<Arc<str>, VersionLabels>>);
