//! What becomes of a name.

use std::path::PathBuf;

/// A model that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Its directory, or its one file.
    pub path: PathBuf,
    /// What it is called, unless the operator says otherwise.
    pub name: String,
}
