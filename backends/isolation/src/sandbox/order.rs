//! How little a worker may reach, and what the server tells it of that.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How little a worker may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sandbox {
    /// Whatever the server may reach.
    Off,
    /// What its engine needs, and what the model's configuration names.
    On,
    /// The same without what the model's configuration and links in its directory name, and with variables by a list.
    Strict,
}

/// The sandbox of one worker, as the server asks for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) sandbox: Sandbox,
    /// Where the worker may write.
    pub(crate) private: Option<PathBuf>,
    /// Directories in which the loader looks for libraries before those of the system.
    pub(crate) libraries: Vec<PathBuf>,
    /// What no setting of a model opens, as it is the server's own.
    pub(crate) kept: Vec<PathBuf>,
}
