//! Why a version of a model cannot be loaded, and whether more memory would help.

use backend::BackendError;

use inference::error::Error;
use serving::config::model::ConfigErrors;

/// Why it cannot: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoadError {
    /// It would load if there were more memory, of the machine or of a device.
    #[error("{0}")]
    OutOfMemory(String),
    /// The model, its configuration or its engine does not allow it.
    #[error("{0}")]
    Refused(String),
    /// Fields of the configuration are wrong.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
}

impl From<String> for LoadError {
    fn from(reason: String) -> LoadError {
        LoadError::Refused(reason)
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Error {
        match error {
            LoadError::OutOfMemory(reason) => Error::Backend(BackendError::OutOfMemory(reason)),
            LoadError::Refused(reason) => Error::InvalidRequest(reason),
            LoadError::Config(errors) => Error::InvalidRequest(errors.to_string()),
        }
    }
}
