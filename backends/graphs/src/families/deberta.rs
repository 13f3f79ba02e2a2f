//! DeBERTa, versions 2 and 3: attention compares tokens with distances, too. Source: "DeBERTa", He et al. 2020,
//! "DeBERTaV3", He et al. 2021, and `modeling_deberta_v2.py` of Hugging Face's transformers.

use super::bert::LAYER;
use crate::{
    attention::{Attention, distances},
    blocks::{
        Bias, LayerNames, Sizes, Tokens, activation, feed_forward, layer_norm, linear, linear_of,
        rows_of, together,
    },
    builder::{Builder, Value},
    config::Config,
    encoder::KEYS,
    error::GraphError,
    family::Family,
    frequencies::LONGEST,
    heads::{Body, EncoderHead, ROWS, TOKENS},
    onnx::{Attribute, ElementType},
    relative::{at_distances, of_distances, turned},
};

pub(super) const FAMILY: Family = Family {
    model_types: &["deberta-v2"],
    add,
    // Files have positions that the configuration says are not used.
    unused: &[
        "position_ids",
        "position_embeddings",
        "pooler.",
        "mask_predictions.",
        "cls.predictions.bias",
    ],
};

const NAMES: LayerNames = LayerNames {
    query: "attention.self.query_proj",
    key: "attention.self.key_proj",
    value: "attention.self.value_proj",
    ..LAYER
};

const HEADS: &[(&str, EncoderHead)] = &[
    ("Model", EncoderHead::Hidden),
    (
        "ForSequenceClassification",
        EncoderHead::Sequence { dense: "pooler.dense", activation: None, out: "classifier" },
    ),
    ("ForTokenClassification", EncoderHead::Token { out: "classifier" }),
    ("ForQuestionAnswering", EncoderHead::Span { out: "qa_outputs" }),
    (
        "ForMaskedLM",
        EncoderHead::Vocabulary {
            dense: "cls.predictions.transform.dense",
            activation: None,
            norm: "cls.predictions.transform.LayerNorm",
            decoder: "cls.predictions.decoder",
            bias: "cls.predictions.bias",
        },
    ),
];

const WORDS: &str = "embeddings.word_embeddings.weight";

/// A model while its graph is made.
struct Model<'a> {
    config: Config<'a>,
    prefix: &'static str,
    sizes: Sizes,
    /// The size of embeddings.
    embedded: usize,
    vocabulary: usize,
}

/// The ways in which attention looks at distances.
struct Ways {
    content_to_position: bool,
    position_to_content: bool,
}

/// What attention looks up for distances.
struct Relative {
    /// An embedding for each bucket of distances, `[buckets, size]`.
    table: Value,
    /// The bucket of each query's distance from each key, `[tokens, tokens]`, INT32.
    of_queries: Value,
    /// The same with a row for each key.
    of_keys: Value,
    /// How many buckets there are.
    count: usize,
}

fn add(graph: &mut Builder, config: Config<'_>) -> Result<(), GraphError> {
    let head = config.of_class(HEADS)?;
    config.must_be_on("legacy")?;
    let sizes = Sizes::of(config, &KEYS, [1536, 24, 6144], 1e-7)?;
    let hidden = sizes.hidden;
    for (key, only) in
        [("pooler_hidden_size", hidden), ("attention_head_size", hidden / sizes.heads)]
    {
        if config.size(key, only)? != only {
            return Err(config.wrong(key, &only.to_string()));
        }
    }
    let model = Model {
        config,
        prefix: if graph.weights().has(WORDS) { "" } else { "deberta." },
        sizes,
        embedded: config.size("embedding_size", hidden)?,
        vocabulary: config.size("vocab_size", 128_100)?,
    };
    let (x, tokens) = model.states(graph)?;
    let body = Body {
        config,
        hidden,
        embedded: model.embedded,
        vocabulary: model.vocabulary,
        words: model.name(WORDS),
        activation: model.activation()?,
        epsilon: sizes.epsilon,
        tokens,
    };
    head.add(graph, &x, &body)
}

