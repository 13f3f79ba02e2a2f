//! The families of models that graphs are made for, a file each.

mod albert;
mod bert;
mod distilbert;
mod electra;
mod mpnet;
mod roberta;
mod vit;

use crate::{encoder, vision};

/// Those of texts.
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
