//! Runs of rows of unequal length: what each input of a model is filled up with. Pure.

use std::sync::Arc;

use backend::{Filler, Tensor};

/// The inputs of a model that have one element for each token.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Padding {
    /// Their names, and what stands for no token.
    pub inputs: Vec<(Arc<str>, Filler)>,
}

impl Padding {
    /// One input of a run: the rows of all jobs one below the other, filled up to the longest. Lists buffers, copies
    /// nothing.
    ///
    /// `None` where the input is not padded, or the parts differ in more than their length.
    pub fn concat<'a>(
        &self,
        input: &Arc<str>,
        parts: impl Iterator<Item = &'a Tensor> + Clone,
    ) -> Option<Tensor> {
        let longest = parts.clone().filter_map(|it| it.shape().inner().first()).max()?;
        self.fill(input, parts, *longest)
    }

    /// The same, filled up to that length.
    pub fn fill<'a>(
        &self,
        input: &Arc<str>,
        parts: impl Iterator<Item = &'a Tensor>,
        length: usize,
    ) -> Option<Tensor> {
        let (_, filler) = self.inputs.iter().find(|(name, _)| name == input)?;
        filler.concat(parts, length)
    }
}
