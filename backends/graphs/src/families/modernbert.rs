//! ModernBERT: rotary positions, feed-forward parts with a gate, norms before the parts, and layers that see all of a
//! text between layers that see a window. Source: "Smarter, Better, Faster, Longer", Warner et al. 2024, and
//! `modeling_modernbert.py` of Hugging Face's transformers.

use crate::{
    attention::window,
    blocks::{
        Bias, Sizes, Tokens, activation, gated, layer_norm_of, linear, linear_of, rows_of, together,
    },
    builder::{Builder, Value},
    config::Config,
    encoder::KEYS,
    error::GraphError,
    family::Family,
    frequencies::Frequencies,
    heads::{ROWS, TOKENS, decoder_weight, first_tokens, of_tokens, span, states},
    onnx::{Attribute, Dim, ElementType},
    rotary::Rotary,
};

pub(super) const FAMILY: Family = Family { model_types: &["modernbert"], add, unused: &[] };

/// What stands behind the encoder.
#[derive(Debug, Clone, Copy)]
enum EncoderHead {
    Hidden,
    Sequence,
    Token,
    Span,
    Vocabulary,
}

const HEADS: &[(&str, EncoderHead)] = &[
    ("ForSequenceClassification", EncoderHead::Sequence),
    ("ForTokenClassification", EncoderHead::Token),
    ("ForQuestionAnswering", EncoderHead::Span),
    ("ForMaskedLM", EncoderHead::Vocabulary),
    ("Model", EncoderHead::Hidden),
];

const WORDS: &str = "embeddings.tok_embeddings.weight";

/// Which tokens a layer sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    All,
    Window,
}

/// A model while its graph is made.
struct Model<'a> {
    config: Config<'a>,
    prefix: &'static str,
    sizes: Sizes,
    vocabulary: usize,
    /// Of norms.
    norm_bias: Bias,
}

fn add(graph: &mut Builder, config: Config<'_>) -> Result<(), GraphError> {
    let head = config.of_class(HEADS)?;
    config.must_be_nothing("rope_scaling")?;
    let sizes = Sizes::of(config, &KEYS, [768, 12, 1152], 0.0)?;
    let model = Model {
        config,
        prefix: if graph.weights().has(WORDS) { "" } else { "model." },
        sizes: Sizes { epsilon: config.float("norm_eps", 1e-5)?, ..sizes },
        vocabulary: config.size("vocab_size", 50368)?,
        norm_bias: Bias::of(config, "norm_bias", Bias::Without)?,
    };
    let (x, tokens) = model.states(graph)?;
    graph.in_floats(|graph| model.add_head(graph, head, &x, &tokens))
}

