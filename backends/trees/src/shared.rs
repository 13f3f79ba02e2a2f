//! What all instances of a model have.

use crate::{categories::NamedCategories, forest::packed::Forest, output::Output};

/// Immutable, and made when the model is loaded.
#[derive(Default)]
pub(crate) struct Shared {
    /// At least one. Several are one model: they agree in what a row is and in what is answered.
    pub(crate) forests: Vec<Forest>,
    /// A number that means missing.
    pub(crate) missing: Option<f64>,
    /// The outputs.
    pub(crate) outputs: Vec<Output>,
    /// The features whose numbers are codes of categories with names.
    pub(crate) categories: Vec<NamedCategories>,
    /// What features are called; empty where they have no names.
    pub(crate) feature_names: Vec<String>,
}
