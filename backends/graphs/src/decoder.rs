//! Decoders of texts as embedders: Llama and what followed it, without a cache. The graph gives the hidden states
//! of all tokens, of which each has seen those before it alone. Source: `modeling_llama.py`, `modeling_mistral.py`
//! and `modeling_qwen3.py` of Hugging Face's transformers.

use crate::{
    attention::{Attention, Reach, window},
    blocks::{Bias, Tokens, gated, linear_of, rows_of, together},
    builder::{Builder, Value},
    config::Config,
    error::GraphError,
    frequencies::Frequencies,
    heads::{ROWS, TOKENS, states},
    onnx::{Attribute, ElementType},
    rotary::Rotary,
};

/// A family of models.
pub(crate) struct Family {
    /// `model_type` in `config.json`.
    pub(crate) model_types: &'static [&'static str],
    /// The size of a head where the configuration does not say it; `None`: the hidden size by the number of heads.
    pub(crate) head: Option<usize>,
    /// The number of heads of keys and values where the configuration does not say it; `None`: as many as of queries.
    pub(crate) key_heads: Option<usize>,
    pub(crate) inner: usize,
    /// Have queries and keys norms of their own?
    pub(crate) norms_heads: bool,
    /// How many tokens back a token sees where the configuration does not say it; `None`: all, whatever it says.
    pub(crate) window: Option<usize>,
}

/// The end of the name of a class that writes texts.
pub(crate) const WRITES: &str = "ForCausalLM";

/// Ends of the names of classes. What a model for texts would say next is left out.
const CLASSES: [&str; 2] = ["Model", WRITES];

/// Parts of names of tensors that a model may have and the graph has no use for.
pub(crate) const UNUSED: &[&str] = &["lm_head.", "rotary_emb.inv_freq"];

/// The sizes of a model.
struct Sizes {
    hidden: usize,
    inner: usize,
    heads: usize,
    /// Of keys and values; each serves as many heads of queries.
    key_heads: usize,
    head: usize,
    epsilon: f32,
    /// Of attention.
    bias: Bias,
}

impl Sizes {
    fn of(family: &Family, config: Config<'_>) -> Result<Sizes, GraphError> {
        let hidden = config.size("hidden_size", 4096)?;
        let heads = config.size("num_attention_heads", 32)?;
        let key_heads = config.size("num_key_value_heads", family.key_heads.unwrap_or(heads))?;
        let head = config.size("head_dim", family.head.unwrap_or(hidden / heads))?;
        for (key, is_wrong, expected) in [
            (
                "num_key_value_heads",
                !heads.is_multiple_of(key_heads),
                "a divisor of num_attention_heads",
            ),
            ("head_dim", !head.is_multiple_of(2), "an even number"),
        ] {
            if is_wrong {
                return Err(config.wrong(key, expected));
            }
        }
        Ok(Sizes {
            hidden,
            inner: config.size("intermediate_size", family.inner)?,
            heads,
            key_heads,
            head,
            epsilon: config.float("rms_norm_eps", 1e-6)?,
            bias: Bias::of(config, "attention_bias", Bias::Without)?,
        })
    }
}

/// What all layers of a run share.
struct Run {
    tokens: Tokens,
    /// What hides tokens that are too far back, if any are.
    window: Option<Value>,
    rotary: Rotary,
    /// `[rows, tokens, heads of keys, heads that each serves, head]`, as numbers.
    repeated: Value,
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
    let class = config.architecture()?;
    if !CLASSES.iter().any(|it| class.ends_with(it)) {
        return Err(config.no_class(CLASSES.into_iter()));
    }
    config.must_be_off("mlp_bias")?;
    config.must_be_off("use_sliding_window")?;
    config.must_be_on("is_causal")?;
    config.must_be_all("layer_types", "full_attention")?;
    let sizes = Sizes::of(family, config)?;
    let frequencies = Frequencies::of(config, 10_000.0, sizes.head)?;
    let most = match family.window {
        Some(window) if !config.is_null("sliding_window") => {
            Some(config.size("sliding_window", window)? - 1)
        }
        _ => None,
    };
    let words = "embed_tokens.weight";
    let prefix = if graph.weights().has(words) { "" } else { "model." };
    let ids = graph.input("input_ids", ElementType::Int64, &[ROWS, TOKENS]);
    let mask = graph.input("attention_mask", ElementType::Int64, &[ROWS, TOKENS]);
    let dims = [config.size("vocab_size", 32000)?, sizes.hidden];
    let x = rows_of(graph, &format!("{prefix}{words}"), dims, &ids)?;
    let mut x = together(graph, &x, sizes.hidden);
    let window = most.map(|it| window(graph, &ids, it));
    let tokens = Tokens::new(graph, &ids, &mask, sizes.hidden);
    let rotary = Rotary::new(graph, &ids, &frequencies);
    let served = [sizes.key_heads, sizes.heads / sizes.key_heads, sizes.head];
    let repeated = tokens.shape_with(graph, &served);
    let run = Run { tokens, window, rotary, repeated };
    let function = ("hidden_act", config.word("hidden_act", "silu")?);
    for layer in 0..config.size("num_hidden_layers", 32)? {
        let prefix = format!("{prefix}layers.{layer}.");
        x = decoder_layer(family, graph, &x, &prefix, &run, &sizes, function)?;
    }
    let x = rms_norm(graph, &x, &format!("{prefix}norm"), sizes.hidden, sizes.epsilon)?;
    states(graph, &x, &run.tokens, sizes.hidden);
    Ok(())
}