impl<'a> Model<'a> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn activation(&self) -> Result<(&'static str, &'a str), GraphError> {
        Ok((KEYS.activation, self.config.word(KEYS.activation, "gelu")?))
    }

    /// The hidden states of the last layer, as a matrix.
    fn states(&self, graph: &mut Builder) -> Result<(Value, Tokens), GraphError> {
        let ids = graph.input("input_ids", ElementType::Int64, &[ROWS, TOKENS]);
        let mask = graph.input("attention_mask", ElementType::Int64, &[ROWS, TOKENS]);
        let tokens = Tokens::new(graph, &ids, &mask, self.sizes.hidden);
        // 1 or 0 for each token, a row each.
        let counts = graph.cast(&mask, ElementType::Float);
        let counts = together(graph, &counts, 1);
        let embeddings = self.embeddings(graph, &ids)?;
        let embeddings = graph.op("Mul", &[&embeddings, &counts], Vec::new());
        let relative = self.relative(graph, &ids)?;
        let mut x = embeddings.clone();
        for layer in 0..self.config.size(KEYS.layers, 24)? {
            let prefix = self.name(&format!("encoder.layer.{layer}."));
            x = self.layer(graph, &x, &prefix, &tokens, relative.as_ref())?;
            if layer == 0 && 0 < self.config.count("conv_kernel_size", 0)? {
                x = self.convolution(graph, &embeddings, &x, (&tokens, &counts))?;
            }
        }
        Ok((x, tokens))
    }

    /// Words, and positions and segments where the model has any, as a matrix.
    fn embeddings(&self, graph: &mut Builder, ids: &Value) -> Result<Value, GraphError> {
        let Model { config, embedded, .. } = *self;
        let hidden = self.sizes.hidden;
        let dims = [self.vocabulary, embedded];
        let mut sum = rows_of(graph, &self.name(WORDS), dims, ids)?;
        if config.flag("position_biased_input", true)? {
            let most = config.size(LONGEST, 512)?;
            let table = self.name("embeddings.position_embeddings.weight");
            let table = graph.weight(&table, &[most, embedded])?;
            let shape = graph.op("Shape", &[ids], vec![Attribute::int("start", 1)]);
            let first = graph.whole_numbers(&[0]);
            let positions = graph.op("Slice", &[&table, &first, &shape], Vec::new());
            sum = graph.op_of_positions("Add", &[&sum, &positions], (LONGEST, most));
        }
        let segments = config.count("type_vocab_size", 0)?;
        if 0 < segments {
            let table = self.name("embeddings.token_type_embeddings.weight");
            let table = graph.weight(&table, &[segments, embedded])?;
            let segment = graph.input("token_type_ids", ElementType::Int64, &[ROWS, TOKENS]);
            let segments = graph.op("Gather", &[&table, &segment], Vec::new());
            sum = graph.op("Add", &[&sum, &segments], Vec::new());
        }
        let mut x = together(graph, &sum, embedded);
        if embedded != hidden {
            let name = self.name("embeddings.embed_proj");
            x = linear_of(graph, &x, &name, [embedded, hidden], Bias::Without)?;
        }
        let norm = self.name("embeddings.LayerNorm");
        layer_norm(graph, &x, &norm, hidden, self.sizes.epsilon)
    }

    /// What attention looks up for distances; nothing where it looks at none.
    fn relative(&self, graph: &mut Builder, ids: &Value) -> Result<Option<Relative>, GraphError> {
        let config = self.config;
        if !config.flag("relative_attention", false)? {
            return Ok(None);
        }
        let usual = config.size(LONGEST, 512)?;
        let most = match config.token("max_relative_positions", -1)? {
            ..1 => usual,
            _ => config.size("max_relative_positions", usual)?,
        };
        let buckets = match config.token("position_buckets", -1)? {
            ..1 => None,
            _ => Some(config.size("position_buckets", 1)?),
        };
        if buckets.is_some_and(|it| most <= it / 2 + 1) {
            let expected = "more than half of position_buckets";
            return Err(config.wrong("max_relative_positions", expected));
        }
        let span = buckets.unwrap_or(most);
        let Sizes { hidden, epsilon, .. } = self.sizes;
        let table = self.name("encoder.rel_embeddings.weight");
        let mut table = graph.weight(&table, &[2 * span, hidden])?;
        const NORM: &str = "norm_rel_ebd";
        match config.word(NORM, "none")? {
            "none" => {}
            "layer_norm" => {
                let name = self.name("encoder.LayerNorm");
                table = layer_norm(graph, &table, &name, hidden, epsilon)?;
            }
            _ => return Err(config.wrong(NORM, "\"none\" or \"layer_norm\"")),
        }
        let of_distance = of_distances(span as i64, buckets.map(|it| (it as i64, most as i64)));
        let farthest = (of_distance.len() / 2) as i64;
        let of_distance = graph.whole_numbers(&of_distance);
        let of_distance = graph.cast(&of_distance, ElementType::Int32);
        // From a token to one before it is a positive distance here.
        let distances = distances(graph, ids);
        let distances = graph.op("Neg", &[&distances], Vec::new());
        let (first, last) = (graph.whole_number(-farthest), graph.whole_number(farthest));
        let distances = graph.op("Clip", &[&distances, &first, &last], Vec::new());
        let at = graph.op("Add", &[&distances, &last], Vec::new());
        let of_queries = graph.op("Gather", &[&of_distance, &at], Vec::new());
        let of_keys = graph.op("Transpose", &[&of_queries], Vec::new());
        Ok(Some(Relative { table, of_queries, of_keys, count: 2 * span }))
    }

    fn ways(&self) -> Result<Ways, GraphError> {
        const KEY: &str = "pos_att_type";
        // Configurations of old have one text with bars.
        let words: Vec<&str> = match self.config.word(KEY, "") {
            Ok(text) => text.split('|').map(str::trim).filter(|it| !it.is_empty()).collect(),
            Err(_) => self.config.words(KEY)?.unwrap_or_default(),
        };
        match words.iter().all(|it| ["c2p", "p2c"].contains(it)) {
            true => Ok(Ways {
                content_to_position: words.contains(&"c2p"),
                position_to_content: words.contains(&"p2c"),
            }),
            false => Err(self.config.wrong(KEY, "a list of \"c2p\" and \"p2c\"")),
        }
    }

    fn layer(
        &self,
        graph: &mut Builder,
        x: &Value,
        prefix: &str,
        tokens: &Tokens,
        relative: Option<&Relative>,
    ) -> Result<Value, GraphError> {
        let Sizes { hidden, heads, epsilon, .. } = self.sizes;
        let square = [hidden; 2];
        let name = |it: &str| format!("{prefix}{it}");
        let query = linear(graph, x, &name(NAMES.query), square)?;
        let key = linear(graph, x, &name(NAMES.key), square)?;
        let value = linear(graph, x, &name(NAMES.value), square)?;
        let [query, key, value] = [query, key, value].map(|it| tokens.apart(graph, &it));
        let ways = self.ways()?;
        let parts = 1 + u8::from(ways.content_to_position) + u8::from(ways.position_to_content);
        let scale = 1.0 / ((hidden / heads) as f32 * f32::from(parts)).sqrt();
        let bias = match relative {
            Some(it) => self.bias(graph, prefix, it, &ways, [&query, &key])?,
            None => None,
        };
        let bias = bias.map(|it| {
            let scale = graph.numbers(&[scale]);
            graph.op("Mul", &[&it, &scale], Vec::new())
        });
        let attention = Attention {
            heads,
            mask: tokens.mask(),
            bias: bias.as_ref(),
            scale: Some(scale),
            ..Attention::default()
        };
        let seen = attention.add(graph, [&query, &key, &value]);
        let seen = together(graph, &seen, hidden);
        let seen = linear(graph, &seen, &name(NAMES.out), square)?;
        let sum = graph.op("Add", &[&seen, x], Vec::new());
        let x = layer_norm(graph, &sum, &name(NAMES.attention_norm), hidden, epsilon)?;
        feed_forward(graph, &x, (prefix, &NAMES), &self.sizes, self.activation()?)
    }

    /// What distances add to attention: `[rows, heads, tokens, tokens]`.
    fn bias(
        &self,
        graph: &mut Builder,
        prefix: &str,
        relative: &Relative,
        ways: &Ways,
        [query, key]: [&Value; 2],
    ) -> Result<Option<Value>, GraphError> {
        let shares = self.config.flag("share_att_key", false)?;
        let pick = |own, shared| format!("{prefix}{}", if shares { shared } else { own });
        let Sizes { hidden, heads, .. } = self.sizes;
        let sizes = [heads, hidden / heads];
        let mut parts = Vec::new();
        if ways.content_to_position {
            let table =
                self.table(graph, relative, &pick("attention.self.pos_key_proj", NAMES.key))?;
            parts.push(at_distances(graph, query, &table, &relative.of_queries, sizes));
        }
        if ways.position_to_content {
            let name = pick("attention.self.pos_query_proj", NAMES.query);
            let table = self.table(graph, relative, &name)?;
            let of_keys = at_distances(graph, key, &table, &relative.of_keys, sizes);
            parts.push(turned(graph, &of_keys));
        }
        Ok(match &parts[..] {
            [] => None,
            all => Some(graph.op("Sum", &all.iter().collect::<Vec<_>>(), Vec::new())),
        })
    }

    /// The table of distances as a layer of the model sees it: `[heads, size of a head, buckets]`.
    fn table(
        &self,
        graph: &mut Builder,
        relative: &Relative,
        name: &str,
    ) -> Result<Value, GraphError> {
        let Sizes { hidden, heads, .. } = self.sizes;
        let table = linear(graph, &relative.table, name, [hidden; 2])?;
        let apart = [relative.count, heads, hidden / heads].map(|it| it as i64);
        let apart = graph.whole_numbers(&apart);
        let table = graph.op("Reshape", &[&table, &apart], Vec::new());
        Ok(graph.op("Transpose", &[&table], vec![Attribute::ints("perm", &[1, 2, 0])]))
    }

    /// The convolution over neighbours that is added to the first layer.
    fn convolution(
        &self,
        graph: &mut Builder,
        embeddings: &Value,
        x: &Value,
        (tokens, counts): (&Tokens, &Value),
    ) -> Result<Value, GraphError> {
        let Sizes { hidden, epsilon, .. } = self.sizes;
        let kernel = self.config.size("conv_kernel_size", 3)?;
        let groups = self.config.size("conv_groups", 1)?;
        if !hidden.is_multiple_of(groups) {
            return Err(self.config.wrong("conv_groups", "a number that divides hidden_size"));
        }
        if kernel.is_multiple_of(2) {
            return Err(self.config.wrong("conv_kernel_size", "an odd number"));
        }
        let name = self.name("encoder.conv.conv");
        let weight = graph.weight(&format!("{name}.weight"), &[hidden, hidden / groups, kernel])?;
        let bias = graph.weight(&format!("{name}.bias"), &[hidden])?;
        let swap = || vec![Attribute::ints("perm", &[0, 2, 1])];
        let channels = tokens.apart(graph, embeddings);
        let channels = graph.op("Transpose", &[&channels], swap());
        let side = (kernel / 2) as i64;
        let attributes =
            vec![Attribute::ints("pads", &[side, side]), Attribute::int("group", groups as i64)];
        let out = graph.op("Conv", &[&channels, &weight, &bias], attributes);
        let out = graph.op("Transpose", &[&out], swap());
        let out = together(graph, &out, hidden);
        let out = graph.op("Mul", &[&out, counts], Vec::new());
        let out = activation(graph, &out, "conv_act", self.config.word("conv_act", "tanh")?)?;
        let sum = graph.op("Add", &[x, &out], Vec::new());
        let norm = self.name("encoder.conv.LayerNorm");
        let normed = layer_norm(graph, &sum, &norm, hidden, epsilon)?;
        Ok(graph.op("Mul", &[&normed, counts], Vec::new()))
    }
}
