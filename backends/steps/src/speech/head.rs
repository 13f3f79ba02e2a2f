//! What is made of the outputs of a sound model's graph.

use crate::{folder::CtcVocabulary, task::Classes};

/// Classes of a sound where the request does not say how many, as in the reference.
pub(super) const MANY_CLASSES: usize = 5;

/// What is made of a graph's outputs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SoundHead {
    /// Classes of a sound.
    Classifier(Classes),
    /// The spelling of each frame.
    Spelling(Box<CtcVocabulary>),
}
