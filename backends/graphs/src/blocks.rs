//! The blocks that graphs of transformers are made of. Hidden states are matrices, a row for each token of all texts:
//! `[rows · tokens, size]`, since a product of two matrices takes weights as they lie in their files.

use crate::{
    attention::{Attention, Reach},
    builder::{Builder, Value},
    config::Config,
    error::GraphError,
    int8,
    onnx::{Attribute, ElementType},
    precision::Precision,
    relative::Relative,
};

/// `x · weightᵀ + bias`: `torch.nn.Linear`.
pub(crate) fn linear(
    graph: &mut Builder,
    x: &Value,
    name: &str,
    [from, to]: [usize; 2],
) -> Result<Value, GraphError> {
    let bias = format!("{name}.bias");
    let name = format!("{name}.weight");
    match graph.precision() {
        Precision::Fp32 => {
            let weight = graph.weight(&name, &[to, from])?;
            let bias = graph.weight(&bias, &[to])?;
            Ok(product(graph, x, &weight, &bias))
        }
        Precision::Int8 => {
            let product = int8::product(graph, x, &name, [from, to])?;
            let bias = graph.weight(&bias, &[to])?;
            Ok(graph.op("Add", &[&product, &bias], Vec::new()))
        }
    }
}

/// Rows of a table, by their numbers.
pub(crate) fn rows_of(
    graph: &mut Builder,
    table: &str,
    dims: [usize; 2],
    numbers: &Value,
) -> Result<Value, GraphError> {
    if graph.precision() == Precision::Int8 {
        return int8::rows(graph, table, dims, numbers);
    }
    let table = graph.weight(table, &dims)?;
    Ok(graph.op("Gather", &[&table, numbers], Vec::new()))
}

/// Does a layer have a bias?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bias {
    With,
    Without,
}

impl Bias {
    /// As a switch of the configuration says.
    ///
    /// # Errors
    /// Where it is no switch.
    pub(crate) fn of(config: Config<'_>, key: &str, default: Bias) -> Result<Bias, GraphError> {
        let has = config.flag(key, default == Bias::With)?;
        Ok(if has { Bias::With } else { Bias::Without })
    }
}

/// [`linear`], or without a bias `x · weightᵀ`.
pub(crate) fn linear_of(
    graph: &mut Builder,
    x: &Value,
    name: &str,
    [from, to]: [usize; 2],
    bias: Bias,
) -> Result<Value, GraphError> {
    if bias == Bias::With {
        return linear(graph, x, name, [from, to]);
    }
    let name = format!("{name}.weight");
    if graph.precision() == Precision::Int8 {
        return int8::product(graph, x, &name, [from, to]);
    }
    let weight = graph.weight(&name, &[to, from])?;
    Ok(graph.op("Gemm", &[x, &weight], vec![Attribute::int("transB", 1)]))
}

/// [`layer_norm`], with or without a bias.
pub(crate) fn layer_norm_of(
    graph: &mut Builder,
    x: &Value,
    name: &str,
    (size, epsilon): (usize, f32),
    bias: Bias,
) -> Result<Value, GraphError> {
    if bias == Bias::With {
        return layer_norm(graph, x, name, size, epsilon);
    }
    let scale = graph.weight(&format!("{name}.weight"), &[size])?;
    let attributes = vec![Attribute::int("axis", -1), Attribute::float("epsilon", epsilon)];
    Ok(graph.op("LayerNormalization", &[x, &scale], attributes))
}

/// `function(gate) · x`: the middle of a feed-forward part with a gate. Source: "GLU Variants Improve Transformer",
/// Shazeer 2020.
pub(crate) fn gated(
    graph: &mut Builder,
    gate: &Value,
    x: &Value,
    (key, function): (&str, &str),
) -> Result<Value, GraphError> {
    let gate = activation(graph, gate, key, function)?;
    Ok(graph.op("Mul", &[&gate, x], Vec::new()))
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
    reach: Reach,
    relative: Option<Relative>,
}

impl Tokens {
    /// Of `input_ids` and `attention_mask`, both `[rows, tokens]`, and hidden states of that size.
    pub(crate) fn new(graph: &mut Builder, ids: &Value, mask: &Value, size: usize) -> Tokens {
        let rows_and_tokens = graph.op("Shape", &[ids], Vec::new());
        let size = graph.whole_numbers(&[size as i64]);
        let axis = vec![Attribute::int("axis", 0)];
        let shape = graph.op("Concat", &[&rows_and_tokens, &size], axis);
        let mask = Some(graph.cast(mask, ElementType::Int32));
        Tokens { rows_and_tokens, shape, mask, bias: None, reach: Reach::All, relative: None }
    }

