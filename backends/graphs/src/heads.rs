//! What stands behind the encoder of a text: the heads that families share, and the outputs that they give.

use crate::{
    blocks::{Tokens, activation, layer_norm, linear, product},
    builder::{Builder, Value},
    config::Config,
    error::GraphError,
    onnx::{Attribute, Dim},
};

/// The name of the dimension of rows.
pub(crate) const ROWS_NAME: &str = "batch_size";
pub(crate) const ROWS: Dim<'_> = Dim::Any(ROWS_NAME);
pub(crate) const TOKENS: Dim<'_> = Dim::Any("sequence_length");

/// What stands behind the encoder, by the end of the class's name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EncoderHead {
    /// The hidden states.
    Hidden,
    /// A dense layer over the first token with a function behind it, then the classes. `activation`: `None` for that
    /// of `pooler_hidden_act`.
    Sequence { dense: &'static str, activation: Option<&'static str>, out: &'static str },
    /// Classes of each token.
    Token { out: &'static str },
    /// The beginning and the end of an answer.
    Span { out: &'static str },
    /// Every token of the vocabulary, at each place. `activation`: `None` for that of the layers.
    Vocabulary {
        dense: &'static str,
        activation: Option<&'static str>,
        norm: &'static str,
        decoder: &'static str,
        bias: &'static str,
    },
}

/// What a head stands on.
pub(crate) struct Body<'a> {
    pub(crate) config: Config<'a>,
    pub(crate) hidden: usize,
    /// The size of embeddings.
    pub(crate) embedded: usize,
    pub(crate) vocabulary: usize,
    /// The name of the embeddings of words.
    pub(crate) words: String,
    /// The key for the function of the layers, and that function.
    pub(crate) activation: (&'a str, &'a str),
    pub(crate) epsilon: f32,
    pub(crate) tokens: Tokens,
}

impl EncoderHead {
    /// The head over hidden states, and the outputs of the model.
    ///
    /// # Errors
    /// Those of [`crate::graph_of`].
    pub(crate) fn add(
        self,
        graph: &mut Builder,
        x: &Value,
        body: &Body<'_>,
    ) -> Result<(), GraphError> {
        graph.in_floats(|graph| self.add_in_floats(graph, x, body))
    }

    fn add_in_floats(
        self,
        graph: &mut Builder,
        x: &Value,
        body: &Body<'_>,
    ) -> Result<(), GraphError> {
        let Body { config, hidden, embedded, vocabulary, ref tokens, .. } = *body;
        match self {
            EncoderHead::Hidden => states(graph, x, tokens, hidden),
            EncoderHead::Sequence { dense, activation: function, out } => {
                let first = first_tokens(graph, x, tokens);
                let dense = linear(graph, &first, dense, [hidden; 2])?;
                let function = function.unwrap_or(config.word(POOLED, "gelu")?);
                let dense = activation(graph, &dense, POOLED, function)?;
                let labels = config.labels()?;
                let logits = linear(graph, &dense, out, [hidden, labels])?;
                graph.output("logits", &logits, &[ROWS, Dim::Fixed(labels)]);
            }
            EncoderHead::Token { out } => {
                let labels = config.labels()?;
                let logits = linear(graph, x, out, [hidden, labels])?;
                of_tokens(graph, &logits, tokens, labels);
            }
            EncoderHead::Span { out } => {
                let logits = linear(graph, x, out, [hidden, 2])?;
                span(graph, &logits, tokens);
            }
            EncoderHead::Vocabulary { dense, activation: function, norm, decoder, bias } => {
                let dense = linear(graph, x, dense, [hidden, embedded])?;
                let (key, usual) = body.activation;
                let dense = activation(graph, &dense, key, function.unwrap_or(usual))?;
                let dense = layer_norm(graph, &dense, norm, embedded, body.epsilon)?;
                let weight = decoder_weight(graph, decoder, &body.words, [vocabulary, embedded])?;
                // The layer's own, which files leave out where it is the other.
                let of_layer = format!("{decoder}.bias");
                let has_own = graph.weights().has(&of_layer);
                let bias = graph.weight(if has_own { &of_layer } else { bias }, &[vocabulary])?;
                let logits = product(graph, &dense, &weight, &bias);
                of_tokens(graph, &logits, tokens, vocabulary);
            }
        }
        Ok(())
    }
}

/// The key of the function behind the dense layer of a sequence, where the configuration has one.
const POOLED: &str = "pooler_hidden_act";

/// The weight of that layer, or where files leave it out, that of the words.
pub(crate) fn decoder_weight(
    graph: &mut Builder,
    layer: &str,
    words: &str,
    dims: [usize; 2],
) -> Result<Value, GraphError> {
    let own = format!("{layer}.weight");
    let tied = !graph.weights().has(&own);
    graph.weight(if tied { words } else { &own }, &dims)
}

/// The hidden states as the model's output.
pub(crate) fn states(graph: &mut Builder, x: &Value, tokens: &Tokens, hidden: usize) {
    let states = tokens.apart(graph, x);
    graph.output("last_hidden_state", &states, &[ROWS, TOKENS, Dim::Fixed(hidden)]);
}

/// The hidden states of each text's first token: `[rows, size]`.
pub(crate) fn first_tokens(graph: &mut Builder, x: &Value, tokens: &Tokens) -> Value {
    let states = tokens.apart(graph, x);
    let zero = graph.whole_number(0);
    graph.op("Gather", &[&states, &zero], vec![Attribute::int("axis", 1)])
}

/// A matrix of logits for each token as the model's output.
pub(crate) fn of_tokens(graph: &mut Builder, logits: &Value, tokens: &Tokens, count: usize) {
    let logits = tokens.apart_with(graph, logits, count);
    graph.output("logits", &logits, &[ROWS, TOKENS, Dim::Fixed(count)]);
}

/// A matrix with two columns, for the beginning and the end of an answer, as the model's outputs.
pub(crate) fn span(graph: &mut Builder, logits: &Value, tokens: &Tokens) {
    let logits = tokens.apart_with(graph, logits, 2);
    for (at, name) in [(0, "start_logits"), (1, "end_logits")] {
        let at = graph.whole_number(at);
        let one = graph.op("Gather", &[&logits, &at], vec![Attribute::int("axis", 2)]);
        graph.output(name, &one, &[ROWS, TOKENS]);
    }
}
