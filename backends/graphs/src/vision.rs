//! Encoders of images that are cut into patches: ViT and DeiT. Source: "An Image is Worth 16x16 Words", Dosovitskiy et
//! al. 2020, and `modeling_vit.py`, `modeling_deit.py` of Hugging Face's transformers.

use crate::{
    blocks::{LayerNames, Sizes, Tokens, layer_norm, linear, norm_first_layer, together},
    builder::{Builder, Value},
    config::Config,
    encoder::KEYS,
    error::GraphError,
    heads::ROWS,
    onnx::{Attribute, Dim, ElementType},
};

/// A family of models.
pub(crate) struct Family {
    /// `model_type` in `config.json`.
    pub(crate) model_types: &'static [&'static str],
    /// What the names of the encoder's tensors begin with, where there is a head.
    pub(crate) base: &'static str,
    /// The tokens in front of the patches.
    pub(crate) tokens: &'static [&'static str],
    /// Heads by the end of the class's name: the layers of classes, of the first token, the second, ..
    pub(crate) heads: &'static [(&'static str, &'static [&'static str])],
    /// Parts of names of tensors that a model of the family may have and the graph has no use for.
    pub(crate) unused: &'static [&'static str],
}

const LAYER: LayerNames = LayerNames {
    query: "attention.attention.query",
    key: "attention.attention.key",
    value: "attention.attention.value",
    out: "attention.output.dense",
    attention_norm: "layernorm_before",
    up: "intermediate.dense",
    down: "output.dense",
    norm: "layernorm_after",
};

/// Adds the whole model to the graph.
///
/// # Errors
/// Those of [`crate::graph_of`].
pub(crate) fn add(
    family: &Family,
    graph: &mut Builder,
    config: Config<'_>,
) -> Result<(), GraphError> {
    let head = config.of_class(family.heads)?;
    config.must_be_on("qkv_bias")?;
    let sizes = Sizes::of(config, &KEYS, [768, 12, 3072], 1e-12)?;
    let bare = format!("{}.weight", PATCHES);
    let prefix = if graph.weights().has(&bare) { "" } else { family.base };
    let name = |it: &str| format!("{prefix}{it}");
    let x = embeddings(family, graph, config, prefix, sizes.hidden)?;
    let tokens = Tokens::all_of(graph, &x);
    let mut x = together(graph, &x, sizes.hidden);
    let activation = (KEYS.activation, config.word(KEYS.activation, "gelu")?);
    for layer in 0..config.size(KEYS.layers, 12)? {
        let prefix = name(&format!("encoder.layer.{layer}."));
        x = norm_first_layer(graph, &x, (&prefix, &LAYER), &tokens, &sizes, activation)?;
    }
    let x = layer_norm(graph, &x, &name("layernorm"), sizes.hidden, sizes.epsilon)?;
    let states = tokens.apart(graph, &x);
    if head.is_empty() {
        let dims = [ROWS, Dim::Any("tokens"), Dim::Fixed(sizes.hidden)];
        graph.output("last_hidden_state", &states, &dims);
        return Ok(());
    }
    let labels = config.labels()?;
    let mut logits = None;
    for (token, layer) in head.iter().enumerate() {
        let token = graph.whole_number(token as i64);
        let token = graph.op("Gather", &[&states, &token], vec![Attribute::int("axis", 1)]);
        let size = [sizes.hidden, labels];
        let of_token = graph.in_floats(|graph| linear(graph, &token, layer, size))?;
        logits = Some(match logits {
            None => of_token,
            Some(others) => graph.op("Mean", &[&others, &of_token], Vec::new()),
        });
    }
    if let Some(logits) = logits {
        graph.output("logits", &logits, &[ROWS, Dim::Fixed(labels)]);
    }
    Ok(())
}

/// The convolution that makes hidden states of patches.
const PATCHES: &str = "embeddings.patch_embeddings.projection";

/// Tokens in front, then patches in the order of reading, with their positions: `[rows, tokens, size]`.
fn embeddings(
    family: &Family,
    graph: &mut Builder,
    config: Config<'_>,
    prefix: &str,
    hidden: usize,
) -> Result<Value, GraphError> {
    let name = |it: &str| format!("{prefix}{it}");
    let channels = config.size("num_channels", 3)?;
    let [height, width] = config.sides("image_size", 224)?;
    let [patch_height, patch_width] = config.sides("patch_size", 16)?;
    let dims = [ROWS, Dim::Fixed(channels), Dim::Fixed(height), Dim::Fixed(width)];
    let pixels = graph.input("pixel_values", ElementType::Float, &dims);
    let dims = [hidden, channels, patch_height, patch_width];
    let weight = graph.weight(&name(&format!("{PATCHES}.weight")), &dims)?;
    let bias = graph.weight(&name(&format!("{PATCHES}.bias")), &[hidden])?;
    let patches = patches(graph, &[&pixels, &weight, &bias], hidden, [patch_height, patch_width]);
    let mut tokens = Vec::new();
    for token in family.tokens {
        tokens.push(graph.weight(&name(token), &[1, 1, hidden])?);
    }
    let x = in_front(graph, &pixels, tokens, patches, hidden);
    let count = (height / patch_height) * (width / patch_width) + family.tokens.len();
    let positions = graph.weight(&name("embeddings.position_embeddings"), &[1, count, hidden])?;
    Ok(graph.op("Add", &[&x, &positions], Vec::new()))
}

/// Patches in the order of reading, `[rows, patches, size]`, of pixels, a convolution and its bias, if it has one.
pub(crate) fn patches(
    graph: &mut Builder,
    inputs: &[&Value],
    hidden: usize,
    [height, width]: [usize; 2],
) -> Value {
    let strides = vec![Attribute::ints("strides", &[height as i64, width as i64])];
    let patches = graph.op("Conv", inputs, strides);
    let flat = graph.whole_numbers(&[0, hidden as i64, -1]);
    let patches = graph.op("Reshape", &[&patches, &flat], Vec::new());
    graph.op("Transpose", &[&patches], vec![Attribute::ints("perm", &[0, 2, 1])])
}

/// The patches with these tokens before those of each row.
pub(crate) fn in_front(
    graph: &mut Builder,
    pixels: &Value,
    tokens: Vec<Value>,
    patches: Value,
    hidden: usize,
) -> Value {
    let rows = graph.op("Shape", &[pixels], vec![Attribute::int("end", 1)]);
    let one = graph.whole_numbers(&[1, hidden as i64]);
    let each = graph.op("Concat", &[&rows, &one], vec![Attribute::int("axis", 0)]);
    let expand = |it: &Value| graph.op("Expand", &[it, &each], Vec::new());
    let mut parts: Vec<Value> = tokens.iter().map(expand).collect();
    parts.push(patches);
    let parts: Vec<&Value> = parts.iter().collect();
    graph.op("Concat", &parts, vec![Attribute::int("axis", 1)])
}
