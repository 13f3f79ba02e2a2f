//! CLIP: a tower for texts and one for images, each alone or both. Source: "Learning Transferable Visual Models From
//! Natural Language Supervision", Radford et al. 2021, and `modeling_clip.py` of Hugging Face's transformers.

use crate::{
    attention::Reach,
    blocks::{Bias, Sizes, Tokens, layer_norm, linear_of, together},
    builder::{Builder, Value},
    config::Config,
    encoder::KEYS,
    error::GraphError,
    family::Family,
    frequencies::LONGEST,
    heads::{ROWS, TOKENS},
    onnx::{Attribute, Dim, ElementType},
    towers::{IMAGES, TEXTS, compared, layers, tower, words},
    vision::{in_front, patches},
};

pub(super) const FAMILY: Family = Family {
    model_types: &["clip", "clip_text_model", "clip_vision_model"],
    add,
    unused: &["position_ids"],
};

/// The function of layers where the configuration says none.
const ACTIVATION: &str = "quick_gelu";

/// The classes, by the ends of their names.
const HEADS: [(&str, Part); 3] = [
    ("CLIPTextModelWithProjection", Part::Text),
    ("CLIPVisionModelWithProjection", Part::Vision),
    ("CLIPModel", Part::Both),
];

/// Which towers a class has.
#[derive(Debug, Clone, Copy)]
enum Part {
    Text,
    Vision,
    Both,
}

fn add(graph: &mut Builder, config: Config<'_>) -> Result<(), GraphError> {
    let width = config.size("projection_dim", 512)?;
    match config.of_class(&HEADS)? {
        Part::Text => {
            let (embeds, states, hidden) = text(graph, config, (ROWS, width))?;
            graph.output("text_embeds", &embeds, &[ROWS, Dim::Fixed(width)]);
            let dims = [ROWS, TOKENS, Dim::Fixed(hidden)];
            graph.output("last_hidden_state", &states, &dims);
        }
        Part::Vision => {
            let (embeds, states, hidden) = vision(graph, config, (ROWS, width))?;
            graph.output("image_embeds", &embeds, &[ROWS, Dim::Fixed(width)]);
            let dims = [ROWS, Dim::Any("tokens"), Dim::Fixed(hidden)];
            graph.output("last_hidden_state", &states, &dims);
        }
        Part::Both => both(graph, config, width)?,
    }
    Ok(())
}

/// Both towers, and how alike each image and each text are.
fn both(graph: &mut Builder, config: Config<'_>, width: usize) -> Result<(), GraphError> {
    let (texts, ..) = text(graph, tower(config, "text_config")?, (TEXTS, width))?;
    let (images, ..) = vision(graph, tower(config, "vision_config")?, (IMAGES, width))?;
    let scale = graph.weight("logit_scale", &[])?;
    compared(graph, [texts, images], (&scale, None), width);
    Ok(())
}

/// The vectors that both towers share.
fn projection(
    graph: &mut Builder,
    pooled: &Value,
    name: &str,
    dims: [usize; 2],
) -> Result<Value, GraphError> {
    graph.in_floats(|graph| linear_of(graph, pooled, name, dims, Bias::Without))
}

/// The vectors of texts, their hidden states, and the size of these.
fn text(
    graph: &mut Builder,
    config: Config<'_>,
    (rows, width): (Dim<'_>, usize),
) -> Result<(Value, Value, usize), GraphError> {
    let sizes = Sizes::of(config, &KEYS, [512, 8, 2048], 1e-5)?;
    let hidden = sizes.hidden;
    let ids = graph.input("input_ids", ElementType::Int64, &[rows, TOKENS]);
    let mask = graph.input("attention_mask", ElementType::Int64, &[rows, TOKENS]);
    let sizes_of_tables = [config.size("vocab_size", 49408)?, config.size(LONGEST, 77)?, hidden];
    let sum = words(graph, &ids, "text_model.", sizes_of_tables)?;
    let x = together(graph, &sum, hidden);
    let tokens = Tokens::new(graph, &ids, &mask, hidden).reaching(Reach::Before);
    let x = layers(graph, config, "text_model.", x, (&tokens, &sizes, ACTIVATION))?;
    let x = layer_norm(graph, &x, "text_model.final_layer_norm", hidden, sizes.epsilon)?;
    let states = tokens.apart(graph, &x);
    let at = end(graph, config, &ids)?;
    let pooled = graph.op("GatherND", &[&states, &at], vec![Attribute::int("batch_dims", 1)]);
    let embeds = projection(graph, &pooled, "text_projection", [hidden, width])?;
    Ok((embeds, states, hidden))
}

/// The place of the token that ends each text, `[rows, 1]`.
fn end(graph: &mut Builder, config: Config<'_>, ids: &Value) -> Result<Value, GraphError> {
    let end = config.token("eos_token_id", 49407)?;
    let marks = match end {
        // Configurations of old have a wrong number here. The end is the token with the highest.
        2 => ids.clone(),
        _ => {
            let end = graph.whole_number(end);
            graph.op("Equal", &[ids, &end], Vec::new())
        }
    };
    let marks = graph.cast(&marks, ElementType::Int32);
    Ok(graph.op("ArgMax", &[&marks], vec![Attribute::int("axis", 1)]))
}

/// The vectors of images, their hidden states, and the size of these.
fn vision(
    graph: &mut Builder,
    config: Config<'_>,
    (rows, width): (Dim<'_>, usize),
) -> Result<(Value, Value, usize), GraphError> {
    let sizes = Sizes::of(config, &KEYS, [768, 12, 3072], 1e-5)?;
    let Sizes { hidden, epsilon, .. } = sizes;
    let channels = config.size("num_channels", 3)?;
    let [height, width_of_image] = config.sides("image_size", 224)?;
    let [patch_height, patch_width] = config.sides("patch_size", 32)?;
    let dims = [rows, Dim::Fixed(channels), Dim::Fixed(height), Dim::Fixed(width_of_image)];
    let pixels = graph.input("pixel_values", ElementType::Float, &dims);
    let dims = [hidden, channels, patch_height, patch_width];
    let weight = graph.weight("vision_model.embeddings.patch_embedding.weight", &dims)?;
    let cut = patches(graph, &[&pixels, &weight], hidden, [patch_height, patch_width]);
    let class = graph.weight("vision_model.embeddings.class_embedding", &[hidden])?;
    let x = in_front(graph, &pixels, vec![class], cut, hidden);
    let count = (height / patch_height) * (width_of_image / patch_width) + 1;
    let table = "vision_model.embeddings.position_embedding.weight";
    let positions = graph.weight(table, &[count, hidden])?;
    let x = graph.op("Add", &[&x, &positions], Vec::new());
    let tokens = Tokens::all_of(graph, &x);
    let x = together(graph, &x, hidden);
    // The name has been misspelt since the first files.
    let x = layer_norm(graph, &x, "vision_model.pre_layrnorm", hidden, epsilon)?;
    let x = layers(graph, config, "vision_model.", x, (&tokens, &sizes, ACTIVATION))?;
    let states = tokens.apart(graph, &x);
    let zero = graph.whole_number(0);
    let pooled = graph.op("Gather", &[&states, &zero], vec![Attribute::int("axis", 1)]);
    let pooled = layer_norm(graph, &pooled, "vision_model.post_layernorm", hidden, epsilon)?;
    let embeds = projection(graph, &pooled, "visual_projection", [hidden, width])?;
    Ok((embeds, states, hidden))
}