impl Model<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn norm(&self, graph: &mut Builder, x: &Value, name: &str) -> Result<Value, GraphError> {
        let Sizes { hidden, epsilon, .. } = self.sizes;
        layer_norm_of(graph, x, name, (hidden, epsilon), self.norm_bias)
    }

    /// The hidden states of the last layer, as a matrix.
    fn states(&self, graph: &mut Builder) -> Result<(Value, Tokens), GraphError> {
        let Model { config, sizes, .. } = *self;
        let ids = graph.input("input_ids", ElementType::Int64, &[ROWS, TOKENS]);
        let mask = graph.input("attention_mask", ElementType::Int64, &[ROWS, TOKENS]);
        let x = rows_of(graph, &self.name(WORDS), [self.vocabulary, sizes.hidden], &ids)?;
        let x = together(graph, &x, sizes.hidden);
        let mut x = self.norm(graph, &x, &self.name("embeddings.norm"))?;
        let tokens = Tokens::new(graph, &ids, &mask, sizes.hidden);
        let far = Rotary::new(graph, &ids, &self.frequencies(Sight::All)?);
        let near = Rotary::new(graph, &ids, &self.frequencies(Sight::Window)?);
        let window = window(graph, &ids, config.size("local_attention", 128)? / 2);
        for (layer, sight) in self.layers()?.into_iter().enumerate() {
            let (rotary, bias) = match sight {
                Sight::All => (&far, None),
                Sight::Window => (&near, Some(&window)),
            };
            x = self.layer(graph, &x, layer, &tokens, (rotary, bias))?;
        }
        let x = self.norm(graph, &x, &self.name("final_norm"))?;
        Ok((x, tokens))
    }

    /// What each layer sees: as `layer_types` says, or every so many all of the text.
    fn layers(&self) -> Result<Vec<Sight>, GraphError> {
        let config = self.config;
        let count = config.size(KEYS.layers, 22)?;
        let Some(types) = config.words("layer_types")? else {
            let every = config.size("global_attn_every_n_layers", 3)?;
            let sight =
                |it: usize| if it.is_multiple_of(every) { Sight::All } else { Sight::Window };
            return Ok((0..count).map(sight).collect());
        };
        let sight = |it: &&str| match *it {
            "full_attention" => Some(Sight::All),
            "sliding_attention" => Some(Sight::Window),
            _ => None,
        };
        let layers = types.iter().map(sight).collect::<Option<Vec<Sight>>>();
        layers.filter(|it| it.len() == count).ok_or_else(|| {
            let expected =
                format!("full_attention or sliding_attention for each of {count} layers");
            config.wrong("layer_types", &expected)
        })
    }

    fn frequencies(&self, sight: Sight) -> Result<Frequencies, GraphError> {
        let (part, old, usual) = match sight {
            Sight::All => ("full_attention", "global_rope_theta", 160_000.0),
            Sight::Window => ("sliding_attention", "local_rope_theta", 10_000.0),
        };
        let rope = self.config.part("rope_parameters")?.part(part)?;
        // The library looks for it elsewhere, and never finds another.
        rope.must_be_on("truncate")?;
        let base = self.config.number(old)?.unwrap_or(usual);
        Frequencies::of_part(rope, self.config, base, self.sizes.hidden / self.sizes.heads)
    }

    fn layer(
        &self,
        graph: &mut Builder,
        x: &Value,
        layer: usize,
        tokens: &Tokens,
        (rotary, bias): (&Rotary, Option<&Value>),
    ) -> Result<Value, GraphError> {
        let Sizes { hidden, inner, .. } = self.sizes;
        let name = |it: &str| self.name(&format!("layers.{layer}.{it}"));
        let of_attention = Bias::of(self.config, "attention_bias", Bias::Without)?;
        let of_feed_forward = Bias::of(self.config, "mlp_bias", Bias::Without)?;
        // The norm of the embeddings is that of the first layer.
        let normed = match layer {
            0 => x.clone(),
            _ => self.norm(graph, x, &name("attn_norm"))?,
        };
        let all =
            linear_of(graph, &normed, &name("attn.Wqkv"), [hidden, 3 * hidden], of_attention)?;
        let seen = rotary.attention(graph, &all, tokens, &self.sizes, bias);
        let seen = linear_of(graph, &seen, &name("attn.Wo"), [hidden; 2], of_attention)?;
        let x = graph.op("Add", &[&seen, x], Vec::new());
        let normed = self.norm(graph, &x, &name("mlp_norm"))?;
        let both =
            linear_of(graph, &normed, &name("mlp.Wi"), [hidden, 2 * inner], of_feed_forward)?;
        let [gate, up] = graph.split(&both);
        let function = self.config.word("hidden_activation", "gelu")?;
        let up = gated(graph, &gate, &up, ("hidden_activation", function))?;
        let down = linear_of(graph, &up, &name("mlp.Wo"), [inner, hidden], of_feed_forward)?;
        Ok(graph.op("Add", &[&down, &x], Vec::new()))
    }

    fn add_head(
        &self,
        graph: &mut Builder,
        head: EncoderHead,
        x: &Value,
        tokens: &Tokens,
    ) -> Result<(), GraphError> {
        let (config, hidden) = (self.config, self.sizes.hidden);
        match head {
            EncoderHead::Hidden => states(graph, x, tokens, hidden),
            EncoderHead::Sequence => {
                let pooled = self.pooled(graph, x, tokens)?;
                let dense = self.dense(graph, &pooled)?;
                let labels = config.labels()?;
                let logits = linear(graph, &dense, "classifier", [hidden, labels])?;
                graph.output("logits", &logits, &[ROWS, Dim::Fixed(labels)]);
            }
            EncoderHead::Token => {
                let dense = self.dense(graph, x)?;
                let labels = config.labels()?;
                let logits = linear(graph, &dense, "classifier", [hidden, labels])?;
                of_tokens(graph, &logits, tokens, labels);
            }
            EncoderHead::Span => {
                let dense = self.dense(graph, x)?;
                let logits = linear(graph, &dense, "classifier", [hidden, 2])?;
                span(graph, &logits, tokens);
            }
            EncoderHead::Vocabulary => {
                let dense = self.dense(graph, x)?;
                let dims = [self.vocabulary, hidden];
                let weight = decoder_weight(graph, "decoder", &self.name(WORDS), dims)?;
                let mut inputs = vec![&dense, &weight];
                let bias = match Bias::of(config, "decoder_bias", Bias::With)? {
                    Bias::With => Some(graph.weight("decoder.bias", &[self.vocabulary])?),
                    Bias::Without => None,
                };
                inputs.extend(&bias);
                let logits = graph.op("Gemm", &inputs, vec![Attribute::int("transB", 1)]);
                of_tokens(graph, &logits, tokens, self.vocabulary);
            }
        }
        Ok(())
    }

    /// The layer between the encoder and what the class adds.
    fn dense(&self, graph: &mut Builder, x: &Value) -> Result<Value, GraphError> {
        let bias = Bias::of(self.config, "classifier_bias", Bias::Without)?;
        let dense = linear_of(graph, x, "head.dense", [self.sizes.hidden; 2], bias)?;
        let function = self.config.word("classifier_activation", "gelu")?;
        let dense = activation(graph, &dense, "classifier_activation", function)?;
        self.norm(graph, &dense, "head.norm")
    }

    /// One vector of each text: that of its first token, or the mean of all.
    fn pooled(&self, graph: &mut Builder, x: &Value, tokens: &Tokens) -> Result<Value, GraphError> {
        const KEY: &str = "classifier_pooling";
        match self.config.word(KEY, "cls")? {
            "cls" => Ok(first_tokens(graph, x, tokens)),
            "mean" => Ok(tokens.mean(graph, x)),
            _ => Err(self.config.wrong(KEY, "\"cls\" or \"mean\"")),
        }
    }
}
