//! What is left of the outputs of one row when it leaves the thread of the model.

use crate::detect::Detection;

/// The outcome of one row.
#[derive(Debug, Clone, PartialEq)]
pub enum Reduced {
    /// Logits of classes, or one vector.
    Values(Vec<f32>),
    /// A list of values for each token.
    Tokens {
        /// Length of each list.
        width: usize,
        /// The lists one behind the other.
        values: Vec<f32>,
    },
    /// Probabilities of the first and of the last token of an answer, one for each token.
    Span {
        /// Of the first token.
        start: Vec<f32>,
        /// Of the last token.
        end: Vec<f32>,
    },
    /// For each mask the ids of tokens and their scores, best first.
    Fills(Vec<Vec<(u32, f32)>>),
    /// Values above zero and their indices.
    Sparse(Vec<(u32, f32)>),
    /// What is said in a sound.
    Text(String),
    /// The objects in an image.
    Objects(Vec<Detection>),
    /// The vectors of an image.
    Features {
        /// Dimensions of the vectors of its patches.
        dims: Vec<usize>,
        /// Those vectors.
        values: Vec<f32>,
        /// The vector of the whole image; empty where the graph gives none.
        pooled: Vec<f32>,
    },
    /// What the towers of a graph give.
    Towers {
        /// The vector of the image, where there was one.
        image: Option<Vec<f32>>,
        /// That of each text.
        texts: Vec<Vec<f32>>,
    },
}

/// Bytes around the values of an outcome, which lies in one list and then in another, and what the allocator adds.
const AROUND: usize = 2 * size_of::<Reduced>() + 32;

impl Reduced {
    /// Bytes that it takes, with those around its values.
    pub fn bytes(&self) -> usize {
        AROUND.saturating_add(self.bytes_of_values())
    }

    fn bytes_of_values(&self) -> usize {
        let floats = |count: usize| count.saturating_mul(size_of::<f32>());
        match self {
            Reduced::Values(values) | Reduced::Tokens { values, .. } => floats(values.len()),
            Reduced::Span { start, end } => floats(start.len() + end.len()),
            Reduced::Fills(fills) => {
                let count: usize = fills.iter().map(Vec::len).sum();
                count * size_of::<(u32, f32)>() + size_of_val(&**fills)
            }
            Reduced::Sparse(values) => size_of_val(&**values),
            Reduced::Text(text) => text.len(),
            Reduced::Objects(objects) => size_of_val(&**objects),
            Reduced::Features { values, pooled, .. } => floats(values.len() + pooled.len()),
            Reduced::Towers { image, texts } => {
                let numbers: usize = image.iter().chain(texts).map(Vec::len).sum();
                floats(numbers) + size_of_val(&**texts)
            }
        }
    }
}
