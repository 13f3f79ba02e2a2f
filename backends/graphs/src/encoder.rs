//! Encoders of texts whose layers have their norms behind them: BERT and what followed it. A family is a table of names
//! ([`Family`]); what differs beyond names are the positions and the head.

use crate::{
    blocks::{LayerNames, Sizes, Tokens, encoder_layer, layer_norm, linear, rows_of, together},
    builder::{Builder, Value},
    config::Config,
    error::GraphError,
    frequencies::LONGEST,
    heads::{Body, EncoderHead, ROWS, TOKENS},
    onnx::{Attribute, ElementType},
    relative::{Compared, Relative},
};

/// The keys of `config.json` for the sizes of a model.
pub(crate) struct Keys {
    pub(crate) hidden: &'static str,
    pub(crate) heads: &'static str,
    pub(crate) inner: &'static str,
    pub(crate) layers: &'static str,
    pub(crate) activation: &'static str,
}

/// Those of BERT, which most families have.
pub(crate) const KEYS: Keys = Keys {
    hidden: "hidden_size",
    heads: "num_attention_heads",
    inner: "intermediate_size",
    layers: "num_hidden_layers",
    activation: "hidden_act",
};

/// Where a token stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Positions {
    /// Counted from zero.
    FromZero,
    /// Counted from one behind the number of the padding token, over tokens that are no padding.
    BehindPadding,
    /// The same with this number, whatever the configuration says.
    Behind(i64),
}

impl Sizes {
    /// Those of the configuration; `usual` are hidden size, heads and inner size where it does not say them.
    pub(crate) fn of(
        config: Config<'_>,
        keys: &Keys,
        usual: [usize; 3],
        epsilon: f64,
    ) -> Result<Sizes, GraphError> {
        let [hidden, heads, inner] = usual;
        let hidden = config.size(keys.hidden, hidden)?;
        let heads = config.size(keys.heads, heads)?;
        if !hidden.is_multiple_of(heads) {
            return Err(GraphError::Config {
                key: keys.heads.to_owned(),
                expected: format!("a number that divides {} ({hidden})", keys.hidden),
                given: heads.to_string(),
            });
        }
        let inner = config.size(keys.inner, inner)?;
        Ok(Sizes { hidden, heads, inner, epsilon: config.float("layer_norm_eps", epsilon)? })
    }
}

/// What makes a bias of attention, `[1, heads, tokens, tokens]`, of the prefix of names, the tokens and the heads.
type AttentionBias = fn(&mut Builder, &str, Config<'_>, &Value, usize) -> Result<Value, GraphError>;

/// A family of models.
pub(crate) struct Family {
    /// `model_type` in `config.json`.
    pub(crate) model_types: &'static [&'static str],
    /// What the names of the encoder's tensors begin with, where there is a head.
    pub(crate) base: &'static str,
    pub(crate) keys: Keys,
    /// What `config.json` may leave out.
    pub(crate) defaults: Defaults,
    pub(crate) positions: Positions,
    /// The name of the embeddings of segments, where the model has any.
    pub(crate) segments: Option<&'static str>,
    /// Does the graph take `token_type_ids`? Otherwise all tokens are of segment 0.
    pub(crate) takes_segments: bool,
    /// What makes hidden states of embeddings, where these have a size of their own.
    pub(crate) projection: Option<&'static str>,
    /// The prefix of a layer.
    pub(crate) layer: fn(usize, Config<'_>) -> Result<String, GraphError>,
    pub(crate) names: LayerNames,
    /// What is added to attention in all layers.
    pub(crate) bias: Option<AttentionBias>,
    /// The name of a layer's table of distances, where the family may have them in the place of positions.
    pub(crate) relative: Option<&'static str>,
    /// Heads by the end of the class's name.
    pub(crate) heads: &'static [(&'static str, EncoderHead)],
    /// Parts of names of tensors that a model of the family may have and the graph has no use for.
    pub(crate) unused: &'static [&'static str],
}

