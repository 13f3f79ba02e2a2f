//! The families of models that graphs are made for, a file each.

mod albert;
mod bert;
mod clip;
mod deberta;
mod distilbert;
mod electra;
mod gte;
mod llama;
mod modernbert;
mod mpnet;
mod nomic;
mod roberta;
mod siglip;
mod vit;

use crate::{decoder, encoder, family::Family, vision};

/// Those of texts whose layers are BERT's.
pub(crate) const TEXTS: &[encoder::Family] = &[
    bert::FAMILY,
    roberta::FAMILY,
    distilbert::FAMILY,
    mpnet::FAMILY,
    electra::FAMILY,
    albert::FAMILY,
];

/// Those of texts whose tokens see what is before them alone.
pub(crate) const DECODERS: &[decoder::Family] = &[llama::LLAMA, llama::MISTRAL, llama::QWEN3];

/// Those of images.
pub(crate) const IMAGES: &[vision::Family] = &[vit::VIT, vit::DEIT];

/// Those with layers of their own.
pub(crate) const OTHERS: &[Family] = &[
    modernbert::FAMILY,
    deberta::FAMILY,
    nomic::FAMILY,
    gte::FAMILY,
    clip::FAMILY,
    siglip::FAMILY,
];
