//! SigLIP: a tower for texts and one for images, each alone or both, and classes of images. Source: "Sigmoid Loss for
//! Language Image Pre-Training", Zhai et al. 2023, and `modeling_siglip.py` of Hugging Face's transformers.

use crate::{
    attention::Attention,
    blocks::{Sizes, Tokens, activation, layer_norm, linear, product, together},
    builder::{Builder, Value},
    config::Config,
    encoder::KEYS,
    error::GraphError,
    family::Family,
    frequencies::LONGEST,
    heads::{ROWS, TOKENS},
    onnx::{Attribute, Dim, ElementType},
    towers::{IMAGES, TEXTS, compared, layers, tower, words},
    vision::patches,
};

pub(super) const FAMILY: Family = Family {
    model_types: &["siglip", "siglip_text_model", "siglip_vision_model"],
    add,
    // A model of classes has the head of the tower, too.
    unused: &["position_ids", "vision_model.head."],
};

/// The classes, by the ends of their names.
const HEADS: [(&str, Part); 4] = [
    ("SiglipTextModel", Part::Text),
    ("SiglipVisionModel", Part::Vision),
    ("SiglipForImageClassification", Part::Classes),
    ("SiglipModel", Part::Both),
];

/// What a class has.
#[derive(Debug, Clone, Copy)]
enum Part {
    Text,
    Vision,
    Both,
    /// The tower of images, and classes.
    Classes,
}

/// The function of layers where the configuration says none.
const ACTIVATION: &str = "gelu_pytorch_tanh";

/// Does a tower of images make one vector of all patches?
const HAS_HEAD: &str = "vision_use_head";

fn add(graph: &mut Builder, config: Config<'_>) -> Result<(), GraphError> {
    match config.of_class(&HEADS)? {
        Part::Text => {
            let text = Text::add(graph, config, ROWS)?;
            graph.output(
                "last_hidden_state",
                &text.states,
                &[ROWS, TOKENS, Dim::Fixed(text.hidden)],
            );
            graph.output("pooler_output", &text.pooled, &[ROWS, Dim::Fixed(text.width)]);
        }
        Part::Vision => {
            let images = Images::add(graph, config, ROWS)?;
            let size = Dim::Fixed(images.sizes.hidden);
            graph.output("last_hidden_state", &images.states, &[ROWS, Dim::Any("patches"), size]);
            if config.flag(HAS_HEAD, true)? {
                let pooled = images.pooled(graph)?;
                graph.output("pooler_output", &pooled, &[ROWS, size]);
            }
        }
        Part::Both => {
            let of_images = tower(config, "vision_config")?;
            of_images.must_be_on(HAS_HEAD)?;
            let text = Text::add(graph, tower(config, "text_config")?, TEXTS)?;
            let images = Images::add(graph, of_images, IMAGES)?;
            if text.width != images.sizes.hidden {
                let expected = format!("the size of vectors of images, {}", images.sizes.hidden);
                return Err(tower(config, "text_config")?.wrong("projection_size", &expected));
            }
            let pooled = images.pooled(graph)?;
            let [scale, shift] = ["logit_scale", "logit_bias"].map(|it| graph.weight(it, &[1]));
            compared(graph, [text.pooled, pooled], (&scale?, Some(&shift?)), text.width);
        }
        Part::Classes => {
            let images = Images::add(graph, tower(config, "vision_config")?, ROWS)?;
            let axis = graph.whole_numbers(&[1]);
            let keep = vec![Attribute::int("keepdims", 0)];
            let mean = graph.op("ReduceMean", &[&images.states, &axis], keep);
            let labels = config.labels()?;
            let dims = [images.sizes.hidden, labels];
            let logits = graph.in_floats(|graph| linear(graph, &mean, "classifier", dims))?;
            graph.output("logits", &logits, &[ROWS, Dim::Fixed(labels)]);
        }
    }
    Ok(())
}

/// What names of the tensors of a tower begin with: a tower alone may have none.
fn prefix_of(graph: &Builder, tower: &'static str, one: &str) -> &'static str {
    if graph.weights().has(one) { "" } else { tower }
}

/// Texts.
struct Text {
    /// The hidden states, `[rows, tokens, hidden]`.
    states: Value,
    /// The vectors, `[rows, width]`.
    pooled: Value,
    hidden: usize,
    width: usize,
}

impl Text {
    /// All tokens see each other, and padding counts: the model was trained so.
    fn add(graph: &mut Builder, config: Config<'_>, rows: Dim<'_>) -> Result<Text, GraphError> {
        let sizes = Sizes::of(config, &KEYS, [768, 12, 3072], 1e-6)?;
        let hidden = sizes.hidden;
        let width = config.size("projection_size", hidden)?;
        let prefix = prefix_of(graph, "text_model.", "embeddings.token_embedding.weight");
        let ids = graph.input("input_ids", ElementType::Int64, &[rows, TOKENS]);
        let sizes_of_tables =
            [config.size("vocab_size", 32000)?, config.size(LONGEST, 64)?, hidden];
        let sum = words(graph, &ids, prefix, sizes_of_tables)?;
        let tokens = Tokens::all_of(graph, &sum);
        let x = together(graph, &sum, hidden);
        let x = layers(graph, config, prefix, x, (&tokens, &sizes, ACTIVATION))?;
        let norm = format!("{prefix}final_layer_norm");
        let x = layer_norm(graph, &x, &norm, hidden, sizes.epsilon)?;
        let states = tokens.apart(graph, &x);
        let last = graph.whole_number(-1);
        let last = graph.op("Gather", &[&states, &last], vec![Attribute::int("axis", 1)]);
        let head = format!("{prefix}head");
        let pooled = graph.in_floats(|graph| linear(graph, &last, &head, [hidden, width]))?;
        Ok(Text { states, pooled, hidden, width })
    }
}

/// Images.
struct Images<'a> {
    config: Config<'a>,
    prefix: &'static str,
    sizes: Sizes,
    tokens: Tokens,
    /// The hidden states as a matrix.
    x: Value,
    /// The same as `[rows, patches, hidden]`.
    states: Value,
}

