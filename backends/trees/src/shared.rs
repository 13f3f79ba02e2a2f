//! What all instances of a model have.

use std::sync::Arc;

use crate::{forest::packed::Forest, output::Form};

/// Immutable, and made when the model is loaded.
pub(crate) struct Shared {
    pub(crate) forest: Forest,
    /// A number that means missing.
    pub(crate) missing: Option<f64>,
    /// Outputs by name.
    pub(crate) outputs: Vec<(Arc<str>, Form)>,
}