/// Values of keys that are not in `config.json`: those of the family's own configuration class.
pub(crate) struct Defaults {
    pub(crate) vocabulary: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) inner: usize,
    pub(crate) layers: usize,
    pub(crate) positions: usize,
    pub(crate) segments: usize,
    pub(crate) epsilon: f64,
    pub(crate) activation: &'static str,
    pub(crate) padding: i64,
}

/// Those of BERT.
pub(crate) const BERT: Defaults = Defaults {
    vocabulary: 30522,
    hidden: 768,
    heads: 12,
    inner: 3072,
    layers: 12,
    positions: 512,
    segments: 2,
    epsilon: 1e-12,
    activation: "gelu",
    padding: 0,
};

/// A model of a family while its graph is made.
struct Encoder<'a> {
    family: &'a Family,
    config: Config<'a>,
    /// What its tensors' names begin with.
    prefix: &'static str,
    sizes: Sizes,
    /// The size of embeddings.
    embedded: usize,
    vocabulary: usize,
    activation: &'a str,
}

/// Adds the whole model to the graph.
///
/// # Errors
/// Those of [`crate::graph_of`].
pub(crate) fn add(
    family: &Family,
    graph: &mut Builder,
    config: Config<'_>,
) -> Result<(), GraphError> {
    config.must_be_off("is_decoder")?;
    config.must_be_off("add_cross_attention")?;
    let Family { keys, defaults, .. } = family;
    let usual = [defaults.hidden, defaults.heads, defaults.inner];
    let sizes = Sizes::of(config, keys, usual, defaults.epsilon)?;
    let hidden = sizes.hidden;
    let word = "embeddings.word_embeddings.weight";
    let is_bare = graph.weights().has(word);
    let embedded = match family.projection {
        Some(_) => config.size("embedding_size", 128)?,
        None => hidden,
    };
    let encoder = Encoder {
        family,
        config,
        prefix: if is_bare { "" } else { family.base },
        sizes,
        embedded,
        vocabulary: config.size("vocab_size", defaults.vocabulary)?,
        activation: config.word(keys.activation, defaults.activation)?,
    };
    let head = config.of_class(family.heads)?;
    let (x, tokens) = encoder.states(graph)?;
    let body = Body {
        config,
        hidden,
        embedded,
        vocabulary: encoder.vocabulary,
        words: encoder.word_embeddings(),
        activation: (family.keys.activation, encoder.activation),
        epsilon: encoder.sizes.epsilon,
        tokens,
    };
    head.add(graph, &x, &body)
}

