//! A family of models whose layers are not those of another.

use crate::{builder::Builder, config::Config, error::GraphError};

/// A family whose whole graph is a function of its own.
pub(crate) struct Family {
    /// `model_type` in `config.json`.
    pub(crate) model_types: &'static [&'static str],
    /// Adds the whole model to the graph.
    pub(crate) add: fn(&mut Builder, Config<'_>) -> Result<(), GraphError>,
    /// Parts of names of tensors that a model of the family may have and the graph has no use for.
    pub(crate) unused: &'static [&'static str],
}
