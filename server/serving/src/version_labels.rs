//! Names of versions, as an operator gives them.

use std::collections::BTreeMap;

/// The labels of one model, and the version that each stands for.
pub type VersionLabels = BTreeMap<String, u64>;
