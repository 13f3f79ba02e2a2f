//! Attention of the tokens of a text to each other, and what tells how far apart they stand.

use crate::{
    builder::{Builder, Value},
    onnx::{Attribute, ElementType},
};

/// How tokens attend to each other: `softmax(scale · q · kᵀ + bias) · v` in each head.
#[derive(Default)]
pub(crate) struct Attention<'a> {
    pub(crate) heads: usize,
    /// `[rows, tokens]`, 1 for a token that counts and 0 for padding, INT32; none where all count.
    pub(crate) mask: Option<&'a Value>,
    /// `[1 or rows, 1 or heads, tokens, tokens]`.
    pub(crate) bias: Option<&'a Value>,
    /// `None`: 1 / √ of the size of a head.
    pub(crate) scale: Option<f32>,
    pub(crate) reach: Reach,
}

/// Which tokens a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reach {
    #[default]
    All,
    /// Itself and those before it.
    Before,
}

impl Attention<'_> {
    /// Of queries, keys and values, `[rows, tokens, size]` each, as is the result.
    pub(crate) fn add(&self, graph: &mut Builder, [query, key, value]: [&Value; 3]) -> Value {
        let mut attributes = vec![
            Attribute::int("num_heads", self.heads as i64),
            Attribute::float("mask_filter_value", f32::MIN),
            Attribute::int("unidirectional", i64::from(self.reach == Reach::Before)),
        ];
        attributes.extend(self.scale.map(|it| Attribute::float("scale", it)));
        let none = Value::none();
        let mut inputs = vec![query, key, value, &none, self.mask.unwrap_or(&none)];
        inputs.extend(self.bias);
        graph.own_op("MultiHeadAttention", &inputs, attributes)
    }
}

/// How many places each token stands behind each other one: `[tokens, tokens]`, INT64, of ids `[rows, tokens]`.
pub(crate) fn distances(graph: &mut Builder, ids: &Value) -> Value {
    let places = places(graph, ids);
    let axis = graph.whole_numbers(&[1]);
    let from = graph.op("Unsqueeze", &[&places, &axis], Vec::new());
    graph.op("Sub", &[&places, &from], Vec::new())
}

/// `0, 1, ..` for each token of ids `[rows, tokens]`, INT64.
pub(crate) fn places(graph: &mut Builder, ids: &Value) -> Value {
    let tokens = graph.op("Shape", &[ids], vec![Attribute::int("start", 1)]);
    let zero = graph.whole_numbers(&[0]);
    let count = graph.op("Squeeze", &[&tokens, &zero], Vec::new());
    let (first, one) = (graph.whole_number(0), graph.whole_number(1));
    graph.op("Range", &[&first, &count, &one], Vec::new())
}

/// What is added for a token that is out of sight. It is so little that nothing is left of it behind the exponential,
/// and added to what padding has, it is a number still: a text has no token without one that it sees.
const UNSEEN: f32 = -1e30;

/// The bias that hides tokens farther away than so many places, `[1, 1, tokens, tokens]`.
pub(crate) fn window(graph: &mut Builder, ids: &Value, most: usize) -> Value {
    let distances = distances(graph, ids);
    let distances = graph.op("Abs", &[&distances], Vec::new());
    let most = graph.whole_number(most as i64);
    let is_far = graph.op("Greater", &[&distances, &most], Vec::new());
    let is_far = graph.cast(&is_far, ElementType::Float);
    let unseen = graph.numbers(&[UNSEEN]);
    let bias = graph.op("Mul", &[&is_far, &unseen], Vec::new());
    let axes = graph.whole_numbers(&[0, 1]);
    graph.op("Unsqueeze", &[&bias, &axes], Vec::new())
}
