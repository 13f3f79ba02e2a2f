//! The blocks that graphs of transformers are made of. Hidden states are matrices, a row for each token of all texts:
//! `[rows · tokens, size]`, since a product of two matrices takes weights as they lie in their files.

use crate::{
    builder::{Builder, Value},
    error::GraphError,
    onnx::{Attribute, ElementType},
};

/// `x · weightᵀ + bias`: `torch.nn.Linear`.
pub(crate) fn linear(
    graph: &mut Builder,
    x: &Value,
    name: &str,
    [from, to]: [usize; 2],
) -> Result<Value, GraphError> {
    let weight = graph.weight(&format!("{name}.weight"), &[to, from])?;
    let bias = graph.weight(&format!("{name}.bias"), &[to])?;
    Ok(product(graph, x, &weight, &bias))
}

/// `x · weightᵀ + bias`.
pub(crate) fn product(graph: &mut Builder, x: &Value, weight: &Value, bias: &Value) -> Value {
    graph.op("Gemm", &[x, weight, bias], vec![Attribute::int("transB", 1)])
}

/// `torch.nn.LayerNorm` over the last dimension. Files of old have other names for its weights.
pub(crate) fn layer_norm(
    graph: &mut Builder,
    x: &Value,
    name: &str,
    size: usize,
    epsilon: f32,
) -> Result<Value, GraphError> {
    let is_old = graph.weights().has(&format!("{name}.gamma"));
    let [scale, shift] = if is_old { ["gamma", "beta"] } else { ["weight", "bias"] };
    let scale = graph.weight(&format!("{name}.{scale}"), &[size])?;
    let shift = graph.weight(&format!("{name}.{shift}"), &[size])?;
    let attributes = vec![Attribute::int("axis", -1), Attribute::float("epsilon", epsilon)];
    Ok(graph.op("LayerNormalization", &[x, &scale, &shift], attributes))
}

/// The function of that name, as `transformers.activations` has it.
///
/// # Errors
/// [`GraphError::Config`] for one that is not known.
pub(crate) fn activation(
    graph: &mut Builder,
    x: &Value,
    key: &str,
    name: &str,
) -> Result<Value, GraphError> {
    Ok(match name {
        "gelu" => graph.op("Gelu", &[x], Vec::new()),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => {
            graph.op("Gelu", &[x], vec![Attribute::text("approximate", "tanh")])
        }
        "quick_gelu" => graph.own_op("QuickGelu", &[x], vec![Attribute::float("alpha", 1.702)]),
        "relu" => graph.op("Relu", &[x], Vec::new()),
        "tanh" => graph.op("Tanh", &[x], Vec::new()),
        "silu" | "swish" => {
            let gate = graph.op("Sigmoid", &[x], Vec::new());
            graph.op("Mul", &[x, &gate], Vec::new())
        }
        _ => {
            return Err(GraphError::Config {
                key: key.to_owned(),
                expected: "gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, quick_gelu, relu, silu, swish or tanh"
                    .to_owned(),
                given: name.to_owned(),
            });
        }
    })
}

/// How many rows and tokens a request has, and which tokens count.
pub(crate) struct Tokens {
    /// `[rows, tokens]`, as numbers.
    rows_and_tokens: Value,
    /// `[rows, tokens, size]` of hidden states, as numbers.
    shape: Value,
    /// `[rows, tokens]`, 1 for a token that counts and 0 for padding, INT32; none where all count.
    mask: Option<Value>,
    /// `[1, heads, tokens, tokens]` that is added to what attention compares, if anything is.
    bias: Option<Value>,
}

impl Tokens {
    /// Of `input_ids` and `attention_mask`, both `[rows, tokens]`, and hidden states of that size.
    pub(crate) fn new(graph: &mut Builder, ids: &Value, mask: &Value, size: usize) -> Tokens {
        let rows_and_tokens = graph.op("Shape", &[ids], Vec::new());
        let size = graph.whole_numbers(&[size as i64]);
        let axis = vec![Attribute::int("axis", 0)];
        let shape = graph.op("Concat", &[&rows_and_tokens, &size], axis);
        let mask = Some(graph.cast(mask, ElementType::Int32));
        Tokens { rows_and_tokens, shape, mask, bias: None }
    }

    /// Of `[rows, tokens, size]`, all of which count.
    pub(crate) fn all_of(graph: &mut Builder, x: &Value) -> Tokens {
        let shape = graph.op("Shape", &[x], Vec::new());
        let rows_and_tokens = graph.op("Shape", &[x], vec![Attribute::int("end", 2)]);
        Tokens { rows_and_tokens, shape, mask: None, bias: None }
    }

    /// The same with such a bias.
    pub(crate) fn biased(self, bias: Value) -> Tokens {
        Tokens { bias: Some(bias), ..self }
    }

    /// A matrix of hidden states as `[rows, tokens, size]`.
    pub(crate) fn apart(&self, graph: &mut Builder, x: &Value) -> Value {
        graph.op("Reshape", &[x, &self.shape], Vec::new())
    }

