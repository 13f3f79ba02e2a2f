//! Two towers, one for texts and one for images, whose vectors are compared: what CLIP and SigLIP share.

use crate::{
    blocks::{LayerNames, Sizes, Tokens, norm_first_layer, rows_of},
    builder::{Builder, Value},
    config::Config,
    encoder::KEYS,
    error::GraphError,
    frequencies::LONGEST,
    onnx::{Attribute, Dim},
};

/// The names in a layer of a tower.
const LAYER: LayerNames = LayerNames {
    query: "self_attn.q_proj",
    key: "self_attn.k_proj",
    value: "self_attn.v_proj",
    out: "self_attn.out_proj",
    attention_norm: "layer_norm1",
    up: "mlp.fc1",
    down: "mlp.fc2",
    norm: "layer_norm2",
};

/// The rows of each tower, where a model has both.
pub(crate) const IMAGES: Dim<'_> = Dim::Any("image_batch_size");
pub(crate) const TEXTS: Dim<'_> = Dim::Any("text_batch_size");

/// The configuration of a tower. Files of old have it twice, and what ends with `_dict` is what counts.
pub(crate) fn tower<'a>(config: Config<'a>, key: &str) -> Result<Config<'a>, GraphError> {
    let old = format!("{key}_dict");
    config.part(if config.has(&old) { &old } else { key })
}

/// The layers of a tower. `activation`: where the configuration says none.
pub(crate) fn layers(
    graph: &mut Builder,
    config: Config<'_>,
    prefix: &str,
    x: Value,
    (tokens, sizes, activation): (&Tokens, &Sizes, &str),
) -> Result<Value, GraphError> {
    let activation = (KEYS.activation, config.word(KEYS.activation, activation)?);
    let layers = 0..config.size(KEYS.layers, 12)?;
    layers.into_iter().try_fold(x, |x, layer| {
        let prefix = format!("{prefix}encoder.layers.{layer}.");
        norm_first_layer(graph, &x, (&prefix, &LAYER), tokens, sizes, activation)
    })
}

/// Words with their positions, `[rows, tokens, size]`. The numbers are those of words, of positions, and of a vector.
pub(crate) fn words(
    graph: &mut Builder,
    ids: &Value,
    prefix: &str,
    [words, most, hidden]: [usize; 3],
) -> Result<Value, GraphError> {
    let table = format!("{prefix}embeddings.token_embedding.weight");
    let words = rows_of(graph, &table, [words, hidden], ids)?;
    let table = format!("{prefix}embeddings.position_embedding.weight");
    let table = graph.weight(&table, &[most, hidden])?;
    let shape = graph.op("Shape", &[ids], vec![Attribute::int("start", 1)]);
    let first = graph.whole_numbers(&[0]);
    let positions = graph.op("Slice", &[&table, &first, &shape], Vec::new());
    Ok(graph.op_of_positions("Add", &[&words, &positions], (LONGEST, most)))
}

/// How alike each image and each text are, from vectors of that width, as the model's outputs with these vectors: a
/// cosine times `e` to the power of `scale`, and `shift` more, if the model has one.
pub(crate) fn compared(
    graph: &mut Builder,
    [texts, images]: [Value; 2],
    (scale, shift): (&Value, Option<&Value>),
    width: usize,
) {
    let [texts, images] = [texts, images].map(|it| {
        let axis = graph.whole_numbers(&[1]);
        let length = graph.op("ReduceL2", &[&it, &axis], Vec::new());
        graph.op("Div", &[&it, &length], Vec::new())
    });
    let scale = graph.op("Exp", &[scale], Vec::new());
    let alike = graph.op("Gemm", &[&images, &texts], vec![Attribute::int("transB", 1)]);
    let mut per_image = graph.op("Mul", &[&alike, &scale], Vec::new());
    if let Some(shift) = shift {
        per_image = graph.op("Add", &[&per_image, shift], Vec::new());
    }
    let per_text = graph.op("Transpose", &[&per_image], Vec::new());
    graph.output("logits_per_image", &per_image, &[IMAGES, TEXTS]);
    graph.output("logits_per_text", &per_text, &[TEXTS, IMAGES]);
    graph.output("text_embeds", &texts, &[TEXTS, Dim::Fixed(width)]);
    graph.output("image_embeds", &images, &[IMAGES, Dim::Fixed(width)]);
}