    /// Of `[rows, tokens, size]`, all of which count.
    pub(crate) fn all_of(graph: &mut Builder, x: &Value) -> Tokens {
        let shape = graph.op("Shape", &[x], Vec::new());
        let rows_and_tokens = graph.op("Shape", &[x], vec![Attribute::int("end", 2)]);
        Tokens { rows_and_tokens, shape, mask: None, bias: None, reach: Reach::All, relative: None }
    }

    /// The same with such a bias.
    pub(crate) fn biased(self, bias: Value) -> Tokens {
        Tokens { bias: Some(bias), ..self }
    }

    /// The same with what attention adds for distances.
    pub(crate) fn related(self, relative: Relative) -> Tokens {
        Tokens { relative: Some(relative), ..self }
    }

    /// The same where tokens see those.
    pub(crate) fn reaching(self, reach: Reach) -> Tokens {
        Tokens { reach, ..self }
    }

    /// `[rows, tokens]`, 1 for a token that counts and 0 for padding, INT32; none where all count.
    pub(crate) fn mask(&self) -> Option<&Value> {
        self.mask.as_ref()
    }

    /// The mean of the hidden states of each text's tokens that count: `[rows, size]`.
    pub(crate) fn mean(&self, graph: &mut Builder, x: &Value) -> Value {
        let states = self.apart(graph, x);
        let axis = graph.whole_numbers(&[1]);
        let keep = |it| vec![Attribute::int("keepdims", it)];
        let Some(mask) = &self.mask else {
            return graph.op("ReduceMean", &[&states, &axis], keep(0));
        };
        let counts = graph.cast(mask, ElementType::Float);
        let count = graph.op("ReduceSum", &[&counts, &axis], keep(1));
        let last = graph.whole_numbers(&[2]);
        let counts = graph.op("Unsqueeze", &[&counts, &last], Vec::new());
        let states = graph.op("Mul", &[&states, &counts], Vec::new());
        let sum = graph.op("ReduceSum", &[&states, &axis], keep(0));
        graph.op("Div", &[&sum, &count], Vec::new())
    }

    /// A matrix of hidden states as `[rows, tokens, size]`.
    pub(crate) fn apart(&self, graph: &mut Builder, x: &Value) -> Value {
        graph.op("Reshape", &[x, &self.shape], Vec::new())
    }

    /// A matrix with rows of another size as `[rows, tokens, size]`.
    pub(crate) fn apart_with(&self, graph: &mut Builder, x: &Value, size: usize) -> Value {
        let shape = self.shape_with(graph, &[size]);
        graph.op("Reshape", &[x, &shape], Vec::new())
    }

    /// `[rows, tokens, ..sizes]`, as numbers.
    pub(crate) fn shape_with(&self, graph: &mut Builder, sizes: &[usize]) -> Value {
        let sizes: Vec<i64> = sizes.iter().map(|it| *it as i64).collect();
        let sizes = graph.whole_numbers(&sizes);
        let axis = vec![Attribute::int("axis", 0)];
        graph.op("Concat", &[&self.rows_and_tokens, &sizes], axis)
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
    let [query, key, value] = [query, key, value].map(|it| tokens.apart(graph, &it));
    let of_layer = match &tokens.relative {
        Some(it) => {
            let of_head = sizes.hidden / sizes.heads;
            Some(it.bias(graph, prefix, [&query, &key], [sizes.heads, of_head])?)
        }
        None => None,
    };
    let attention = Attention {
        heads: sizes.heads,
        mask: tokens.mask.as_ref(),
        bias: of_layer.as_ref().or(tokens.bias.as_ref()),
        scale: None,
        reach: tokens.reach,
    };
    let seen = attention.add(graph, [&query, &key, &value]);
    let seen = together(graph, &seen, sizes.hidden);
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
    activation: (&str, &str),
) -> Result<Value, GraphError> {
    let Sizes { hidden, epsilon, .. } = *sizes;
    let name = |it: &str| format!("{prefix}{it}");
    let seen = self_attention(graph, x, (prefix, names), tokens, sizes)?;
    let sum = graph.op("Add", &[&seen, x], Vec::new());
    let x = layer_norm(graph, &sum, &name(names.attention_norm), hidden, epsilon)?;
    feed_forward(graph, &x, (prefix, names), sizes, activation)
}

/// The feed-forward part of such a layer, with its norm.
pub(crate) fn feed_forward(
    graph: &mut Builder,
    x: &Value,
    (prefix, names): (&str, &LayerNames),
    sizes: &Sizes,
    (act_key, act): (&str, &str),
) -> Result<Value, GraphError> {
    let Sizes { hidden, inner, epsilon, .. } = *sizes;
    let name = |it: &str| format!("{prefix}{it}");
    let up = linear(graph, x, &name(names.up), [hidden, inner])?;
    let up = activation(graph, &up, act_key, act)?;
    let down = linear(graph, &up, &name(names.down), [inner, hidden])?;
    let sum = graph.op("Add", &[&down, x], Vec::new());
    layer_norm(graph, &sum, &name(names.norm), hidden, epsilon)
}