impl Encoder<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The hidden states of the last layer, as a matrix.
    fn states(&self, graph: &mut Builder) -> Result<(Value, Tokens), GraphError> {
        let Encoder { family, config, sizes, .. } = self;
        let ids = graph.input("input_ids", ElementType::Int64, &[ROWS, TOKENS]);
        let mask = graph.input("attention_mask", ElementType::Int64, &[ROWS, TOKENS]);
        let mut x = self.embeddings(graph, &ids)?;
        x = together(graph, &x, self.embedded);
        if let Some(projection) = family.projection {
            let projection = self.name(projection);
            // ALBERT has it in any case, ELECTRA where sizes differ.
            let has_it = graph.weights().has(&format!("{projection}.weight"));
            if has_it || self.embedded != sizes.hidden {
                x = linear(graph, &x, &projection, [self.embedded, sizes.hidden])?;
            }
        }
        let mut tokens = Tokens::new(graph, &ids, &mask, sizes.hidden);
        if let Some(bias) = family.bias {
            tokens = tokens.biased(bias(graph, self.prefix, *config, &ids, sizes.heads)?);
        }
        if let Some((table, compared)) = self.compared()? {
            let most = self.most_tokens()?;
            tokens = tokens.related(Relative::new(graph, &ids, (table, most), compared));
        }
        let layers = config.size(family.keys.layers, family.defaults.layers)?;
        for layer in 0..layers {
            let prefix = self.name(&(family.layer)(layer, *config)?);
            let activation = (family.keys.activation, self.activation);
            x = encoder_layer(graph, &x, (&prefix, &family.names), &tokens, sizes, activation)?;
        }
        Ok((x, tokens))
    }

    /// Words, segments and positions, `[rows, tokens, size]`.
    fn embeddings(&self, graph: &mut Builder, ids: &Value) -> Result<Value, GraphError> {
        let Encoder { family, config, embedded, vocabulary, .. } = self;
        let words = self.word_embeddings();
        let mut sum = rows_of(graph, &words, [*vocabulary, *embedded], ids)?;
        if let Some(segments) = family.segments {
            let kinds = config.size("type_vocab_size", family.defaults.segments)?;
            let table = graph.weight(&self.name(segments), &[kinds, *embedded])?;
            let segment = match family.takes_segments {
                true => graph.input("token_type_ids", ElementType::Int64, &[ROWS, TOKENS]),
                false => graph.whole_number(0),
            };
            let segments = graph.op("Gather", &[&table, &segment], Vec::new());
            sum = graph.op("Add", &[&sum, &segments], Vec::new());
        }
        if self.compared()?.is_none() {
            sum = self.with_positions(graph, &sum, ids)?;
        }
        let norm = self.name("embeddings.LayerNorm");
        layer_norm(graph, &sum, &norm, *embedded, self.sizes.epsilon)
    }

    /// These, and the embeddings of positions.
    fn with_positions(
        &self,
        graph: &mut Builder,
        sum: &Value,
        ids: &Value,
    ) -> Result<Value, GraphError> {
        let Encoder { family, config, embedded, .. } = self;
        let most = self.most_tokens()?;
        let table = self.name("embeddings.position_embeddings.weight");
        let table = graph.weight(&table, &[most, *embedded])?;
        let padding = match family.positions {
            Positions::FromZero => {
                let shape = graph.op("Shape", &[ids], vec![Attribute::int("start", 1)]);
                let first = graph.whole_numbers(&[0]);
                let positions = graph.op("Slice", &[&table, &first, &shape], Vec::new());
                return Ok(graph.op_of_positions("Add", &[sum, &positions], (LONGEST, most)));
            }
            Positions::BehindPadding => config.token("pad_token_id", family.defaults.padding)?,
            Positions::Behind(number) => number,
        };
        let at = positions_behind(graph, ids, padding);
        let positions = graph.op_of_positions("Gather", &[&table, &at], (LONGEST, most));
        Ok(graph.op("Add", &[sum, &positions], Vec::new()))
    }

    /// The longest text.
    fn most_tokens(&self) -> Result<usize, GraphError> {
        self.config.size(LONGEST, self.family.defaults.positions)
    }

    /// The name of each layer's table of distances and what is compared with it, where these stand for positions.
    fn compared(&self) -> Result<Option<(&'static str, Compared)>, GraphError> {
        const KEY: &str = "position_embedding_type";
        let Some(table) = self.family.relative else {
            return self.config.must_be(KEY, "absolute").map(|()| None);
        };
        match self.config.word(KEY, "absolute")? {
            "absolute" => Ok(None),
            "relative_key" => Ok(Some((table, Compared::Queries))),
            "relative_key_query" => Ok(Some((table, Compared::Both))),
            _ => Err(self.config.wrong(KEY, "absolute, relative_key or relative_key_query")),
        }
    }

    fn word_embeddings(&self) -> String {
        self.name("embeddings.word_embeddings.weight")
    }
}

/// `padding + 1, padding + 2, ..` for tokens that are no padding, and `padding` for others: as RoBERTa counts.
fn positions_behind(graph: &mut Builder, ids: &Value, padding: i64) -> Value {
    let padding = graph.whole_number(padding);
    let is_padding = graph.op("Equal", &[ids, &padding], Vec::new());
    let counts = graph.op("Not", &[&is_padding], Vec::new());
    let counts = graph.cast(&counts, ElementType::Int64);
    let axis = graph.whole_number(1);
    let so_far = graph.op("CumSum", &[&counts, &axis], Vec::new());
    let own = graph.op("Mul", &[&so_far, &counts], Vec::new());
    graph.op("Add", &[&own, &padding], Vec::new())
}
