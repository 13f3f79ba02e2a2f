//! Encoders of texts with rotary positions, feed-forward parts with a gate and norms behind the parts: what NomicBERT
//! and GTE share.

use crate::{
    blocks::{Bias, Sizes, Tokens, gated, layer_norm, linear_of, rows_of, together},
    builder::{Builder, Value},
    error::GraphError,
    frequencies::Frequencies,
    heads::{ROWS, TOKENS},
    onnx::ElementType,
    rotary::Rotary,
};

/// The names of the tensors of a layer.
pub(crate) struct Names {
    /// Queries, keys and values in one.
    pub(crate) attention: &'static str,
    pub(crate) out: &'static str,
    pub(crate) attention_norm: &'static str,
    pub(crate) up: Up,
    pub(crate) down: &'static str,
    pub(crate) norm: &'static str,
}

/// The layers that make a feed-forward part wider. They have no bias.
pub(crate) enum Up {
    Apart {
        up: &'static str,
        gate: &'static str,
    },
    /// In one, the gate last.
    Together(&'static str),
}

/// A model while its graph is made.
pub(crate) struct Encoder<'a> {
    /// What its tensors' names begin with.
    pub(crate) prefix: &'static str,
    /// The prefix of a layer.
    pub(crate) layer: &'static str,
    pub(crate) names: &'a Names,
    /// Of attention and of the end of the feed-forward part.
    pub(crate) bias: Bias,
    pub(crate) sizes: Sizes,
    pub(crate) layers: usize,
    pub(crate) vocabulary: usize,
    /// How many segments there are. With one alone or none the graph does not take `token_type_ids`.
    pub(crate) segments: usize,
    /// The norm of embeddings.
    pub(crate) norm: &'static str,
    pub(crate) frequencies: Frequencies,
    pub(crate) activation: (&'a str, &'a str),
}

/// The name of the embeddings of words, behind the prefix.
pub(crate) const WORDS: &str = "embeddings.word_embeddings.weight";

impl Encoder<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The name of the embeddings of words.
    pub(crate) fn words(&self) -> String {
        self.name(WORDS)
    }

    /// The hidden states of the last layer, as a matrix.
    ///
    /// # Errors
    /// Those of [`crate::graph_of`].
    pub(crate) fn states(&self, graph: &mut Builder) -> Result<(Value, Tokens), GraphError> {
        let Sizes { hidden, epsilon, .. } = self.sizes;
        let ids = graph.input("input_ids", ElementType::Int64, &[ROWS, TOKENS]);
        let mask = graph.input("attention_mask", ElementType::Int64, &[ROWS, TOKENS]);
        let mut x = rows_of(graph, &self.words(), [self.vocabulary, hidden], &ids)?;
        if 0 < self.segments {
            let table = self.name("embeddings.token_type_embeddings.weight");
            let table = graph.weight(&table, &[self.segments, hidden])?;
            let segment = match self.segments {
                1 => graph.whole_number(0),
                _ => graph.input("token_type_ids", ElementType::Int64, &[ROWS, TOKENS]),
            };
            let segments = graph.op("Gather", &[&table, &segment], Vec::new());
            x = graph.op("Add", &[&x, &segments], Vec::new());
        }
        let x = together(graph, &x, hidden);
        let mut x = layer_norm(graph, &x, &self.name(self.norm), hidden, epsilon)?;
        let tokens = Tokens::new(graph, &ids, &mask, hidden);
        let rotary = Rotary::new(graph, &ids, &self.frequencies);
        for layer in 0..self.layers {
            let prefix = self.name(&format!("{}{layer}.", self.layer));
            x = self.layer(graph, &x, &prefix, &tokens, &rotary)?;
        }
        Ok((x, tokens))
    }

    fn layer(
        &self,
        graph: &mut Builder,
        x: &Value,
        prefix: &str,
        tokens: &Tokens,
        rotary: &Rotary,
    ) -> Result<Value, GraphError> {
        let Encoder { names, bias, activation, .. } = *self;
        let Sizes { hidden, inner, epsilon, .. } = self.sizes;
        let name = |it: &str| format!("{prefix}{it}");
        let all = linear_of(graph, x, &name(names.attention), [hidden, 3 * hidden], bias)?;
        let seen = rotary.attention(graph, &all, tokens, &self.sizes, None);
        let seen = linear_of(graph, &seen, &name(names.out), [hidden; 2], bias)?;
        let sum = graph.op("Add", &[&seen, x], Vec::new());
        let x = layer_norm(graph, &sum, &name(names.attention_norm), hidden, epsilon)?;
        let mut wider = |it: &str, to| linear_of(graph, &x, &name(it), [hidden, to], Bias::Without);
        let [up, gate] = match names.up {
            Up::Apart { up, gate } => [wider(up, inner)?, wider(gate, inner)?],
            Up::Together(both) => {
                let both = wider(both, 2 * inner)?;
                graph.split(&both)
            }
        };
        let up = gated(graph, &gate, &up, activation)?;
        let down = linear_of(graph, &up, &name(names.down), [inner, hidden], bias)?;
        let sum = graph.op("Add", &[&down, &x], Vec::new());
        layer_norm(graph, &sum, &name(names.norm), hidden, epsilon)
    }
}
