//! Why a model could not be made, and whether another device may do.

use backend::{BackendError, ModelSource};

use crate::{
    config::{choose::EngineChoice, engines::Engines},
    load::load_error::LoadError,
    repository::inspect,
};

/// Why a model could not be made.
pub(super) enum CreateError {
    /// A device for it cannot be used; another one may do.
    Device(String),
    /// A device, or the machine, has too little memory; another device may do.
    Memory(String),
    /// It cannot be served anywhere.
    Refused(String),
}

impl From<BackendError> for CreateError {
    fn from(error: BackendError) -> CreateError {
        match error {
            BackendError::Device(reason) => CreateError::Device(reason),
            BackendError::OutOfMemory(reason) => CreateError::Memory(reason),
            error => CreateError::Refused(error.to_string()),
        }
    }
}

impl From<String> for CreateError {
    fn from(reason: String) -> CreateError {
        CreateError::Refused(reason)
    }
}

impl From<LoadError> for CreateError {
    fn from(error: LoadError) -> CreateError {
        match error {
            LoadError::OutOfMemory(reason) => CreateError::Memory(reason),
            LoadError::Refused(_) | LoadError::Config(_) => CreateError::Refused(error.to_string()),
        }
    }
}

impl From<CreateError> for LoadError {
    fn from(error: CreateError) -> LoadError {
        match error {
            CreateError::Refused(reason) | CreateError::Device(reason) => reason.into(),
            CreateError::Memory(reason) => LoadError::OutOfMemory(reason),
        }
    }
}

/// An engine's word on a file that it cannot open, or what the file is instead.
pub(super) fn said_by_content(
    error: BackendError,
    source: &ModelSource,
    choice: &EngineChoice,
    engines: &Engines,
) -> BackendError {
    match error {
        BackendError::Load(text) => {
            BackendError::Load(told_by_content(source, choice, engines).unwrap_or(text))
        }
        error => error,
    }
}

/// What the file is, where it is not what the engine opens.
pub(super) fn told_by_content(
    source: &ModelSource,
    choice: &EngineChoice,
    engines: &Engines,
) -> Option<String> {
    let engine = engines.description(&choice.backend);
    let mut formats = engine.formats.iter();
    // Then the engine knows best what is wrong with it.
    let is_own =
        formats.any(|it| it.content.is_some() && inspect::has_content_of(&source.path, it));
    if is_own || engine.runs_unread && !engine.has_file(&source.path) {
        None
    } else {
        inspect::not_of(&source.path, &choice.platform)
    }
}
