//! What all instances of a model have.

use crate::{forest::packed::Forest, output::Output};

/// Immutable, and made when the model is loaded.
pub(crate) struct Shared {
    /// At least one. Several are one model: they agree in what a row is and in what is answered.
    pub(crate) forests: Vec<Forest>,
    /// A number that means missing.
    pub(crate) missing: Option<f64>,
    /// The outputs.
    pub(crate) outputs: Vec<Output>,
}