impl<'a> Images<'a> {
    fn add(
        graph: &mut Builder,
        config: Config<'a>,
        rows: Dim<'_>,
    ) -> Result<Images<'a>, GraphError> {
        let sizes = Sizes::of(config, &KEYS, [768, 12, 3072], 1e-6)?;
        let hidden = sizes.hidden;
        let prefix = prefix_of(graph, "vision_model.", "embeddings.patch_embedding.weight");
        let name = |it: &str| format!("{prefix}{it}");
        let channels = config.size("num_channels", 3)?;
        // The library takes squares alone.
        let (image, patch) = (config.size("image_size", 224)?, config.size("patch_size", 16)?);
        let dims = [rows, Dim::Fixed(channels), Dim::Fixed(image), Dim::Fixed(image)];
        let pixels = graph.input("pixel_values", ElementType::Float, &dims);
        let table = name("embeddings.patch_embedding.weight");
        let weight = graph.weight(&table, &[hidden, channels, patch, patch])?;
        let bias = graph.weight(&name("embeddings.patch_embedding.bias"), &[hidden])?;
        let cut = patches(graph, &[&pixels, &weight, &bias], hidden, [patch; 2]);
        let table = name("embeddings.position_embedding.weight");
        let positions = graph.weight(&table, &[(image / patch).pow(2), hidden])?;
        let x = graph.op("Add", &[&cut, &positions], Vec::new());
        let tokens = Tokens::all_of(graph, &x);
        let x = together(graph, &x, hidden);
        let x = layers(graph, config, prefix, x, (&tokens, &sizes, ACTIVATION))?;
        let x = layer_norm(graph, &x, &name("post_layernorm"), hidden, sizes.epsilon)?;
        let states = tokens.apart(graph, &x);
        Ok(Images { config, prefix, sizes, tokens, x, states })
    }

    /// The vectors, `[rows, hidden]`: a query that is learnt looks at all patches.
    fn pooled(&self, graph: &mut Builder) -> Result<Value, GraphError> {
        graph.in_floats(|graph| self.pooled_in_floats(graph))
    }

    fn pooled_in_floats(&self, graph: &mut Builder) -> Result<Value, GraphError> {
        let Sizes { hidden, heads, inner, epsilon } = self.sizes;
        let name = |it: &str| format!("{}head.{it}", self.prefix);
        // Weights of queries, keys and values lie in one.
        let weight = graph.weight(&name("attention.in_proj_weight"), &[3 * hidden, hidden])?;
        let bias = graph.weight(&name("attention.in_proj_bias"), &[3 * hidden])?;
        let probe = graph.weight(&name("probe"), &[1, 1, hidden])?;
        let probe = together(graph, &probe, hidden);
        let of_probe = product(graph, &probe, &weight, &bias);
        let [query, _, _] = graph.split(&of_probe);
        let of_patches = product(graph, &self.x, &weight, &bias);
        let of_patches = self.tokens.apart_with(graph, &of_patches, 3 * hidden);
        let [_, key, value] = graph.split(&of_patches);
        let rows = graph.op("Shape", &[&self.states], vec![Attribute::int("end", 1)]);
        let one = graph.whole_numbers(&[1, hidden as i64]);
        let each = graph.op("Concat", &[&rows, &one], vec![Attribute::int("axis", 0)]);
        let query = graph.op("Expand", &[&query, &each], Vec::new());
        let seen = Attention { heads, ..Attention::default() }.add(graph, [&query, &key, &value]);
        let seen = together(graph, &seen, hidden);
        let seen = linear(graph, &seen, &name("attention.out_proj"), [hidden; 2])?;
        let normed = layer_norm(graph, &seen, &name("layernorm"), hidden, epsilon)?;
        let up = linear(graph, &normed, &name("mlp.fc1"), [hidden, inner])?;
        let function = self.config.word(KEYS.activation, ACTIVATION)?;
        let up = activation(graph, &up, KEYS.activation, function)?;
        let down = linear(graph, &up, &name("mlp.fc2"), [inner, hidden])?;
        Ok(graph.op("Add", &[&seen, &down], Vec::new()))
    }
}
