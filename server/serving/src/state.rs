//! What each version of a model is doing, as the repository index shows it.

use std::{fmt, sync::Arc};

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

/// Why a version is in its state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Reason {
    /// The state says it all.
    #[default]
    None,
    /// It was loaded, and is no more: by request, as it has gone from the repository, or for another version.
    Unloaded,
    /// It was unloaded so that another model could be loaded.
    MadeRoom,
    /// It could not be loaded: a sentence.
    Failed(String),
}

impl Reason {
    /// Is there nothing to say?
    pub fn is_empty(&self) -> bool {
        *self == Reason::None
    }

    /// As the index shows it; empty where there is nothing to say.
    pub fn text(&self) -> &str {
        match self {
            Reason::None => "",
            Reason::Unloaded => "unloaded",
            Reason::MadeRoom => "unloaded to make room; a request loads it again",
            Reason::Failed(text) => text,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Reason {
        match text {
            "" => Reason::None,
            text => Reason::Failed(text.to_owned()),
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
    /// Why it does that.
    pub reason: Reason,
}

impl IndexEntry {
    /// Is it unavailable because something went wrong, rather than unloaded?
    pub fn has_failed(&self) -> bool {
        let is_unloaded = matches!(self.reason, Reason::Unloaded | Reason::MadeRoom);
        self.state == State::Unavailable && !is_unloaded
    }
}
