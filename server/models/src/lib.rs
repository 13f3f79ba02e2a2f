//! Which models are served: looked up by every request, changed by whoever loads and unloads.
#![forbid(unsafe_code)]

mod agents;
mod base_path;
pub mod cache;
mod check;
pub mod choose;
pub mod complete;
pub mod config;
mod configured;
mod control;
mod engine;
pub mod ensemble;
mod files;
mod fingerprint;
mod fit;
mod gpu_limit;
mod hints;
mod id;
pub mod infer;
mod instances;
mod labels;
mod loader;
pub mod made;
mod manager;
mod open_sequences;
mod options;
pub mod pbtxt;
mod plan;
pub mod raw;
mod refusal;
mod repository;
mod resize;
mod sequences;
mod served;
mod settings;
pub mod stores;
mod told;
mod unapplied;
mod validate;
mod versions;
mod warmup;

use std::sync::Arc;

pub use configured::{ConfiguredModel, configured_models};
pub use control::{Catalogue, Control, KeyedLoad, KeyedModel, LoadOverride};
pub use id::ModelId;
pub use labels::VersionLabels;
pub use loader::{LoadSettings, Loader};
pub use manager::{ModelManager, Snapshot};
pub use repository::{Found, FoundModel, Names, scan_path, scan_repositories};
pub use served::{Engine, ServedModel};
pub use validate::{Prepared, prepare, present, request_of_zeros};

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
        self.state == State::Unavailable && !self.reason.starts_with(manager::UNLOADED)
    }
}
