//! The families of models that graphs are made for, a file each.

mod albert;
mod bert;
mod clip;
mod deberta;
mod distilbert;
mod electra;
mod gte;
mod modernbert;
mod mpnet;
mod nomic;
mod roberta;
mod vit;

use crate::{builder::Builder, config::Config, encoder, error::GraphError, vision};

/// Those of texts whose layers are BERT's.
pub(crate) const TEXTS: &[encoder::Family] = &[
    bert::FAMILY,
    roberta::FAMILY,
    distilbert::FAMILY,
    mpnet::FAMILY,
    electra::FAMILY,
    albert::FAMILY,
];

/// Those of images.
pub(crate) const IMAGES: &[vision::Family] = &[vit::VIT, vit::DEIT];

/// Those with layers of their own.
pub(crate) const OTHERS: &[Family] =
    &[modernbert::FAMILY, deberta::FAMILY, nomic::FAMILY, gte::FAMILY, clip::FAMILY];

/// A family whose whole graph is a function of its own.
pub(crate) struct Family {
    /// `model_type` in `config.json`.
    pub(crate) model_types: &'static [&'static str],
    /// Adds the whole model to the graph.
    pub(crate) add: fn(&mut Builder, Config<'_>) -> Result<(), GraphError>,
    /// Parts of names of tensors that a model of the family may have and the graph has no use for.
    pub(crate) unused: &'static [&'static str],
}
