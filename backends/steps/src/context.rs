//! What is remembered of an input between the calls of a step. Opaque to the server.

use std::sync::Arc;

use crate::{
    detect::Thresholds,
    folder::Activation,
    head::{
        answer::Question,
        embed::PoolWork,
        entail::Candidates,
        entities::Scored,
        mask::{MaskWork, Masked},
    },
    request::{Function, Similarity, TopK},
};

/// What `reduce` needs to know of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Work(pub(crate) WorkKind);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WorkKind {
    /// Keep the values of the first output as they are.
    Logits,
    /// One vector of the token vectors.
    Pool(PoolWork),
    /// Keep all token vectors.
    Features,
    /// A softmax for each token.
    TokenScores,
    /// Probabilities of the first and of the last token among those that are allowed.
    Span(Vec<bool>),
    /// The best tokens at the masks.
    Fills(MaskWork),
    /// A sparse vector.
    Sparse,
    /// The boxes around the objects in an image.
    Objects(ObjectWork),
    /// The vectors of an image.
    ImageFeatures,
    /// The vectors of an image, if there is one, and of so many texts.
    Towers { has_image: bool, texts: usize },
    /// The spelling of the frames of a sound.
    Frames,
}

/// What brings boxes back from the input of a graph to the image as it was sent. Sizes are width and height.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ObjectWork {
    /// Of the image as it was sent.
    pub(crate) sent: [u32; 2],
    /// Of the input of the graph.
    pub(crate) input: [u32; 2],
    /// What a box must have.
    pub(crate) thresholds: Thresholds,
}

impl Work {
    /// How long `reduce` takes for a row whose outputs have so many values, as the number of values of token vectors
    /// whose mean takes as long.
    pub fn effort(&self, values: usize) -> usize {
        let of_each = match self.0 {
            WorkKind::Pool(_) | WorkKind::Features => 1,
            WorkKind::Logits => 4,
            // An exponential for each.
            WorkKind::TokenScores | WorkKind::Span(_) => 8,
            // Ranked, too.
            WorkKind::Fills(_) => 16,
            // A logarithm for each, and a list as long as the vocabulary.
            WorkKind::Sparse => 16,
            // Each value is compared with another one.
            WorkKind::Objects(_)
            | WorkKind::Frames
            | WorkKind::ImageFeatures
            | WorkKind::Towers { .. } => 1,
        };
        values.saturating_mul(of_each)
    }
}

/// What `finish` needs to know of one input.
#[derive(Debug, Clone, PartialEq)]
pub struct Context(pub(crate) ContextKind);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ContextKind {
    /// Classes of a text.
    Labels { function: Function, top_k: TopK },
    /// Texts ranked by their logit, behind this activation.
    Ranking { activation: Activation },
    /// Texts ranked by how like the first row they are.
    RankingByVectors { similarity: Similarity },
    /// The vector of a text.
    Embedding,
    /// The vectors of its tokens.
    Features,
    /// How like the first row the others are.
    Similarities { similarity: Similarity },
    /// The entities of a text.
    Entities(Box<Scored>),
    /// The answers to a question.
    Answers(Box<Question>),
    /// What stands at the masks.
    Fills(Masked),
    /// The labels that a text has.
    Candidates(Candidates),
    /// The labels that an image has.
    ImageCandidates(Vec<Arc<str>>),
    /// A sparse vector.
    Sparse,
    /// The objects in an image.
    Objects { size: [u32; 2] },
    /// The vectors of an image, or the one of the whole of it.
    ImageFeatures { is_pooled: bool },
    /// The vectors of an image and of texts.
    Towers,
    /// What is said in a sound.
    Transcript,
}