    /// A matrix with rows of another size as `[rows, tokens, size]`.
    pub(crate) fn apart_with(&self, graph: &mut Builder, x: &Value, size: usize) -> Value {
        let size = graph.whole_numbers(&[size as i64]);
        let axis = vec![Attribute::int("axis", 0)];
        let shape = graph.op("Concat", &[&self.rows_and_tokens, &size], axis);
        graph.op("Reshape", &[x, &shape], Vec::new())
    }
}

/// `[rows, tokens, size]` as a matrix.
pub(crate) fn together(graph: &mut Builder, x: &Value, size: usize) -> Value {
    let shape = graph.whole_numbers(&[-1, size as i64]);
    graph.op("Reshape", &[x, &shape], Vec::new())
}

/// The names of the tensors of a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerNames {
    pub(crate) query: &'static str,
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
    pub(crate) out: &'static str,
    pub(crate) attention_norm: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    pub(crate) norm: &'static str,
}

/// The sizes of all layers of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    /// Of the feed-forward part.
    pub(crate) inner: usize,
    pub(crate) epsilon: f32,
}

/// Attention of all tokens to all tokens of their text: `softmax(q · kᵀ / √size + bias) · v`.
fn attention(
    graph: &mut Builder,
    [query, key, value]: [Value; 3],
    tokens: &Tokens,
    sizes: &Sizes,
) -> Value {
    let [query, key, value] = [query, key, value].map(|it| tokens.apart(graph, &it));
    let attributes = vec![
        Attribute::int("num_heads", sizes.heads as i64),
        Attribute::float("mask_filter_value", f32::MIN),
    ];
    let none = Value::none();
    let mask = tokens.mask.as_ref().unwrap_or(&none);
    let mut inputs = vec![&query, &key, &value, &none, mask];
    inputs.extend(&tokens.bias);
    let made = graph.own_op("MultiHeadAttention", &inputs, attributes);
    together(graph, &made, sizes.hidden)
}

/// One layer of an encoder whose norms stand before its parts. Source: "On Layer Normalization in the Transformer
/// Architecture", Xiong et al. 2020.
pub(crate) fn norm_first_layer(
    graph: &mut Builder,
    x: &Value,
    (prefix, names): (&str, &LayerNames),
    tokens: &Tokens,
    sizes: &Sizes,
    (act_key, act): (&str, &str),
) -> Result<Value, GraphError> {
    let Sizes { hidden, inner, epsilon, .. } = *sizes;
    let name = |it: &str| format!("{prefix}{it}");
    let normed = layer_norm(graph, x, &name(names.attention_norm), hidden, epsilon)?;
    let seen = self_attention(graph, &normed, (prefix, names), tokens, sizes)?;
    let x = graph.op("Add", &[&seen, x], Vec::new());
    let normed = layer_norm(graph, &x, &name(names.norm), hidden, epsilon)?;
    let up = linear(graph, &normed, &name(names.up), [hidden, inner])?;
    let up = activation(graph, &up, act_key, act)?;
    let down = linear(graph, &up, &name(names.down), [inner, hidden])?;
    Ok(graph.op("Add", &[&down, &x], Vec::new()))
}

/// The attention of a layer, with what makes hidden states of it.
fn self_attention(
    graph: &mut Builder,
    x: &Value,
    (prefix, names): (&str, &LayerNames),
    tokens: &Tokens,
    sizes: &Sizes,
) -> Result<Value, GraphError> {
    let square = [sizes.hidden; 2];
    let name = |it: &str| format!("{prefix}{it}");
    let query = linear(graph, x, &name(names.query), square)?;
    let key = linear(graph, x, &name(names.key), square)?;
    let value = linear(graph, x, &name(names.value), square)?;
    let seen = attention(graph, [query, key, value], tokens, sizes);
    linear(graph, &seen, &name(names.out), square)
}

/// One layer of an encoder: attention and a feed-forward part, each added to what went in, with a norm behind. Source:
/// "Attention Is All You Need", Vaswani et al. 2017.
pub(crate) fn encoder_layer(
    graph: &mut Builder,
    x: &Value,
    (prefix, names): (&str, &LayerNames),
    tokens: &Tokens,
    sizes: &Sizes,
    (act_key, act): (&str, &str),
) -> Result<Value, GraphError> {
    let Sizes { hidden, inner, epsilon, .. } = *sizes;
    let name = |it: &str| format!("{prefix}{it}");
    let seen = self_attention(graph, x, (prefix, names), tokens, sizes)?;
    let sum = graph.op("Add", &[&seen, x], Vec::new());
    let x = layer_norm(graph, &sum, &name(names.attention_norm), hidden, epsilon)?;
    let up = linear(graph, &x, &name(names.up), [hidden, inner])?;
    let up = activation(graph, &up, act_key, act)?;
    let down = linear(graph, &up, &name(names.down), [inner, hidden])?;
    let sum = graph.op("Add", &[&down, &x], Vec::new());
    layer_norm(graph, &sum, &name(names.norm), hidden, epsilon)
}
