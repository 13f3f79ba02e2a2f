//! What fronts ask of whoever loads and unloads models.

use std::{future::Future, pin::Pin, sync::Arc, time::Instant};

use bytes::Bytes;
use textproto::tensorflow::raw::ModelServerConfig;

use crate::{served::ServedModel, state::IndexEntry};
use inference::error::Error;

/// Loads and unloads models. All of it is blocking.
pub trait Control: Send + Sync {
    /// Loads a model, or loads it again, and returns once it serves. What serves already goes on until then; where
    /// nothing has changed, nothing happens.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where models are not loaded by request; [`Error::InvalidRequest`] for what is no name,
    /// for what a request may not bring, and for a model that its engine cannot load; [`Error::Repository`] where the
    /// repository has no such model, or its configuration or what the request brings in its place cannot be read. What
    /// served before still does.
    fn load(&self, name: &str, given: LoadOverride) -> Result<(), Error>;

    /// Stops serving a model; with `dependents` the members of an ensemble as well, but for those that another loaded
    /// ensemble needs. Requests in flight are still answered. An unknown model is no error.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where models are not loaded by request; [`Error::InvalidRequest`] for what is no name.
    fn unload(&self, name: &str, dependents: bool) -> Result<(), Error>;

    /// Every model and version; where models are loaded by request, also those in the repository that never were.
    fn index(&self) -> Vec<IndexEntry>;

    /// Replaces all models that are named one by one by those of the message, and returns when each of them serves or
    /// has failed. A message without a list is taken and changes nothing.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where models come from a repository. [`Error::InvalidRequest`] for what is wrong with the
    /// message: then nothing has changed; and for models that could not be loaded.
    fn configure(&self, config: &ModelServerConfig) -> Result<(), Error>;

    /// Loads models for the requests that ask for them; `None` where requests load none.
    fn on_demand(&self) -> Option<&dyn OnDemand>;

    /// The models of a multi-model endpoint.
    ///
    /// # Errors
    /// [`Error::NotFound`] where this is none.
    fn multi_model(&self) -> Result<&dyn MultiModel, Error>;
}

/// What comes with a request to load a model, and stands in for what lies in the repository: files until the next
/// request without them, a configuration alone until the repository changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOverride {
    /// A whole configuration in JSON.
    pub config: Option<String>,
    /// Files by their paths in the model's directory, as `1/model.onnx`; only together with a configuration.
    pub files: Vec<(String, Bytes)>,
}

/// A model that is found, or why it is not, once that is known.
pub type Finding<'a> = Pin<Box<dyn Future<Output = Result<Arc<ServedModel>, Error>> + Send + 'a>>;

/// Loads models for the requests that ask for them.
pub trait OnDemand: Send + Sync {
    /// The model of that name, loaded if it is not. `deadline` is when the answer stops being of use.
    ///
    /// # Errors
    /// Those of [`ModelManager::get`](crate::ModelManager::get); [`Error::ModelNotReady`] when the load fails, or takes
    /// too long.
    ///
    /// # Cancel safety
    /// The load goes on for others.
    fn model<'a>(
        &'a self,
        name: &'a str,
        version: Option<u64>,
        deadline: Option<Instant>,
    ) -> Finding<'a>;
}

/// What a platform wants to be loaded.
#[derive(Debug, Clone, Copy)]
pub struct EndpointLoad<'a> {
    /// Its name for the model.
    pub key: &'a str,
    /// The directory, or the file, of the model.
    pub url: &'a str,
    /// What people call the model, where it says so.
    pub label: Option<&'a str>,
}

/// A model that was loaded under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointModel {
    /// Its name to the platform.
    pub key: Arc<str>,
    /// Where the platform says that it lies.
    pub url: Arc<str>,
    /// Its label, where the platform or a request has given one.
    pub label: Option<Arc<str>>,
}

/// The models of a multi-model endpoint.
pub trait MultiModel: Send + Sync {
    /// Loads a model under a key, and returns once it serves. Of two loads of one key the second waits for the first.
    /// Blocking.
    ///
    /// # Errors
    /// [`Error::AlreadyLoaded`]; [`Error::Backend`] with [`backend::BackendError::OutOfMemory`] where there is too
    /// little memory; [`Error::NotFound`] where there is no model; [`Error::InvalidRequest`] for what is wrong with the
    /// request or the model; those of the load that was waited for.
    fn load(&self, load: EndpointLoad<'_>) -> Result<EndpointModel, Error>;

    /// Unloads the model of a key, and returns once its requests are answered and its memory is given back. Blocking.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not loaded; [`Error::Internal`] when its requests are not answered in time: it
    /// goes when they are.
    fn unload(&self, key: &str) -> Result<EndpointModel, Error>;

    /// The model of a key, in that version or in the highest that serves, to be asked. `label` is what the request
    /// calls it; from now on it is found by that, too, unless it has a label, or another model is found by this one.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not loaded; [`Error::InvalidRequest`] where it does not serve in that version: a
    /// load would not help.
    fn find(
        &self,
        key: &str,
        version: Option<u64>,
        label: Option<&str>,
    ) -> Result<Arc<ServedModel>, Error>;

    /// The model that people call so, else the only one, in that version or in the highest that serves.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where there is neither; those of [`MultiModel::find`].
    fn labelled_or_only(
        &self,
        label: Option<&str>,
        version: Option<u64>,
    ) -> Result<Arc<ServedModel>, Error>;

    /// The model of a key.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not loaded.
    fn get(&self, key: &str) -> Result<EndpointModel, Error>;

    /// Loaded models in the order of their keys: at most so many of those behind `after`, and whether there are more.
    ///
    /// # Errors
    /// None but those of a damaged state.
    fn list(&self, after: Option<&str>, most: usize) -> Result<(Vec<EndpointModel>, bool), Error>;
}