/// Attention and a gated feed-forward part, each with a norm before it, and added to what went in.
fn decoder_layer(
    family: &Family,
    graph: &mut Builder,
    x: &Value,
    prefix: &str,
    run: &Run,
    sizes: &Sizes,
    function: (&str, &str),
) -> Result<Value, GraphError> {
    let Sizes { hidden, inner, epsilon, .. } = *sizes;
    let name = |it: &str| format!("{prefix}{it}");
    let normed = rms_norm(graph, x, &name("input_layernorm"), hidden, epsilon)?;
    let seen = attention(family, graph, &normed, &name("self_attn."), run, sizes)?;
    let x = graph.op("Add", &[&seen, x], Vec::new());
    let normed = rms_norm(graph, &x, &name("post_attention_layernorm"), hidden, epsilon)?;
    let mut wider = |it: &str| linear_of(graph, &normed, &name(it), [hidden, inner], Bias::Without);
    let [gate, up] = [wider("mlp.gate_proj")?, wider("mlp.up_proj")?];
    let up = gated(graph, &gate, &up, function)?;
    let down = linear_of(graph, &up, &name("mlp.down_proj"), [inner, hidden], Bias::Without)?;
    Ok(graph.op("Add", &[&down, &x], Vec::new()))
}

fn attention(
    family: &Family,
    graph: &mut Builder,
    x: &Value,
    prefix: &str,
    run: &Run,
    sizes: &Sizes,
) -> Result<Value, GraphError> {
    let Sizes { hidden, heads, key_heads, head, epsilon, bias, .. } = *sizes;
    let mut made = Vec::new();
    for (kind, heads) in [("q", heads), ("k", key_heads), ("v", key_heads)] {
        let size = heads * head;
        let mut x = linear_of(graph, x, &format!("{prefix}{kind}_proj"), [hidden, size], bias)?;
        if family.norms_heads && kind != "v" {
            let apart = together(graph, &x, head);
            x = rms_norm(graph, &apart, &format!("{prefix}{kind}_norm"), head, epsilon)?;
        }
        let mut x = run.tokens.apart_with(graph, &x, size);
        if kind != "v" {
            x = run.rotary.turn(graph, &x);
        }
        made.push(if kind == "q" { x } else { repeat(graph, &x, run, sizes) });
    }
    let attention = Attention {
        heads,
        mask: run.tokens.mask(),
        bias: run.window.as_ref(),
        reach: Reach::Before,
        ..Attention::default()
    };
    let seen = attention.add(graph, [&made[0], &made[1], &made[2]]);
    let seen = together(graph, &seen, heads * head);
    linear_of(graph, &seen, &format!("{prefix}o_proj"), [heads * head, hidden], bias)
}

/// Keys or values with a copy for each head of queries.
fn repeat(graph: &mut Builder, x: &Value, run: &Run, sizes: &Sizes) -> Value {
    let Sizes { heads, key_heads, head, .. } = *sizes;
    if heads == key_heads {
        return x.clone();
    }
    let once = run.tokens.shape_with(graph, &[key_heads, 1, head]);
    let x = graph.op("Reshape", &[x, &once], Vec::new());
    let x = graph.op("Expand", &[&x, &run.repeated], Vec::new());
    run.tokens.apart_with(graph, &x, heads * head)
}

/// `x / √(mean(x²) + ε) · weight` over the last dimension. Source: "Root Mean Square Layer Normalization", Zhang
/// and Sennrich 2019.
fn rms_norm(
    graph: &mut Builder,
    x: &Value,
    name: &str,
    size: usize,
    epsilon: f32,
) -> Result<Value, GraphError> {
    let scale = graph.weight(&format!("{name}.weight"), &[size])?;
    let attributes = vec![Attribute::int("axis", -1), Attribute::float("epsilon", epsilon)];
    Ok(graph.op("SimplifiedLayerNormalization", &[x, &scale], attributes))
}
