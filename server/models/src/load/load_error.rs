//! Why a version of a model cannot be loaded, and whether more memory would help.

use backend::BackendError;

use inference::error::Error;

/// Why it cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadError {
    /// A sentence.
    pub(crate) reason: String,
    /// It would load if there were more memory, of the machine or of a device.
    pub(crate) lacks_memory: bool,
}

impl LoadError {
    /// There is too little memory.
    pub(crate) fn out_of_memory(reason: String) -> LoadError {
        LoadError { reason, lacks_memory: true }
    }

    /// The answer to whoever asked for the model.
    pub(crate) fn into_error(self) -> Error {
        match self.lacks_memory {
            true => Error::Backend(BackendError::OutOfMemory(self.reason)),
            false => Error::InvalidRequest(self.reason),
        }
    }
}

impl From<String> for LoadError {
    fn from(reason: String) -> LoadError {
        LoadError { reason, lacks_memory: false }
    }
}
