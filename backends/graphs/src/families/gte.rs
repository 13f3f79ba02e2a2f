//! GTE, whose files call it `new`, too. Source: "mGTE", Zhang et al. 2024, and `modeling_gte.py` of Hugging Face's
//! transformers.

use crate::{
    blocks::{Bias, Sizes},
    builder::Builder,
    config::Config,
    encoder::KEYS,
    error::GraphError,
    family::Family,
    frequencies::Frequencies,
    gated::{Encoder, Names, Up, WORDS},
    heads::{Body, EncoderHead},
};

pub(super) const FAMILY: Family =
    Family { model_types: &["gte", "new"], add, unused: &["position_ids", "pooler."] };

const NAMES: Names = Names {
    attention: "attention.qkv_proj",
    out: "attention.o_proj",
    attention_norm: "attn_ln",
    up: Up::Together("mlp.up_gate_proj"),
    down: "mlp.down_proj",
    norm: "mlp_ln",
};

/// Heads by the end of the class's name, with the prefix of the encoder.
const fn heads(pooler: &'static str) -> [(&'static str, EncoderHead); 4] {
    [
        ("Model", EncoderHead::Hidden),
        (
            "ForSequenceClassification",
            EncoderHead::Sequence { dense: pooler, activation: Some("tanh"), out: "classifier" },
        ),
        ("ForTokenClassification", EncoderHead::Token { out: "classifier" }),
        (
            "ForMaskedLM",
            EncoderHead::Vocabulary {
                dense: "lm_head.dense",
                activation: Some("gelu"),
                norm: "lm_head.norm",
                decoder: "lm_head.decoder",
                bias: "lm_head.decoder.bias",
            },
        ),
    ]
}

fn add(graph: &mut Builder, config: Config<'_>) -> Result<(), GraphError> {
    let is_new = config.word("model_type", "gte")? == "new";
    let [prefix, pooler] = match is_new {
        true => ["new.", "new.pooler.dense"],
        false => ["gte.", "gte.pooler.dense"],
    };
    let head = config.of_class(&heads(pooler))?;
    config.must_be("position_embedding_type", "rope")?;
    config.must_be("layer_norm_type", "layer_norm")?;
    config.must_be_off("logn_attention_scale")?;
    config.must_be_on("pack_qkv")?;
    let sizes = Sizes::of(config, &KEYS, [768, 12, 3072], 1e-12)?;
    let Sizes { hidden, heads, epsilon, .. } = sizes;
    let frequencies = match is_new {
        true => Frequencies::ntk(config, 10_000.0, hidden / heads)?,
        false => Frequencies::of(config, 160_000.0, hidden / heads)?,
    };
    let encoder = Encoder {
        prefix: if graph.weights().has(WORDS) { "" } else { prefix },
        layer: "encoder.layer.",
        names: &NAMES,
        bias: Bias::With,
        sizes,
        layers: config.size(KEYS.layers, 12)?,
        vocabulary: config.size("vocab_size", if is_new { 30528 } else { 250_048 })?,
        segments: config.count("type_vocab_size", 1)?,
        norm: "embeddings.LayerNorm",
        frequencies,
        activation: (KEYS.activation, config.word(KEYS.activation, "gelu")?),
    };
    let (x, tokens) = encoder.states(graph)?;
    let body = Body {
        config,
        hidden,
        embedded: hidden,
        vocabulary: encoder.vocabulary,
        words: encoder.words(),
        activation: encoder.activation,
        epsilon,
        tokens,
    };
    head.add(graph, &x, &body)
}
