//! NomicBERT. Source: "Nomic Embed", Nussbaum et al. 2024, and `modeling_nomic_bert.py` of Hugging Face's transformers.
//! Files from before it was in transformers have other keys, those of GPT-2 and of flash-attn, in `config.json`.

use crate::{
    blocks::{Bias, Sizes},
    builder::Builder,
    config::Config,
    encoder::{KEYS, Keys},
    error::GraphError,
    family::Family,
    frequencies::Frequencies,
    gated::{Encoder, Names, Up, WORDS},
    heads::{Body, EncoderHead},
};

pub(super) const FAMILY: Family = Family {
    model_types: &["nomic_bert"],
    add,
    unused: &["position_ids", "pooler.", "cls.predictions.bias"],
};

const NAMES: Names = Names {
    attention: "attn.Wqkv",
    out: "attn.out_proj",
    attention_norm: "norm1",
    up: Up::Apart { up: "mlp.fc11", gate: "mlp.fc12" },
    down: "mlp.fc2",
    norm: "norm2",
};

const HEADS: &[(&str, EncoderHead)] = &[
    ("Model", EncoderHead::Hidden),
    (
        "ForSequenceClassification",
        EncoderHead::Sequence {
            dense: "nomic_bert.pooler.dense",
            activation: Some("tanh"),
            out: "classifier",
        },
    ),
    ("ForTokenClassification", EncoderHead::Token { out: "classifier" }),
    (
        "ForMaskedLM",
        EncoderHead::Vocabulary {
            dense: "cls.predictions.transform.dense",
            activation: None,
            norm: "cls.predictions.transform.layer_norm",
            decoder: "cls.predictions.decoder",
            bias: "cls.predictions.bias",
        },
    ),
];

/// The keys of GPT-2.
const OLD_KEYS: Keys = Keys {
    hidden: "n_embd",
    heads: "n_head",
    inner: "n_inner",
    layers: "n_layer",
    activation: "activation_function",
};

fn add(graph: &mut Builder, config: Config<'_>) -> Result<(), GraphError> {
    let head = config.of_class(HEADS)?;
    let is_old = config.has(OLD_KEYS.hidden);
    let keys = if is_old { OLD_KEYS } else { KEYS };
    config.must_be_nothing("num_experts")?;
    let sizes = Sizes::of(config, &keys, [768, 12, 3072], 1e-12)?;
    let Sizes { hidden, heads, epsilon, .. } = sizes;
    if config.size("head_dim", hidden / heads)? != hidden / heads {
        return Err(config.wrong("head_dim", "hidden_size / num_attention_heads"));
    }
    let (epsilon, activation, frequencies) = match is_old {
        true => {
            plain(config)?;
            let base = config.number("rotary_emb_base")?.unwrap_or(10_000.0);
            let (rope, head) = (Config::EMPTY, hidden / heads);
            let frequencies = Frequencies::of_part(rope, Config::EMPTY, base, head)?;
            (config.float("layer_norm_epsilon", 1e-5)?, old_activation(config)?, frequencies)
        }
        false => {
            let frequencies = Frequencies::of(config, 1000.0, hidden / heads)?;
            (epsilon, config.word(KEYS.activation, "silu")?, frequencies)
        }
    };
    let encoder = Encoder {
        prefix: if graph.weights().has(WORDS) { "" } else { "nomic_bert." },
        layer: "encoder.layers.",
        names: &NAMES,
        bias: Bias::Without,
        sizes: Sizes { epsilon, ..sizes },
        layers: config.size(keys.layers, 12)?,
        vocabulary: config.size("vocab_size", 30528)?,
        segments: config.size("type_vocab_size", 2)?,
        norm: "emb_ln",
        frequencies,
        activation: (keys.activation, activation),
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

/// The function of gates by its name there.
fn old_activation<'a>(config: Config<'a>) -> Result<&'a str, GraphError> {
    match config.word(OLD_KEYS.activation, "gelu")? {
        "swiglu" => Ok("silu"),
        "geglu" => Ok("gelu"),
        _ => Err(config.wrong(OLD_KEYS.activation, "swiglu or geglu")),
    }
}

/// What configurations of old could ask for, and the models that there are do not.
fn plain(config: Config<'_>) -> Result<(), GraphError> {
    for key in ["qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"] {
        // A bias is usual there.
        if config.flag(key, true)? {
            return Err(config.wrong(key, "false"));
        }
    }
    for key in ["prenorm", "causal", "parallel_block", "rotary_emb_interleaved", "use_rms_norm"] {
        config.must_be_off(key)?;
    }
    for key in ["rotary_emb_scale_base", "rotary_scaling_factor"] {
        config.must_be_nothing(key)?;
    }
    // It is 0 where nothing says it: positions that are learnt.
    match config.float("rotary_emb_fraction", 0.0)? == 1.0 {
        true => Ok(()),
        false => Err(config.wrong("rotary_emb_fraction", "1")),
    }
}
