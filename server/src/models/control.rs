//! Loading and unloading models by request.

use bytes::Bytes;

use crate::error::Error;

/// What comes with a request to load a model, and stands in for what lies in the repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOverride {
    /// A whole configuration in JSON.
    pub config: Option<String>,
    /// Files by `<version>/<name>`; only together with a configuration.
    pub files: Vec<(String, Bytes)>,
}

/// Loads and unloads models.
#[derive(Debug, Default)]
pub struct Control {}

impl Control {
    /// Loads a model, or loads it again, and returns once it serves. Blocking.
    ///
    /// # Errors
    /// [`Error::Unavailable`] in control modes other than explicit; why it could not be loaded otherwise.
    pub fn load(&self, name: &str, given: LoadOverride) -> Result<(), Error> {
        let _ = (name, given);
        Err(needs_explicit_mode())
    }

    /// Stops serving a model; with `dependents` the members of an ensemble as well. Requests in flight are still
    /// answered. An unknown model is no error.
    ///
    /// # Errors
    /// [`Error::Unavailable`] in control modes other than explicit.
    pub fn unload(&self, name: &str, dependents: bool) -> Result<(), Error> {
        let _ = (name, dependents);
        Err(needs_explicit_mode())
    }
}

fn needs_explicit_mode() -> Error {
    Error::Unavailable(
        "models are loaded and unloaded by request only with --model-control-mode=explicit".into(),
    )
}
