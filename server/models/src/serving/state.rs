//! What each version of a model is doing, as the repository index shows it.

use std::sync::Arc;

/// What a model version is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It was never loaded.
    Unknown,
    /// It is being loaded and warmed up.
    Loading,
    /// It serves.
    Ready,
    /// It takes no requests any more, and answers those that it has.
    Unloading,
    /// It could not be loaded, or was unloaded.
    Unavailable,
}

impl State {
    /// The name in the repository index.
    pub fn name(self) -> &'static str {
        match self {
            State::Unknown => "UNKNOWN",
            State::Loading => "LOADING",
            State::Ready => "READY",
            State::Unloading => "UNLOADING",
            State::Unavailable => "UNAVAILABLE",
        }
    }
}

/// One line of the repository index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// Name of the model.
    pub name: Arc<str>,
    /// The version; `None` where the model failed as a whole, or was never loaded.
    pub version: Option<u64>,
    /// What it is doing.
    pub state: State,
    /// Why it is unavailable; empty otherwise.
    pub reason: String,
}

impl IndexEntry {
    /// Is it unavailable because something went wrong, rather than unloaded?
    pub fn has_failed(&self) -> bool {
        self.state == State::Unavailable && !self.reason.starts_with(UNLOADED)
    }
}

/// The reason of a version that was loaded and is not any more begins with this.
pub(crate) const UNLOADED: &str = "unloaded";
