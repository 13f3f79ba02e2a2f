//! What a pipeline has, for its three calls.

use std::sync::Arc;

use crate::{
    signature::{Inputs, Outputs},
    task::{Embedder, Plan},
    text::{TextLimits, Tokenizer},
};

/// What was decided when the pipeline was opened.
#[derive(Debug)]
pub(crate) struct Parts {
    /// What it is for.
    pub(crate) task: Plan,
    /// Text to tokens.
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// What the graph takes.
    pub(crate) inputs: Inputs,
    /// What is read of what it gives.
    pub(crate) outputs: Outputs,
    /// Bounds of one text.
    pub(crate) limits: TextLimits,
    /// Tokens with a meaning of their own.
    pub(crate) special: SpecialTokens,
}

/// Tokens with a meaning of their own, as the folder names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpecialTokens {
    /// For padding.
    pub(crate) pad: u32,
    /// For what the vocabulary does not have.
    pub(crate) unknown: Option<u32>,
    /// In front of a text.
    pub(crate) first: Option<u32>,
    /// For what a model fills in, and how it is written.
    pub(crate) mask: Option<(u32, String)>,
}

impl Parts {
    /// Length of the vectors of an embedder, where the folder or the graph says it.
    pub(crate) fn dimensions(&self, embedder: &Embedder) -> Option<usize> {
        if self.outputs.vector.is_some() {
            return self.outputs.width;
        }
        let last = embedder.chain.iter().rev().find_map(|it| it.outputs());
        let width = embedder.pooling.width.or(self.outputs.width);
        last.or(width.map(|it| it * embedder.pooling.modes.len()))
    }
}
