//! What every step is: the ports that it knows, and what it does with a batch.

use backend::{BackendError, ModelSpec, NamedTensor};

use super::call::Call;

/// A step that has been opened.
pub(super) struct Opened {
    /// Its inputs and outputs, the dimension of rows included.
    pub(super) spec: ModelSpec,
    /// What it does.
    pub(super) run: Box<dyn Run>,
}

/// The work of a step.
pub(super) trait Run: Send + Sync {
    /// The outputs that the batch wants.
    ///
    /// # Errors
    /// [`BackendError::InvalidInput`] for inputs that the step cannot take, [`BackendError::Execute`] for numbers of
    /// a graph that are none.
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError>;
}
